import json
import re

import pytest
from support.command import hf_sgpe

from trainers import TokenizerTrainer, TrainingConfig

TINY = ["--layers", "1", "--width", "16", "--heads", "2", "--length", "16"]


def test_an_encoder_decoder_goes_on_with_another_tokenizer(folder):
    options = [*TINY, "--steps", 1, "--batch-size", 2, "--held-out", 4]
    hf_sgpe("finetune-seq2seq", "pairs.tsv", *options, "--tokenizer", "padding", "--out", "first", cwd=folder)
    config = TrainingConfig(500, "bpe", special_tokens=("<pad>", "<|endoftext|>"))
    TokenizerTrainer(config).train(iterator=[(folder / "si.txt").read_text(encoding="utf-8")]).save_pretrained(
        folder / "next"
    )
    options = ["--length", 16, *options[len(TINY) :], "--model", "first", "--tokenizer", "next", "--out", "second"]
    done = hf_sgpe("finetune-seq2seq", "pairs.tsv", *options, cwd=folder)
    assert re.match(r"first: \d+ rows kept, \d+ started from their pieces, ", done.stdout)
    config = json.loads((folder / "second" / "config.json").read_text(encoding="utf-8"))
    assert (config["vocab_size"], config["pad_token_id"], config["decoder_start_token_id"]) == (512, 498, 498)


def test_an_encoder_decoder_learns_and_is_loaded(folder):
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    words = [("එක", "one"), ("දෙක", "two"), ("තුන", "three"), ("හතර", "four")]
    for column, name in enumerate(("sources.txt", "targets.txt")):
        (folder / name).write_text("".join(f"{pair[column]}\n" for pair in words * 10), encoding="utf-8")
    options = [*TINY, "--steps", 150, "--batch-size", 8, "--held-out", 4, "--save-every", 150, "--learning-rate", "2e-2"]
    options += ["--width", 32, "--tokenizer", "padding", "--out", "s2s"]
    done = hf_sgpe("finetune-seq2seq", "sources.txt", "targets.txt", *options, cwd=folder)
    assert "36 pairs" in done.stdout
    before, after = map(float, re.search(r"held-out targets: ([\d.]+) before, ([\d.]+) after$", done.stdout, re.M).groups())
    assert after < before / 10
    shown = re.findall(r"^source: (.+)\ntarget: (.+)\nmodel:  (.*)$", done.stdout, re.M)
    assert shown == [(source, target, target) for source, target in words[:3]]

    model = AutoModelForSeq2SeqLM.from_pretrained(folder / "s2s")
    tokenizer = AutoTokenizer.from_pretrained(folder / "s2s")
    ids = tokenizer(["දෙක<|endoftext|>", "තුන<|endoftext|>"], padding=True, return_tensors="pt")
    generated = model.generate(**ids, max_new_tokens=8, do_sample=False)
    assert tokenizer.batch_decode(generated, skip_special_tokens=True) == ["two", "three"]


def test_pairs_are_the_same_from_every_kind_of_file(folder):
    from trainers.finetuning_seq2seq import _read_pairs as read_pairs

    pairs = read_pairs([folder / "30-si.txt", folder / "30-en.txt"])
    assert len(pairs) == 30
    assert read_pairs([folder / "pairs.tsv"]) == read_pairs([folder / "pairs.jsonl"]) == pairs


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pairs.tsv", "--tokenizer", "none", "--held-out", "5"], "none has no padding token"),
        (["pairs.tsv", "--tokenizer", "padding", "--held-out", "30"], "--held-out must be from 1 to 29"),
        (["si.txt", "30-en.txt", "--tokenizer", "padding"], "same number of lines"),
        (["30-en.txt", "--tokenizer", "padding"], "30-en.txt, line 1: expected two columns"),
        (["a", "b", "c", "--tokenizer", "padding"], "not 3 files"),
    ],
)
def test_bad_input_ends_in_one_line(arguments, message, refused):
    refused("finetune-seq2seq", arguments, message)
