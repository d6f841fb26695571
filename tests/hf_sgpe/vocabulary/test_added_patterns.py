"""Added tokens that take white space around them or match whole words only, against the ``tokenizers`` library."""

import json
import pickle
from dataclasses import replace

import pytest
from hypothesis import assume, given, strategies as st
from support.command import hf_sgpe
from support.small_tokenizers import BYTES
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from hf_sgpe import BPETokenizer, SGPEError, SGPETokenizerFast, Splitting
from hf_sgpe.formats import tokenizer_json
from hf_sgpe.formats.tokenizer_folder import TokenizerFolder
from hf_sgpe.learning.extension.promise import check_promise
from hf_sgpe.vocabulary.added_patterns import Matching

pytestmark = pytest.mark.kernels

FLAGS = st.builds(Matching, st.booleans(), st.booleans(), st.booleans())
# Some begin or end with white space or a letter, contain another one, or begin as another one ends.
NAMES = ["<m>", "<m", "m>", "ab", "bc", " b", "b ", "<|x|>", "éa", "कख", "\n<"]
SPACES = [" ", "  ", "\n", "\t", "\u00a0", "\u2003", "\x1c"]
PIECES = [*NAMES, *SPACES, "\u200d", "_", "a", "c", "१", "\u0558", "\U0003d9e0", ".", "e\u0301a", "x<m>y", "<m> <m>"]

# The flags of real files.
REAL = {
    "Phi-4": {
        "<|endoftext|>": Matching(True, True),
        "<|im_start|>": Matching(True, True),
        "<|im_sep|>": Matching(True, True),
    },
    "Phi-3": {"</s>": Matching(rstrip=True), "<|user|>": Matching(rstrip=True), "<|endoftext|>": Matching()},
    "ModernBERT": {"[MASK]": Matching(lstrip=True), "[CLS]": Matching(), "   ": Matching(), "||||": Matching()},
    "RoBERTa": {"<mask>": Matching(lstrip=True), "<s>": Matching(), "</s>": Matching()},
}


def both(rules, *, normalized=(), special=(), normalization="none"):
    """Return a tokenizer with added tokens, each with its rules, and the same tokenizer in ``tokenizers``."""
    ids = {name: 256 + number for number, name in enumerate(rules)}
    ours = BPETokenizer(
        BYTES,
        [],
        splitting=Splitting("bpe", pattern="gpt2", normalization=normalization),
        special_tokens={name: id for name, id in ids.items() if name in special},
        added_tokens={name: id for name, id in ids.items() if name not in special},
        normalized_tokens=frozenset(normalized),
        matching=rules,
    )
    return ours, Tokenizer.from_str(json.dumps(tokenizer_json.to_dict(ours.data)))


def expected(theirs, text):
    try:
        encoding = theirs.encode(text, add_special_tokens=False)
    except BaseException:  # a panic: a token inside the white space that another one took
        assume(False)
    return encoding.ids, encoding.offsets


@given(
    rules=st.dictionaries(st.sampled_from(NAMES), FLAGS, min_size=1, max_size=5),
    normalized=st.sets(st.sampled_from(NAMES)),
    special=st.sets(st.sampled_from(NAMES)),
    normalization=st.sampled_from(["none", "nfc"]),
    text=st.lists(st.sampled_from(PIECES), max_size=12).map("".join) | st.text(max_size=20),
)
def test_the_same_ids_as_tokenizers(rules, normalized, special, normalization, text):
    ours, theirs = both(rules, normalized=normalized & rules.keys(), special=special, normalization=normalization)
    ids, _ = expected(theirs, text)
    assert ours.encode(text, allowed_special="all") == ids
    assert ours.encode_batch([text, "x"], allowed_special="all")[0] == ids
    assert ours.encode_to_numpy(text, allowed_special="all").tolist() == ids
    assert list(ours.encode_streaming(text, allowed_special="all")) == ids
    assert ours.encode_with_offsets(text, allowed_special="all")[0] == ids


@given(
    rules=st.sampled_from(sorted(REAL)).map(REAL.__getitem__),
    normalized=st.booleans(),
    data=st.data(),
)
def test_the_flags_of_real_files(rules, normalized, data):
    text = data.draw(
        st.lists(st.sampled_from([*rules, " ", "  ", "\n", "a", "hello", "।", "ශ්‍රී", "."]), max_size=12).map("".join)
    )
    ours, theirs = both(rules, normalized=rules if normalized else (), special=rules)
    ids, offsets = expected(theirs, text)
    assert ours.encode_with_offsets(text, allowed_special="all") == (ids, offsets)
    assert list(ours.encode_streaming(text, allowed_special="all")) == ids
    assert ours.encode(text) == list(text.encode())  # none is allowed


