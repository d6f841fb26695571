import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="models are trained: pip install torch accelerate")
pytest.importorskip("accelerate")

from hf_sgpe import SGPEError  # noqa: E402
from hf_sgpe.files.resuming import keep_settings  # noqa: E402
from hf_sgpe.learning.adaptation import Adaptation  # noqa: E402
from hf_sgpe.weights.model_loading import load_tokenizer  # noqa: E402
from trainers import adapting  # noqa: E402
from trainers.adapting import adapt, conclusions  # noqa: E402


@pytest.fixture(scope="module")
def texts(tmp_path_factory, sample):
    folder = tmp_path_factory.mktemp("texts")
    for name, text in {
        "si": sample["si"][:12_000],
        "en": sample["en"][:8_000],
        "held-out": sample["si"][12_000:14_000],
    }.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def options(extended, texts):
    return {
        "base": str(extended[0]),
        "corpus": [str(texts / "si.txt")],
        "keep": [str(texts / "en.txt")],
        "evaluate": [f"si={texts / 'held-out.txt'}"],
        "new_tokens": "100",
        "length": 32,
        "batch_size": 2,
        "budget": "640",
        "lines": True,
    }


@pytest.fixture
def given(options, tmp_path):
    return options | {"out": str(tmp_path / "out")}


