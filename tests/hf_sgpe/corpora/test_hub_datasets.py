"""Datasets in folders; the Hub's own interface for them is the business of the ``datasets`` library."""

import json
import re

import pytest
from support.command import COMMAND, hf_sgpe, process

from hf_sgpe import SGPEError, TrainingConfig
from trainers import TokenizerTrainer, read_dataset

datasets = pytest.importorskip("datasets")
pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

CONFIG = TrainingConfig(vocab_size=1500, scripts=("sinhala", "devanagari"))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture
def lines(sample):
    return [*sample["si"].splitlines()[:80], None, *sample["hi"].splitlines()[:80], ""]


@pytest.fixture
def folder(tmp_path, lines):
    """Two splits, the first of them in two files."""
    data = tmp_path / "set" / "data"
    data.mkdir(parents=True)
    half = len(lines) // 2
    parts = {"train-00000-of-00002": lines[:half], "train-00001-of-00002": lines[half:], "test-00000-of-00001": ["x y"]}
    for name, texts in parts.items():
        columns = {"text": pa.array(texts, pa.string()), "number": pa.array(range(len(texts)))}
        pq.write_table(pa.table(columns), data / f"{name}.parquet", row_group_size=7)
    return tmp_path / "set"


def texts_of(lines):
    return [line for line in lines if line is not None]


@pytest.mark.parametrize("streaming", [False, True])
def test_a_folder_of_parquet_files_gives_its_texts_in_order(folder, lines, streaming):
    texts = read_dataset(folder, streaming=streaming)
    assert list(texts) == texts_of(lines)
    assert list(texts) == texts_of(lines)  # anew
    assert list(read_dataset(folder, split="test", streaming=streaming)) == ["x y"]


def test_a_part_of_a_split(folder, lines):
    assert list(read_dataset(folder, split="train[:5]")) == lines[:5]


def test_a_folder_of_save_to_disk_is_read(folder, lines, tmp_path):
    datasets.load_dataset(str(folder), cache_dir=tmp_path / "other").save_to_disk(tmp_path / "saved")
    assert list(read_dataset(tmp_path / "saved")) == texts_of(lines)
    datasets.load_from_disk(tmp_path / "saved")["test"].save_to_disk(tmp_path / "one")
    assert list(read_dataset(tmp_path / "one")) == ["x y"]
    with pytest.raises(SGPEError, match=r"'validation'.*train"):
        read_dataset(tmp_path / "saved", split="validation")


