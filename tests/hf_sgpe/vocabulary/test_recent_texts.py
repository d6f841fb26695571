from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import example, given, strategies as st
from support.character_tokenizers import character_tokenizer
from support.small_tokenizers import SPECIALS, with_parts
from support.texts import texts

from hf_sgpe import BPETokenizer, tokenizer as tokenizer_module
from hf_sgpe.chat.marked_text import Written, by_template, join
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.vocabulary import recent_texts
from hf_sgpe.vocabulary.added_patterns import Matching
from hf_sgpe.vocabulary.recent_texts import Beginning, RecentTexts

pytestmark = pytest.mark.kernels

RULES = {
    "<|a|>": Matching(rstrip=True),
    "<|endoftext|>": Matching(lstrip=True),
    " <s>": Matching(single_word=True),
}
KINDS = ["gpt2", "hybrid", "own pattern", "rules", "metaspace", "metaspace-prefix", "metaspace-first"]


@pytest.fixture(scope="module")
def of_kind(sample, tokenizer):
    learned = sample["en"][:20_000], sample["si"][:10_000]
    plain = BPETokenizer.train_from_iterator(learned, 900, special_tokens=SPECIALS, pattern=r"[^\n]+")
    made = {
        "hybrid": tokenizer,
        "own pattern": plain,
        "gpt2": with_parts(plain, splitting=Splitting("bpe", pattern="gpt2", normalization="nfc")),
        "rules": with_parts(plain, splitting=Splitting("bpe", pattern="o200k"), matching=RULES),
        **{kind: character_tokenizer(learned, kind, specials=SPECIALS) for kind in KINDS if "metaspace" in kind},
    }

    def of_kind(kind):
        reference = BPETokenizer.of(made[kind].data)
        reference._recent = RecentTexts(0)
        return BPETokenizer.of(made[kind].data), reference

    return of_kind


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Let the cache keep texts of any length."""
    monkeypatch.setattr(recent_texts, "SHORTEST", 1)
    monkeypatch.setattr(tokenizer_module, "SHORTEST", 1)


parts = texts | st.sampled_from(
    [*SPECIALS, "<|", "a|>", "<|b|>", " ", "\n", "one", " two, ", "e", "\u0301", "\ud83d", "\ude00"]
)
edits = st.lists(st.tuples(st.integers(0, 12), st.lists(st.tuples(parts, st.booleans()), max_size=4)), max_size=6)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("allowed", ["all", "none"])
@pytest.mark.parametrize("kind", KINDS)
@given(edits=edits)
@example(edits=[(0, [("0.", False), (" <s>", False), ("\ud83d", False)])])
def test_prompts_that_grow_or_are_edited(of_kind, kind, allowed, edits):
    cached, reference = of_kind(kind)
    held = []
    for place, new in edits:
        held[place:] = [piece for piece, _ in new]
        text = "".join(held)
        assert cached.encode_prompt(text, allowed_special=allowed) == reference.encode(text, allowed_special=allowed)


@pytest.mark.parametrize("kind", KINDS)
@given(edits=edits)
@example(edits=[(0, [("0.", False), (" <s>", False), ("\ud83d", False)])])
def test_conversations_that_grow_or_are_edited(of_kind, kind, edits):
    cached, reference = of_kind(kind)
    special = cached._finder(frozenset(cached.special_tokens))
    held = []
    for place, new in edits:
        held[place:] = [by_template(piece) if is_marked else Written(piece) for piece, is_marked in new]
        ids = cached._encode_written(join(held), special, "chatml")
        assert ids == reference._encode_written(join(held), special, "chatml")


TEXT = "a<|a|>  <|endoftext|>one, two <|a|><|b|><|a|> <s>\n\nthree <s> ක්‍රම e\u0301 <|a|>"
TAILS = ("<|b|>", " x", "x, y", "  ", "\u0301", ", and", "s>")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", KINDS)
def test_texts_that_differ_at_any_place(of_kind, kind):
    cached, reference = of_kind(kind)
    special = cached._finder(frozenset(cached.special_tokens))
    for cut in range(len(TEXT)):
        for tail in (TEXT[cut:], *TAILS):
            for text in (TEXT[:cut], TEXT[:cut] + tail):
                for allowed in ("all", "none"):
                    assert cached.encode_prompt(text, allowed_special=allowed) == reference.encode(
                        text, allowed_special=allowed
                    )
            for marked in (by_template(tail), tail):
                for text in (by_template(TEXT[:cut]), by_template(TEXT[:cut]) + marked):
                    ids = cached._encode_written(text, special, "chatml")
                    assert ids == reference._encode_written(text, special, "chatml")
                    cached._recent = RecentTexts() if marked is tail else cached._recent


def test_a_conversation_costs_its_new_turns_only(of_kind, sample, monkeypatch):
    cached, reference = of_kind("gpt2")
    encoded = []
    original = type(cached._codec).encode

    def count(self, text, *args, **options):
        encoded.append(len(text))
        return original(self, text, *args, **options)

    messages = [{"role": "user", "content": text} for text in sample["en"][:20_000].split("\n") if text][:60]
    template = "{% for m in messages %}<|a|>{{ m['role'] }}\n{{ m['content'] }}<|endoftext|>\n{% endfor %}"
    for turn in range(1, len(messages)):
        expected = reference.apply_chat_template(messages[:turn], template)
        with monkeypatch.context() as patch:
            patch.setattr(type(cached._codec), "encode", count)
            assert cached.apply_chat_template(messages[:turn], template) == expected
    whole = len(cached.apply_chat_template(messages, template, tokenize=False))
    assert sum(encoded) < 3 * whole


def test_the_cache_is_bounded_and_keeps_what_was_used_last():
    recent = RecentTexts(10_000)
    nothing = recent.find("", frozenset())
    for number in range(50):
        text = f"{number:02}" * 500
        recent.keep(Beginning(900, [1] * 100, text[:902]), nothing)
        assert recent.find("00" * 500, frozenset()).length == 900
        assert 0 < recent.bytes <= 10_000
    assert recent.find("01" * 500, frozenset()).length == 0
    assert recent.find("49" * 500, frozenset()).length == 900
    assert recent.find("49" * 500, frozenset("x")).length == 0
    longer = Beginning(950, [1] * 110, ("49" * 500)[:952])
    before = recent.bytes
    recent.keep(longer, recent.find("49" * 500, frozenset()))
    assert recent.find("49" * 500, frozenset()) is longer
    assert recent.bytes - before < 200
    recent.keep(Beginning(9000, [], "x" * 20_000), nothing)
    assert recent.find("x" * 20_000, frozenset()).length == 0


def test_many_threads_may_encode(of_kind, sample):
    cached, reference = of_kind("hybrid")
    text = sample["si"][:6000]
    lengths = [length % 6000 for length in range(0, 60_000, 77)]
    expected = {length: reference.encode(text[:length]) for length in set(lengths)}
    with ThreadPoolExecutor(8) as pool:
        for length, ids in zip(lengths, pool.map(lambda length: cached.encode_prompt(text[:length]), lengths), strict=True):
            assert ids == expected[length]
    assert cached._recent.bytes < recent_texts.MOST_BYTES
