"""OpenVINO: conversions are kept, and its own tokenizers split as ours do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.data import DATA, corpus, needs_data

from hf_sgpe import SGPETokenizerFast, TrainingConfig, WordCounts, train_from_counts
from hf_sgpe.generation import GenerationOptions, TextGenerator
from hf_sgpe.generation.conversion import cache_folder
from hf_sgpe.normalization import normalize

pytest.importorskip("openvino", reason="needs OpenVINO: pip install optimum-intel")
pytest.importorskip("optimum.intel", reason="needs OpenVINO: pip install optimum-intel")

pytestmark = pytest.mark.filterwarnings("ignore")

GREEDY = GenerationOptions(max_new_tokens=10, temperature=0)


def test_a_model_is_converted_once_and_anew_when_it_changes(models, tmp_path, monkeypatch):
    import shutil

    monkeypatch.setenv("HF_SGPE_CACHE", str(tmp_path / "cache"))
    assert cache_folder() == tmp_path / "cache"
    folder = shutil.copytree(models["untied"], tmp_path / "model")

    def load():
        with TextGenerator.load(folder, "openvino", exact=True) as generator:
            return generator.generate("the", GREEDY)

    first = load()
    (kept,) = (tmp_path / "cache").iterdir()
    made = {file.name: file.stat().st_mtime_ns for file in kept.iterdir()}
    assert load() == first
    assert {file.name: file.stat().st_mtime_ns for file in kept.iterdir()} == made
    # What was not written to its end is written again.
    (kept / "converted.json").unlink()
    assert load() == first
    os.utime(folder / "model.safetensors")
    assert load() == first
    assert len(list((tmp_path / "cache").iterdir())) == 2
    # A conversion runs by itself, too.
    with TextGenerator.load(kept, tokenizer=folder, exact=True) as generator:
        assert generator.engine.name == "openvino"
        assert generator.generate("the", GREEDY) == first


def test_nothing_is_reported_to_anybody(models, tmp_path):
    code = "import sys; from hf_sgpe.generation import load_engine; load_engine(sys.argv[1], 'openvino').close()"
    environment = {**os.environ, "HOME": str(tmp_path / "home"), "HF_SGPE_CACHE": str(tmp_path / "cache")}
    environment.pop("CI", None)
    done = subprocess.run(
        [sys.executable, "-c", code, str(models["untied"])], env=environment, capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (tmp_path / "home" / "intel").exists()


@needs_data
@pytest.mark.parametrize("recipe", ["hybrid", "bpe", "sgpe"])
def test_its_own_tokenizers_give_the_same_ids(recipe, sample, tmp_path):
    import openvino
    from openvino_tokenizers import convert_tokenizer

    lines = [line for text in sample.values() for line in text.splitlines()]
    for file in sorted(Path(DATA / "eval").glob("*.txt")):
        lines += file.read_text(encoding="utf-8").splitlines()
    for file in sorted((DATA / "corpora").glob("*.txt.xz")):
        lines += corpus(file.name.split(".")[0], 30_000).splitlines()
    lines = [line for line in lines if line and len(line) < 8000 and "\0" not in line]
    scripts = ("sinhala",) if recipe == "sgpe" else ("all",)
    config = TrainingConfig(vocab_size=12_000, recipe=recipe, scripts=scripts, letter_coverage=0.95, syllable_coverage=0.3)
    tokenizer = train_from_counts(WordCounts.from_texts(lines[::7], config), config)
    fast = SGPETokenizerFast.from_bpe(tokenizer)
    compiled = openvino.Core().compile_model(convert_tokenizer(fast, add_special_tokens=False), "CPU")
    different = []
    for line in lines:
        # Its own NFC leaves out some sequences.
        text = normalize(line, tokenizer.normalization)
        if compiled([text])["input_ids"][0].tolist() != tokenizer.encode(text):
            different.append(line)
    assert different == []
