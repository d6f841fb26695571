import json

import pytest
from support.command import hf_sgpe
from transformers import AutoTokenizer

from hf_sgpe import BPETokenizer, SGPETokenizerFast, TrainingConfig, WordCounts, train_from_counts
from hf_sgpe.errors import SGPEError
from hf_sgpe.formats import tokenizer_json
from hf_sgpe.formats.format_registry import FORMATS
from hf_sgpe.vocabulary.special_tokens import Template

TEXTS = ["hello world, hello ශ්‍රී ලංකාව"] * 3
SPECIAL = {"bos_token": "<bos>", "eos_token": "<eos>"}
AROUND = {
    "none": ({}, [], []),
    "BOS, as Llama 3": ({"add_bos_token": True}, ["<bos>"], []),
    "BOS and EOS, as the tutorial": ({"add_bos_token": True, "add_eos_token": True}, ["<bos>"], ["<eos>"]),
    "EOS": ({"add_eos_token": True}, [], ["<eos>"]),
}
every_setting = pytest.mark.parametrize(("options", "before", "after"), AROUND.values(), ids=AROUND)


def trained(**options):
    config = TrainingConfig(vocab_size=300, **{**SPECIAL, **options})
    return train_from_counts(WordCounts.from_texts(TEXTS, config), config)


