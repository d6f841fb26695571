import json
import logging
import random
import signal
import subprocess
import sys
import time

import pytest
from support.corpora import corpus

from hf_sgpe import BPETokenizer, SGPEEncoder, SGPETokenizerFast, SGPEVocabulary
from hub_cards import evaluate
from trainers import SGPEError, SGPETrainer, TokenizerTrainer, TrainingConfig

pytestmark = pytest.mark.kernels

OPTIONS = {"vocab_size": 900, "prune_freq": 2, "min_freq": 2, "checkpoint_every": 100}
RESULT = ("vocab.json", "tokenizer.json", "tokenizer_config.json")


@pytest.fixture
def text(tmp_path, sample):
    path = tmp_path / "si.jsonl"
    lines = (json.dumps({"text": line}, ensure_ascii=False) for line in sample["si"].splitlines())
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def test_writes_the_documents_files_and_a_folder_that_loads(tmp_path, text):
    vocabulary = SGPETrainer(**OPTIONS).train(text, tmp_path / "out")
    steps = len(vocabulary.merges)
    assert 400 < steps < 500
    expected = [f"checkpoint_{step}.json" for step in (100, 200, 300, 400, steps)]
    assert files(tmp_path / "out") == sorted([*expected, *RESULT, "training.json"])
    assert SGPEVocabulary.load(tmp_path / "out" / "vocab.json") == vocabulary
    checkpoint = json.loads((tmp_path / "out" / "checkpoint_100.json").read_text(encoding="utf-8"))
    assert list(checkpoint) == ["step", "merges", "elapsed_seconds"]
    assert checkpoint["step"] == 100
    assert checkpoint["merges"] == [list(pair) for pair in vocabulary.merges[:100]]
    assert checkpoint["elapsed_seconds"] == round(checkpoint["elapsed_seconds"], 1)
    loaded = BPETokenizer.from_pretrained(tmp_path / "out")
    assert loaded.get_vocab() == vocabulary.to_data().get_vocab()
    assert loaded.encode("මගේ ගම") == SGPEEncoder(vocabulary).encode("මගේ ගම")


@pytest.mark.parametrize("vocab_size", [700, 900, 5000])
def test_the_recipe_learns_the_identical_tokenizer(tmp_path, text, vocab_size):
    settings = {**OPTIONS, "vocab_size": vocab_size}
    SGPETrainer(**settings).train(text, tmp_path / "document")
    config = TrainingConfig(vocab_size, "sgpe", min_unit_frequency=2, min_frequency=2)
    TokenizerTrainer(config).learn(TokenizerTrainer(config).count(files=[text])).save(tmp_path / "recipe")
    for name in RESULT[1:]:
        assert (tmp_path / "document" / name).read_bytes() == (tmp_path / "recipe" / name).read_bytes()


@pytest.mark.parametrize("has_metadata", [True, False])
def test_training_another_one_like_it_keeps_syllables_whole(tmp_path, text, sample, has_metadata):
    SGPETrainer(**OPTIONS).train(text, tmp_path)
    path = tmp_path / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["sgpe"] = config["sgpe"] if has_metadata else {}
    path.write_text(json.dumps(config), encoding="utf-8", newline="\n")
    tokenizer = SGPETokenizerFast.from_pretrained(tmp_path)
    new = tokenizer.train_new_from_iterator(sample["si"].splitlines(), 900)
    assert new.to_bpe().splitting.recipe == "sgpe"
    assert new.to_bpe().metadata["training"]["min_frequency"] == 2
    if has_metadata:
        assert new.to_bpe().metadata["training"]["min_unit_frequency"] == 2
        assert new.to_bpe().get_vocab() == tokenizer.to_bpe().get_vocab()
    assert evaluate(new.to_bpe(), sample["si"].splitlines()).cut_syllable_share < 0.05
    assert new("ක").input_ids[0] == new.cls_token_id


def test_what_is_written_in_the_text_as_a_special_token_is_not_learned_from(tmp_path):
    (tmp_path / "si.txt").write_text("කර [UNK] කර " * 9, encoding="utf-8", newline="\n")
    vocabulary = SGPETrainer(**OPTIONS).train(tmp_path / "si.txt", tmp_path / "out")
    assert "[" not in vocabulary.vocab


def test_the_log_has_the_documents_cadence(tmp_path, text, caplog):
    with caplog.at_level(logging.INFO, logger="trainers"):
        SGPETrainer(**{**OPTIONS, "vocab_size": 2000, "prune_freq": 1, "min_freq": 1}).train(text, tmp_path / "out")
    steps = [int(record.getMessage().split()[1]) for record in caplog.records]
    assert steps == [*range(1, 11), 1000]


@pytest.mark.parametrize("stop", [100, 200])
def test_goes_on_from_any_checkpoint_to_the_same_result(tmp_path, text, stop):
    SGPETrainer(**OPTIONS).train(text, tmp_path / "whole")
    (tmp_path / "stopped").mkdir()
    for name in ("training.json", f"checkpoint_{stop}.json"):
        (tmp_path / "stopped" / name).write_bytes((tmp_path / "whole" / name).read_bytes())
    SGPETrainer(**OPTIONS).train(text, tmp_path / "stopped", resume=True)
    SGPETrainer(**OPTIONS).train(text, tmp_path / "named", resume=tmp_path / "whole" / f"checkpoint_{stop}.json")
    for name in RESULT:
        whole = (tmp_path / "whole" / name).read_bytes()
        assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "named" / name).read_bytes() == whole


