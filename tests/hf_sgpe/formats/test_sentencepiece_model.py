import json

import pytest
from hypothesis import example, given, settings, strategies as st
from support import sentencepiece_models as models
from support.corpora import HELD_OUT, held_out
from support.other_scripts import TEXT
from support.sentencepiece_models import BYTE, CONTROL, NORMAL, PATH, UNUSED, USER_DEFINED
from support.texts import texts
from tokenizers import Tokenizer

from hf_sgpe import BPETokenizer, ExtensionConfig, SGPEError
from hf_sgpe.counts.word_counts import WordCounts
from hf_sgpe.errors import NotInstalledError
from hf_sgpe.formats import sentencepiece_model, tokenizer_json
from hf_sgpe.formats.tokenizer_folder import TokenizerFolder
from hf_sgpe.learning.extension.extending import extend_from_counts

SPACES = st.text(st.sampled_from("  \u2581\n\tab.x<>"), max_size=40)
KINDS = {
    "prefix": {},
    "no prefix": {"add_dummy_prefix": False},
    "spaces removed": {"remove_extra_whitespaces": True},
    "spaces removed, no prefix": {"remove_extra_whitespaces": True, "add_dummy_prefix": False},
    "across words": {"split_by_whitespace": False, "split_by_unicode_script": False, "split_by_number": False},
    "runs of spaces": {"allow_whitespace_only_pieces": True},
    "user-defined": {"user_defined_symbols": ["<x>", "x>", "\n", "\n\n", "the"], "add_dummy_prefix": False},
    "user-defined characters, prefix": {"user_defined_symbols": ["\n", *"0123456789"]},
    "user-defined characters, prefix, spaces removed": {
        "user_defined_symbols": ["\n", *"0123456789"],
        "remove_extra_whitespaces": True,
    },
    "user-defined runs": {"user_defined_symbols": ["▁▁", "▁▁▁", "▁▁▁▁", "<x>"], "add_dummy_prefix": False},
    "user-defined runs, with gaps": {"user_defined_symbols": ["▁▁", "▁▁▁▁▁", "<x>"], "add_dummy_prefix": False},
    "user-defined with spaces": {"user_defined_symbols": ["▁<x>", "<x>", "a▁▁b"], "add_dummy_prefix": False},
    "user-defined, spaces removed": {
        "user_defined_symbols": ["<x>", "ab"],
        "add_dummy_prefix": False,
        "remove_extra_whitespaces": True,
    },
    "control": {"control_symbols": ["[INST]", "[/INST]"]},
}


@pytest.fixture(scope="module")
def lines(sample):
    return [line for text in sample.values() for line in text.splitlines()[:60] if line]


@pytest.fixture(scope="module", params=KINDS.values(), ids=KINDS)
def both(request, lines):
    data = models.trained(lines, **request.param)
    return models.loaded(data), models.processor(data)


@pytest.fixture(scope="module")
def trained(lines):
    return models.trained(lines)


def test_the_same_ids_on_real_text(both, sample):
    tokenizer, own = both
    for text in sample.values():
        assert models.differing(tokenizer, own, [text[:3000], *text[:30_000].splitlines(keepends=True)]) == []


@given(some=st.lists(texts | SPACES, max_size=20))
def test_the_same_ids_on_random_text(both, some):
    assert models.differing(*both, some, without=["[INST]", "[/INST]", "<unk>", "<s>", "</s>"]) == []


def test_unknown_characters_have_the_ids_of_sentencepiece(lines):
    data = models.trained(lines, byte_fallback=False, character_coverage=0.98)
    tokenizer, own = models.loaded(data), models.processor(data)
    for text in [*lines, "中文 a 中", "€€ €"]:
        assert tokenizer.encode(text).ids == own.encode(text)
    assert own.unk_id() in own.encode("中文")


@st.composite
def pieces(draw):
    made = list("ab▁")
    for _ in range(draw(st.integers(1, 12))):
        token = draw(st.sampled_from(made)) + draw(st.sampled_from(made))
        if token not in made and len(token) <= 9:
            made.append(token)
    found = set(draw(st.lists(st.sampled_from(["ba", "aab", "<x>"]), max_size=2))) - set(made)
    order = draw(st.permutations(made))
    return [*((token, -float(place), NORMAL) for place, token in enumerate(order)), *((t, 0.0, USER_DEFINED) for t in found)]