@pytest.fixture(scope="module")
def uninterrupted(options, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "whole"
    return out, adapt(Adaptation(**options, out=str(out)), show=lambda _: None)


def test_a_base_model_becomes_a_trained_model(given, tmp_path):
    lines = []
    result = adapt(Adaptation(**given, init="distil"), show=lines.append)
    out = tmp_path / "out"
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(out / "model"), AutoModelForCausalLM.from_pretrained(out / "model")
    assert len(model.get_input_embeddings().weight) >= len(tokenizer)
    assert len(tokenizer) == len(load_tokenizer(given["base"])) + 100
    values = result["si"]
    assert values["trained"] < values["started"]
    report = (out / "report.md").read_text(encoding="utf-8")
    assert f"| si | {values['before']:.4f} | {values['started']:.4f} | {values['trained']:.4f} |" in report
    assert any("10 steps of 64 tokens" in line and "GB for" in line for line in lines)
    assert not (out / "distillation.pt").exists()
    # A finished run is not repeated, and its files stay the same.
    files = {file.name: file.read_bytes() for file in (out / "model").iterdir()}
    assert adapt(Adaptation(**given, init="distil", resume=True), show=lines.append) == result
    assert {file.name: file.read_bytes() for file in (out / "model").iterdir()} == files
    with pytest.raises(SGPEError, match="different settings"):
        adapt(Adaptation(**given, init="mean", resume=True), show=lines.append)
    with pytest.raises(SGPEError, match="--resume"):
        adapt(Adaptation(**given, init="distil"), show=lines.append)
    assert ("progress.svg" in report) == (out / "progress.svg").exists()
    assert report.startswith(f"# {Path(given['base']).name}, adapted\n")
    better = values["trained"] < values["before"]
    assert conclusions(result)[0].startswith(f"si: the adapted model is {'better' if better else 'worse'}: ")
    assert "\n".join(conclusions(result)) in report


def test_a_run_that_was_killed_before_its_first_file_starts_again(given, tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".lock").touch()
    monkeypatch.setattr("trainers.adapting._run", lambda *_: "started")
    assert adapt(Adaptation(**given)) == "started"


def test_a_model_that_became_worse_is_named_with_what_to_change():
    texts = {"si": {"before": 2.0, "started": 3.0, "trained": 1.0}, "en": {"before": 1.0, "started": 1.0, "trained": 1.118}}
    better, worse, advice = conclusions(texts)
    assert better == "si: the adapted model is better: 50.0 % fewer bits per byte than the base model."
    assert worse == "en: the adapted model is worse: 11.8 % more bits per byte than the base model."
    assert "--budget" in advice
    assert "--keep" in advice
    assert len(conclusions({"si": texts["si"]})) == 1


@pytest.mark.one_in(4)
@pytest.mark.parametrize("step", ["_extend", "_start", "_before", "_train"])
def test_an_interrupted_run_continues_to_the_same_model(given, uninterrupted, step, tmp_path, monkeypatch):
    work = getattr(adapting, step)

    def interrupted(*arguments, **options):
        work(*arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(adapting, step, interrupted)
    with pytest.raises(KeyboardInterrupt):
        adapt(Adaptation(**given), show=lambda _: None)
    monkeypatch.undo()
    assert adapt(Adaptation(**given, resume=True), show=lambda _: None) == uninterrupted[1]
    models = [(folder / "model" / "model.safetensors").read_bytes() for folder in (uninterrupted[0], tmp_path / "out")]
    assert models[0] == models[1]
    settings = json.loads((tmp_path / "out" / "settings.json").read_text())
    assert settings["budget"] == "640"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"budget": "many"}, "--budget many"),
        ({"budget": "10"}, "--budget 10: .* 64"),
        ({"new_tokens": "0"}, "--new-tokens 0"),
        ({"learning_rate": 0.0}, "--learning-rate must be above 0, not 0.0"),
        ({"length": 0}, "--length .* 0"),
        ({"length": 500, "budget": "2k"}, "--length of at most 64, not 500"),
        ({"seed": -1}, "--seed .* -1"),
        ({"corpus": []}, "name files of text in the new language"),
        ({"new_tokens": "20"}, "new_tokens 20 is too small"),
        ({"evaluate": [], "lines": False}, "too few texts"),
        ({"batch_size": 0}, "--batch-size must be at least 1, not 0"),
        ({"keep": [], "keep_share": 0.3}, "--keep-share needs --keep"),
        ({"resume": True}, "--resume"),
    ],
)
def test_bad_options_are_refused_before_anything_is_written(given, change, message, tmp_path):
    with pytest.raises(SGPEError, match=message):
        adapt(Adaptation(**given | change))
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_after_a_training_that_diverged_only_the_training_starts_again(given, uninterrupted, tmp_path, monkeypatch):
    from transformers import LlamaForCausalLM

    forward, out = LlamaForCausalLM.forward, tmp_path / "out"

    def diverging(model, *arguments, **options):
        output = forward(model, *arguments, **options)
        if model.training and any(out.glob("model/checkpoint-3")):
            output.loss = output.loss * float("nan")
        return output

    monkeypatch.setattr(LlamaForCausalLM, "forward", diverging)
    with pytest.raises(SGPEError, match="diverged at step 4"):
        adapt(Adaptation(**given, learning_rate=2e-4), show=lambda _: None)
    monkeypatch.undo()
    assert (out / "model" / "checkpoint-3").exists()
    with pytest.raises(SGPEError, match=r"length was \d+"):
        adapt(Adaptation(**given | {"length": 16}, resume=True), show=lambda _: None)
    lines = []
    assert adapt(Adaptation(**given, resume=True), show=lines.append) == uninterrupted[1]
    assert sum("already there" in line for line in lines) == 2
    models = [(folder / "model" / "model.safetensors").read_bytes() for folder in (uninterrupted[0], out)]
    assert models[0] == models[1]
    with pytest.raises(SGPEError, match=r"rows_learning_rate was [\d.]+"):
        adapt(Adaptation(**given, rows_learning_rate=1e-4, resume=True), show=lambda _: None)


