import gzip
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from support.command import hf_sgpe, script

from hf_sgpe import BPETokenizer
from hf_sgpe.errors import SGPEError
from hf_sgpe.files.overwriting import check_new_folder

BEFORE = "written by somebody"


@pytest.fixture(scope="module")
def small(sample, tmp_path_factory):
    folder = tmp_path_factory.mktemp("small") / "small"
    BPETokenizer.train_from_iterator([sample["en"]], 500, special_tokens=["<|endoftext|>"]).save(folder)
    return folder


@pytest.fixture
def place(sample, saved, small, tmp_path, monkeypatch):
    """A folder with a text, a tokenizer, a model with one, and files and folders with names that commands would write to."""
    (tmp_path / "si.txt").write_text(sample["si"][:20_000], encoding="utf-8")
    shutil.copytree(small, tmp_path / "small")
    for folder in ("mine", "model"):
        shutil.copytree(saved, tmp_path / folder)
    (tmp_path / "model alone").mkdir()
    for folder in ("model", "model alone"):
        (tmp_path / folder / "model.safetensors").write_bytes(b"rows")
        (tmp_path / folder / "config.json").write_text("{}")
    for name in ("file.txt", "file.parquet", "file.tiktoken", "file.html", "file.txt.gz"):
        (tmp_path / name).write_text(BEFORE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder):
    return {file.relative_to(folder): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


TRAIN = ("train", "si.txt", "--recipe", "bpe", "--vocab-size", "300")
COMMANDS = {
    "train": (*TRAIN, "--out"),
    "train-sgpe": ("train-sgpe", "si.txt", "--vocab-size", "300", "--prune-freq", "5", "--out"),
    "extend": ("extend", "small", "si.txt", "--new-tokens", "200", "--out"),
    "export": ("export", "small", "--out"),
}
FILES = {
    "file.parquet": ("count", "si.txt", "--recipe", "bpe", "--out"),
    "file.tiktoken": ("export", "small", "--format", "tiktoken", "--out"),
    "file.html": ("encode", "small", "a word", "--html"),
    "file.txt": ("convert-zawgyi", "si.txt", "--out"),
    "file.txt.gz": ("convert-zawgyi", "si.txt", "--out"),
}
MODEL = r"already has a model (model.safetensors), which needs its own tokenizer"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("folder", "held"), [("mine", "already has a tokenizer of 4,000 tokens"), ("model", MODEL), ("model alone", MODEL)]
)
def test_existing_tokenizers_and_models_are_replaced_only_with_overwrite(command, folder, held, place):
    before = contents(place)
    done = hf_sgpe(*COMMANDS[command], folder, code=2)
    assert done.stderr == f"error: {folder} {held}: give another folder, or add --overwrite to replace its files\n"
    assert contents(place) == before
    hf_sgpe(*COMMANDS[command], folder, "--overwrite")
    tokenizer = BPETokenizer.from_pretrained(place / folder)
    assert tokenizer.vocab_size != 4000
    assert (place / "model" / "model.safetensors").read_bytes() == b"rows"  # files of other names stay


@pytest.mark.parametrize("name", FILES)
def test_an_existing_file_is_replaced_only_with_overwrite(name, place):
    done = hf_sgpe(*FILES[name], name, code=2)
    assert done.stderr == f"error: {name} already exists: give another name, or add --overwrite to replace it\n"
    assert (place / name).read_text() == BEFORE
    hf_sgpe(*FILES[name], name, "--overwrite")
    assert (place / name).read_bytes() != BEFORE.encode()


def test_files_of_counts_are_added_up_into_a_new_one(place):
    hf_sgpe(*FILES["file.parquet"], "one.parquet")
    before = (place / "one.parquet").read_bytes()
    add = ("counts", "add", "one.parquet", "one.parquet", "--out", "one.parquet")
    done = hf_sgpe(*add, code=2)
    assert "one.parquet already exists" in done.stderr
    assert (place / "one.parquet").read_bytes() == before
    hf_sgpe(*add, "--overwrite")


def test_a_folder_with_other_files_is_written_into(place):
    (place / "notes").mkdir()
    (place / "notes" / "notes.txt").write_text(BEFORE)
    hf_sgpe(*TRAIN, "--out", "notes")
    assert (place / "notes" / "notes.txt").read_text() == BEFORE


def test_a_run_goes_on_from_its_own_checkpoints_without_being_told_to_overwrite(place):
    command = (*COMMANDS["train-sgpe"], "sgpe")
    hf_sgpe(*command)
    before = contents(place / "sgpe")
    done = hf_sgpe(*command, code=2)
    assert "is from an earlier run: resume that run, or choose another folder" in done.stderr
    hf_sgpe(*command, "--resume")
    assert contents(place / "sgpe").keys() == before.keys()


