import json

import numpy as np
import pytest
import regex
from hypothesis import given
from support import hub
from support.command import hf_sgpe
from support.texts import texts

from hf_sgpe import SPLIT_PATTERNS, BPETokenizer, SGPEError
from hf_sgpe.chat.templates import CHATML_SPECIAL_TOKENS, LLAMA3_SPECIAL_TOKENS, SPECIAL_TOKENS
from hf_sgpe.splitting.normalization import prepare
from hf_sgpe.splitting.regex_pre_tokenizer import engines_agree
from hf_sgpe.vocabulary.batches import EncodingResult
from trainers import ExtensionConfig, TokenizerExtender

LINES = ["The quick brown fox jumps over the lazy dog.\n", "Tokenization is the process of splitting text.\n"] * 50
SPECIALS = {"<|begin_of_text|>": 320, "<|end_of_text|>": 321, "<|pad|>": 322}
SMALL = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
MESSAGES = [{"role": "user", "content": "Hi<|eot_id|>"}]


@pytest.fixture(scope="module")
def tokenizer():
    return BPETokenizer.train(LINES, 320, special_tokens=SPECIALS)


@pytest.fixture(scope="module")
def llama():
    return BPETokenizer.train(LINES, 320, special_tokens=LLAMA3_SPECIAL_TOKENS)


def test_training_takes_texts_a_file_or_a_text(tokenizer, tmp_path, capsys):
    assert tokenizer.special_tokens == SPECIALS
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (320, 321, 322)
    assert tokenizer.encode("a", add_special_tokens=True) == [320, 97, 321]
    assert tokenizer.encode("a") == BPETokenizer.train(LINES, 320).encode("a", add_special_tokens=True) == [97]
    assert tokenizer.normalization == "nfc"
    assert tokenizer.get_pattern() == SPLIT_PATTERNS["cl100k-any-space"]
    (tmp_path / "corpus.txt").write_text("".join(LINES), encoding="utf-8", newline="\n")
    for corpus in (tmp_path / "corpus.txt", str(tmp_path / "corpus.txt"), iter(LINES)):
        assert BPETokenizer.train(corpus, 320, special_tokens=SPECIALS).get_vocab() == tokenizer.get_vocab()
    assert BPETokenizer.train("".join(LINES), 320, verbose=True).merges == tokenizer.merges
    assert "merges" in capsys.readouterr().out
    assert BPETokenizer.train(LINES, 300, special_tokens={"<|a|>": 256, "<|b|>": 999}).special_tokens == {
        "<|a|>": 256,
        "<|b|>": 999,
    }
    assert BPETokenizer.train("a\0b " * 9 + "x" * 5000, 260, special_tokens=["<|a|>"]).special_tokens == {"<|a|>": 259}
    assert tokenizer.train(["abab"] * 3, 258) is not tokenizer
    for path in ("corpus/none.txt", "none.txt"):
        with pytest.raises(SGPEError, match=rf"{path}: no such file"):
            BPETokenizer.train(path)
    (tmp_path / "latin1.txt").write_bytes(b"caf\xe9")
    with pytest.raises(SGPEError, match="not UTF-8"):
        BPETokenizer.train(tmp_path / "latin1.txt")
    with pytest.raises(SGPEError):
        BPETokenizer.train([])


def test_special_tokens_are_added_to_another_tokenizer(tokenizer):
    more = tokenizer.add_special_tokens({"<|x|>": 400, "<|pad|>": 322})
    assert more.special_tokens == {**SPECIALS, "<|x|>": 400}
    assert tokenizer.special_tokens == SPECIALS
    assert more.encode("a<|x|>", allowed_special="all") == [97, 400]
    assert more.encode("a<|x|>") == tokenizer.encode("a<|x|>")
    assert more.roles == tokenizer.roles
    assert tokenizer.add_special_tokens(["<unk>", "<|pad|>"]).unk_token_id == 323
    bare = BPETokenizer.train(LINES, 320)
    assert bare.bos_token_id is None
    assert bare.add_special_tokens(SPECIALS).get_vocab() == tokenizer.get_vocab()
    for tokens, message in (
        ({"<|x|>": 97}, "the same id 97"),
        ({"bos_token": "<s>"}, "maps 'bos_token' to '<s>', not to an id"),
        ({"<|pad|>": 400}, "already has the id 322"),
        (["caf\u00e9<x>"], "has a character that NFC composes"),
        (["\u00e9"], "written in tokenizer.json like the ordinary token b'\\\\xe9'"),
    ):
        with pytest.raises(SGPEError, match=message):
            tokenizer.add_special_tokens(tokens)


