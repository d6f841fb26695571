import json

import pytest

torch = pytest.importorskip("torch", reason="rows are tensors: pip install torch accelerate")

from support.command import hf_sgpe  # noqa: E402
from support.small_models import saved_model  # noqa: E402
from transformers import (  # noqa: E402
    LlamaForCausalLM,
)

from hf_sgpe import SGPEError  # noqa: E402


def test_where_to_write_is_looked_at_before_models_are_measured(tokenizer_folders, tmp_path, sample, monkeypatch):
    from hf_sgpe.cli.transplant import TransplantOptions, transplant as command

    model = saved_model("smollm", tokenizer_folders / "old", tmp_path / "model")
    (tmp_path / "en.txt").write_text(sample["en"][:500], encoding="utf-8", newline="\n")
    monkeypatch.setattr("hub_cards.cards.transplant_card.measure", lambda *_, **__: pytest.fail("measured"))
    tokenizer, text = tokenizer_folders / "extended", tmp_path / "en.txt"
    given = TransplantOptions(model=str(model), tokenizer=str(tokenizer), out=str(model), evaluate=[str(text)])
    with pytest.raises(SGPEError, match="is a source of the model"):
        command(given)


def test_the_command_line_transplants_and_measures(tokenizer_folders, tmp_path, sample):
    model = saved_model("llama", tokenizer_folders / "old", tmp_path / "model")
    text = tmp_path / "si.txt"
    text.write_text(sample["si"][:3000], encoding="utf-8", newline="\n")
    out = tmp_path / "out"
    done = hf_sgpe(
        "transplant", model, "-t", tokenizer_folders / "extended", "-o", out, "--eval", text, "--json", "--init", "weighted"
    )
    facts = json.loads(done.stdout)
    assert facts["modules_to_save"] == ["embed_tokens", "lm_head"]
    assert {key: value for key, value in facts.items() if key != "out"} == json.loads((out / "transplant.json").read_text())
    scores = facts["texts"]["si.txt"]
    assert scores["after"]["tokens"] < scores["before"]["tokens"]
    # Two layers of one head of 8 numbers, keys and values, in four bytes each.
    assert scores["after"]["cache_bytes"] == scores["after"]["tokens"] * 2 * 2 * 8 * 4
    assert scores["before"]["watched"] == 0 < scores["after"]["watched"] < 1
    assert f"{scores['after']['bits_per_byte']:.4f}" in (out / "README.md").read_text(encoding="utf-8")

    named = ["--baseline", f"old={model}", "--model", out, "--model", f"old={model}"]
    done = hf_sgpe("evaluate", out, text, *named, "--json")
    rows = json.loads(done.stdout)
    assert [row["bits_per_byte"] for row in rows] == [scores[when]["bits_per_byte"] for when in ("after", "before")]
    assert "bits/byte" in hf_sgpe("evaluate", out, text, "--model", out).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--init", "best"], "--init best"),
        (["--init", "omp"], "--init omp needs --donor"),
        (["--text", "si.txt"], "--init mean does not take --text"),
        (["--pad-to-multiple", "0"], "--pad-to-multiple"),
        (["--distil-layer", "5"], "--distil-layer is for --init distil"),
        (["--init", "distil", "--text", "si.txt", "--distil-snippets", "0"], "--distil-snippets"),
        (["--init", "distil", "--text", "si.txt", "--distil-layer", "9"], "--distil-layer must be at most 2"),
        (["--eval", "none.txt"], "none.txt"),
    ],
)
def test_wrong_options_are_one_line(arguments, message, tokenizer_folders, extended, tmp_path):
    done = hf_sgpe(
        "transplant", extended[0], "-t", tokenizer_folders / "extended", "-o", tmp_path / "out", *arguments, code=2
    )
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_models_are_measured_with_tokenizers_that_they_have_rows_for(tokenizer_folders, extended, tmp_path):
    text = tmp_path / "si.txt"
    text.write_text("සිංහල", encoding="utf-8", newline="\n")
    done = hf_sgpe("evaluate", tokenizer_folders / "own", text, "--model", extended[0], code=2)
    assert "give the tokenizer that the model was trained with" in done.stderr
    done = hf_sgpe("evaluate", tokenizer_folders / "own", text, "--model", f"other={extended[0]}", code=2)
    assert "no tokenizer is named 'other'" in done.stderr


@pytest.mark.parametrize("harm", ["encoder", "class", "head", "nan", "blank"])
def test_nothing_is_written_where_measuring_fails(harm, tokenizer_folders, tmp_path, sample):
    model = saved_model("bart" if harm == "encoder" else "llama", tokenizer_folders / "old", tmp_path / "model")
    text = tmp_path / "en.txt"
    text.write_text(" \n" if harm == "blank" else sample["en"][:500], encoding="utf-8", newline="\n")
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    if harm == "class":
        config["architectures"] = ["LlamaForSequenceClassification"]
    elif harm == "head":
        LlamaForCausalLM.from_pretrained(model).model.save_pretrained(model)
    elif harm == "nan":
        broken = LlamaForCausalLM.from_pretrained(model)
        broken.model.norm.weight.data[0] = torch.nan
        broken.save_pretrained(model)
    (model / "config.json").write_text(json.dumps(config), encoding="utf-8")
    message = {
        "encoder": "give lines with a source, a tab and a target",
        "class": "predict text can be trained or measured, but this model is of class LlamaForSequenceClassification",
        "head": "the weights lm_head.weight are missing",
        "nan": "the model's predictions are not finite numbers: its weights are damaged",
        "blank": "en.txt has no text",
    }[harm]
    commands = [
        ["transplant", model, "-t", tokenizer_folders / "extended", "-o", tmp_path / "out", "--eval", text],
        ["evaluate", model, text, "--model", model],
    ]
    for command in commands:
        done = hf_sgpe(*command, code=2)
        assert message in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"model", "en.txt"}


def test_the_card_says_how_to_load_and_what_it_is_made_from(tokenizer_folders, tmp_path):
    model = saved_model("bart", tokenizer_folders / "old", tmp_path / "model")
    (model / "README.md").write_text("---\nlicense: mit\nlanguage: [en]\n---\n# Base\n", encoding="utf-8")
    out = tmp_path / "a" / "out"
    done = hf_sgpe("transplant", model, "-t", tokenizer_folders / "extended", "-o", out)
    assert "modules_to_save=['shared'], ensure_weight_tying=True." in done.stdout
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "license: mit" in card
    assert f'AutoModelForSeq2SeqLM.from_pretrained("{out.as_posix()}")' in card
    assert "ensure_weight_tying=True` (PEFT 0.18 or later)" in card
    names = {}
    exec(card[card.index("```python") + 9 :].partition("```")[0], names)
    assert len(names["model"].get_input_embeddings().weight) >= len(names["tokenizer"])

    done = hf_sgpe("transplant", model, "-t", tokenizer_folders / "old", "-o", tmp_path / "same")
    assert "LoRA" not in done.stdout
    assert "new language" not in (tmp_path / "same" / "README.md").read_text(encoding="utf-8")