@given(pieces=pieces(), has_prefix=st.booleans(), some=st.lists(st.text("ab ▁x", max_size=30), max_size=20))
def test_the_same_ids_with_random_pieces(pieces, has_prefix, some):
    data = models.model_of(pieces, prefix=has_prefix and all(kind == NORMAL for _, _, kind in pieces))
    assert models.differing(models.loaded(data), models.processor(data), [*some, *(text for text, _, _ in pieces)]) == []


@given(lengths=st.sets(st.integers(2, 20), min_size=1), has_prefix=st.booleans(), some=st.lists(SPACES, max_size=10))
def test_runs_of_spaces_with_equal_scores(lengths, has_prefix, some):
    runs = [("▁" * length, -1e9, NORMAL) for length in lengths]
    data = models.model_of([("▁a", 0.0, NORMAL), *runs, ("▁", -2e9, NORMAL), ("a", -2e9, NORMAL)], prefix=has_prefix)
    some = [*some, *(" " * length + "a" for length in range(50))]
    assert models.differing(models.loaded(data), models.processor(data), some) == []


def test_the_package_reads_it(lines):
    data = models.trained(lines, control_symbols=["[INST]"])
    content = sentencepiece_model.to_tokenizer_json(data, PATH)
    tokenizer, own = BPETokenizer.of(tokenizer_json.from_dict(content)), models.processor(data)
    assert [tokenizer.encode(line) for line in lines] == [own.encode(line) for line in lines]
    assert tokenizer.data.special_tokens == {"<unk>": 0, "<s>": 1, "</s>": 2, "[INST]": 3}