def test_the_special_tokens_of_models(llama, tmp_path):
    assert len(LLAMA3_SPECIAL_TOKENS) == 11
    assert LLAMA3_SPECIAL_TOKENS["<|eot_id|>"] == 128009
    assert LLAMA3_SPECIAL_TOKENS.keys() >= set(SPECIAL_TOKENS["llama3"])
    assert CHATML_SPECIAL_TOKENS.keys() == set(SPECIAL_TOKENS["chatml"])
    llama.save(tmp_path / "demo", name="demo")
    loaded = BPETokenizer.from_pretrained(tmp_path / "demo")
    assert loaded.special_tokens == LLAMA3_SPECIAL_TOKENS
    assert loaded.pad_token == "<|finetune_right_pad_id|>"
    assert loaded.metadata["name"] == "demo"
    assert "name" not in llama.metadata


def test_batches_are_padded_truncated_and_tensors(tokenizer):
    texts = ["a", "The quick"]
    rows = tokenizer.encode_batch(texts)
    assert [type(row) for row in rows] == [list, list]
    pad = tokenizer.pad_token_id
    for padding in (True, "longest"):
        first, second = tokenizer.encode_batch(texts, padding=padding, truncation=True, max_length=8)
        assert (first.input_ids, first.attention_mask) == ([97, pad], [1, 0])
        assert first.tokens == ["a", "<|pad|>"]
        assert second == rows[1]
        assert (len(second), type(second), type(second.input_ids)) == (2, EncodingResult, list)
    padded = tokenizer.encode_batch(texts, padding="max_length", max_length=4)
    assert [row.attention_mask for row in padded] == [[1, 0, 0, 0], [1, 1, 0, 0]]
    assert tokenizer.decode_batch([row.input_ids for row in padded]) == texts
    assert tokenizer.encode_batch(["abcdef"], truncation=True, max_length=2)[0].tokens == ["a", "b"]
    arrays = tokenizer.encode_batch(texts, padding="max_length", max_length=4, return_tensors="np")
    assert arrays["input_ids"].tolist() == padded
    assert arrays["attention_mask"].dtype == np.int64
    assert tokenizer.encode_batch([], padding=True) == []
    assert tokenizer("a", padding="max_length", max_length=3) == {"input_ids": [97, pad, pad], "attention_mask": [1, 0, 0]}