def test_a_page_that_no_card_wrote_stays(place):
    (place / "mine" / "index.html").write_text(BEFORE)
    done = hf_sgpe("card", "mine", code=2)
    assert "mine/index.html already exists" in done.stderr
    hf_sgpe("card", "mine", "--overwrite")
    hf_sgpe("card", "mine")  # its own card is written again


def test_the_curve_of_an_extension_replaces_no_other_file(place):
    (place / "notes").mkdir()
    (place / "notes" / "extension.svg").write_text(BEFORE)
    with pytest.raises(SGPEError, match=r"notes.extension\.svg already exists"):
        check_new_folder(place / "notes", names=["extension.svg"])
    check_new_folder(place / "notes", names=["extension.json"])
    with pytest.raises(SGPEError, match=r"notes already has files"):
        check_new_folder(place / "notes", whole=True)


def test_tokenizers_of_other_kinds_are_seen(tmp_path):
    unigram = {"model": {"type": "Unigram", "vocab": [["a", -1.0], ["b", -2.0]]}, "added_tokens": [{"content": "<s>"}]}
    (tmp_path / "tokenizer.json").write_text(json.dumps(unigram))
    with pytest.raises(SGPEError, match="already has a tokenizer of 3 tokens"):
        check_new_folder(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(SGPEError, match=r"\(tokenizer\.json\)"):
        check_new_folder(tmp_path)
    (tmp_path / "tokenizer.json").rename(tmp_path / "tokenizer.model")
    with pytest.raises(SGPEError, match=r"\(tokenizer\.model\)"):
        check_new_folder(tmp_path)


QUICKSTART = ("quickstart.py", "--corpus", "si.txt", "--vocab-size", "2000", "--out")


def test_scripts_keep_to_the_same_rule(place):
    model = json.loads((place / "small" / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    (place / "vocab.json").write_text(json.dumps(model["vocab"]), encoding="utf-8")
    (place / "merges.txt").write_text("".join(f"{' '.join(pair)}\n" for pair in model["merges"]), encoding="utf-8")
    before = contents(place / "mine")
    importing = ("export", "merges.txt", "--out", "mine", "--pattern", "o200k")
    for run, command in ((hf_sgpe, importing), (script, (*QUICKSTART, "mine"))):
        done = run(*command, cwd=place, code=2)
        assert done.stdout == ""
        assert done.stderr.startswith("error: mine already has a tokenizer of 4,000 tokens")
        assert contents(place / "mine") == before
    hf_sgpe(*importing, "--overwrite", cwd=place)


@pytest.mark.slow
def test_the_folder_of_another_quickstart_is_its_own(place):
    for _ in range(2):
        script(*QUICKSTART, "out", cwd=place)


def test_a_model_is_trained_into_a_new_folder(place):
    pytest.importorskip("torch", reason="models are of PyTorch: pip install torch accelerate")
    from hf_sgpe.learning.finetuning_options import RunArguments
    from trainers.language_models.run_arguments import check_run

    for folder, held in (("model", "already has a model"), ("mine", "already has a tokenizer of 4,000 tokens")):
        arguments = RunArguments(out=Path(folder), tokenizer="small")
        with pytest.raises(SGPEError, match=held):
            check_run(arguments)
        check_run(replace(arguments, overwrite=True))


def test_a_transplanted_model_replaces_another_only_if_told_to(place):
    pytest.importorskip("torch", reason="models are of PyTorch: pip install torch accelerate")
    from transformers import AutoModelForCausalLM, LlamaForCausalLM

    from trainers.language_models.language_model import small_llama

    shape = small_llama(500, layers=1, width=16, heads=2, length=64)
    LlamaForCausalLM(shape).save_pretrained(place / "small", max_shard_size="20kB")
    weights = ("model.safetensors", "model.safetensors.index.json")
    assert [(place / "small" / name).exists() for name in weights] == [False, True]
    hf_sgpe(*COMMANDS["extend"], "small-si")
    command = ("transplant", "small", "--tokenizer", "small-si", "--out", "model")
    before = contents(place / "model")
    done = hf_sgpe(*command, code=2)
    assert done.stderr.startswith(f"error: model {MODEL}")
    assert contents(place / "model") == before
    hf_sgpe(*command, "--overwrite")
    # The weights that were there, in one file, are not taken for the new ones, in shards.
    assert [(place / "model" / name).exists() for name in weights] == [False, True]
    assert AutoModelForCausalLM.from_pretrained(place / "model").config.vocab_size == 700
    done = hf_sgpe(*command[:-1], "small", "--overwrite", code=2)
    assert "small is a source of the model" in done.stderr


def test_converted_text_is_read_before_it_is_replaced(place):
    done = hf_sgpe("convert-zawgyi", "si.txt", "--out", "si.txt", code=2)
    assert "si.txt is the file to convert" in done.stderr
    hf_sgpe(*FILES["file.txt.gz"], "new.txt.gz")
    assert gzip.decompress((place / "new.txt.gz").read_bytes())
