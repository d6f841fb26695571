import copy
import json
import pickle
import re

import pytest
from hypothesis import given, strategies as st
from support.examples import few_examples
from support.small_tokenizers import with_specials
from support.texts import chunked

from hf_sgpe import BPETokenizer, SGPEError, SGPETokenizerFast, TrainingConfig, WordCounts, train_from_counts
from hf_sgpe.vocabulary.special_tokens import any_of

pytestmark = pytest.mark.kernels


@given(names=st.frozensets(st.text("ab.|", min_size=1, max_size=5), max_size=8), text=st.text("ab.|x", max_size=30))
def test_the_longest_name_is_found_at_the_leftmost_place(names, text):
    literal = "|".join(map(re.escape, sorted(names, key=len, reverse=True))) or "(?!)"
    assert any_of(names).findall(text) == re.findall(literal, text)


@pytest.mark.parametrize(
    ("names", "roles"),
    [
        (["<|endoftext|>"], {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}),
        (["<s>", "</s>", "<unk>", "<pad>"], {"bos": "<s>", "eos": "</s>", "unk": "<unk>", "pad": "<pad>"}),
        (["<|begin_of_text|>", "<|end_of_text|>"], {"bos": "<|begin_of_text|>", "eos": "<|end_of_text|>"}),
        (["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], {"pad": "[PAD]", "unk": "[UNK]"}),
        (["<|x|>"], {}),
        ([], {}),
    ],
)
def test_roles_follow_from_names(names, roles):
    tokenizer = with_specials(names)
    for role in ("bos", "eos", "pad", "unk"):
        token = roles.get(role, roles.get(f"{role}_token"))
        assert getattr(tokenizer, f"{role}_token") == token
        assert getattr(tokenizer, f"{role}_token_id") == (None if token is None else 256 + names.index(token))


def test_roles_may_be_given():
    tokenizer = with_specials(["<|endoftext|>", "<|x|>"], roles={"pad_token": "<|x|>"})
    assert (tokenizer.pad_token, tokenizer.pad_token_id) == ("<|x|>", 257)
    assert (tokenizer.bos_token, tokenizer.bos_token_id) == (None, None)
    assert with_specials(["<|endoftext|>"], roles={}).eos_token is None
    assert copy.deepcopy(tokenizer).roles == pickle.loads(pickle.dumps(tokenizer)).roles == tokenizer.roles


def test_a_role_that_is_no_special_token_is_refused():
    with pytest.raises(SGPEError, match="pad_token '<y>'"):
        with_specials(["<x>"], roles={"pad_token": "<y>"})
    with pytest.raises(SGPEError, match="eos_token 'a'"):
        with_specials(["<x>"], roles={"eos_token": "a"})


def with_roles_in_file(tmp_path, names, **roles):
    with_specials(names).save(tmp_path)
    file = tmp_path / "tokenizer_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text(encoding="utf-8")), **roles}), encoding="utf-8")
    return BPETokenizer.from_pretrained(tmp_path)


@pytest.mark.parametrize("spelled", ["<|x|>", {"content": "<|x|>", "lstrip": False, "__type": "AddedToken"}])
def test_roles_are_read_from_the_configuration(tmp_path, spelled):
    others = {"eos_token": None, "unk_token": "not there", "mask_token": {"lstrip": True}, "sep_token": 5}
    read = with_roles_in_file(tmp_path, ["<s>", "<|x|>"], pad_token=spelled, **others)
    assert (read.pad_token, read.pad_token_id) == ("<|x|>", 257)
    assert (read.bos_token, read.eos_token, read.unk_token) == ("<s>", None, None)
    emptied = with_roles_in_file(tmp_path, ["<|endoftext|>"], bos_token=None)
    assert (emptied.bos_token, emptied.eos_token) == (None, "<|endoftext|>")


def test_roles_survive_saving(tmp_path):
    from transformers import AutoTokenizer

    given = with_specials(["<|x|>", "<|y|>"], roles={"pad_token": "<|x|>", "image_token": "<|y|>"})
    given.save(tmp_path)
    assert BPETokenizer.from_pretrained(tmp_path).roles == SGPETokenizerFast.from_bpe(given).to_bpe().roles == given.roles
    fast = AutoTokenizer.from_pretrained(tmp_path)
    assert (fast.pad_token, fast.pad_token_id, fast.eos_token) == ("<|x|>", 256, None)


@pytest.mark.parametrize("roles", [{}, {"pad_token": "<|endoftext|>"}])
def test_roles_that_are_not_what_names_say_survive_saving(tmp_path, roles):
    given = with_specials(["<|endoftext|>"], roles=roles)
    given.save(tmp_path)
    assert BPETokenizer.from_pretrained(tmp_path).roles == roles


CORPUS = ["low lower lowest newer newest wider widest, "] * 9


@given(ids=st.lists(st.integers(0, 269), min_size=1, max_size=6, unique=True))
@few_examples
def test_given_ids_are_kept_and_the_others_fill_the_rest_in_order(ids):
    specials = {f"<|{place}|>": id for place, id in enumerate(ids)}
    tokenizer = BPETokenizer.train_from_iterator(CORPUS, 270, special_tokens=specials)
    assert tokenizer.special_tokens == specials
    assert list(tokenizer.get_vocab().values()) == list(range(270))
    same = BPETokenizer.train_from_iterator(CORPUS, 270, special_tokens=list(specials))
    assert tokenizer.merges == same.merges
    assert [token for token, _ in tokenizer.get_mergeable_ranks()] == [token for token, _ in same.get_mergeable_ranks()]
    for name, id in specials.items():
        assert tokenizer.encode(f"low{name}", allowed_special="all")[-1] == id
        assert tokenizer.decode([id]) == name


@pytest.mark.parametrize("recipe", ["bpe", "hybrid", "sgpe"])
def test_given_ids_are_kept_by_every_recipe_and_by_files(tmp_path, sample, recipe):
    specials = {"<|last|>": 3999, "<|first|>": 0, "[CLS]": 300, "[SEP]": 7}
    config = TrainingConfig(vocab_size=4000, recipe=recipe, special_tokens=specials, min_frequency=1)
    assert config.special_tokens_position == "given"
    assert TrainingConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    made = train_from_counts(WordCounts.from_texts([sample["si"], sample["en"]], config), config)
    assert made.special_tokens == specials
    assert list(made.get_vocab().values()) == list(range(len(made)))
    assert len(made) == 4000 or recipe == "sgpe"  # whose size is the document's
    made.save(tmp_path)
    from transformers import AutoTokenizer

    read, fast = BPETokenizer.from_pretrained(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    assert read.special_tokens == specials
    assert fast.get_vocab() == read.get_vocab() == made.get_vocab()
    text = "ශ්‍රී<|last|> low [CLS]<|first|>"
    assert fast.encode(text, add_special_tokens=False) == read.encode(text, allowed_special="all")
    assert read.encode(text, allowed_special="all") == made.encode(text, allowed_special="all")


@pytest.mark.parametrize(
    ("specials", "message"),
    [
        ({"<a>": 300}, "'<a>' has the id 300: .* 299"),
        ({"<a>": -1}, "has the id -1"),
        ({"<a>": 1.0}, r"has the id 1\.0"),
        ({"<a>": True}, "has the id True"),
        ({"<a>": "7"}, "has the id '7'"),
        ({"<a>": 7, "<b>": 7}, "'<a>' and '<b>' .* 7"),
        ({"x": 7}, "'x' .* b'x'"),
        ({"<a>": 299}, "id 299, but the corpus .* vocab_size of 258"),
    ],
)
def test_given_ids_that_cannot_be_are_named(specials, message):
    with pytest.raises(SGPEError, match=message):
        BPETokenizer.train_from_iterator(["ab ab"], 300, special_tokens=specials, min_frequency=2)
    if "corpus" not in message:
        with pytest.raises(SGPEError, match=message):
            TrainingConfig(vocab_size=300, special_tokens=specials)


def test_ids_are_given_where_and_only_where_tokens_are_mapped_to_them():
    for specials, position in ((["<a>"], "given"), ({"<a>": 3}, "end")):
        with pytest.raises(SGPEError, match="'given' if special_tokens"):
            TrainingConfig(vocab_size=300, special_tokens=specials, special_tokens_position=position)
    with pytest.raises(SGPEError, match=r"vocab_size .* '300'"):
        TrainingConfig(vocab_size="300", special_tokens={"<a>": 7})
    assert BPETokenizer.train_from_iterator(CORPUS, 260, special_tokens={}).special_tokens == {}


OVERLAPPING = ["<|a|>", "<|a|><|b|>", "|><|", "<|b|>", "<|a|><|b|><|", "b|><|a"]


@pytest.fixture(scope="module")
def overlapping(sample):
    tokenizer = BPETokenizer.train_from_iterator(sample.values(), 500, special_tokens=OVERLAPPING)
    return tokenizer, SGPETokenizerFast.from_bpe(tokenizer).backend_tokenizer


def test_the_longest_special_token_at_a_place_wins(overlapping):
    def special(text):
        return overlapping[0].tokenize(text, allowed_special="all")

    assert special("<|a|><|b|>") == ["<|a|><|b|>"]
    assert special("<|a|><|b|><|") == ["<|a|><|b|><|"]
    assert special("<|a|><|a|>") == ["<|a|>", "<|a|>"]
    assert special("x|><|b|>") == ["x", "|><|", "b", "|", ">"]  # the leftmost first, then the longest
    some = overlapping[0].tokenize("<|a|><|b|>", allowed_special={"<|a|>", "<|b|>"})
    assert some == ["<|a|>", "<|b|>"]


@given(parts=st.lists(st.sampled_from([*OVERLAPPING, "<|", "|>", "a", "b", " "]), max_size=8), data=st.data())
def test_overlapping_special_tokens_are_found_as_the_library_finds_them(overlapping, parts, data):
    ours, library = overlapping
    text = "".join(parts)
    ids = ours.encode(text, allowed_special="all")
    assert ids == library.encode(text, add_special_tokens=False).ids
    assert ours.decode(ids) == text
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=4))
    assert list(ours.encode_streaming(chunked(text, cuts), allowed_special="all")) == ids
