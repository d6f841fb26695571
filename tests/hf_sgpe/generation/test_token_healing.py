import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.engines import Bigram
from support.small_tokenizers import BYTES

from hf_sgpe import BPETokenizer, SGPEError, TrainingConfig, WordCounts, train_from_counts
from hf_sgpe.cli.chat_session import Conversation
from hf_sgpe.generation import GenerationOptions, TextGenerator
from hf_sgpe.generation.token_healing import Healer

STRING = (b" s", b" st", b" str", b" stri", b" strin", b" string")


@pytest.fixture(scope="module")
def small(sample):
    """A tokenizer of Sinhala and English, and a model of random bigrams over it."""
    config = TrainingConfig(vocab_size=700, scripts=("sinhala",), special_tokens=("<|endoftext|>",))
    tokenizer = train_from_counts(WordCounts.from_texts([sample["si"], sample["en"]], config), config)
    return TextGenerator(tokenizer, Bigram(tokenizer.vocab_size + 4))


def merging(*tokens):
    """A tokenizer of single bytes and these tokens, each made of the first of its two parts that there are."""
    vocab = BYTES | {token: 256 + number for number, token in enumerate(tokens)}
    merges = [next((t[:n], t[n:]) for n in range(1, len(t)) if t[:n] in vocab and t[n:] in vocab) for t in tokens]
    return BPETokenizer(vocab, merges)


def wanting(tokenizer, *pairs):
    """A model that goes from the first token of each pair to the second, and otherwise to the letter z."""
    logits = np.zeros((tokenizer.vocab_size, tokenizer.vocab_size), np.float32)
    logits[:, ord("z")] = 1
    for number, (first, second) in enumerate(pairs):
        logits[tokenizer.vocab[first], tokenizer.vocab[second]] = 9 - number
    return Bigram(tokenizer.vocab_size, logits)


GREEDY = GenerationOptions(max_new_tokens=3, temperature=0, heal=True)


def test_the_model_may_finish_a_word_by_a_longer_token():
    tokenizer = merging(*STRING)
    generator = TextGenerator(tokenizer, wanting(tokenizer, (b"a", b" string"), (b" string", b"s")))
    assert generator.generate("a str", GREEDY) == "ingsz"
    assert generator.generate("a str", GenerationOptions(max_new_tokens=3, temperature=0)) == "zzz"
    assert generator.engine.asked == [[ord("a")], tokenizer.encode("a str")]


def test_the_model_may_keep_the_tokens_of_the_prompt():
    tokenizer = merging(*STRING)
    generator = TextGenerator(tokenizer, wanting(tokenizer, (b"a", b" str"), (b" str", b"k"), (b" string", b"s")))
    assert generator.generate("a str", GREEDY) == "kzz"


def test_several_tokens_are_taken_back_one_after_another():
    tokenizer = merging(b" s", b"tr", b"tra", b" stra", b" stray")
    assert tokenizer.encode("a str") == [ord("a"), tokenizer.vocab[b" s"], tokenizer.vocab[b"tr"]]
    for pairs, answer in {
        ((b"a", b" stray"),): "ayzz",  # three tokens reach beyond the prompt
        ((b"a", b" s"), (b" s", b"tra")): "azz",
        ((b"a", b" s"), (b" s", b"tr")): "zzz",
        ((b"a", b"y"), (b" s", b"y"), (b"tr", b"y")): "yzz",  # what does not go on from the prompt is not chosen
    }.items():
        assert TextGenerator(tokenizer, wanting(tokenizer, *pairs)).generate("a str", GREEDY) == answer


def test_a_space_at_the_end_is_healed():
    tokenizer = merging(b" b")
    generator = TextGenerator(tokenizer, wanting(tokenizer, (b"a", b" b")))
    assert generator.generate("a ", GREEDY) == "bzz"
    assert generator.generate("a ", GenerationOptions(max_new_tokens=3, temperature=0)) == "zzz"


