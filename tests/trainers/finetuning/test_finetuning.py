import json
import re
import shutil

import pytest
from support.command import hf_sgpe

from hf_sgpe.weights.model_config import listed

TINY = ["--layers", "1", "--width", "16", "--heads", "2", "--length", "16"]


def test_a_language_model_is_trained_resumed_and_loaded(folder):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    options = ["si.txt", "--tokenizer", "bare", *TINY, "--steps", 6, "--batch-size", 2, "--save-every", 3]
    done = hf_sgpe("finetune", *options, "--keep-checkpoints", "--eval", "held out.txt", "--out", "lm", cwd=folder)
    before, after = map(float, re.search(r"^held out\.txt: ([\d.]+) .* before, ([\d.]+) after$", done.stdout, re.M).groups())
    assert after < before
    shutil.copytree(folder / "lm" / "checkpoint-3", folder / "lm again" / "checkpoint-3")
    shutil.copy(folder / "lm" / "settings.json", folder / "lm again")
    hf_sgpe("finetune", "--resume", *options, "--out", "lm again", cwd=folder)
    assert (folder / "lm again" / "model.safetensors").read_bytes() == (folder / "lm" / "model.safetensors").read_bytes()

    model = AutoModelForCausalLM.from_pretrained(folder / "lm")
    tokenizer = AutoTokenizer.from_pretrained(folder / "lm")
    prompt = tokenizer("ශ්‍රී ලංකාව", return_tensors="pt")
    assert model.config.vocab_size == 640
    assert tokenizer.decode(model.generate(**prompt, max_new_tokens=2, do_sample=False)[0]).startswith("ශ්‍රී ලංකාව")


def test_a_model_with_a_chat_template_stops_where_a_turn_ends(folder):
    from transformers import AutoModelForCausalLM, AutoTokenizer, ForcedEOSTokenLogitsProcessor

    options = ["30-si.txt", "--tokenizer", "chat", *TINY, "--steps", 1, "--batch-size", 2, "--out", "chat-lm"]
    hf_sgpe("finetune", *options, cwd=folder)
    tokenizer = AutoTokenizer.from_pretrained(folder / "chat-lm")
    end, text_end = tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
    for name in ("config.json", "generation_config.json"):
        written = json.loads((folder / "chat-lm" / name).read_text(encoding="utf-8"))
        # Some versions write a list of one.
        assert (written["bos_token_id"], listed(written["eos_token_id"]), written["pad_token_id"]) == (
            text_end,
            [end],
            text_end,
        )
    model = AutoModelForCausalLM.from_pretrained(folder / "chat-lm")
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "a"}], return_tensors="pt", add_generation_prompt=True
    )
    length = prompt["input_ids"].shape[1]
    forced = ForcedEOSTokenLogitsProcessor(length + 3, end, "cpu")
    ids = model.generate(**prompt, max_new_tokens=9, do_sample=False, logits_processor=[forced])[0].tolist()
    assert len(ids) == length + 3 or end in ids[length : length + 2]
    assert ids[-1] == end


def test_a_model_is_trained_on_what_the_command_tokenized_and_measured_on_its_validation_part(folder):
    tokenize = ["si.txt", "--tokenizer", "bare", "--lines", "--validation-share", 0.02, "--format", "megatron"]
    told = hf_sgpe("tokenize", *map(str, tokenize), "--out", "tokens", cwd=folder).stdout
    assert re.search(r"^tokens/train: .*\ntokens/validation: ", told)
    options = [
        "tokens",
        "--tokenizer",
        "bare",
        *TINY,
        "--steps",
        4,
        "--batch-size",
        2,
        "--eval-every",
        2,
        "--out",
        "lm of tokens",
    ]
    done = hf_sgpe("finetune", *options, cwd=folder)
    assert re.search(r"^validation: [\d.]+ bits per byte before, [\d.]+ after$", done.stdout, re.M)
    steps = re.findall(r"^step (\d+): validation: ", done.stdout, re.M)
    assert steps == ["0", "2", "4"]
    assert "eval_validation" not in done.stdout  # not twice
    assert not list((folder / "lm of tokens").glob("checkpoint-*"))
    again = hf_sgpe("finetune", *options, "--resume", cwd=folder)
    assert "step" not in again.stdout


@pytest.mark.one_in(3)
@pytest.mark.parametrize("parts", ["new-rows", "embeddings", "ends"])
def test_parts_of_a_model_go_on_training_and_all_else_stays(parts, folder):
    from transformers import AutoModelForCausalLM

    options = ["30-si.txt", "--model", "model of bare", "--tokenizer", "padding", "--parts", parts, "--keep", "30-en.txt"]
    options += ["--keep-share", 0.4, "--rows-learning-rate", 0.01, "--length", 16, "--batch-size", 2, "--steps", 4]
    done = hf_sgpe("finetune", *options, "--save-every", 2, "--keep-checkpoints", "--out", f"lm {parts}", cwd=folder)
    (share,) = re.findall(r"^([\d.]+)% of the rows come from --keep$", done.stdout, re.M)
    assert float(share) == pytest.approx(40, abs=1)
    before, after = (AutoModelForCausalLM.from_pretrained(folder / name) for name in ("model of bare", f"lm {parts}"))
    rest = {name: tensor for name, tensor in before.state_dict().items() if "embed" not in name and "lm_head" not in name}
    changed = {name for name, tensor in rest.items() if not tensor.equal(after.state_dict()[name])}
    assert all("layers.0." in name for name in changed)
    assert bool(changed) == (parts == "ends")

    again = folder / f"lm {parts} again"
    shutil.copytree(folder / f"lm {parts}" / "checkpoint-2", again / "checkpoint-2")
    shutil.copy(folder / f"lm {parts}" / "settings.json", again)
    hf_sgpe("finetune", "--resume", *options, "--save-every", 2, "--out", again.name, cwd=folder)
    assert (again / "model.safetensors").read_bytes() == (folder / f"lm {parts}" / "model.safetensors").read_bytes()


