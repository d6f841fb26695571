import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.command import hf_sgpe, script
from support.next_steps import next_steps, typed


@pytest.fixture
def commands_here(monkeypatch):
    """Run in this process the commands that the script starts."""

    run_outside = subprocess.run

    def run(command, **options):
        if options:  # AutoTokenizer in a process of its own
            return run_outside(command, **options)
        _, program, *words = command
        done = hf_sgpe(*words[1:]) if program == "-m" else script(Path(program).name, *words)
        print(done.stdout, end="")
        print(done.stderr, end="", file=sys.stderr)
        return done

    monkeypatch.setattr(subprocess, "run", run)


@pytest.mark.usefixtures("commands_here")
def test_a_model_gets_a_language_and_its_text_is_shown_before_and_after(tmp_path, sample):
    pytest.importorskip("torch")
    from transformers import LlamaForCausalLM

    from hf_sgpe import TrainingConfig, WordCounts, train_from_counts
    from trainers.language_models.language_model import small_llama

    config = TrainingConfig(vocab_size=400, recipe="bpe")
    tokenizer = train_from_counts(WordCounts.from_texts([sample["en"]], config), config)
    tokenizer.save(tmp_path / "small")
    LlamaForCausalLM(small_llama(448, layers=1, width=16, heads=2, length=2048)).save_pretrained(tmp_path / "small")
    done = script("quickstart_extend.py", "--model", "small", "--new-tokens", 300, "--steps", 1, cwd=tmp_path)
    assert done.stderr == ""
    for held_out in ("අප්‍රේල්", "පොතක් කියවන විට අලුත් වචන සටහන් කර ගැනීම හොඳ පුරුද්දකි."):
        before, after = re.search(
            rf"^  {held_out}\n    (\d+) tokens, .* → (\d+) tokens: ", done.stdout, re.MULTILINE
        ).groups()
        assert int(after) < int(before) / 3
    assert len(re.findall(r"^  (?:before|after): … ", done.stdout, re.MULTILINE)) == 2
    measured = re.findall(r"^  (?:before|with rows|after) .* ([\d.]+) +([\d.]+)$", done.stdout, re.MULTILINE)
    sinhala, english = zip(*(map(float, values) for values in measured), strict=True)
    assert sinhala[0] > sinhala[1] >= sinhala[2] > 0
    assert len(english) == 3
    _, measure, *_ = next_steps(done.stdout)
    assert f"{sinhala[2]:.4f}" in typed(measure, tmp_path)
