import shutil

import pytest

torch = pytest.importorskip("torch", reason="language models need PyTorch: pip install torch accelerate")
pytest.importorskip("accelerate", reason="language models need accelerate: pip install torch accelerate")

from support.hub import running  # noqa: E402
from support.small_models import make_llama  # noqa: E402
from transformers import (  # noqa: E402
    AutoModelForCausalLM,
    AutoTokenizer,
)

from hf_sgpe import SGPEError  # noqa: E402
from hf_sgpe.generation import TextGenerator  # noqa: E402
from hf_sgpe.learning.finetuning_options import TrainingRun  # noqa: E402
from trainers.language_models.language_model import collate, pack  # noqa: E402
from trainers.language_models.training_runs import (  # noqa: E402
    checkpoint_to_resume,
    require_pytorch,
    train,
)


@pytest.fixture(scope="module")
def rows(lm_tokenizer, sample):
    return list(pack([sample["en"][:8000]], lm_tokenizer, 16))


def fit(tokenizer, rows, out, *, seed=1, collator=None, held_out=None, **options):
    model = make_llama(tokenizer, seed=seed, initializer_range=0.02, attention_dropout=0.2)
    collator = collator or collate
    settings = {"steps": 8, "batch_size": 2, "learning_rate": 1e-2, "seed": 3, "save_every": 3, "keep_checkpoints": True}
    train(model, tokenizer, rows, collator, TrainingRun(out=out, **settings | options), held_out=held_out)
    return model


@pytest.fixture(scope="module")
def trained(lm_tokenizer, rows, tmp_path_factory):
    out = tmp_path_factory.mktemp("trained") / "model"
    return fit(lm_tokenizer, rows, out), out


@pytest.mark.parametrize("steps", [1, 8])
def test_no_model_is_written_if_the_training_diverges(lm_tokenizer, rows, tmp_path, steps):
    """Not even if the last step does it, whose loss is still a number."""
    with pytest.raises(SGPEError, match=r"step 1: .* --resume .* 1e\+39"):
        fit(lm_tokenizer, rows, tmp_path / "model", learning_rate=1e39, steps=steps)
    assert not (tmp_path / "model").exists()


def test_training_writes_what_the_auto_classes_load(trained, lm_tokenizer):
    model, out = trained
    loaded = AutoModelForCausalLM.from_pretrained(out)
    for name, weights in loaded.state_dict().items():
        assert torch.equal(weights, model.state_dict()[name])
    theirs = AutoTokenizer.from_pretrained(out)
    assert theirs("ශ්‍රී one")["input_ids"] == lm_tokenizer("ශ්‍රී one")["input_ids"]
    assert loaded.config.use_cache
    prompt = theirs("one", return_tensors="pt")
    generated = loaded.generate(**prompt, max_new_tokens=3, do_sample=False)
    assert theirs.decode(generated[0]).startswith("one")


def test_training_lowers_the_loss(lm_tokenizer, rows, tmp_path):
    model = fit(lm_tokenizer, rows[:8], tmp_path / "model", steps=40, save_every=40).eval()
    untrained = make_llama(lm_tokenizer, initializer_range=0.02)
    batch = torch.tensor(rows[:8])
    with torch.no_grad():
        assert model(input_ids=batch, labels=batch).loss < untrained(input_ids=batch, labels=batch).loss - 0.5


def test_resumed_training_ends_in_the_same_weights(trained, lm_tokenizer, rows, tmp_path):
    model, out = trained
    assert checkpoint_to_resume(out, resume=True) == out / "checkpoint-8"
    broken_off = tmp_path / "model"
    shutil.copytree(out / "checkpoint-6", broken_off / "checkpoint-6")
    shutil.copytree(out / "checkpoint-8", broken_off / "checkpoint-7")
    (broken_off / "checkpoint-7" / "trainer_state.json").unlink()  # killed while this was written
    assert checkpoint_to_resume(broken_off, resume=True) == broken_off / "checkpoint-6"
    with pytest.raises(SGPEError, match="has checkpoints"):
        fit(lm_tokenizer, rows, broken_off, seed=2)
    resumed = fit(lm_tokenizer, rows, broken_off, seed=2, resume=True)
    for name, weights in resumed.state_dict().items():
        assert torch.equal(weights, model.state_dict()[name]), name
    assert (broken_off / "model.safetensors").read_bytes() == (out / "model.safetensors").read_bytes()