class TestSettings:
    """A ``tokenizer_config.json`` in the same folder decides on the tokens around a text."""

    def test_tokens_around_a_text(self, trained):
        plain = models.loaded(trained).encode("a", "b").ids
        settings = {"add_bos_token": True, "add_eos_token": True, "eos_token": {"content": "</s>"}}
        whole = models.loaded(trained, **settings)
        assert whole.encode("a").ids == [1, *plain[: len(plain) // 2], 2]
        assert whole.encode("a", "b").type_ids == [0] * 3 + [1] * 3
        assert models.loaded(trained, tokenizer_class="LlamaTokenizer").encode("a").ids[0] == 1
        assert models.loaded(trained, tokenizer_class="LlamaTokenizer", add_bos_token=False).encode("a", "b").ids == plain

    def test_the_prefix_follows_legacy_and_add_prefix_space(self, trained):
        assert models.loaded(trained, legacy=False).encode("<s>a").tokens == ["<s>", "a"]
        assert models.loaded(trained, legacy=False).encode("a").tokens == ["▁a"]
        assert models.loaded(trained).encode("<s>a").tokens == ["<s>", "▁a"]
        assert models.loaded(trained, add_prefix_space=False).encode("a").tokens == ["a"]

    def test_added_tokens_of_the_configuration_are_encoded(self, trained):
        size = models.processor(trained).get_piece_size()
        more = {"1": {"content": "<s>", "rstrip": True}, str(size): {"content": "<|user|>", "special": True}}
        tokenizer = models.loaded(trained, added_tokens_decoder=more)
        assert tokenizer.token_to_id("<|user|>") == size
        assert tokenizer.encode("<s>  <|user|>").ids == [1, size]

    @pytest.mark.parametrize(
        ("settings", "reason"),
        [
            ({"added_tokens_decoder": {"1": {"content": "<bos>"}}}, "'<s>', .* '<bos>'"),
            ({"add_bos_token": True, "bos_token": "<bos>"}, "bos token '<bos>'"),
        ],
    )
    def test_wrong_scripts_and_ids_are_refused(self, trained, settings, reason):
        with pytest.raises(SGPEError, match=reason):
            models.loaded(trained, **settings)


CHARACTERS = [("a", -9.0, NORMAL), ("b", -10.0, NORMAL), ("▁", -11.0, NORMAL)]
REFUSED = {
    "its piece 'ab' contains the character 'b', but this character is not a piece": [("ab", 0.0, NORMAL), *CHARACTERS[::2]],
    "its pieces 'ab' and 'ba' have the same score": [("ab", 0.0, NORMAL), ("ba", 0.0, NORMAL), *CHARACTERS],
    "it matters because of 'aab'": [
        ("aa", -2.0, NORMAL),
        ("aaa", -2.0, NORMAL),
        ("aab", -1.0, NORMAL),
        *CHARACTERS,
    ],
    "the unused piece 'ab' and then splits it again": [("ab", 0.0, UNUSED), *CHARACTERS],
    "(two of its pieces have the text 'a'|a is already defined)": [("a", 0.0, CONTROL), *CHARACTERS],
}


@pytest.mark.parametrize("reason", REFUSED)
def test_pieces_that_a_tokenizer_json_cannot_have(reason):
    with pytest.raises(SGPEError, match=f"^tokenizer.model: .*{reason}"):
        models.loaded(models.model_of(REFUSED[reason]))


def test_user_defined_pieces_that_a_tokenizer_json_cannot_find():
    with pytest.raises(SGPEError, match="piece '▁x' contains a space"):
        models.loaded(models.model_of([("▁x", 0.0, USER_DEFINED), *CHARACTERS], prefix=True))
    with pytest.raises(SGPEError, match="'xa' and a dummy prefix"):
        models.loaded(models.model_of([("xa", 0.0, USER_DEFINED), *CHARACTERS], prefix=True, removes_spaces=True))


TABLES = {
    "nfkc": {"normalization_rule_name": "nfkc", "byte_fallback": False},
    "nmt_nfkc": {"normalization_rule_name": "nmt_nfkc"},
    "nmt_nfkc, spaces removed": {
        "normalization_rule_name": "nmt_nfkc",
        "remove_extra_whitespaces": True,
        "add_dummy_prefix": False,
    },
    "nmt_nfkc, spaces removed and a prefix": {"normalization_rule_name": "nmt_nfkc", "remove_extra_whitespaces": True},
}
CHANGED = st.text(st.sampled_from("e\u0301\u0323\u1025\u102e½①ﬁ\r\n \x01\u200bｶﾞ"), max_size=20)


@pytest.fixture(scope="module", params=TABLES.values(), ids=TABLES)
def tabled(request, lines):
    data = models.trained(lines, **request.param)
    content = sentencepiece_model.to_tokenizer_json(data, PATH)
    return BPETokenizer.of(tokenizer_json.from_dict(content)), models.processor(data)


@example(text="  ")
@example(text="\x01")
@given(text=texts | SPACES | CHANGED)
def test_text_is_changed_as_by_a_table(tabled, text):
    tokenizer, own = tabled
    text = text.encode(errors="replace").decode()
    ids, offsets = tokenizer.encode_with_offsets(text)
    assert tokenizer.encode(text) == ids == own.encode(text)
    assert all(0 <= start < stop <= len(text) for start, stop in offsets)


def test_long_runs_take_little_time(tabled):
    for text in (" " * 100_000 + "x", "e\u0301" * 50_000, "x" + "\u0301" * 100_000, "½ " * 50_000):
        assert tabled[0].encode(text) == tabled[1].encode(text)


def test_real_text_is_changed_as_by_a_table(tabled, sample):
    tokenizer, own = tabled
    for text in sample.values():
        some = text[:20_000].splitlines(keepends=True)
        assert tokenizer.encode_batch(some) == own.encode(some)


def test_no_tokenizer_json_is_written_for_a_table(tabled, lines, tmp_path):
    with pytest.raises(SGPEError, match=r"no tokenizer\.json can have"):
        tabled[0].save(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()
    (tmp_path / "tokenizer.model").write_bytes(models.trained(lines, normalization_rule_name="nfkc"))
    assert BPETokenizer.from_pretrained(tmp_path).encode("ﬁ½") == BPETokenizer.from_pretrained(tmp_path).encode("fi1⁄2")
    with pytest.raises(SGPEError, match=r"tokenizer\.model changes characters"):
        TokenizerFolder.read(tmp_path)


def test_both_files_of_a_table_are_extended(lines, tmp_path):
    """The files that transformers writes, with the normalizer Precompiled."""
    data = models.trained(lines, normalization_rule_name="nmt_nfkc", byte_fallback=False)
    made = sentencepiece_model.to_tokenizer_json(data, PATH)
    made["normalizer"]["normalizers"][0]["type"] = "Precompiled"
    (tmp_path / "tokenizer.model").write_bytes(data)
    (tmp_path / "tokenizer.json").write_text(json.dumps(made), encoding="utf-8")
    folder = TokenizerFolder.read(tmp_path)
    config = ExtensionConfig(scripts=["cyrillic"], new_tokens=100)
    counts = WordCounts.from_texts([TEXT], config.counting_splitting(folder.data))
    larger = folder.with_vocabulary_of(extend_from_counts(folder.data, counts, config).tokenizer)
    library, own = Tokenizer.from_str(json.dumps(larger.content)), models.processor(larger.sentencepiece)
    tokenizer = BPETokenizer.of(tokenizer_json.from_dict(larger.content))
    for text in (*TEXT.splitlines(), *lines[:50], "ﬁ ½①  x"):
        ids = library.encode(text, add_special_tokens=False).ids
        assert tokenizer.encode(text) == ids == own.encode(text)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"model_type": "unigram"}, "its model is Unigram"),
        ({"model_type": "char"}, "its model is character"),
        ({"model_type": "word"}, "its model is word"),
        ({"treat_whitespace_as_suffix": True}, ".*treat_whitespace_as_suffix"),
    ],
)
def test_models_of_another_type(lines, options, reason):
    with pytest.raises(SGPEError, match=f"^tokenizer.model: {reason}"):
        models.loaded(models.trained(lines, **options))


