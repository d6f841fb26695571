import json
import math
import random
import subprocess
import sys

import numpy
import pytest

torch = pytest.importorskip("torch", reason="language models need PyTorch: pip install torch accelerate")
pytest.importorskip("accelerate", reason="language models need accelerate: pip install torch accelerate")

from support.paths import ROOT  # noqa: E402
from support.small_models import make_llama  # noqa: E402
from transformers import EarlyStoppingCallback, Trainer, TrainerCallback, TrainingArguments  # noqa: E402

from hf_sgpe import SGPEError, SGPETokenizerFast  # noqa: E402
from trainers import LanguageProgress  # noqa: E402
from trainers.language_models.language_model import collate, pack  # noqa: E402
from trainers.language_models.scoring import encode_held_out, score_encoded, score_texts, undisturbed  # noqa: E402
from trainers.model_rows.token_tables import extended_ids  # noqa: E402


@pytest.fixture(scope="module")
def tokenizer(tokenizer_folders):
    return SGPETokenizerFast.from_pretrained(tokenizer_folders / "extended")


@pytest.fixture(scope="module")
def texts(sample):
    return {"si": [sample["si"][:150]], "en": [sample["en"][:100]]}


@pytest.fixture(scope="module")
def rows(tokenizer, sample):
    return list(pack([sample["si"][:1500]], tokenizer, 16))


def make_trainer(tokenizer, rows, out, **options):
    model = make_llama(tokenizer, initializer_range=0.02, attention_dropout=0.3)
    settings = {"max_steps": 4, "per_device_train_batch_size": 2, "learning_rate": 1e-2, "logging_steps": 1, "seed": 3}
    settings |= {
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
        "lr_scheduler_type": "constant",
    }
    arguments = TrainingArguments(output_dir=str(out), **settings | options)
    data = {"train_dataset": rows, "eval_dataset": rows[:2], "data_collator": collate}
    return Trainer(model=model, args=arguments, processing_class=tokenizer, **data)


def trained(trainer, **how):
    """The final weights, the losses, and the random numbers that come next."""
    trainer.train(**how)
    after = random.random(), float(numpy.random.rand()), torch.rand(3).tolist()
    losses = [(row["step"], row["loss"], row["grad_norm"]) for row in trainer.state.log_history if "loss" in row]
    return {name: value.clone() for name, value in trainer.model.state_dict().items()}, losses, after


class Seen(TrainerCallback):
    """A callback that keeps each log, as the programs of ``report_to`` do."""

    def __init__(self):
        self.logs = []

    def on_log(self, args, state, control, logs, **_):
        self.logs.append((state.global_step, dict(logs)))


@pytest.mark.parametrize("options", [{}, {"eval_strategy": "steps", "eval_steps": 2}], ids=["steps", "evaluations"])
def test_training_is_bit_for_bit_as_without_the_callback(tokenizer, texts, rows, tmp_path, options):
    weights, losses, after = trained(make_trainer(tokenizer, rows, tmp_path / "without", **options))
    trainer = make_trainer(tokenizer, rows, tmp_path / "with", **options)
    trainer.add_callback(LanguageProgress(trainer, texts, every=None if options else 1, show=None))
    found, losses_with, after_with = trained(trainer)
    assert losses_with == losses
    assert len(losses) == 4
    assert after_with == after
    for name, value in weights.items():
        assert torch.equal(found[name], value), name