@given(
    rules=st.dictionaries(st.sampled_from(["<m>", "<|x|>", "ab", "b "]), FLAGS, min_size=1),
    normalization=st.sampled_from(["metaspace", "metaspace-prefix", "metaspace-always", "metaspace-first"]),
    text=st.lists(st.sampled_from(["<m>", "<|x|>", "ab", *SPACES, "a a", "b", "क", "."]), max_size=12).map("".join),
    size=st.integers(1, 5),
)
def test_tokenizers_that_merge_characters(rules, normalization, text, size):
    characters = {character.encode(): 256 + place for place, character in enumerate(" ab.<m>|x")}
    ours = BPETokenizer(
        {**characters, b" a": 270, b"a a": 271},
        [(b" ", b"a"), (b"a", b" a")],
        byte_tokens=range(256),
        splitting=Splitting.from_regexes((), normalization),
        special_tokens={name: 280 + number for number, name in enumerate(rules)},
        matching=rules,
    )
    theirs = Tokenizer.from_str(json.dumps(tokenizer_json.to_dict(ours.data)))
    ids, _ = expected(theirs, text)
    assert ours.encode(text, allowed_special="all") == ids
    assert ours.encode_with_offsets(text, allowed_special="all")[0] == ids
    chunks = [text[place : place + size] for place in range(0, len(text), size)]
    assert list(ours.encode_streaming(chunks, allowed_special="all")) == ids


def test_the_rules_are_kept(tmp_path):
    ours, _ = both(REAL["RoBERTa"], special=REAL["RoBERTa"])
    assert ours.matching == {"<mask>": Matching(lstrip=True)}
    ours.save(tmp_path / "saved")
    assert BPETokenizer.from_pretrained(tmp_path / "saved").data.matching == ours.matching
    assert pickle.loads(pickle.dumps(ours)).data == ours.data
    assert ours.decode(ours.encode("a <mask>", allowed_special="all")) == "a<mask>"
    with pytest.raises(SGPEError, match="matching: 'x'"):
        BPETokenizer(BYTES, [], matching={"x": Matching(lstrip=True)})


def test_tiktoken_has_no_such_tokens():
    ours, _ = both(REAL["RoBERTa"], special=REAL["RoBERTa"])
    with pytest.raises(SGPEError, match="'<mask>'"):
        ours.to_tiktoken()


@pytest.mark.parametrize("names", ["lstrip", "rstrip", "lstrip rstrip", "single_word"])
def test_an_extended_tokenizer_keeps_the_rules(names, sample, tmp_path):
    flags = dict.fromkeys(names.split(), True)
    base = BPETokenizer.train_from_iterator([sample["en"]], 500, special_tokens=["<mask>"])
    BPETokenizer.of(replace(base.data, matching={"<mask>": Matching(**flags)})).save(tmp_path / "base")
    (tmp_path / "si.txt").write_text(sample["si"], encoding="utf-8")
    options = ("--script", "sinhala", "--new-tokens", "100", "--out", tmp_path / "out")
    hf_sgpe("extend", tmp_path / "base", tmp_path / "si.txt", *options)
    extended = TokenizerFolder.read(tmp_path / "out")
    assert extended.data.matching == {"<mask>": Matching(**flags)}
    text = "a  <mask>  b<mask>, <mask>"
    theirs = AutoTokenizer.from_pretrained(tmp_path / "out")
    ours = SGPETokenizerFast.from_pretrained(tmp_path / "out")
    long = text * 200  # longer texts do not go to the backend
    assert ours(long, return_offsets_mapping=True).data == theirs(long, return_offsets_mapping=True).data
    changed = replace(extended.data, matching={})
    with pytest.raises(SGPEError, match="differ in matching"):
        check_promise(extended.data, changed, ["sinhala"])


def test_a_chat_template_writes_them():
    rules = {"<|im_start|>": Matching(lstrip=True, rstrip=True), "<|im_end|>": Matching(lstrip=True, rstrip=True)}
    ours, theirs = both(rules, special=rules)
    chat = [{"role": "user", "content": " hi \n"}, {"role": "assistant", "content": "a <|im_end|> b"}]
    ids = ours.apply_chat_template(chat[:1], template="chatml")
    assert ids == expected(theirs, ours.apply_chat_template(chat[:1], template="chatml", tokenize=False))[0]
    harmless = ours.apply_chat_template(chat, template="chatml")
    assert harmless.count(257) == 2
