"""Command-line options from the fields of dataclasses, so that each option is declared only once.

To turn a field into an option, set its metadata with `as_option`, or use a function such as `option` in place of
`dataclasses.field`. The option has the name, type and default of the field. The parameters of a command are such
dataclasses, and `with_options` converts the command for Typer.

cyclopts 5.5 and tyro 1.0 do the same, but they take 130 and 136 ms to import, and Typer takes 102 ms (medians of five). So
this module stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, field, fields, is_dataclass, make_dataclass
from inspect import Parameter, Signature, getdoc, signature
from types import UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from hf_sgpe.errors import SGPEError

SEVERAL = "FILE..."
"""Metavar of options that take all values up to the next option, so that the shell can expand a glob."""


class Given(dict[str, Any]):
    """The values of a dataclass's options, keyed by field, for a command that sets other fields itself:
    ``Annotated[Given, kind]``. A field whose option has neither a value nor a default is missing.
    """


def as_option(help: str, *names: str, **how: Any) -> dict[str, Any]:
    """Return metadata that turns a dataclass field into an option.

    Args:
        *names: Names of the option. Without a long name, one is made from the name of the field and put first.
        **how: ``type`` and ``default``, if they differ from those of the field; ``choices``; ``after``, the field whose
            option precedes this one in ``--help``; and other arguments of `typer.Option`.
    """
    return {"help": help, "names": names, **how}


def option(help: str, default: Any = None, *names: str, **how: Any) -> Any:
    """Return a dataclass field that is an option. If the default is ``...``, the option is required."""
    return field(default=MISSING if default is ... else default, metadata=as_option(help, *names, **how))


def option_list(help: str, *names: str, **how: Any) -> Any:
    """Return a dataclass field that is an option with any number of values."""
    return field(default_factory=list, metadata=as_option(help, *names, **how))


def argument(help: str, default: Any = ..., **how: Any) -> Any:
    """Return a dataclass field that is a positional argument. If the default is ``...``, the argument is required."""
    return option(help, default, is_argument=True, **how)


def arguments(help: str, **how: Any) -> Any:
    """Return a dataclass field that takes any number of positional arguments."""
    return option_list(help, is_argument=True, **how)


def options_of(config: type, names: str, **how: Mapping[str, Any]) -> type:
    """Return a dataclass with options for some fields of a dataclass that knows nothing of the command line. The help of an
    option is the text about the field in the section Args of the class's docstring.

    Args:
        names: Names of the fields, separated by spaces, in the order of ``--help``.
        **how: Further arguments of `as_option`, keyed by field.
    """
    section = (getdoc(config) or "").partition("Args:\n")[2]
    described = re.findall(r"^    (\w+): (.*(?:\n        .*)*)", section, re.MULTILINE)
    helps = {name: " ".join(text.replace("`", "").split()) for name, text in described}
    hints, specs = get_type_hints(config), {spec.name: spec for spec in fields(config)}
    long = {name: _long(name) for name in names.split()}
    made = []
    for name in long:
        settings = dict(how.get(name, {}))
        help = settings.pop("help", None) or _with_option_names(helps[name], long)
        metadata = as_option(help, *settings.pop("names", ()), **settings)
        spec = field(default=specs[name].default, default_factory=specs[name].default_factory, metadata=metadata)
        made.append((name, hints[name], spec))
    # Only the fields are read. Generated methods would make the start of each command slower.
    return make_dataclass(f"{config.__name__}Options", made, init=False, repr=False, eq=False, kw_only=True)


def with_options(function: Callable[..., None], *others: Parameter) -> Callable[..., None]:
    """Convert a command to a function that Typer accepts, with a parameter for each option.

    Args:
        function: The command. The annotation of each parameter is a dataclass, `Given` annotated with a dataclass, or an
            annotation for Typer.
        *others: Additional parameters at the end, which are not passed to the function.
    """
    kinds: dict[str, tuple[Any, Callable[..., Any]]] = {}
    parameters: dict[str, Parameter] = {}
    after: dict[str, str] = {}
    for name, parameter in signature(function, eval_str=True).parameters.items():
        kind = parameter.annotation
        is_given = get_origin(kind) is Annotated and get_args(kind)[0] is Given
        of, build = (get_args(kind)[1], Given) if is_given else (kind, kind)
        if is_dataclass(of):
            kinds[name] = of, build
            hints = get_type_hints(of)
            parameters |= {spec.name: _parameter(spec, hints[spec.name]) for spec in _options(of)}
            after |= {spec.name: spec.metadata["after"] for spec in _options(of) if "after" in spec.metadata}
        else:
            parameters[name] = parameter.replace(kind=Parameter.KEYWORD_ONLY)

    def run(**values: Any) -> None:
        for other in others:
            del values[other.name]
        typed = set(map(str, values.values()))
        try:
            records = {
                name: build(**{spec.name: value for spec in _options(of) if (value := values.pop(spec.name)) is not None})
                for name, (of, build) in kinds.items()
            }
            function(**records, **values)
        except SGPEError as error:
            # A folder may have the name of an option.
            names = {name: option for name, option in options.items() if name not in typed}
            error.args = (_with_option_names(str(error), names),)
            raise

    options = {spec.name: _name_of(spec) for of, _ in kinds.values() for spec in _options(of)}
    order = list(parameters)
    for name, before in after.items():
        order.remove(name)
        order.insert(order.index(before) + 1, name)
    ordered = [*(parameters[name] for name in order), *others]
    run.__name__, run.__doc__ = function.__name__, function.__doc__
    run.__signature__ = Signature(ordered)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in ordered}
    return run


def _with_option_names(message: str, options: Mapping[str, str]) -> str:
    """Replace the names of fields in a message of the library by the names of their options: names with an underscore
    wherever they are words, and other names only as the subject of the message.

    >>> _with_option_names("vocab_size 9 is too small", {"vocab_size": "--vocab-size"})
    '--vocab-size 9 is too small'
    >>> _with_option_names("seed must be from 0 to 9, not my/seed", {"seed": "--seed"})
    '--seed must be from 0 to 9, not my/seed'
    """
    for name, option in options.items():
        if "_" in name:
            message = re.sub(rf"(?<![\w/.'\"=-]){name}(?![\w/.'\"=-])", option, message)
        else:
            message = re.sub(rf"^{name}(?= must be |: )", option, message)
    return message


def _name_of(spec: Field[Any]) -> str:
    """Return the long name of an option, or the field of a positional argument."""
    if spec.metadata.get("is_argument"):
        return spec.name
    names = [name for name in spec.metadata["names"] if name.startswith("--")]
    return names[0].partition("/")[0] if names else _long(spec.name)


def _long(field_name: str) -> str:
    return "--" + field_name.replace("_", "-")


def _options(kind: Any) -> list[Field[Any]]:
    return [spec for spec in fields(kind) if "help" in spec.metadata]


def _parameter(spec: Field[Any], hint: Any) -> Parameter:
    import typer

    settings = {name: value for name, value in spec.metadata.items() if name != "after"}
    default = settings.pop("default", None if spec.default_factory is not MISSING else spec.default)
    names, hint, long = settings.pop("names"), settings.pop("type", hint), _long(spec.name)
    if choices := settings.pop("choices", ()):
        settings["callback"] = _one_of(long, choices)
    if (each := _type_of_each(hint)) is not None:
        hint = list.__class_getitem__(each) if default is MISSING else list.__class_getitem__(each) | None
        default = default or None
    if default in (None, MISSING):
        settings["show_default"] = False
    if not any(name.startswith("--") for name in names):
        names = (long, *names)
    is_argument = settings.pop("is_argument", False)
    declared = typer.Argument(**settings) if is_argument else typer.Option(*names, **settings)
    default = Parameter.empty if default is MISSING else default
    return Parameter(spec.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[hint, declared])


def _type_of_each(hint: Any) -> Any:
    """Return the type of one value of an option with several values, such as str for ``Sequence[str] | None``."""
    members = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    kinds = [(get_origin(member), get_args(member)) for member in members]
    return next((of[0] for kind, of in kinds if isinstance(kind, type) and issubclass(kind, Iterable)), None)


def _one_of(option: str, names: Iterable[str]) -> Callable[[str | None], str | None]:
    choices = tuple(names)

    def check(value: str | None) -> str | None:
        if value is not None and value not in choices:
            raise SGPEError(f"{option} {value}: choose from {', '.join(choices)}")
        return value

    return check
