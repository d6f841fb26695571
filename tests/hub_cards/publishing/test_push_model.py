import json
import sys

import pytest
from huggingface_hub import metadata_load
from support.command import hf_sgpe, process
from support.hub import contents, of_the_client
from support.small_tokenizers import with_parts

from hf_sgpe import BPETokenizer, SGPEError, SGPETokenizerFast
from hub_cards.cards.card_of_model import write_model_card
from hub_cards.cards.seal import is_generated
from hub_cards.publishing.uploading import push

torch = pytest.importorskip("torch", reason="models are PyTorch's: pip install torch accelerate")

from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402

TEXT = "ශ්‍රී ලංකාව, hello"

# Somebody without this package loads the model from the Hub and computes with it.
STRANGER_CODE = """
import json, sys
sys.modules["hf_sgpe"] = sys.modules["trainers"] = sys.modules["hub_cards"] = None
from transformers import AutoModelForCausalLM, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained("me/model")
ids = tokenizer(sys.argv[1], return_tensors="pt")["input_ids"]
logits = AutoModelForCausalLM.from_pretrained("me/model")(input_ids=ids).logits
json.dump([ids[0].tolist(), tokenizer.chat_template, logits[0, -1, :5].tolist()], sys.stdout)
"""


def make_model(folder, tokenizer, rows=None, **save):
    torch.manual_seed(1)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = LlamaForCausalLM(
        LlamaConfig(vocab_size=rows or tokenizer.vocab_size, **sizes, bos_token_id=None, eos_token_id=0)
    )
    model.save_pretrained(folder, **save)
    SGPETokenizerFast.from_bpe(tokenizer).save_pretrained(folder)
    return model


@pytest.fixture
def model(tokenizer, tmp_path):
    folder = tmp_path / "my model"
    make_model(folder, tokenizer, max_shard_size="200KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 1
    for path, content in {
        "LICENSE": b"free",
        "optimizer.pt": b"",
        "settings.json": b"{}",
        "checkpoint-1/model.safetensors": b"",
    }.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


LEFT_OUT = {"optimizer.pt", "settings.json", "checkpoint-1/model.safetensors"}


@of_the_client
def test_a_model_arrives_whole_in_one_commit_and_large_files_only_once(here, model):
    here.large = 10_000
    write_model_card(str(model), license="mit")
    pushed = push(model, "me/model")
    expected = {path: content for path, content in contents(model).items() if path not in LEFT_OUT}
    assert here.files("me/model") == expected
    assert {"config.json", "generation_config.json", "model.safetensors.index.json", "LICENSE"} < expected.keys()
    assert set(pushed.left_out) == {"checkpoint-1/", "optimizer.pt", "settings.json"}
    commits = [commit.title for commit in here.repositories["me/model"].commits.values()]
    assert commits == ["initial commit", "Upload model and tokenizer"]
    shards = {path.name for path in model.glob("model-*.safetensors") if path.stat().st_size > here.large}
    assert len(shards) > 1
    assert shards <= here.repositories["me/model"].at().large
    uploads = sum(one.startswith("PUT") for one in here.requests)
    assert {file.change for file in push(model, "me/model").files} == {"unchanged"}
    assert sum(one.startswith("PUT") for one in here.requests) == uploads


@of_the_client
def test_files_that_arrived_before_a_broken_upload_are_not_sent_again(here, model):
    here.large = 10_000
    here.fail("POST .*/commit/", status=500)
    with pytest.raises(SGPEError, match="Hub answers 500"):
        push(model, "me/model")
    uploads = [one for one in here.requests if one.startswith("PUT")]
    assert len(uploads) > 1
    here.faults.clear()
    push(model, "me/model")
    assert [one for one in here.requests if one.startswith("PUT")] == uploads


@pytest.mark.slow
def test_somebody_without_this_package_loads_the_pushed_model(here, model, tokenizer):
    (model / "additional_chat_templates").mkdir()
    (model / "chat_template.jinja").write_text("{{ messages }}")
    (model / "additional_chat_templates" / "tools.jinja").write_text("{{ tools }}")
    push(model, "me/model")
    ids, templates, logits = json.loads(process(sys.executable, "-c", STRANGER_CODE, TEXT, **here.environment()).stdout)
    assert ids == tokenizer.encode(TEXT)
    assert templates == {"default": "{{ messages }}", "tools": "{{ tools }}"}
    expected = LlamaForCausalLM.from_pretrained(model)(input_ids=torch.tensor([ids])).logits[0, -1, :5]
    assert torch.allclose(torch.tensor(logits), expected, atol=1e-5)


def test_a_dry_run_of_a_transplanted_model_shows_its_weights(hub, tmp_path, sample, saved):
    tokenizer = BPETokenizer.train_from_iterator([sample["en"]], 400, pattern="gpt2", special_tokens=["<|endoftext|>"])
    make_model(tmp_path / "base", tokenizer)
    (tmp_path / "base" / "README.md").write_text("---\nlicense: other\nlicense_name: mine\nlanguage: en\n---\n# Base\n")
    (tmp_path / "si.txt").write_text(sample["si"][:2000], encoding="utf-8", newline="\n")
    out = tmp_path / "out"
    hf_sgpe("transplant", "base", "-t", saved, "--out", out, "--eval", "si.txt", cwd=tmp_path)
    metadata = metadata_load(out / "README.md")
    assert metadata["license"] == "other"
    assert metadata["license_name"] == "mine"
    assert metadata["language"] == ["en", "si"]
    assert metadata["pipeline_tag"] == "text-generation"
    assert {"hf_sgpe", "vocabulary-extension"} <= set(metadata["tags"])
    done = hub.hf_sgpe("push", out, "me/model", "--dry-run")
    assert done.returncode == 0, done.stderr
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert {"model.safetensors", "config.json", "transplant.json", "tokenizer.json", "README.md"} <= set(names)
    assert "the model's card has no base_model: hf-sgpe card" in done.stderr

    # The card is made again from the report, with what the report cannot know.
    named = ["--base-model", "me/base", "--license", "mit", "--language", "si", "--name", "me/model", "--tag", "new"]
    hf_sgpe("card", out, *named, cwd=tmp_path)
    metadata = metadata_load(out / "README.md")
    assert metadata["base_model"] == "me/base"
    assert metadata["license"] == "mit"
    assert "license_name" not in metadata
    assert metadata["language"] == ["si"]
    assert "new" in metadata["tags"]
    card = (out / "README.md").read_text(encoding="utf-8")
    assert is_generated(card)
    assert 'AutoModelForCausalLM.from_pretrained("me/model")' in card
    before = json.loads((out / "transplant.json").read_text())["texts"]["si.txt"]["before"]
    assert f"{before['bits_per_byte']:.4f} →" in card
    assert f"Measured on {before['characters']:,} characters of si.txt." in card
    assert "This is me/base with another tokenizer: " in card
    table = [line for line in card.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in table[-3:]}) == 1
    assert "reading" not in card
    done = hub.hf_sgpe("push", out, "me/model")
    assert (done.returncode, done.stderr) == (0, "")
    assert hub.files("me/model")["README.md"].decode() == card