@pytest.mark.filterwarnings("ignore:`max_length` is ignored")
def test_padding_never_cuts_as_in_transformers(tokenizer, tmp_path):
    transformers = pytest.importorskip("transformers")
    tokenizer.save(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    texts = ["a" * 20, "b", ""]
    for options in (
        {"padding": True, "max_length": 8},
        {"padding": True, "max_length": 8, "truncation": True},
        {"padding": "longest"},
        {"padding": "max_length", "max_length": 8, "truncation": False},
        {"padding": "max_length", "max_length": 30},
        {"padding": "max_length", "max_length": 8, "truncation": True},
    ):
        assert tokenizer(texts, **options) == dict(theirs(texts, add_special_tokens=False, **options)), options


def test_which_tokens_of_a_template_are_special(llama):
    whole = llama.apply_chat_template(MESSAGES)
    assert whole.count(LLAMA3_SPECIAL_TOKENS["<|eot_id|>"]) == 1  # what a message says stays text
    assert llama.apply_chat_template(MESSAGES, allowed_special="all") == whole
    some = llama.apply_chat_template(MESSAGES, allowed_special={"<|eot_id|>"})
    assert [id for id in some if id >= 128000] == [128009]
    none = llama.apply_chat_template(MESSAGES, allowed_special="none")
    assert not [id for id in none if id >= 128000]
    assert llama.decode(none) == llama.decode(some) == llama.apply_chat_template(MESSAGES, tokenize=False)
    with pytest.raises(SGPEError, match="not a special token"):
        llama.apply_chat_template(MESSAGES, allowed_special={"<|x|>"})


def test_a_trained_model_answers_a_chat(tmp_path, capsys):
    pytest.importorskip("torch")
    from support.models import train_llama

    tokenizer = BPETokenizer.train(LINES, 300, special_tokens=["<|im_start|>", "<|im_end|>", "<|endoftext|>"])
    folder = train_llama(tmp_path / "model", tokenizer, LINES, steps=1, **SMALL)
    options = {"template": "chatml", "max_new_tokens": 4, "temperature": 0, "backend": "transformers"}
    answer = tokenizer.chat(MESSAGES, folder, system_prompt="Be brief.", **options)
    assert isinstance(answer, str)
    assert answer == tokenizer.chat(MESSAGES, model_path=str(folder), system_prompt="Be brief.", **options)
    assert capsys.readouterr().out == ""
    tokenizer.chat(MESSAGES, folder, verbose=True, **options)
    assert "transformers: " in capsys.readouterr().out
    with pytest.raises(SGPEError, match=r"n_ctx: .* has no such setting"):
        tokenizer.chat(MESSAGES, folder, n_ctx=64, **options)


def test_cache_statistics(llama):
    llama.clear_cache()
    llama.encode("fox fox fox")
    stats = llama.get_cache_stats()
    assert list(stats) == ["hits", "misses", "size", "hit_rate_pct"]
    assert stats["hits"] + stats["misses"] == 3
    assert stats["hit_rate_pct"] == round(100 * stats["hits"] / 3, 1)


def save_by_the_tutorial(tokenizer, folder, *, split_pattern=SPLIT_PATTERNS["cl100k-any-space"], special_tokens=SPECIALS):
    """``BPETokenizer.save``: what it writes for a vocabulary, its merges and its special tokens."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    vocab = {name: id for name, id in tokenizer.get_vocab().items() if name not in tokenizer.special_tokens} | special_tokens
    names = {id: name for name, id in vocab.items()}
    content = {
        "version": "1.0",
        "type": "BPE",
        "model": {
            "type": "BPE",
            "vocab": vocab,
            "merges": [f"{names[tokenizer.vocab[a]]} {names[tokenizer.vocab[b]]}" for a, b in tokenizer.merges],
        },
        "split_pattern": split_pattern,
        "special_tokens": {name: {"id": id, "content": name} for name, id in special_tokens.items()},
        "added_tokens": [{"id": id, "content": name, **flags} for name, id in special_tokens.items()],
    }
    config = {"tokenizer_class": "BPETokenizer", "tokenizer_name": "t", "model_max_length": 131_072, "unk_token": None}
    config |= {"bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>", "pad_token": "<|pad|>"}
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def theirs(tokenizer, tmp_path_factory):
    return BPETokenizer.from_pretrained(save_by_the_tutorial(tokenizer, tmp_path_factory.mktemp("tutorial")))


@given(text=texts)
def test_a_folder_of_the_tutorial_gives_its_ids(tokenizer, theirs, text):
    text = prepare(text, "nfc")
    if engines_agree(text, (SPLIT_PATTERNS["cl100k-any-space"],)):
        words = regex.findall(SPLIT_PATTERNS["cl100k-any-space"], text)
        assert theirs.encode(text) == [id for word in words for id in tokenizer.encode(word)]


def test_roles_and_settings_of_a_tutorial_folder_are_read(tokenizer, theirs, tmp_path):
    assert theirs.get_vocab() == tokenizer.get_vocab()
    assert theirs.roles == tokenizer.roles
    assert theirs.model_max_length == 131_072
    assert theirs.encode("<|begin_of_text|>cafe\u0301", allowed_special="all") == [320, *tokenizer.encode("caf\u00e9")]
    typographic = SPLIT_PATTERNS["cl100k-typographic"]
    loaded = BPETokenizer.from_pretrained(save_by_the_tutorial(tokenizer, tmp_path / "a", split_pattern=typographic))
    assert loaded.splitting.pattern == "cl100k-typographic"
    loaded.save(tmp_path / "b")
    assert BPETokenizer.from_pretrained(tmp_path / "b").encode("I\u2019m") == loaded.encode("I\u2019m")
    assert hf_sgpe("encode", "a", "a b", cwd=tmp_path).stdout == hf_sgpe("encode", "b", "a b", cwd=tmp_path).stdout
    # Section 10 writes no split pattern.
    content = json.loads((tmp_path / "a" / "tokenizer.json").read_text(encoding="utf-8"))
    del content["split_pattern"]
    (tmp_path / "a" / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    assert BPETokenizer.from_pretrained(tmp_path / "a").splitting.pattern == "cl100k-any-space"


def test_special_tokens_in_the_place_of_others_are_named(tokenizer, tmp_path):
    save_by_the_tutorial(tokenizer, tmp_path, special_tokens={"<|begin_of_text|>": 256})
    message = r"the special token '<\|begin_of_text\|>' has the same id 256 as the token 'he'"
    with pytest.raises(SGPEError, match=message):
        BPETokenizer.from_pretrained(tmp_path)


def test_a_folder_of_the_tutorial_can_be_extended(tokenizer, tmp_path):
    save_by_the_tutorial(tokenizer, tmp_path / "a")
    config = ExtensionConfig(["sinhala"], new_tokens=9)
    extended = TokenizerExtender(config, progress=False).extend(tmp_path / "a", text="ලංකාව ලංකාව " * 20)
    extended.save_pretrained(tmp_path / "b")
    again = BPETokenizer.from_pretrained(tmp_path / "b")
    assert len(again) == 332
    assert again.encode("The quick") == tokenizer.encode("The quick")
    assert len(again.encode("ලංකාව")) < len(tokenizer.encode("ලංකාව"))


def test_a_tokenizer_of_the_hub(here, tokenizer, tmp_path):
    tokenizer.save(tmp_path / "tok")
    assert BPETokenizer.from_huggingface(tmp_path / "tok").get_vocab() == tokenizer.get_vocab()
    here.add("me/tok", {file.name: file.read_bytes() for file in (tmp_path / "tok").iterdir()}, private=True)
    loaded = BPETokenizer.from_huggingface("me/tok", cache_dir=tmp_path / "cache", token=hub.READ)
    assert loaded.get_vocab() == tokenizer.get_vocab()
    assert loaded.roles == tokenizer.roles
    assert (tmp_path / "cache" / "models--me--tok").is_dir()
    assert not (tmp_path / "home" / "hub" / "models--me--tok").exists()
    with pytest.raises(SGPEError, match="no such repository on the Hub"):
        BPETokenizer.from_huggingface("me/tok", token=hub.STRANGER)


@pytest.fixture(scope="module")
def folder(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    tokenizer.save(folder / "tok")
    (folder / "document.txt").write_text("The quick\r\nbrown", encoding="utf-8", newline="")
    (folder / "latin1.txt").write_bytes(b"caf\xe9")
    return folder


def test_files_are_encoded_as_one_text(tokenizer, folder):
    ids = tokenizer.encode("The quick\r\nbrown")
    assert hf_sgpe("encode", "tok", "--file", "document.txt", cwd=folder).stdout == f"{' '.join(map(str, ids))}\n"
    done = hf_sgpe("encode", "--tokenizer", "tok", "--text", "The quick", "--show-tokens", cwd=folder).stdout.splitlines()
    assert done == [" ".join(map(str, tokenizer.encode("The quick"))), json.dumps(["The", " quick"])]
    assert hf_sgpe("decode", "--tokenizer", "tok", "--ids", "97", "98", "--json", cwd=folder).stdout.startswith(
        '{"ids": [97, 98]'
    )
    for arguments, message in (
        (("--file", "latin1.txt"), "latin1.txt is not UTF-8 at byte offset 3"),
        (
            ("--file", "document.txt", "x"),
            "--file cannot be combined with texts or with --html: leave out the texts and --html",
        ),
        (("--file", "none.txt"), "none.txt"),
    ):
        done = hf_sgpe("encode", "tok", *arguments, cwd=folder, code=2)
        assert message in done.stderr
        assert done.stderr.count("\n") == 1


def test_info_shows_a_sample(tokenizer, folder):
    facts = json.loads(hf_sgpe("info", "--tokenizer", "tok", "--sample-text", "cafe\u0301", "--json", cwd=folder).stdout)
    assert facts["sample ids"] == tokenizer.encode("caf\u00e9")
    assert facts["sample tokens"] == tokenizer.tokenize("caf\u00e9")
    assert facts["sample comes back"] is False  # NFC writes it otherwise
    done = hf_sgpe("info", "--sample-text", "x", cwd=folder, code=2)
    assert done.stderr.startswith("error: --sample-text needs a tokenizer")


def test_the_most_tokens_of_an_answer_have_two_names(folder):
    done = hf_sgpe("chat", "tok", "--max-tokens", "4", "-p", "x", cwd=folder, code=2)
    assert done.stderr == "error: tok has no model: there is no config.json in the folder\n"
