import os
import subprocess
import sys

import pytest
from support.command import hf_sgpe
from support.ecosystems import TRANSFORMERS_4, ask, every_transformers, needs_transformers_4
from support.stranger import uses

from hf_sgpe import BPETokenizer, SGPETokenizerFast
from hf_sgpe.formats import tokenizer_json

pytestmark = pytest.mark.slow


@every_transformers
def test_ids_offsets_and_decoded_text_are_the_same(folders, folders_by_pattern, nasty, expected, python):
    every = folders | folders_by_pattern
    ways = ("encode", "encode_by_tokenizers")
    questions = [{"ask": way, "folder": folder, "texts": nasty} for folder in every.values() for way in ways]
    answers = iter(ask(python, *questions))
    for name, folder in every.items():
        rows = list(expected(folder, nasty))
        for way in ways:
            assert next(answers) == rows, (name, way)


@every_transformers
def test_other_uses_give_the_same_results(folders, around, telling, python):
    every = folders | around
    answers = ask(python, *({"ask": "use", "folder": folder, "texts": telling} for folder in every.values()))
    for (name, folder), answer in zip(every.items(), answers, strict=True):
        assert answer == uses(SGPETokenizerFast.from_pretrained(folder), telling), name
    assert answers[0]["chat"].startswith("<|im_start|>user\nශ්‍රී ලංකාව")


@every_transformers
def test_loading_asks_nothing_and_says_nothing(folders, python):
    code = "import sys; from transformers import AutoTokenizer; [*map(AutoTokenizer.from_pretrained, sys.argv[1:])]"
    loud = {**os.environ, "TRANSFORMERS_VERBOSITY": "warning", "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1"}
    command = [python, "-c", code, *map(str, folders.values())]
    done = subprocess.run(command, capture_output=True, text=True, env=loud, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@every_transformers
@pytest.mark.parametrize("trust_remote_code", [False, True])
def test_a_tokenizer_saved_by_transformers_is_the_same(folders, telling, expected, python, trust_remote_code, tmp_path):
    trust = {"trust_remote_code": trust_remote_code}
    saves = [{"ask": "save", "folder": folder, "to": tmp_path / name, **trust} for name, folder in folders.items()]
    loads = [{"ask": "encode", "folder": tmp_path / name, "texts": telling} for name in folders]
    loads += [{**load, "trust_remote_code": True} for load in loads]
    answers = ask(python, *saves, *loads)[len(saves) :]
    assert answers == [list(expected(folder, telling)) for folder in folders.values()] * (len(loads) // len(saves))
    for name, folder in folders.items():
        ours, theirs = (SGPETokenizerFast.from_pretrained(place).to_bpe().metadata for place in (folder, tmp_path / name))
        assert theirs == ours


@needs_transformers_4
def test_what_transformers_4_saves_loads_in_transformers_5(folders, telling, expected, tmp_path):
    ask(TRANSFORMERS_4, *({"ask": "save", "folder": folder, "to": tmp_path / name} for name, folder in folders.items()))
    for name, folder in folders.items():
        fast = SGPETokenizerFast.from_pretrained(tmp_path / name)
        assert fast(telling)["input_ids"] == [ids for ids, _, _ in expected(folder, telling)]


@every_transformers
def test_trusted_remote_code_leaves_no_mark_on_other_tokenizers(folders, python, tmp_path):
    tokenizer_json.save(BPETokenizer.from_pretrained(folders["hybrid"]).data, tmp_path / "own", auto_class=True)
    first = {"ask": "save", "folder": tmp_path / "own", "to": tmp_path / "first", "trust_remote_code": True}
    (_, *files), (name, *others) = ask(python, first, {"ask": "save", "folder": folders["bpe"], "to": tmp_path / "second"})
    assert "tokenization_sgpe.py" in files
    assert name in ("TokenizersBackend", "PreTrainedTokenizerFast")
    assert "tokenization_sgpe.py" not in others


@needs_transformers_4
def test_what_transformers_5_saved_loads_in_transformers_4_once_it_is_written_by_us(folders, telling, expected, tmp_path):
    """Transformers 5 gives the class of every tokenizer that it saves a name that no transformers 4 knows."""
    folder, again = folders["hybrid"], tmp_path / "again"
    ask(sys.executable, {"ask": "save", "folder": folder, "to": again})
    with pytest.raises(AssertionError, match="TokenizersBackend"):
        ask(TRANSFORMERS_4, {"ask": "encode", "folder": again, "texts": telling})
    hf_sgpe("export", again, "--out", tmp_path / "exported", cwd=tmp_path)
    SGPETokenizerFast.from_pretrained(again).save_pretrained(tmp_path / "saved")
    (tmp_path / "khmer.txt").write_text("ភាសាខ្មែរ កម្ពុជា\n" * 20, encoding="utf-8")
    hf_sgpe("extend", again, "khmer.txt", "--script", "khmer", "--new-tokens", 30, "--out", "extended", cwd=tmp_path)
    answers = ask(
        TRANSFORMERS_4,
        *({"ask": "encode", "folder": tmp_path / name, "texts": telling} for name in ("exported", "saved", "extended")),
    )
    assert answers == [list(expected(folder, telling))] * 3