def test_checkpoints_go_when_the_training_is_finished(trained, lm_tokenizer, rows, tmp_path, monkeypatch):
    model, kept = trained
    out = tmp_path / "model"
    fit(lm_tokenizer, rows, out, keep_checkpoints=False)
    names = {path.name for path in out.iterdir()}
    assert names == {path.name for path in kept.iterdir() if not path.name.startswith("checkpoint-")}
    before = (out / "model.safetensors").read_bytes()
    monkeypatch.setattr("transformers.Trainer.train", None)  # there is nothing to train
    resumed = fit(lm_tokenizer, rows, out, seed=2, resume=True, keep_checkpoints=False)
    for name, weights in resumed.state_dict().items():
        assert torch.equal(weights, model.state_dict()[name])
    assert (out / "model.safetensors").read_bytes() == before
    with pytest.raises(SGPEError, match="different settings"):
        fit(lm_tokenizer, rows, out, steps=9, resume=True)
    assert {path.name for path in out.iterdir()} == names


def test_going_on_from_the_end_trains_no_further(trained, lm_tokenizer, rows, tmp_path):
    model, out = trained
    again = tmp_path / "again"
    shutil.copytree(out, again)
    for _ in range(2):
        resumed = fit(lm_tokenizer, rows, again, seed=2, resume=True)
        assert (again / "model.safetensors").read_bytes() == (out / "model.safetensors").read_bytes()
        for name, weights in resumed.state_dict().items():
            assert torch.equal(weights, model.state_dict()[name]), name
    assert sorted(path.name for path in again.iterdir()) == sorted(path.name for path in out.iterdir())


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.pt", "scheduler.pt", "trainer_state.json"])
def test_damaged_checkpoints_are_passed_over(trained, tmp_path, name):
    broken = tmp_path / "model"
    for step in (6, 8):
        shutil.copytree(trained[1] / f"checkpoint-{step}", broken / f"checkpoint-{step}")
    file = broken / "checkpoint-8" / name
    if file.suffix != ".json":
        file.write_bytes(file.read_bytes()[:100])
        assert checkpoint_to_resume(broken, resume=True) == broken / "checkpoint-6"
    file.unlink()
    assert checkpoint_to_resume(broken, resume=True) == broken / "checkpoint-6"
    shutil.rmtree(broken / "checkpoint-6")
    assert checkpoint_to_resume(broken, resume=True) is None


def test_the_result_is_pushed_to_a_repository_made_before_training(lm_tokenizer, rows, tmp_path, monkeypatch):
    with running(tmp_path / "home") as hub:
        hub.patch(monkeypatch)
        monkeypatch.setattr("transformers.utils.hub._hf_api", None, raising=False)  # it remembers the address
        hub.fail("POST /api/repos/create", status=403, times=1)
        with pytest.raises(SGPEError, match=r"me/lm: the token"):
            fit(lm_tokenizer, rows, tmp_path / "refused", push="me/lm")
        assert not (tmp_path / "refused").exists()

        out = tmp_path / "pushed"
        model = fit(lm_tokenizer, rows, out, push="me/lm", private=True)
        assert (out / "checkpoint-8").exists()
        assert hub.repositories["me/lm"].private
        files = hub.repositories["me/lm"].at().files
        models = {"config.json", "generation_config.json", "model.safetensors"}
        tokenizers = {"tokenizer.json", "tokenizer_config.json"}
        assert set(files) == {".gitattributes", "README.md", *models, *tokenizers}
        card = files["README.md"].decode()
        assert 'model = AutoModelForCausalLM.from_pretrained("me/lm")' in card
        assert "pipeline_tag: text-generation" in card.split("---")[1]
        loaded = AutoModelForCausalLM.from_pretrained("me/lm")
        assert torch.equal(loaded.get_input_embeddings().weight, model.get_input_embeddings().weight)
        assert AutoTokenizer.from_pretrained("me/lm")("one")["input_ids"] == lm_tokenizer("one")["input_ids"]
        with TextGenerator.load("me/lm@main", "transformers") as generator:
            assert generator.engine.vocab_size == model.config.vocab_size
            assert generator.tokenizer.encode("one") == lm_tokenizer("one")["input_ids"]


def test_training_that_fails_before_a_checkpoint_leaves_nothing(lm_tokenizer, rows, tmp_path):
    def broken(examples):
        raise ValueError("no batch of these")

    with pytest.raises(ValueError, match="no batch"):
        fit(lm_tokenizer, rows, tmp_path / "model", collator=broken, held_out={"en": ["one two three"]})
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("options", [{"steps": 0}, {"batch_size": 0}, {"save_every": 0}, {"learning_rate": 0.0}])
def test_numbers_that_make_no_training_are_refused(lm_tokenizer, rows, tmp_path, options):
    with pytest.raises(SGPEError, match=next(iter(options))):
        fit(lm_tokenizer, rows, tmp_path / "model", **options)
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_installed_is_named_with_the_command_that_installs_it(monkeypatch):
    require_pytorch()
    monkeypatch.setattr(
        "trainers.language_models.training_runs.find_spec", lambda name: None if name == "accelerate" else name
    )
    with pytest.raises(SGPEError, match=r"pip install torch accelerate "):
        require_pytorch()
