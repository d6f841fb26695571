import dataclasses
import sys

import pytest

from hf_sgpe.cli import run_script
from hf_sgpe.learning.finetuning_options import RunArguments
from hf_sgpe.terminal.options import SEVERAL, option_list


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments(RunArguments):
    eval: list[str] = option_list("held-out text", metavar=SEVERAL)


def test_an_option_with_several_values_may_be_given_several_times(monkeypatch):
    given = []

    def run(args: Arguments) -> None:
        given.append(args)

    monkeypatch.setattr(sys, "argv", ["script", "--out", "out", "--eval", "a", "--eval", "b", "c"])
    with pytest.raises(SystemExit):
        run_script(run, "Train. Example: train")
    assert given[0].eval == ["a", "b", "c"]
