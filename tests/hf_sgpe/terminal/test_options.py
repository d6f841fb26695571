from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from hf_sgpe import SGPEError, TrainingConfig
from hf_sgpe.generation import GenerationOptions
from hf_sgpe.terminal.options import (
    Given,
    _with_option_names,
    argument,
    arguments,
    as_option,
    option,
    option_list,
    options_of,
    with_options,
)


@dataclass(frozen=True)
class Settings:
    """Settings of a library class."""

    size: int = field(metadata=as_option("How much.", default=5))
    stop: tuple[str, ...] = field(default=(), metadata=as_option("Where it ends."))
    weights: dict[str, float] = field(default_factory=dict, metadata=as_option("How much each.", "--weight", type=list[str]))
    inner: float = 1.0  # not an option

    def __post_init__(self) -> None:
        if self.size > 9:
            raise SGPEError(f"size must be at most 9, not {self.size}")


@dataclass(frozen=True, kw_only=True)
class Where:
    name: str = argument("Its name.")
    rest: list[Path] = arguments("More.")
    out: Path = option("Where to.", ..., "-o")
    form: str = option("Its form.", "plain", choices=("plain", "fine"), after="stop")
    keep: bool = option("Whether it stays.", False)
    tag: list[str] = option_list("What it is called.")


@pytest.fixture
def run():
    def run(function, *arguments):
        application = typer.Typer()
        application.command()(with_options(function))
        return CliRunner().invoke(application, arguments)

    return run


def test_a_command_gets_values(run):
    given = []

    def command(where: Where, settings: Settings) -> None:
        given.extend((where, settings))

    run(command, "a", "b", "c", "-o", "x", "--tag", "1", "--tag", "2", "--stop", "end", "--form", "fine", "--keep")
    rest = [Path("b"), Path("c")]
    assert given == [
        Where(name="a", rest=rest, out=Path("x"), form="fine", keep=True, tag=["1", "2"]),
        Settings(5, ["end"]),
    ]
    given.clear()
    run(command, "a", "--out", "x", "--size", "3")
    assert given == [Where(name="a", out=Path("x")), Settings(3)]


def test_a_command_may_fill_in_fields_itself(run):
    given = []

    def command(settings: Annotated[Given, Settings]) -> None:
        given.append(settings)

    run(command)
    run(command, "--weight", "a=1", "--size", "99")
    assert given == [{"size": 5}, {"size": 99, "weights": ["a=1"]}]


def test_checks_are_those_of_the_fields(run):
    def command(where: Where, settings: Settings) -> None:
        raise AssertionError

    assert run(command, "a").exit_code == 2
    assert str(run(command, "a", "-o", "x", "--size", "10").exception) == "--size must be at most 9, not 10"
    assert str(run(command, "a", "-o", "x", "--form", "x").exception) == "--form x: choose from plain, fine"


def test_options_come_in_the_order_of_fields_unless_one_names_another():
    def command(where: Where, settings: Settings) -> None:
        raise AssertionError

    names = list(with_options(command).__signature__.parameters)
    assert names == ["name", "rest", "out", "keep", "tag", "size", "stop", "form", "weights"]


def test_defaults_are_those_of_the_classes_but_where_the_command_line_has_its_own():
    training = options_of(TrainingConfig, "vocab_size min_frequency", vocab_size={"default": 32_000})

    def command(config: Annotated[Given, training], options: GenerationOptions) -> None:
        raise AssertionError

    defaults = {name: one.default for name, one in with_options(command).__signature__.parameters.items()}
    assert (defaults["vocab_size"], defaults["whole_syllables"]) == (32_000, True)
    assert defaults["top_p"] == GenerationOptions().top_p
    assert defaults["min_frequency"] == TrainingConfig(999).min_frequency


@pytest.mark.parametrize(
    ("message", "changed"),
    [
        ("batch_size must be at least 1: leave min_count out", "--batch-size must be at least 1: leave --few out"),
        ("weights: 'x' matches no file", "--weight: 'x' matches no file"),
        ("the weights: damaged", "the weights: damaged"),
        ("my/batch_size/min_count.txt: 'min_count' and batch_size=1 are names", None),
    ],
)
def test_messages_have_the_names_of_options(message, changed):
    options = {"batch_size": "--batch-size", "min_count": "--few", "weights": "--weight"}
    assert _with_option_names(message, options) == (changed or message)