def test_the_metadata_of_a_base_on_the_hub_is_taken_from_its_card(here, tokenizer, saved, tmp_path):
    make_model(tmp_path / "base", tokenizer)
    card = b"---\nlicense: apache-2.0\nlanguage:\n- en\n---\n"
    here.add("you/base", {**contents(tmp_path / "base"), "README.md": card})
    done = here.hf_sgpe("transplant", "you/base", "-t", saved, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    metadata = metadata_load(tmp_path / "out" / "README.md")
    assert (metadata["base_model"], metadata["license"], metadata["language"]) == ("you/base", "apache-2.0", ["en"])


def test_a_card_that_somebody_wrote_is_kept(model):
    (model / "README.md").write_text("# Mine\n")
    with pytest.raises(SGPEError, match=r"README\.md was written by hand"):
        write_model_card(str(model))
    assert (model / "README.md").read_text() == "# Mine\n"
    write_model_card(str(model), replace=True)
    assert "# my model" in (model / "README.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("card", "MODEL", "--eval", "si.txt"), "--eval"),
        (("card", "TOKENIZER", "--base-model", "me/base"), "--base-model"),
        (("card", "MODEL", "--base-model", "no/such/name"), "not the name of a Hub repository"),
        (("card", "MODEL", "--license", "My Own"), "not a licence identifier of the Hub"),
    ],
)
def test_options_that_do_not_fit_the_card_end_in_one_line(model, saved, arguments, message):
    places = {"MODEL": model, "TOKENIZER": saved}
    done = hf_sgpe(*(places.get(argument, argument) for argument in arguments), cwd=model.parent, code=2)
    assert len(done.stderr.splitlines()) == 1
    assert message in done.stderr
    assert not (model / "README.md").exists()


def test_a_model_that_cannot_be_loaded_is_not_pushed(here, model, tokenizer, tmp_path):
    missing = next(model.glob("model-*.safetensors"))
    content = missing.read_bytes()
    missing.unlink()
    with pytest.raises(SGPEError, match=rf"{missing.name} is missing"):
        push(model, "me/model")
    missing.write_bytes(content)
    # The tokenizer was extended, and the model did not follow it.
    make_model(tmp_path / "short", tokenizer, rows=100)
    with pytest.raises(SGPEError, match=r"3,999, .* 100 rows"):
        push(tmp_path / "short", "me/model")
    # Gemma 3's text models have no row for the image token, but its settings name the token.
    images = {**tokenizer.special_tokens, "<image>": tokenizer.vocab_size}
    images = with_parts(tokenizer, special_tokens=images, roles={**tokenizer.roles, "image_token": "<image>"})
    make_model(tmp_path / "text-only", images, rows=tokenizer.vocab_size)
    assert push(tmp_path / "text-only", "me/text-only", dry_run=True).files
    make_model(tmp_path / "pickled", tokenizer)
    (tmp_path / "pickled" / "model.safetensors").rename(tmp_path / "pickled" / "pytorch_model.bin")
    with pytest.raises(SGPEError, match=r"pytorch_model\.bin"):
        push(tmp_path / "pickled", "me/model")
    assert not here.repositories


def test_architectures_that_are_no_list_are_one_line(model):
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    (model / "config.json").write_text(json.dumps({**config, "architectures": 5}), encoding="utf-8")
    with pytest.raises(SGPEError, match=r"config\.json: architectures must be a list"):
        write_model_card(str(model))