def test_spaces_that_are_not_escaped():
    data = models.changed(
        models.model_of(CHARACTERS), lambda model: setattr(model.normalizer_spec, "escape_whitespaces", False)
    )
    with pytest.raises(SGPEError, match="its setting escape_whitespaces is off"):
        models.loaded(data)


class TestDamage:
    @pytest.mark.parametrize("data", [b"", b"no model", b"\x00" * 50, json.dumps({"model": 1}).encode()])
    def test_a_file_of_another_kind_is_one_line(self, data):
        with pytest.raises(SGPEError, match=r"^tokenizer.model: ") as error:
            models.loaded(data)
        assert "\n" not in str(error.value)

    @settings(max_examples=30)
    @given(cut=st.integers(0, 3000), data=st.data())
    def test_a_cut_or_changed_model_loads_or_is_one_line(self, cut, data):
        whole = models.model_of([("ab", 0.0, NORMAL), *CHARACTERS])
        place = data.draw(st.integers(0, len(whole) - 1))
        for damaged in (whole[:cut], whole[:place] + bytes([data.draw(st.integers(0, 255))]) + whole[place + 1 :]):
            try:
                models.loaded(damaged)
            except SGPEError as error:
                assert "\n" not in str(error)

    def test_a_model_without_all_bytes_is_refused(self):
        pieces = [("<0x00>", 0.0, BYTE), *CHARACTERS]
        with pytest.raises(SGPEError, match="damaged or not SentencePiece's file"):
            models.loaded(models.model_of(pieces, bytes_too=False, byte_fallback=True))

    def test_a_git_lfs_pointer_is_named(self, tmp_path):
        file = tmp_path / "tokenizer.model"
        file.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
        with pytest.raises(SGPEError, match="a Git LFS pointer"):
            sentencepiece_model.to_tokenizer_json(file.read_bytes(), file)


def test_without_sentencepiece_the_packages_to_install_are_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sentencepiece", None)
    with pytest.raises(NotInstalledError, match=r"sentencepiece protobuf .*\[sentencepiece\]"):
        models.loaded(models.model_of(CHARACTERS))


@pytest.mark.slow
@pytest.mark.parametrize("version", ["v1", "v3", "v7"])
def test_models_of_mistral_give_the_ids_of_sentencepiece(version):
    data = models.mistral(version)
    tokenizer, own = models.loaded(data), models.processor(data)
    special = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    for language in HELD_OUT:
        lines = [f"{line}\n" for line in held_out(language, 200)]
        assert models.differing(tokenizer, own, lines, without=special) == []
    runs = [mark * length + "a" for mark in " \t\n▁-=" for length in range(100)]
    assert models.differing(tokenizer, own, runs, without=special) == []


def test_a_file_from_fairseq_is_refused_because_its_model_has_other_ids(lines, tmp_path):
    (tmp_path / "sentencepiece.bpe.model").write_bytes(models.trained(lines))
    with pytest.raises(SGPEError, match=r"other ids than this file: add the tokenizer\.json of its repository"):
        BPETokenizer.from_pretrained(tmp_path)
    (tmp_path / "vocab.json").write_text("{}")
    with pytest.raises(SGPEError, match=r"M2M100 has its ids in vocab\.json and has no tokenizer\.json: use a model"):
        TokenizerFolder.read(tmp_path)
