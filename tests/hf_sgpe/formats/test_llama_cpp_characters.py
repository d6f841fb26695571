from dataclasses import replace

import pytest
from support.character_tokenizers import character_tokenizer

from hf_sgpe import SGPEError
from hf_sgpe.evaluation.runtimes import DIFFERS, verdict_of
from hf_sgpe.formats.llama_cpp_characters import record_of, scores
from hf_sgpe.vocabulary.tokenizer_data import Unknown
from hf_sgpe.weights import gguf

RUNS = ["▁▁", "▁▁▁", "▁▁▁▁", "\n\n", "\n\n\n"]


@pytest.fixture(scope="module")
def data(sample):
    return character_tokenizer(sample.values(), runs=RUNS, added=["<h1>"]).data


def differs(data, **parts):
    return record_of(replace(data, **parts)).differs


def test_scores_are_the_negative_ranks_of_the_first_merges(data):
    found = scores(data)
    left, right = data.merges[0]
    assert found[data.vocab[left + right]] == 0
    assert found.keys() == {data.vocab[left + right] for left, right in data.merges}


def test_all_merges_of_each_token_in_a_row_are_exact(data):
    assert record_of(data).differs == record_of(data).rarely == ""
    assert gguf.pre_to_write(data) == gguf.pre_to_write(data, gguf.NEAREST) == "llama"
    assert gguf.is_exact(data, "llama")
    with pytest.raises(SGPEError, match=r"--pre-tokenizer gpt-2"):
        gguf.pre_to_write(data, "gpt-2")


def test_without_tokens_for_bytes_no_file_is_written(data):
    without = replace(data, byte_tokens=(), unknown=Unknown("<unk>", True))
    assert record_of(without).differs == "characters without a token"
    for name in (None, gguf.NEAREST):
        with pytest.raises(SGPEError, match=r"its bytes, and this tokenizer"):
            gguf.pre_to_write(without, name)


def test_a_missing_merge_is_named(data):
    merges = [pair for pair in data.merges if pair != (b"h", b"e")]
    assert differs(data, merges=merges) == "text with 'h' before 'e', which no merge joins"
    assert verdict_of(replace(data, merges=merges), "llama.cpp").what == DIFFERS


def test_a_character_without_a_token_inside_a_token_is_named(data):
    vocab = data.vocab | {"a中".encode(): 5000}
    assert differs(data, vocab=vocab) == "text with 'a' before '中', which no merge joins"


def test_a_token_that_merges_make_at_two_times_is_named(data):
    pairs = [pair for pair in data.merges if b" " not in pair[0] + pair[1] and b"\n" not in pair[0] + pair[1]]
    token = next(left + right for left, right in pairs if sum(a + b == left + right for a, b in pairs) > 1)
    last = [pair for pair in data.merges if pair[0] + pair[1] == token][-1]
    merges = [*(pair for pair in data.merges if pair != last), last]
    assert differs(data, merges=merges) == f"text with {token.decode()!r}, which its merges make at different times"


def test_runs_are_exact_only_before_other_merges_with_their_character(data):
    first = next(pair for pair in data.merges if pair[0] == b" " and pair[1].strip())
    others = [pair for pair in data.merges if pair[0] + pair[1] != first[0] + first[1]]
    assert differs(data, merges=[first, *others], vocab=data.vocab) == ""
    assert "which its merges make at different times" in differs(data, merges=[others[0], first, *others[1:]])
    without = [pair for pair in data.merges if pair[0] + pair[1] != b"   "]
    assert differs(data, merges=without) == "text with ' ' before '  ', which no merge joins"


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"ignore_merges": True}, "words that are a token but that merges do not make"),
        ({"added_tokens": {"▁ zq": 5002}}, ""),
        ({"added_tokens": {"▁▁▁▁▁": 5000}}, "text with '     '"),
    ],
)
def test_texts_that_llama_cpp_encodes_differently_are_named(data, parts, reason):
    assert reason in differs(data, **parts)


def test_the_space_before_a_text_is_exact_for_every_part_or_none(data):
    def verdict(normalization):
        return verdict_of(replace(data, splitting=replace(data.splitting, normalization=normalization)), "llama.cpp")

    assert verdict("metaspace").what == verdict("metaspace-prefix").what == "exact"
    assert verdict("metaspace-first").why == (
        "its own tokenizer produces different ids for text that begins with a space or is after an added token"
    )
    assert verdict("metaspace-always").why == "its own tokenizer produces different ids for text that begins with a space"


def test_rare_text_is_named(data):
    vocab = data.vocab | {b"<unk": 5000, b"<0x0A": 5001, b"0A>": 5002}
    more = replace(data, vocab=vocab, added_tokens={"▁▁": data.vocab[b"  "]})
    assert record_of(more).rarely == "<0x0A>, <unk>, the character U+2581"


def test_a_token_that_no_text_needs_needs_no_row(data):
    image = replace(data, special_tokens={**data.special_tokens, "<image>": 5000})
    assert image.rows_needed == data.rows_needed
    assert replace(image, roles={**data.roles, "image_token": "<image>"}).rows_needed == data.rows_needed
    assert replace(image, roles={**data.roles, "pad_token": "<image>"}).rows_needed == 5001
    assert replace(image, chat_template="{{ '<image>' }}").rows_needed == 5001
    assert replace(data, added_tokens={"<image>": 5000}).rows_needed == 5001
