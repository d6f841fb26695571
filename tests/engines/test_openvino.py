import json
import os
import subprocess
import sys

import pytest
from support.corpora import HELD_OUT, LANGUAGES, corpus, held_out
from support.texts import LINES

from hf_sgpe import SGPEError, SGPETokenizerFast, TrainingConfig, WordCounts, train_from_counts
from hf_sgpe.generation import GenerationOptions, Machine, TextGenerator, best_engine, load_engine
from hf_sgpe.generation.engines.conversion import cache_folder
from hf_sgpe.generation.engines.detection import ENGINES
from hf_sgpe.splitting.normalization import prepare

pytest.importorskip("openvino", reason="needs OpenVINO: pip install optimum-intel")
pytest.importorskip("optimum.intel", reason="needs OpenVINO: pip install optimum-intel")
random_model = pytest.importorskip(
    "support.models", reason="the models are made with PyTorch: pip install torch"
).random_model

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


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("phi3", {"sliding_window": 16}),
        ("mixtral", {"sliding_window": 16}),
        ("olmo2", {"hidden_act": "gelu"}),
        ("llama", {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}}),
    ],
)
def test_openvino_computes_like_transformers_what_mlx_ignores(kind, config, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_SGPE_CACHE", str(tmp_path / "cache"))
    folder = random_model(tmp_path / "model", kind, {}, vocab_size=97, **config)
    prompts = [[(7 * place * place + 3 * length) % 97 for place in range(length)] for length in (1, 11, 40)]
    answers = []
    for name in ("transformers", "openvino"):
        with load_engine(folder, name, exact=True, device={"openvino": "CPU", "transformers": "cpu"}[name]) as engine:
            answers.append([list(engine.generate(prompt, GREEDY)) for prompt in prompts])
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("gemma2", r"'gemma2' only with transformers up to 5\.0"),
        ("gemma3_text", r"'gemma3_text' only with transformers up to 5\.0"),
        ("helium", "'helium'"),
    ],
)
def test_unsupported_models_are_refused_before_conversion(kind, reason, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_SGPE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))  # no weights: nothing gets that far
    with pytest.raises(SGPEError, match=f"{reason}.*: choose another engine"):
        load_engine(tmp_path, "openvino")
    assert not (tmp_path / "cache").exists()
    intel = Machine(dict.fromkeys(ENGINES, "1.0"), devices={"openvino": ("CPU", "GPU.0")})
    assert best_engine(tmp_path, intel) == "transformers"


def test_openvino_sends_no_telemetry(models, tmp_path):
    code = "import sys; from hf_sgpe.generation import load_engine; load_engine(sys.argv[1], 'openvino').close()"
    environment = {**os.environ, "HOME": str(tmp_path / "home"), "HF_SGPE_CACHE": str(tmp_path / "cache")}
    environment.pop("CI", None)
    done = subprocess.run(
        [sys.executable, "-c", code, str(models["untied"])], env=environment, capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (tmp_path / "home" / "intel").exists()


@pytest.mark.text
@pytest.mark.parametrize("recipe", ["hybrid", "bpe", "sgpe"])
def test_its_own_tokenizers_give_the_same_ids(recipe, sample):
    import openvino
    from openvino_tokenizers import convert_tokenizer

    lines = [
        *(line for line in LINES if "<|endoftext|>" not in line),
        *(line for text in sample.values() for line in text.splitlines()),
    ]
    for language in HELD_OUT:
        lines += held_out(language)[::50]
    for language in LANGUAGES:
        lines += corpus(language, 1_500).splitlines()
    lines = [line for line in lines if line and len(line) < 8000 and "\0" not in line]
    scripts = ("sinhala",) if recipe == "sgpe" else ("all",)
    config = TrainingConfig(vocab_size=6_000, recipe=recipe, scripts=scripts, letter_coverage=0.95, syllable_coverage=0.3)
    tokenizer = train_from_counts(WordCounts.from_texts(lines[::3], config), config)
    fast = SGPETokenizerFast.from_bpe(tokenizer)
    compiled = openvino.Core().compile_model(convert_tokenizer(fast, add_special_tokens=False), "CPU")
    different = []
    for line in lines:
        # Its own NFC leaves out some sequences.
        text = prepare(line, tokenizer.normalization)
        if compiled([text])["input_ids"][0].tolist() != tokenizer.encode(text):
            different.append(line)
    assert different == []
