"""The fields of dataclasses as options of a command line: each is declared once, where its value is.

A field becomes an option by its metadata (`as_option`), or by `option` and its sisters in place of `dataclasses.field`. Its
name, type and default are those of the option. A command takes such dataclasses, and `with_options` gives it to Typer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, field, fields, is_dataclass
from inspect import Parameter, Signature, signature
from types import UnionType
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from hf_sgpe.errors import SGPEError

Value = TypeVar("Value")


class Given(dict[str, Any], Generic[Value]):
    """The options of a dataclass that were given or have a default, by field, where a command fills in other fields."""


def as_option(help: str, *names: str, **how: Any) -> dict[str, Any]:
    """Return the metadata of a field that is an option.

    Args:
        help: What ``--help`` says of it.
        *names: Its names; short ones alone come after the field's own name.
        **how: ``type`` and ``default``, where they are not the field's; ``choices``; ``after``, the field whose option comes
            before it in ``--help``; and what else `typer.Option` takes.
    """
    return {"help": help, "names": names, **how}


def option(help: str, default: Any = None, *names: str, **how: Any) -> Any:
    """Return a field that is an option. A default of ``...`` makes it a required one."""
    return field(default=MISSING if default is ... else default, metadata=as_option(help, *names, **how))


def option_list(help: str, *names: str, **how: Any) -> Any:
    """Return a field that is an option with any number of values."""
    return field(default_factory=list, metadata=as_option(help, *names, **how))


def argument(help: str, default: Any = ..., **how: Any) -> Any:
    """Return a field that is an argument without a name."""
    return option(help, default, is_argument=True, **how)


def arguments(help: str, **how: Any) -> Any:
    """Return a field for any number of arguments without names."""
    return option_list(help, is_argument=True, **how)


def with_options(function: Callable[..., None], *others: Parameter) -> Callable[..., None]:
    """Return a command as Typer takes it, with a parameter for each option.

    Args:
        function: The command. Its parameters are dataclasses, `Given` of them, or as Typer takes them.
        *others: Parameters that come after those, which the function does not get.
    """
    kinds: dict[str, tuple[Any, Callable[..., Any]]] = {}
    parameters: dict[str, Parameter] = {}
    after: dict[str, str] = {}
    for name, parameter in signature(function, eval_str=True).parameters.items():
        kind = parameter.annotation
        of, build = (get_args(kind)[0], Given) if get_origin(kind) is Given else (kind, kind)
        if is_dataclass(of):
            kinds[name] = of, build
            hints = get_type_hints(of)
            parameters |= {one.name: _parameter(one, hints[one.name]) for one in _options(of)}
            after |= {one.name: one.metadata["after"] for one in _options(of) if "after" in one.metadata}
        else:
            parameters[name] = parameter.replace(kind=Parameter.KEYWORD_ONLY)

    def run(**given: Any) -> None:
        for one in others:
            del given[one.name]
        values = {
            name: build(**{one.name: value for one in _options(of) if (value := given.pop(one.name)) is not None})
            for name, (of, build) in kinds.items()
        }
        function(**values, **given)

    order = list(parameters)
    for name, before in after.items():
        order.remove(name)
        order.insert(order.index(before) + 1, name)
    ordered = [*(parameters[name] for name in order), *others]
    run.__name__, run.__doc__ = function.__name__, function.__doc__
    run.__signature__ = Signature(ordered)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in ordered}
    return run


def _options(kind: Any) -> list[Field[Any]]:
    return [one for one in fields(kind) if "help" in one.metadata]


def _parameter(one: Field[Any], hint: Any) -> Parameter:
    import typer

    how = {name: value for name, value in one.metadata.items() if name != "after"}
    default = how.pop("default", None if one.default_factory is not MISSING else one.default)
    names, hint, long = how.pop("names"), how.pop("type", hint), "--" + one.name.replace("_", "-")
    if choices := how.pop("choices", ()):
        how["callback"] = _one_of(long, choices)
    if (each := _type_of_each(hint)) is not None:
        hint = list.__class_getitem__(each) if default is MISSING else list.__class_getitem__(each) | None
        default = default or None
    if default in (None, MISSING):
        how["show_default"] = False
    if not any(name.startswith("--") for name in names):
        names = (long, *names)
    declared = typer.Argument(**how) if how.pop("is_argument", False) else typer.Option(*names, **how)
    default = Parameter.empty if default is MISSING else default
    return Parameter(one.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[hint, declared])


def _type_of_each(hint: Any) -> Any:
    """Return the type of each value of an option that takes several, such as str for ``Sequence[str] | None``; else None."""
    kinds = [(get_origin(one), get_args(one)) for one in (get_args(hint) if isinstance(hint, UnionType) else (hint,))]
    return next((of[0] for kind, of in kinds if isinstance(kind, type) and issubclass(kind, Iterable)), None)


def _one_of(option: str, names: Iterable[str]) -> Callable[[str | None], str | None]:
    known = tuple(names)

    def check(value: str | None) -> str | None:
        if value is not None and value not in known:
            raise SGPEError(f"{option} {value}: known are {', '.join(known)}")
        return value

    return check