def test_a_folder_that_is_called_as_a_kind_of_files_is_that_folder(folder, tmp_path, lines, monkeypatch):
    folder.rename(tmp_path / "text")
    (tmp_path / "other.txt").write_text("other", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert list(read_dataset("text")) == texts_of(lines)
    with pytest.raises(SGPEError, match="the name of a dataset must not be empty"):
        read_dataset("")


@pytest.mark.parametrize("streaming", [False, True])
def test_the_parts_of_a_dataset_are_all_of_it(folder, lines, streaming):
    dataset = read_dataset(folder, streaming=streaming)
    for parts in (1, 2, 5):
        assert [text for number in range(parts) for text in dataset.part(number, parts)] == texts_of(lines)


def test_json_lines_are_a_dataset_too(tmp_path, sample):
    (tmp_path / "j").mkdir()
    lines = sample["en"].splitlines()[:20]
    (tmp_path / "j" / "a.jsonl").write_text("".join(json.dumps({"body": line}) + "\n" for line in lines), encoding="utf-8")
    assert list(read_dataset(tmp_path / "j", text_column="body")) == lines


@pytest.mark.parametrize("streaming", [False, True])
def test_counting_a_dataset_is_counting_its_texts(folder, lines, streaming):
    trainer = TokenizerTrainer(CONFIG)
    counts = trainer.count(iterator=read_dataset(folder, streaming=streaming))
    assert dict(counts.items()) == dict(trainer.count(iterator=texts_of(lines)).items())


@pytest.mark.parametrize("streaming", [False, True])
def test_missing_tokenizers_of_transformers_are_named(folder, tmp_path, streaming):
    with pytest.raises(SGPEError, match=r"'body' .*'text', 'number'"):
        read_dataset(folder, text_column="body", streaming=streaming)
    with pytest.raises(SGPEError, match=r"set: .*nope"):
        list(read_dataset(folder, split="nope", streaming=streaming))
    with pytest.raises(SGPEError, match=r"'number' .* int"):
        list(read_dataset(folder, text_column="number", streaming=streaming))
    (tmp_path / "empty").mkdir()
    with pytest.raises(SGPEError, match=r"empty.* doesn't contain any data files"):
        read_dataset(tmp_path / "empty", streaming=streaming)
    with pytest.raises(SGPEError, match="is a file, not a dataset"):
        read_dataset(next(folder.rglob("*.parquet")), streaming=streaming)


def test_the_command_line_trains_on_a_dataset(folder, lines, tmp_path):
    (tmp_path / "same.txt").write_text("\n\n".join(texts_of(lines)), encoding="utf-8")
    options = ["--vocab-size", "1500", "--script", "sinhala", "--script", "devanagari"]
    into = ["--out", "out", "--overwrite"]
    for more in (["--streaming"], ["--split", "train", "--text-column", "text"]):
        done = hf_sgpe("train", "--dataset", "set", *more, *options, *into, cwd=tmp_path)
        assert done.stderr == ""
    files = TokenizerTrainer(CONFIG).train(iterator=texts_of(lines))
    written = json.loads((tmp_path / "out" / "tokenizer.json").read_text(encoding="utf-8"))
    assert written["model"]["vocab"] == files.get_vocab()
    both = hf_sgpe("train", "same.txt", "--dataset", "set", *options, "--out", "both", cwd=tmp_path)
    words = [int(done.stdout.split("learned from ")[1].split()[0].replace(",", "")) for done in (both, done)]
    assert words[0] > 1.9 * words[1]
    twice = hf_sgpe("train", "--dataset", "set", "--dataset", "set", *options, "--out", "twice", cwd=tmp_path)
    assert int(twice.stdout.split("learned from ")[1].split()[0].replace(",", "")) == 2 * words[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dataset", "set", "--split", "nope"], "nope"),
        (["--dataset", "set", "--text-column", "body"], "no column 'body'"),
        (["--dataset", "nobody/nothing"], "dataset nobody/nothing: "),
        (["--dataset", "set", "--weight", "set=2"], "--weight applies only to files"),
        ([], "nothing to train on"),
        (["set", "--streaming"], "--streaming needs a dataset"),
    ],
)
def test_bad_input_ends_in_one_line(folder, tmp_path, arguments, message):
    done = hf_sgpe("train", *arguments, "--out", "out", cwd=tmp_path, code=2)
    assert done.stderr.count("\n") == 1, done.stderr
    assert re.search(message, done.stderr)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_process_shows_no_log_of_the_library(tmp_path):
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "train.parquet").write_bytes(b"PAR1xxxxxxxx")
    command = [*COMMAND, "train", "--dataset", "damaged", "--streaming", "--out", "out"]
    done = process(*command, cwd=tmp_path, code=2, HF_DATASETS_CACHE=str(tmp_path / "cache"))
    assert re.fullmatch(r"error: .*damaged: .*Parquet.*\n", done.stderr)
    assert not (tmp_path / "out").exists()


def test_a_hub_that_cannot_be_reached_is_named(monkeypatch):
    def fails(*arguments, **options):
        raise RuntimeError("Cannot send a request, as the client has been closed.")

    monkeypatch.setattr(datasets, "load_dataset", fails)
    with pytest.raises(SGPEError, match=r"dataset me/name: the connection"):
        read_dataset("me/name")