def test_a_sweep_trains_with_the_rates_that_did_best(given, options, tmp_path, monkeypatch):
    rates = {"learning_rate": 1e-2, "rows_learning_rate": 1e-2}
    work = adapting._train

    def interrupted(short, *arguments, **options):
        if short.learning_rate == rates["learning_rate"]:
            raise KeyboardInterrupt
        return work(short, *arguments, **options)

    monkeypatch.setattr(adapting, "_train", interrupted)
    with pytest.raises(KeyboardInterrupt):
        adapt(Adaptation(**given, **rates, sweep=True), show=lambda _: None)
    monkeypatch.undo()
    lines = []
    result = adapt(Adaptation(**given, **rates, sweep=True, resume=True), show=lines.append)
    out = tmp_path / "out"
    tried = json.loads((out / "sweep.json").read_text())
    assert len(tried) == 3
    assert len([line for line in lines if "after 10 steps" in line]) == 2
    assert not list(out.glob("sweep-*"))
    best = min(tried, key=tried.get)
    assert f"{best}: best of the sweep" in lines
    chosen = json.loads((out / "model" / "settings.json").read_text())
    assert best == f"Learning rate {chosen['learning_rate']:.4g}, of new rows {chosen['rows_learning_rate']:.4g}"
    found = {name: chosen[name] for name in rates}
    without = adapt(Adaptation(**options, **found, out=str(tmp_path / "without")), show=lambda _: None)
    assert without == result
    assert adapt(Adaptation(**given, **rates, sweep=True, resume=True), show=lambda _: None) == result


def test_a_sweep_in_which_no_training_helps_is_refused(given, uninterrupted):
    with pytest.raises(SGPEError, match=r"no training of the sweep .* --resume"):
        adapt(Adaptation(**given, learning_rate=1e30, sweep=True), show=lambda _: None)
    assert adapt(Adaptation(**given, learning_rate=1e-4, sweep=True, resume=True), show=lambda _: None)


def test_a_training_that_diverges_leaves_no_model(given, uninterrupted, tmp_path):
    message = r"diverged at step \d+: .* a lower --learning-rate \(now 1e\+30\) or --rows-learning-rate \(now 0\.001\)$"
    with pytest.raises(SGPEError, match=message):
        adapt(Adaptation(**given, learning_rate=1e30), show=lambda _: None)
    model = tmp_path / "out" / "model"
    assert not (model / "config.json").exists()
    # A process that is killed before the first checkpoint leaves its settings.
    shutil.rmtree(model, ignore_errors=True)
    model.mkdir()
    keep_settings(model, {"learning_rate": 1e30, "rows_learning_rate": 1e-3})
    assert adapt(Adaptation(**given, resume=True), show=lambda _: None) == uninterrupted[1]


def test_a_training_that_does_not_fit_is_refused(given, monkeypatch):
    monkeypatch.setattr(adapting, "_LOGIT", 10**15)
    with pytest.raises(SGPEError, match="--batch-size or --length, or --parts new-rows, and --resume"):
        adapt(Adaptation(**given), show=lambda _: None)
    monkeypatch.undo()
    lines = []
    adapt(Adaptation(**given | {"batch_size": 1}, resume=True), show=lines.append)
    assert sum("already there" in line for line in lines) == 2


@pytest.mark.parametrize(("budget", "steps"), [("10M", 1220), ("1.5b", 183_105), ("8192", 1), ("20k", 2)])
def test_budgets_are_numbers_of_tokens(budget, steps):
    assert Adaptation(base="a", corpus=["b"], out="c", budget=budget).steps == steps


def test_the_measurements_are_reported_to_the_program_that_was_named(given, monkeypatch):
    from transformers import TrainerCallback
    from transformers.integrations import integration_utils

    told = []

    class Recorder(TrainerCallback):
        def on_log(self, args, state, control, logs=None, **more):
            told.extend(logs)

    monkeypatch.setitem(integration_utils.INTEGRATION_TO_CALLBACK, "trackio", Recorder)
    adapt(Adaptation(**given, report_to=["trackio"]), show=lambda _: None)
    assert {"loss", "eval_si_bits_per_byte"} <= set(told)
    # Where the measurements go does not change the run.
    adapt(Adaptation(**given, resume=True), show=lambda _: None)


def test_a_program_that_is_not_installed_is_named_before_anything_is_written(given, tmp_path):
    if find_spec("trackio") is not None:
        pytest.skip("trackio is installed")
    with pytest.raises(SGPEError, match=r"--report-to trackio: .*pip install trackio"):
        adapt(Adaptation(**given, report_to=["trackio"]))
    assert not (tmp_path / "out").exists()