@every_setting
def test_every_loader_puts_the_template_around_texts(options, before, after, tmp_path):
    tokenizer = trained(**options)
    ids, others = tokenizer.encode("hello"), tokenizer.encode("world")
    before, after = ([tokenizer.special_tokens[name] for name in names] for names in (before, after))
    single = [*before, *ids, *after]
    pair = [*single, *before, *others, *after]
    type_ids = [0] * len(single) + [1] * (len(pair) - len(single))
    assert tokenizer.encode("hello", add_special_tokens=True) == single
    assert tokenizer.encode_batch(["hello"], add_special_tokens=True) == [single]
    fast = SGPETokenizerFast.from_bpe(tokenizer)
    fast.save_pretrained(tmp_path / "fast")
    tokenizer.save(tmp_path / "plain")
    for folder in ("fast", "plain"):
        settings = json.loads((tmp_path / folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        assert not {"add_bos_token", "add_eos_token"} & settings.keys()
        loaded = BPETokenizer.from_pretrained(tmp_path / folder)
        assert loaded.template == tokenizer.template
        assert loaded.encode("hello", add_special_tokens=True) == single
        for one in (fast, *(of.from_pretrained(tmp_path / folder) for of in (AutoTokenizer, SGPETokenizerFast))):
            assert one("hello")["input_ids"] == one.encode("hello") == single
            assert one("hello", add_special_tokens=False)["input_ids"] == ids
            both = one("hello", "world", return_token_type_ids=True)
            assert (both["input_ids"], both["token_type_ids"]) == (pair, type_ids)
            assert one("hello", truncation=True, max_length=len(single) - 1)["input_ids"] == [*before, *ids[:-1], *after]
            padded = one(["hello", "hello world"], padding=True)["input_ids"][0]
            assert padded == single + [one.pad_token_id] * (len(padded) - len(single))


def test_a_pair_is_as_that_of_llama_3():
    content = tokenizer_json.to_dict(trained(bos_token="<|begin_of_text|>", add_bos_token=True))["post_processor"]
    bos = [{"SpecialToken": {"id": "<|begin_of_text|>", "type_id": number}} for number in (0, 1)]
    first, second = ({"Sequence": {"id": name, "type_id": number}} for number, name in enumerate("AB"))
    assert content["single"] == [bos[0], first]
    assert content["pair"] == [bos[0], first, bos[1], second]


def test_a_token_that_is_not_there_is_asked_for():
    for name, role, what in (("add_bos_token", "bos_token", "begins"), ("add_eos_token", "eos_token", "ends")):
        with pytest.raises(SGPEError, match=rf"^{name} .* {what} .*{role}"):
            TrainingConfig(vocab_size=300, special_tokens=["<|x|>"], **{name: True})
        with pytest.raises(SGPEError, match=f"^{name} must be True or False, not 'yes'"):
            TrainingConfig(vocab_size=300, **SPECIAL, **{name: "yes"})
        with pytest.raises(SGPEError, match=rf"{name} .* sgpe"):
            TrainingConfig(vocab_size=300, recipe="sgpe", **SPECIAL, **{name: True})


def test_sgpe_keeps_its_own():
    assert trained(recipe="sgpe").template == Template.around(["[CLS]"], ["[SEP]"])
    assert trained(recipe="sgpe", special_tokens=["[PAD]"], add_bos_token=True).template == Template.around_each(
        ["<bos>"], []
    )


@every_setting
def test_a_tokenizer_trained_like_it_has_the_same(options, before, after):
    fast = SGPETokenizerFast.from_bpe(trained(**options))
    again = fast.train_new_from_iterator(TEXTS, 300)
    assert again.convert_ids_to_tokens(again("hello")["input_ids"])[: len(before)] == before
    assert again.to_bpe().template == fast.to_bpe().template
    renamed = fast.train_new_from_iterator(TEXTS, 300, special_tokens_map={"<bos>": "<|begin|>"}).to_bpe()
    expected = fast.to_bpe().template
    assert renamed.template == (expected and expected.renamed({"<bos>": "<|begin|>"}))
    other = fast.train_new_from_iterator(TEXTS, 300, eos_token="<|end|>").to_bpe()
    assert other.template == (expected and expected.renamed({"<eos>": "<|end|>"}))
    told = fast.train_new_from_iterator(TEXTS, 300, add_bos_token=True, add_eos_token=False).to_bpe()
    assert told.template == Template.around_each(["<bos>"], [])


def test_settings_changed_by_hand_take_effect():
    fast = SGPETokenizerFast.from_bpe(trained(add_bos_token=True))
    fast.add_eos_token = True  # transformers makes a template of what it was told
    assert fast.to_bpe().template == Template.around_each([], ["<eos>"])
    again = fast.train_new_from_iterator(TEXTS, 300).to_bpe()
    assert again.template == Template.around_each([], ["<eos>"])
    assert (again.metadata["training"]["add_bos_token"], again.metadata["training"]["add_eos_token"]) == (False, True)


def test_a_chat_has_what_its_template_writes_and_no_more():
    options = {"chat_template": "llama3", "bos_token": "<|begin_of_text|>", "eos_token": None}
    tokenizer, plain = trained(**options, add_bos_token=True, add_eos_token=True), trained(**options)
    assert tokenizer.template == Template.around_each(["<|begin_of_text|>"], ["<|eot_id|>"])
    chat = [{"role": "user", "content": "hello"}]
    expected = plain.apply_chat_template(chat, add_generation_prompt=False)
    assert expected.count(tokenizer.bos_token_id) == 1
    assert tokenizer.apply_chat_template(chat, add_generation_prompt=False) == expected
    fast = SGPETokenizerFast.from_bpe(tokenizer)
    for given in ({}, {"sanitize_control_tokens": False}, {"padding": True}, {"tokenizer_kwargs": {"stride": 0}}):
        assert fast.apply_chat_template(chat, return_dict=False, **given) == expected
    forged = [{"role": "user", "content": "hello <|begin_of_text|>"}]
    assert fast.apply_chat_template(forged, return_dict=False).count(tokenizer.bos_token_id) == 1
    assert fast.apply_chat_template(chat, return_dict=False, truncation=True, max_length=4) == expected[:4]


def test_the_command_has_both(tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    command = ["train", "text.txt", "--vocab-size", 300, "--out", "out", "--quiet"]
    done = hf_sgpe(*command, "--add-bos-token", "--special-token", "<|x|>", cwd=tmp_path, code=2)
    assert done.stderr.startswith("error: --add-bos-token needs a special token that begins texts: give --bos-token")
    tokens = ("--bos-token", "<bos>", "--eos-token", "<eos>")
    hf_sgpe(*command, *tokens, "--add-bos-token", "--add-eos-token", cwd=tmp_path)
    assert BPETokenizer.from_pretrained(tmp_path / "out").template == Template.around_each(["<bos>"], ["<eos>"])


def test_a_tiktoken_file_says_that_it_has_it_not(tmp_path):
    written = FORMATS["tiktoken"].write(trained(add_bos_token=True), tmp_path / "out.tiktoken")
    assert "template (<bos> TEXT), normalization (nfc)" in written.remark
    assert "around" not in FORMATS["tiktoken"].write(trained(), tmp_path / "out.tiktoken").remark
