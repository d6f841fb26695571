"""Arguments of the scripts that train models."""

import dataclasses
import sys

from trainers.language_models.run_arguments import RunArguments, option_list, parse_arguments


def test_an_option_with_several_values_may_be_given_several_times(monkeypatch):
    @dataclasses.dataclass
    class Arguments(RunArguments):
        eval: list[str] = option_list("held-out text")

    monkeypatch.setattr(sys, "argv", ["script", "--out", "out", "--eval", "a", "--eval", "b", "c"])
    assert parse_arguments("", Arguments).eval == ["a", "b", "c"]