def test_each_measure_is_in_the_log_the_file_and_on_the_console(tokenizer, texts, rows, tmp_path):
    trainer = make_trainer(tokenizer, rows, tmp_path)
    seen, shown = Seen(), []
    trainer.add_callback(seen)
    progress = LanguageProgress(trainer, texts, every=3, show=shown.append, picture=tmp_path / "progress.svg")
    trainer.add_callback(progress)
    before = score_texts(trainer.model, tokenizer, texts["si"], watched=extended_ids(tokenizer))
    trainer.train()
    after = score_texts(trainer.model, tokenizer, texts["si"], watched=extended_ids(tokenizer))
    points = progress.points
    assert [point["step"] for point in points] == [0, 3, 4]  # and the last step
    for point, score in ((points[0], before), (points[-1], after)):
        values = point["languages"]["si"]
        assert values["bits_per_byte"] == pytest.approx(score.bits_per_byte, rel=1e-6)
        assert values["bytes_per_token"] == len(texts["si"][0].encode()) / score.tokens
        assert values["new_probability"] == pytest.approx(score.watched, rel=1e-6)
        share = values["new_tokens"]
        assert 0 < share < 1
        mixed = share * values["loss_new"] + (1 - share) * values["loss_old"]
        assert values["loss"] == pytest.approx(mixed, rel=1e-6)
        assert values["loss"] * score.tokens / math.log(2) == pytest.approx(score.bits, rel=1e-6)
    assert after.bits < before.bits
    assert "loss_new" not in points[0]["languages"]["en"]  # its text has no new token
    logged = [(step, logs) for step, logs in seen.logs if "eval_si_bits_per_byte" in logs]
    assert [step for step, _ in logged] == [0, 3, 4]
    assert logged[-1][1]["eval_si_bits_per_byte"] == points[-1]["languages"]["si"]["bits_per_byte"]
    assert [row["step"] for row in trainer.state.log_history if "loss" in row] == [1, 2, 3, 4]
    lines = [json.loads(line) for line in (tmp_path / "language_progress.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [{name: line[name] for name in ("step", "epoch", "languages")} for line in lines] == points
    assert len(shown) == 6
    values = points[-1]["languages"]["si"]
    change = values["bits_per_byte"] - points[0]["languages"]["si"]["bits_per_byte"]
    assert shown[-2].startswith(f"step 4: si: {values['bits_per_byte']:.4f} bits per byte ({change:+.4f}), ")
    assert "of the probability on new tokens" in shown[-2]
    drawn = (tmp_path / "progress.svg").read_text(encoding="utf-8")
    assert "Bits per byte" in drawn and "si, new tokens" in drawn


def test_losses_of_old_and_new_tokens_are_those_of_the_model(tokenizer, texts):
    model = make_llama(tokenizer)
    new = extended_ids(tokenizer)
    text = texts["si"][0][:60]
    score = score_texts(model, tokenizer, [text], watched=new)
    ids = [tokenizer.eos_token_id, *tokenizer(text, add_special_tokens=False)["input_ids"]]
    with torch.no_grad():
        predicted = model(input_ids=torch.tensor([ids])).logits[0, :-1].log_softmax(-1)
    losses = -predicted[range(len(ids) - 1), ids[1:]]
    is_new = torch.isin(torch.tensor(ids[1:]), torch.tensor(new))
    assert 0 < is_new.sum() < len(is_new) < 64  # one window
    found = score.losses()
    assert found["new"] == pytest.approx(float(losses[is_new].mean()), rel=1e-5)
    assert found["old"] == pytest.approx(float(losses[~is_new].mean()), rel=1e-5)
    assert found["all"] == pytest.approx(float(losses.mean()), rel=1e-5)
    assert score.watched == pytest.approx(float(predicted.exp()[:, new].sum(1).mean()), rel=1e-5)


def test_a_measure_can_choose_the_best_checkpoint(tokenizer, texts, rows, tmp_path):
    how = {"eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 1, "greater_is_better": False}
    how |= {"metric_for_best_model": "eval_si_bits_per_byte", "load_best_model_at_end": True}
    trainer = make_trainer(tokenizer, rows, tmp_path, **how)
    progress = LanguageProgress(trainer, texts, show=None)
    trainer.add_callback(progress)
    trainer.add_callback(EarlyStoppingCallback(3))
    trainer.train()
    bits = {point["step"]: point["languages"]["si"]["bits_per_byte"] for point in progress.points}
    assert list(bits) == [0, 1, 2, 3, 4]
    del bits[0]
    assert trainer.state.best_metric == min(bits.values())


def test_a_resumed_training_goes_on_with_its_measurements(tokenizer, texts, rows, tmp_path):
    def run(out, steps, every=1, **how):
        trainer = make_trainer(tokenizer, rows, out, save_strategy="steps", save_steps=2, max_steps=steps)
        progress = LanguageProgress(trainer, texts, every=every, show=None)
        trainer.add_callback(progress)
        trainer.train(**how)
        return progress

    whole = run(tmp_path / "whole", 4)
    run(tmp_path / "broken", 3)
    with (tmp_path / "broken" / "language_progress.jsonl").open("a") as file:
        file.write('{"step": 3, "lang')  # killed while it wrote
    resumed = run(tmp_path / "broken", 4, resume_from_checkpoint=str(tmp_path / "broken" / "checkpoint-2"))
    assert resumed.points == whole.points
    assert [json.loads(line)["step"] for line in resumed.file.read_text().splitlines()] == [0, 1, 2, 3, 4]
    run(tmp_path / "broken", 1)  # from the beginning
    assert [json.loads(line)["step"] for line in resumed.file.read_text().splitlines()] == [0, 1]


def test_a_resumed_training_is_not_measured_at_its_checkpoint(tokenizer, texts, rows, tmp_path):
    for resume in (False, True):
        trainer = make_trainer(tokenizer, rows, tmp_path, save_strategy="steps", save_steps=2, max_steps=4)
        progress = LanguageProgress(trainer, texts, every=3, show=None)
        trainer.add_callback(progress)
        trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2") if resume else None)
        assert [point["step"] for point in progress.points] == [0, 3, 4]


def test_a_block_leaves_modes_and_random_numbers_as_they_were(lm_tokenizer):
    model = make_llama(lm_tokenizer).train()
    frozen = model.model.layers[0].eval()
    torch.manual_seed(5)
    with undisturbed(model):
        model.eval()
        torch.rand(2), random.random(), numpy.random.rand()
    found = torch.rand(2)
    torch.manual_seed(5)
    assert torch.equal(found, torch.rand(2))
    assert model.training and model.model.layers[1].training and model.lm_head.training
    assert not any(module.training for module in frozen.modules())


@pytest.mark.parametrize("processes", [1, 2, 3, 7])
def test_processes_share_the_work(lm_tokenizer, texts, processes, monkeypatch):
    model = make_llama(lm_tokenizer)
    encoded = encode_held_out(model, lm_tokenizer, texts["si"], length=8)
    monkeypatch.setattr("trainers.language_models.causal_objective.MEASURED_TOKENS", 16)
    passes = []
    model.register_forward_hook(lambda *_: passes.append(1))
    expected = score_encoded(model, encoded, watched=[5, 40, 300], with_cache=False)
    alone, sums = len(passes), []

    class State:
        num_processes = processes

    monkeypatch.setattr("accelerate.PartialState", State)
    monkeypatch.setattr("accelerate.utils.gather_object", lambda mine: [sums.append(mine[0]), *sums][1:])
    counts = []
    for State.process_index in range(processes):
        passes.clear()
        score = score_encoded(model, encoded, watched=[5, 40, 300], with_cache=False, shared=True)
        counts.append(len(passes))
    assert set(counts) == {-(-alone // processes)}
    assert score.bits == pytest.approx(expected.bits, rel=1e-9)
    assert (score.tokens, score.watched_tokens) == (expected.tokens, expected.watched_tokens)
    assert score.watched == pytest.approx(expected.watched, rel=1e-9)


_LAUNCHED = """
import sys
from pathlib import Path

sys.path[:0] = {paths!r}
from test_language_progress import *

tokenizer = SGPETokenizerFast.from_pretrained({tokenizer!r})
texts, rows = json.loads(Path({data!r}).read_text())
for name in ("with", "without"):
    trainer = make_trainer(tokenizer, rows, Path({out!r}) / name, use_cpu=True, ddp_backend="gloo")
    if name == "with":
        trainer.add_callback(LanguageProgress(trainer, texts, every=2, show=lambda line: print("SHOWN", line, flush=True)))
    weights, *_ = trained(trainer)
    torch.save(weights, Path({out!r}) / f"{{name}}-{{trainer.args.process_index}}.pt")
    points = [row for row in trainer.state.log_history if "eval_si_loss" in row]
    Path({out!r}, f"{{name}}-{{trainer.args.process_index}}.json").write_text(json.dumps(points))
"""


@pytest.mark.slow
def test_two_processes_train_as_without_the_callback(tokenizer_folders, texts, rows, tmp_path):
    script, data = tmp_path / "launched.py", tmp_path / "data.json"
    data.write_text(json.dumps([texts, rows]))
    paths = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "trainers" / "language_models")]
    where = {"tokenizer": str(tokenizer_folders / "extended"), "data": str(data), "out": str(tmp_path)}
    script.write_text(_LAUNCHED.format(paths=paths, **where))
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    done = subprocess.run(launch, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    first, *others = (torch.load(tmp_path / f"{name}-{number}.pt") for name in ("with", "without") for number in (0, 1))
    for name, weights in first.items():
        assert all(torch.equal(weights, other[name]) for other in others), name
    assert done.stdout.count("SHOWN") == 6  # three measurements of two languages, by one process
    points = [json.loads((tmp_path / f"with-{number}.json").read_text()) for number in (0, 1)]
    assert points[0] == points[1] and [point["step"] for point in points[0]] == [0, 2, 4]
    assert len((tmp_path / "with" / "language_progress.jsonl").read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every": 0}, "every must be at least 1 step, not 0"),
        ({"held_out": {}}, "held_out is empty: give held-out text"),
        ({"held_out": {"si": [""]}}, "there is no text to measure"),
        ({"held_out": ["nowhere.txt"]}, "nowhere.txt: no such file"),
        ({"picture": "x.gif"}, "x.gif: .* .svg or .png"),
    ],
)
def test_bad_input_ends_in_one_line(tokenizer, texts, rows, tmp_path, options, message):
    trainer = make_trainer(tokenizer, rows, tmp_path)
    with pytest.raises(SGPEError, match=message):
        LanguageProgress(trainer, **{"held_out": texts} | options)
    trainer.processing_class = None
    with pytest.raises(SGPEError, match="the trainer has no tokenizer"):
        LanguageProgress(trainer, texts)
