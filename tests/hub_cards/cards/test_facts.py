import pytest
from support.sentencepiece_like import content
from support.small_tokenizers import with_parts

from hf_sgpe import BPETokenizer, TrainingConfig, WordCounts, train_from_counts
from hf_sgpe.formats import tokenizer_json
from hf_sgpe.vocabulary.trimming import trimmed
from hub_cards import compare, write_card
from hub_cards.cards.facts import Facts
from trainers import ExtensionConfig, TokenizerExtender


def test_an_extended_tokenizer_says_what_it_was_extended_from(plain, sample, tmp_path):
    plain.save(tmp_path / "base")
    config = ExtensionConfig(["sinhala"], new_tokens=400)
    TokenizerExtender(config).extend(tmp_path / "base", text=sample["si"]).save_pretrained(tmp_path / "out")
    extended = BPETokenizer.from_pretrained(tmp_path / "out")
    facts = Facts(extended)
    assert "It extends `base`: every old token keeps its id." in facts.summary
    assert ("Extended", "from `base` by 400 tokens for Sinhala") in facts.table()
    (paragraph,) = facts.making()
    assert "got 400 new tokens for Sinhala" in paragraph
    assert "add them with `hf-sgpe transplant`" in list(facts.limits("x"))[-1]
    assert not any("train_new_from_iterator" in limit for limit in facts.limits("x"))
    evaluations = compare(extended, {"si": sample["si"].splitlines()[:40]}, baselines={"before": plain})
    assert write_card(tmp_path / "out", extended, evaluations=evaluations)
    vocab = {token: id for token, id in plain.vocab.items() if token != b"\x13"}
    assert dict(Facts(plain).table())["Tokens that no text gets"].startswith("13: their own bytes are encoded by other")
    assert "that differ only in case from another" in dict(Facts(plain).table())["Tokens nearly alike"]
    assert "all but 1 of the 256 bytes" in dict(Facts(BPETokenizer(vocab, plain.merges)).table())["Vocabulary"]


def test_a_trimmed_tokenizer_says_what_was_removed(tokenizer, plain):
    use = [int(id % 3 == 0) for id in range(len(tokenizer))]
    small = trimmed(trimmed(tokenizer.data, ["tamil"]).tokenizer, (), use=use)
    facts = Facts(BPETokenizer.of(small.tokenizer))
    removed = f"without the tokens of Tamil; without {small.unused:,} tokens that a corpus does not need"
    assert dict(facts.table())["Trimmed"] == removed
    smaller = trimmed(small.tokenizer, (), use=use, tokens=small.tokenizer.vocab_size - 9).tokenizer
    assert (
        dict(Facts(BPETokenizer.of(smaller)).table())["Trimmed"] == f"{removed}; without 9 tokens that a corpus needs least"
    )
    assert any("needs a removed token" in limit for limit in facts.limits("x"))
    assert not any("needs a removed token" in limit for limit in Facts(plain).limits("x"))


@pytest.mark.parametrize(
    ("ids", "kept"),
    [
        ("keep", "every old token that was not removed keeps its id"),
        ("compact", "some tokens were removed, and the others were renumbered"),
    ],
)
def test_a_card_does_not_claim_the_ids_of_removed_tokens(tokenizer, tmp_path, ids, kept):
    BPETokenizer.of(trimmed(tokenizer.data, ["tamil"], ids=ids).tokenizer).save(tmp_path / "base")
    config = ExtensionConfig(["khmer"], new_tokens=20, reuse_ids=ids == "keep")
    TokenizerExtender(config).extend(tmp_path / "base", text="សួស្តី ពិភពលោក " * 9).save_pretrained(tmp_path / "out")
    facts = Facts(BPETokenizer.from_pretrained(tmp_path / "out"))
    assert facts.summary.endswith(f"It extends `base`: {kept}.")
    assert "so all other text that needs no removed token keeps its tokens." in facts.making()[0]


def test_parts_of_special_tokens_and_lengths_are_told(tokenizer):
    def facts(tokenizer):
        return dict(Facts(tokenizer).table())

    assert facts(tokenizer)["Parts of special tokens"] == (
        "`bos_token` `<|endoftext|>`; `eos_token` `<|endoftext|>`; `pad_token` `<|endoftext|>`; `unk_token` none"
    )
    assert "Longest input" not in facts(tokenizer)
    config = TrainingConfig(vocab_size=300, recipe="bpe", chat_template="chatml", special_tokens=["<s>", "[MASK]"])
    chatty = train_from_counts(WordCounts.from_texts(["a"], config), config)
    chatty = with_parts(chatty, roles={"bos_token": "<s>", "mask_token": "[MASK]", "eos_token": "<|im_end|>"})
    assert facts(chatty)["Parts of special tokens"] == (
        "`bos_token` `<s>`; `eos_token` `<|im_end|>`; `pad_token` none; `unk_token` none; `mask_token` `[MASK]`; "
        "end of a chat turn `<|im_end|>`"
    )
    chatty = with_parts(chatty, chat_template="{{ messages }}")
    assert facts(chatty)["Parts of special tokens"].endswith("end of a chat turn no special token")
    chatty = with_parts(chatty, special_tokens={}, roles={}, chat_template=None)
    assert "Parts of special tokens" not in facts(chatty)
    chatty = with_parts(chatty, model_max_length=8192)
    assert facts(chatty)["Longest input"] == "8,192 tokens (`model_max_length`)"


def test_steps_before_a_normalization_are_named(sample):
    tokenizer = BPETokenizer.of(tokenizer_json.from_dict(content(sample["en"].splitlines()[:40], normalization="NFKC")))
    facts = Facts(tokenizer)
    assert dict(facts.table())["Normalization"].startswith("NFKC and Replace; then U+2581 becomes a space")
    assert "Decoding returns the normalized text, whatever the form of the encoded text." in facts.limits("x")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"cut_cost": 0.5}, "save as much as a learned token (cut cost 0.5)"),
        ({"cut_cost": 1, "letter_coverage": 0.99}, "(cut cost 1), and the most frequent letters that make up 99 %"),
        ({"letter_coverage": 0.99}, "letters that make up 99 % of a script's running letters, and the most"),
        ({"min_unit_frequency": 3}, "letters and syllables that occur 3 times or more"),
    ],
)
def test_the_card_says_which_units_have_a_token(options, text, sample):
    config = TrainingConfig(vocab_size=1500, scripts=("sinhala",), **options)
    tokenizer = train_from_counts(WordCounts.from_texts([sample["si"]], config), config)
    assert text in dict(Facts(tokenizer).table())["Tokens of their own"]


def test_the_card_says_how_it_was_balanced(tokenizer):
    measured = {"before": {"tokens": 1000, "gini": 0.08}, "after": {"tokens": 1004, "gini": 0.02}}
    balanced = with_parts(tokenizer, metadata={**tokenizer.metadata, "balance": {"by": "merges", **measured}})
    said = dict(Facts(balanced).table())["Balanced"]
    assert said == "with merges: the Gini of the cost changed from 0.080 to 0.020, and the number of tokens by +0.4%"
    assert "Balanced" not in dict(Facts(tokenizer).table())
    assert "in the language that had the most tokens" in Facts(balanced).making()[0]
    assert "in the language that had the most tokens" not in Facts(tokenizer).making()[0]