def test_a_model_goes_on_training_on_a_dataset_with_another_tokenizer(folder):
    pytest.importorskip("datasets")
    (folder / "dataset").mkdir()
    rows = [json.dumps({"body": line}) for line in (folder / "30-si.txt").read_text(encoding="utf-8").splitlines()]
    (folder / "dataset" / "rows.jsonl").write_text("\n".join(rows), encoding="utf-8")
    options = ["--dataset", "dataset", "--text-column", "body", "--streaming", "--model", "model of bare"]
    options += ["--tokenizer", "padding"]
    done = hf_sgpe("finetune", *options, "--length", 16, "--steps", 2, "--batch-size", 2, "--out", "newer", cwd=folder)
    assert "4 rows of 16 tokens" in done.stdout  # of a stream no more than is needed
    assert done.stdout.startswith("model of bare: 599 rows kept, 1 started from their pieces, ")
    config = json.loads((folder / "newer" / "config.json").read_text(encoding="utf-8"))
    assert (config["vocab_size"], config["pad_token_id"]) == (640, 599)
    done = hf_sgpe("finetune", *options, "--length", 17, "--out", "longer", cwd=folder, code=2)
    assert "model of bare has room for 16 tokens" in done.stderr

    shutil.copytree(folder / "model of bare", folder / "alone", ignore=shutil.ignore_patterns("token*"))
    options = ["30-si.txt", "--model", "alone", "--model-tokenizer", "bare", "--length", 16, "--steps", 1, "--out", "same"]
    done = hf_sgpe("finetune", *options, cwd=folder)
    assert done.stdout.startswith("alone: 600 rows kept, ")


@pytest.mark.parametrize("name", ["finetune", "finetune-seq2seq"])
def test_an_unknown_option_ends_in_one_line(folder, name):
    done = hf_sgpe(name, "si.txt", "--bogus", 3, cwd=folder, code=2)
    assert done.stderr.replace("'", "").replace("option:", "option") == (
        "error: No such option --bogus. Did you mean --out, --push? See --help\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tokenizer", "bare"], "no text to train on"),
        (["si.txt"], "there is no tokenizer"),
        (["nowhere.txt", "--tokenizer", "bare"], "nowhere.txt: no such file"),
        (["si.txt", "--tokenizer", "nobody/nothing"], "nobody/nothing: no such file"),
        (["si.txt", "--tokenizer", "bare", "--width", "7"], "width of 7"),
        (["30-en.txt", "--tokenizer", "bare", "--length", "90000"], "30-en.txt: too little text for a row"),
        (["si.txt", "--tokenizer", "bare", "--eval", "empty.txt"], "empty.txt has no text to measure"),
        (["si.txt", "--model", "bare", "--layers", "2"], "--layers is for a new model"),
        (["si.txt", "--tokenizer", "bare", "--model-tokenizer", "bare"], "--model-tokenizer needs a model"),
        (["30-en.txt", "--tokenizer", "bare", "--model", "small", "--length", "8"], "as --model-tokenizer"),
        (
            ["30-en.txt", "--tokenizer", "padding", "--model", "small", "--model-tokenizer", "bare", "--length", "8"],
            "the model has 100 rows for tokens, but its own tokenizer has 600",
        ),
        (["30-en.txt", "--tokenizer", "words", "--model", "model of bare", "--length", "8"], "the new tokenizer (words)"),
        (["si.txt", "--tokenizer", "bare", "--split", "test"], "--split needs a dataset"),
        (["si.txt", "--tokenizer", "bare", "--push", "a/b/c"], "a/b/c: not the name of a Hub repository"),
        (["si.txt", "--tokenizer", "bare", "--out", "si.txt"], "--out si.txt is a file: give a folder"),
        (["nowhere.txt", "--tokenizer", "bare", "--length", "1"], "--length must be at least 2"),
        (["nowhere.txt", "--tokenizer", "bare", "--steps", "0"], "--steps must be at least 1, not 0"),
        (["si.txt", "--tokenizer", "bare", "--keep-share", "0.3"], "--keep-share needs --keep FILE"),
        (["si.txt", "--model", "small", "--rows-learning-rate", "-1"], "--rows-learning-rate must be above 0"),
        (["si.txt", "--model", "bare", "--out", "bare"], "--out bare is the model to train"),
        (["si.txt", "--tokenizer", "bare", "--report-to", "nobody"], "--report-to nobody"),
        (["si.txt", "--tokenizer", "bare", "--validation-share", "1.5"], "--validation-share must be between 0 and 1"),
    ],
)
def test_bad_input_ends_in_one_line(arguments, message, refused):
    refused("finetune", arguments, message)