def test_where_no_token_goes_on_nothing_is_taken_back():
    tokenizer = merging(b" b", b"st")
    generator = TextGenerator(tokenizer, wanting(tokenizer))
    for prompt in ("a b", "a?", "x", "s", "ක"):  # the first token stays: a model goes on from one at least
        generator.generate(prompt, GREEDY)
        assert generator.engine.asked[-1] == tokenizer.encode(prompt)


def test_healing_takes_back_whole_characters():
    si = "කි".encode()
    tokenizer = merging(si[2:4], si[1:4])
    ids = tokenizer.encode("aක")
    assert Healer(tokenizer.vocab).taken_back(ids) == 3
    answer = TextGenerator(tokenizer, wanting(tokenizer, (si[:1], si[1:4]))).generate("aක", GREEDY)
    # The model has chosen half a character to follow, and none of the prompt's is in it.
    assert answer == "\ufffdzz"


def test_batches_are_healed_one_by_one():
    tokenizer = merging(*STRING)
    generator = TextGenerator(tokenizer, wanting(tokenizer, (b"a", b" string")))
    assert generator.generate_batch(["a str", "b", "a st"], GREEDY) == ["ingzz", "zzz", "ringzz"]


def test_texts_that_stop_are_looked_for_behind_the_prompt():
    tokenizer = merging(*STRING)
    generator = TextGenerator(tokenizer, wanting(tokenizer, (b"a", b" string")))
    options = GenerationOptions(max_new_tokens=3, temperature=0, heal=True, stop=("st", "gz"))
    assert generator.generate("a str", options) == "in"


prompts = st.lists(
    st.sampled_from(["ශ්‍රී ලංකාව", "ක", "්‍", "the lan", " ", "\n", "of th", "é", "12", "a"]), min_size=1, max_size=5
)


@given(prompts.map("".join), st.integers(0, 3), st.integers(0, 100))
def test_the_text_of_the_prompt_stays_and_only_what_follows_comes(small, prompt, heat, seed):
    engine, tokenizer = small.engine, small.tokenizer
    options = GenerationOptions(max_new_tokens=6, temperature=heat, seed=seed, top_p=0.9, heal=True)
    ids = []
    generate = engine.generate

    def kept(*args, **watch):
        for id in generate(*args, **watch):
            ids.append(id)
            yield id

    engine.generate = kept
    try:
        answer = small.generate(prompt, options)
    finally:
        del engine.generate
    known = [id for id in ids if id in small._token_ids]
    whole = tokenizer.decode_bytes([*engine.asked[-1], *known], skip_special_tokens=True)
    start = tokenizer.decode(tokenizer.encode(prompt))
    assert whole.startswith(start.encode())
    assert whole[len(start.encode()) :].decode(errors="replace") in (answer, answer + "\ufffd")


def test_drawn_answers_are_drawn_among_what_is_allowed():
    tokenizer = merging(b" s", b" st", b" str", b" sty")
    logits = np.zeros((tokenizer.vocab_size,) * 2, np.float32)
    generator = TextGenerator(tokenizer, Bigram(tokenizer.vocab_size, logits))
    options = [GenerationOptions(max_new_tokens=1, temperature=1.0, top_p=1.0, seed=seed, heal=True) for seed in range(60)]
    first = [generator.generate("a st", one)[:1] for one in options]
    # One of three: the token itself, then anything, or one of the two that go on.
    assert 10 < first.count("r") < 30
    assert 10 < first.count("y") < 30


def test_healing_is_for_text_not_for_conversations(chatty):
    generator = TextGenerator(chatty, Bigram(chatty.vocab_size))
    with pytest.raises(SGPEError, match="--heal works only without a chat template"):
        Conversation(generator, GREEDY)


tokens = st.binary(min_size=1, max_size=4).map(lambda text: bytes(byte % 3 + 253 for byte in text))


@given(st.sets(tokens, min_size=1), tokens)
def test_tokens_that_go_on_are_found(vocab, beginning):
    ids = {token: id for id, token in enumerate(vocab)}
    expected = {id for token, id in ids.items() if token.startswith(beginning) and token != beginning}
    assert set(Healer(ids).going_on(beginning)) == expected