def test_goes_on_to_a_larger_vocabulary(tmp_path, text):
    SGPETrainer(**OPTIONS).train(text, tmp_path / "small")
    larger = SGPETrainer(**{**OPTIONS, "vocab_size": 1000})
    larger.train(text, tmp_path / "small", resume=True)
    assert larger.train(text, tmp_path / "fresh") == SGPEVocabulary.load(tmp_path / "small" / "vocab.json")
    with pytest.raises(SGPEError, match=r"\d+ merges, but \d+"):
        SGPETrainer(**{**OPTIONS, "vocab_size": 800}).train(text, tmp_path / "small", resume=True)


def test_resuming_where_there_is_nothing_begins(tmp_path, text):
    assert SGPETrainer(**OPTIONS).train(text, tmp_path / "out", resume=True).merges


def test_checkpoints_of_another_run_are_not_resumed(tmp_path, text):
    out = tmp_path / "out"
    SGPETrainer(**OPTIONS).train(text, out)
    before = {path: path.read_bytes() for path in out.iterdir()}
    with pytest.raises(SGPEError, match=r"checkpoint_\d+\.json"):
        SGPETrainer(**OPTIONS).train(text, out)
    with pytest.raises(SGPEError, match=r"prune_freq: .* 2 .*training\.json"):
        SGPETrainer(**{**OPTIONS, "prune_freq": 3}).train(text, out, resume=True)
    other = tmp_path / "other.txt"
    other.write_text("කමල " * 30, encoding="utf-8")
    with pytest.raises(SGPEError, match=r"training\.json: .* other text"):
        SGPETrainer(**OPTIONS).train(other, out, resume=True)
    with pytest.raises(SGPEError, match=r"checkpoint_100\.json: the merge"):
        SGPETrainer(**OPTIONS).train(other, tmp_path / "new", resume=out / "checkpoint_100.json")
    (out / "checkpoint_100.json").write_text("{", encoding="utf-8")
    with pytest.raises(SGPEError, match=r"checkpoint_100\.json: not valid JSON"):
        SGPETrainer(**OPTIONS).train(text, tmp_path / "new", resume=out / "checkpoint_100.json")
    (out / "checkpoint_100.json").write_bytes(before[out / "checkpoint_100.json"])
    assert {path: path.read_bytes() for path in out.iterdir()} == before


def test_an_empty_corpus_is_named_and_leaves_nothing(tmp_path):
    (tmp_path / "empty.txt").touch()
    with pytest.raises(SGPEError, match=r"^the corpus is empty"):
        SGPETrainer().train(tmp_path / "empty.txt", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vocab_size": 4}, "vocab_size .* 5"),
        ({"prune_freq": 0}, "prune_freq .* 1"),
        ({"checkpoint_every": 1.5}, "checkpoint_every must be"),
        ({"scripts": ["klingon"]}, "unknown script 'klingon'"),
    ],
)
def test_bad_settings_are_named(options, message):
    with pytest.raises(SGPEError, match=message):
        SGPETrainer(**options)


@pytest.mark.slow
def test_a_run_killed_at_random_moments_comes_to_the_identical_result(tmp_path):
    text = tmp_path / "si.jsonl"
    lines = corpus("si", 2_000_000).splitlines()
    text.write_text("\n".join(json.dumps({"text": line}, ensure_ascii=False) for line in lines), encoding="utf-8")
    options = ["--vocab-size", "4000", "--prune-freq", "20", "--checkpoint-every", "20"]

    def start(out):
        command = [sys.executable, "-m", "hf_sgpe", "train-sgpe", str(text), "--out", str(out), "--resume", *options]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    began = time.monotonic()
    _, errors = start(tmp_path / "whole").communicate()
    assert errors == b""
    seconds = time.monotonic() - began

    source = random.Random(5)
    kills = resumed = finished = 0
    out = tmp_path / "killed-0"
    while kills < 12 or not finished:
        # Most of the time goes to start and reading; what is interesting happens late.
        began_with = len(list(out.glob("checkpoint_*.json")))
        process = start(out)
        if kills % 2:  # at any moment after its first step
            while process.poll() is None and len(list(out.glob("checkpoint_*.json"))) == began_with:
                time.sleep(0.001)
            time.sleep(seconds * source.uniform(0, 0.02))
        else:
            time.sleep(seconds * source.uniform(0.3, 1.05) if kills < 12 else 0)
        if kills < 12 and process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += process.wait() == -signal.SIGKILL
            process.communicate()
            resumed += began_with > 0
            continue
        _, errors = process.communicate()
        assert process.returncode == 0, errors
        for name in RESULT:
            assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
        assert files(out) == files(tmp_path / "whole")
        finished += 1
        out = tmp_path / f"killed-{finished}"
    assert kills >= 12
    assert resumed >= 2
