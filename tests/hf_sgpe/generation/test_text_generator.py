import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.engines import Bigram, Parrot
from support.small_tokenizers import with_parts, with_specials

from hf_sgpe import SGPEError, SGPETokenizerFast, TrainingConfig, WordCounts, train_from_counts
from hf_sgpe.generation import GenerationOptions, ScoredToken, TextGenerator
from hf_sgpe.splitting.streams import whole_letters
from hf_sgpe.vocabulary.special_tokens import Template

BYTEWISE = with_specials([])


def test_the_engine_stops_when_the_text_does(chatty):
    engine = Parrot(chatty.encode("one END and much more of it"))
    generator = TextGenerator(chatty, engine)
    assert generator.generate("x", GenerationOptions(stop="END")) == "one "
    assert engine.said < len(engine.ids)


@given(st.text(max_size=20))
def test_pieces_are_whole_characters_and_join_to_the_whole(chatty, text):
    text = text.encode("utf-8", "replace").decode()
    pieces = list(TextGenerator(chatty, Parrot(chatty.encode(text))).stream("x"))
    assert "".join(pieces) == chatty.decode(chatty.encode(text))
    assert all(pieces)


def test_each_character_comes_with_its_last_byte():
    assert list(TextGenerator(BYTEWISE, Parrot("ක්ෂ".encode())).stream("x")) == list("ක්ෂ")
    # Bytes at the end that are no whole character are left out; in the middle they show.
    assert list(TextGenerator(BYTEWISE, Parrot("ක".encode()[:2])).stream("x")) == []
    assert "".join(TextGenerator(BYTEWISE, Parrot(b"\xe0\xb6a")).stream("x")) == "\ufffda"


def test_pieces_say_why_an_answer_ended(chatty):
    ids = chatty.encode("one two three")
    generator = TextGenerator(chatty, Parrot(ids))
    for options, text, generated, reason in (
        ({}, "one two three", len(ids), "stop"),
        ({"max_new_tokens": 2}, chatty.decode(ids[:2]), 2, "length"),
        ({"max_new_tokens": len(ids)}, "one two three", len(ids), "length"),
        ({"stop": "three"}, "one two ", len(ids), "stop"),
        ({"stop": "three", "max_new_tokens": len(ids)}, "one two ", len(ids), "stop"),
    ):
        *pieces, last = generator.pieces([65], GenerationOptions(**options))
        assert "".join(piece.text for piece in pieces) == text
        assert {piece.finish_reason for piece in pieces} <= {None}
        assert last[:4] == ("", generated, reason, ())
    generator.engine.context_length = 4
    assert [piece.finish_reason for piece in generator.pieces([65, 65])][-1] == "length"
    with pytest.raises(SGPEError, match="fills the context of 4"):
        generator.pieces([65] * 4)


def test_pieces_are_cut_between_letters_where_that_is_asked_for():
    generator = TextGenerator(BYTEWISE, Parrot("ක්ෂ ක".encode(), vocab_size=256))
    options = GenerationOptions(whole_syllables=True)
    pieces = [piece.text for piece in generator.pieces([65], options)]
    assert pieces == [*generator.stream("x", options), ""]
    assert len(pieces) < len([*generator.pieces([65])])


def test_pieces_end_before_the_next_token_where_they_are_no_longer_wanted(chatty):
    engine = Parrot([4999] * 10)  # rows without a token, of which no piece comes
    asked = iter([False, False, False, True])
    (last,) = TextGenerator(chatty, engine).pieces([65], is_over=lambda: next(asked))
    assert (last.generated, engine.said, engine.ended) == (3, 3, 1)


def test_tokens_come_with_the_text_that_they_begin():
    class Sure(Parrot):
        def generate_scored(self, ids, options=None, *, top=0):
            return (ScoredToken(id, 0.0, ((id, 0.0),) * top) for id in self.generate(ids, options))

    generator = TextGenerator(BYTEWISE, Sure("aක<b<".encode(), vocab_size=256))
    *pieces, last = generator.pieces([65], GenerationOptions(stop="<>"), top=2)
    tokens = [(piece.text, [(chr(token.id), place) for token, place in piece.tokens]) for piece in (*pieces, last)]
    assert tokens == [
        ("a", [("a", 0)]),
        ("ක", [("\xe0", 1), ("\xb6", 1), ("\x9a", 1)]),
        ("<b", [("<", 2), ("b", 3)]),
        ("<", [("<", 4)]),
        ("", []),
    ]
    assert {len(token.top) for piece in pieces for token, _ in piece.tokens} == {2}
    *pieces, last = generator.pieces([65], GenerationOptions(stop="<b"), top=0)
    assert [chr(token.id) for piece in (*pieces, last) for token, _ in piece.tokens] == ["a", "\xe0", "\xb6", "\x9a"]
    assert last.generated == 6


def placed_tokens(pieces):
    return [token for piece in pieces for token in piece.tokens]


def test_a_prompt_comes_with_its_tokens_before_the_answer():
    engine = Bigram(256)
    generator = TextGenerator(BYTEWISE, engine)
    prompt = list("aක<b".encode())
    options = GenerationOptions(max_new_tokens=12, seed=1, temperature=1)
    first, *pieces = generator.pieces_with_prompt(prompt, options, top=2)
    answer = list(generator.pieces(prompt, options, top=2))
    assert (first.text, first.generated, first.finish_reason) == ("aක<b", 0, None)
    assert [(token.id, place) for token, place in first.tokens] == list(zip(prompt, (0, 1, 1, 1, 2, 3), strict=True))
    assert [token.logprob for token, _ in first.tokens[1:]] == engine.logprobs(prompt).tolist()
    assert [piece[:3] for piece in pieces] == [piece[:3] for piece in answer]
    assert placed_tokens(pieces) == [(token, place + 4) for token, place in placed_tokens(answer)]
    (alone,) = generator.pieces_with_prompt(prompt, top=2)
    assert (alone.text, alone.finish_reason, alone.tokens[1:]) == ("aක<b", "length", first.tokens[1:])
    engine.context_length = len(prompt)
    assert len(list(generator.pieces_with_prompt(prompt))) == 1
    with pytest.raises(SGPEError, match="fills the context"):
        generator.pieces_with_prompt(prompt, options)


def test_one_pass_over_a_prompt_is_enough_for_the_most_probable_token():
    engine = Bigram(256)
    generator = TextGenerator(BYTEWISE, engine)
    for options in (GenerationOptions(max_new_tokens=1, temperature=0), GenerationOptions(max_new_tokens=2, temperature=0)):
        engine.asked = []
        _, *pieces = generator.pieces_with_prompt(b"abc", options, top=1)
        assert len(engine.asked) == options.max_new_tokens - 1
        expected = generator.engine.generate(list(b"abc"), options)
        assert [token.id for token, _ in placed_tokens(pieces)] == list(expected)
        assert pieces[-1].finish_reason == "length"


@pytest.mark.parametrize("most", [1, 2])
def test_a_stop_token_after_a_prompt_is_the_last_of_its_tokens(most):
    engine = Bigram(256, np.eye(256, k=1, dtype=np.float32) * 99, stop_ids=(ord("d"),))
    options = GenerationOptions(max_new_tokens=most, temperature=0)
    _, last = TextGenerator(BYTEWISE, engine).pieces_with_prompt(b"abc", options)
    assert (last.text, last.generated, last.finish_reason) == ("", 0, "stop")
    assert [(chr(token.id), place) for token, place in last.tokens] == [("d", 3)]


def test_scoring_a_prompt_ends_when_it_is_no_longer_wanted():
    asked = iter([False, False, True, True])
    first, _ = TextGenerator(BYTEWISE, Bigram(256)).pieces_with_prompt(
        b"abcd", GenerationOptions(), is_over=lambda: next(asked)
    )
    assert first.text == "ab"


def test_special_tokens_and_rows_without_a_token_are_not_shown(chatty):
    end = chatty.special_tokens["<|im_end|>"]
    ids = [*chatty.encode("a"), end, 4999, *chatty.encode("b")]
    assert TextGenerator(chatty, Parrot(ids)).generate("x") == "ab"


def test_special_tokens_are_shown_where_that_is_asked_for(chatty):
    ids = [*chatty.encode("a"), chatty.special_tokens["<|im_end|>"], *chatty.encode("b")]
    generator = TextGenerator(chatty, Parrot(ids))
    shown = GenerationOptions(skip_special_tokens=False)
    assert generator.generate("x", shown) == "a<|im_end|>b"
    assert generator.generate_batch(["x"], shown) == ["a<|im_end|>b"]
    assert "".join(piece.text for piece in generator.pieces([65], shown)) == "a<|im_end|>b"


def test_the_name_of_a_special_token_stops_at_the_token_and_at_its_text(chatty):
    special = [*chatty.encode("a"), chatty.special_tokens["<|im_end|>"], *chatty.encode("b")]
    for ids in (special, chatty.encode("a<|im_end|>b")):
        generator = TextGenerator(chatty, Parrot(ids))
        for skip in (True, False):
            options = GenerationOptions(stop="<|im_end|>", skip_special_tokens=skip)
            assert generator.generate("x", options) == "a"
            assert generator.generate_batch(["x"], options) == ["a"]
            assert "".join(piece.text for piece in generator.pieces([65], options)) == "a"


def test_the_text_of_a_mark_stops_at_the_mark():
    generator = TextGenerator(BYTEWISE, Parrot(b"a<b", vocab_size=256))
    options = GenerationOptions(stop="<")
    *pieces, last = generator.pieces([65], options, marks={ord("<"): "<"})
    assert [piece.text for piece in pieces] == ["a"]
    assert (last.generated, last.finish_reason, last.marks) == (1, "stop", ())


@pytest.mark.parametrize(("answer", "places"), [(b"a<<END", [1, 1]), (b"<aEN<D", [0]), (b"<END", [0]), (b"a<", [1])])
def test_marks_before_a_stop_text_are_reported(answer, places):
    generator = TextGenerator(BYTEWISE, Parrot(answer, vocab_size=256))
    pieces = list(generator.pieces([65], GenerationOptions(stop="END"), marks={ord("<"): "<"}))
    assert "".join(piece.text for piece in pieces) == "a" * answer.count(b"a")
    assert [mark.place for piece in pieces for mark in piece.marks] == places


def test_a_stop_text_counts_only_after_the_least_number_of_tokens():
    generator = TextGenerator(BYTEWISE, Parrot(b"a<>b<>c"))
    for least, text in ((0, "a"), (2, "a"), (3, "a<>b"), (5, "a<>b"), (6, "a<>b<>c")):
        options = GenerationOptions(stop="<>", min_new_tokens=least)
        assert generator.generate("x", options) == text
        assert generator.generate_batch(["x"], options) == [text]
        assert "".join(piece.text for piece in generator.pieces([65], options)) == text


def test_special_tokens_in_a_prompt_are_text(chatty):
    generator = TextGenerator(chatty, Parrot())
    generator.generate("<|im_end|>")
    assert not set(generator.engine.asked[0]) & set(chatty.special_tokens.values())


def test_the_tokens_before_a_text_are_put_before_a_prompt_and_none_after_it():
    config = TrainingConfig(vocab_size=300, recipe="sgpe", scripts=("sinhala",))
    tokenizer = train_from_counts(WordCounts.from_texts(["ශ්‍රී"], config), config)
    names = [name for name, _ in tokenizer.template.single] if tokenizer.template else ["$A"]
    before = [tokenizer.special_tokens[name] for name in names[: names.index("$A")]]
    generator = TextGenerator(tokenizer, Parrot())
    assert generator.encode("a") == [*before, *tokenizer.encode("a")]


def test_any_byte_level_tokenizer_will_do(chatty, tmp_path):
    from transformers import AutoTokenizer

    chatty.save(tmp_path)
    ids = chatty.encode("ශ්‍රී ලංකාව")
    for tokenizer in (tmp_path, str(tmp_path), SGPETokenizerFast.from_bpe(chatty), AutoTokenizer.from_pretrained(tmp_path)):
        generator = TextGenerator(tokenizer, Parrot(ids))
        assert generator.encode("ශ්‍රී") == chatty.encode("ශ්‍රී")
        assert generator.generate("x") == "ශ්‍රී ලංකාව"
        assert generator.chat().messages == []
    with pytest.raises(TypeError, match="expected a tokenizer"):
        TextGenerator(3, Parrot())


def test_a_tokenizer_of_another_model_is_refused(chatty):
    with pytest.raises(SGPEError, match=r"id 899, .* 899 rows"):
        TextGenerator(chatty, Parrot(vocab_size=899))


def test_several_prompts_are_a_list(chatty):
    generator = TextGenerator(chatty, Parrot(chatty.encode("yes, END no")))
    assert generator.generate_batch(["a", "b"], GenerationOptions(stop="END")) == ["yes, ", "yes, "]
    with pytest.raises(TypeError, match="put the string in a list"):
        generator.generate_batch("a")
    with pytest.raises(TypeError, match="the prompt must be a string"):
        generator.generate(["a"])


@given(
    st.lists(st.sampled_from(["ශ්‍රී", "ක්ෂ", "क्षत्रि", "ஸ்ரீ", "x", " ", "්‍", "é"]), max_size=6), st.sampled_from(["ර", "ष", "zz"])
)
def test_no_piece_ends_in_a_letter_that_may_change(parts, stop):
    text = "".join(parts)
    generator = TextGenerator(BYTEWISE, Parrot(text.encode()))
    for stops in ((), (stop,)):
        plain = list(generator.stream("x", GenerationOptions(stop=stops)))
        pieces = list(generator.stream("x", GenerationOptions(stop=stops, whole_syllables=True)))
        assert "".join(pieces) == "".join(plain)
        assert pieces == list(whole_letters(plain))


def test_a_letter_is_shown_when_the_next_one_begins(chatty):
    engine = Parrot("ශ්‍රී ලංකාව!".encode())
    assert list(TextGenerator(BYTEWISE, engine).stream("x", GenerationOptions(whole_syllables=True))) == [
        "ශ්‍රී ",
        "ලං",
        "කා",
        "ව!",
    ]
    chat = TextGenerator(chatty, Parrot(chatty.encode("ශ්‍රී"))).chat()
    assert list(chat.say("?", GenerationOptions(whole_syllables=True))) == ["ශ්‍රී"]


def with_start(tokenizer, *names):
    return with_parts(tokenizer, template=Template.around(names, []))


def test_a_text_is_scored_token_by_token(chatty):
    text = "ශ්‍රී and more of it"
    ids = chatty.encode(text)
    engine = Bigram(chatty.vocab_size)
    logprobs = engine.logprobs(ids)
    score = TextGenerator(chatty, engine).score(text)
    assert score.ids == tuple(ids[1:])
    assert score.given + b"".join(score.tokens) == text.encode()
    assert score.logprobs == pytest.approx(logprobs)
    assert score.total == pytest.approx(sum(logprobs))
    assert score.bits_per_byte == pytest.approx(-sum(logprobs) / np.log(2) / (len(text.encode()) - len(score.given)))


def test_the_tokens_before_a_text_predict_its_first(chatty):
    starting = with_start(chatty, "<|endoftext|>")
    engine = Bigram(chatty.vocab_size)
    text = "one"
    ids = [chatty.special_tokens["<|endoftext|>"], *chatty.encode(text)]
    score = TextGenerator(starting, engine).score(text)
    assert (score.ids, score.given, score.bytes) == (tuple(ids[1:]), b"", 3)
    assert score.logprobs == pytest.approx(engine.logprobs(ids))


def test_texts_that_cannot_be_scored_are_refused(chatty):
    generator = TextGenerator(chatty, Bigram(chatty.vocab_size))
    with pytest.raises(SGPEError, match="text is empty"):
        generator.score("")
    with pytest.raises(SGPEError, match="text is one token"):
        generator.score("a")
    with pytest.raises(SGPEError, match="the text is empty"):
        TextGenerator(with_start(chatty, "<|endoftext|>"), generator.engine).score("")
    with pytest.raises(TypeError, match="the prompt must be a string"):
        generator.score([1])
    generator.engine.context_length = 3
    with pytest.raises(SGPEError, match="context of 3"):
        generator.score("one two three four")


def test_progress_is_counted(chatty):
    generator = TextGenerator(chatty, Parrot(chatty.encode("some words of it")))
    assert generator.progress is None
    stream = generator.stream("two words")
    next(stream)
    assert generator.progress.tokens < len(generator.engine.ids)
    list(stream)
    progress = generator.progress
    assert (progress.tokens, progress.prompt_tokens) == (len(generator.engine.ids), len(chatty.encode("two words")))
    assert 0 < progress.first <= progress.seconds
    assert progress.tokens_per_second > 0


def test_wrong_arguments_are_named(chatty):
    engine = Parrot()
    with pytest.raises(TypeError, match=r"not str: .*TextGenerator.load"):
        TextGenerator(chatty, "my-model")
    with pytest.raises(TypeError, match="expected GenerationOptions, not dict"):
        engine.generate([1], {"temperature": 0})
    with pytest.raises(TypeError, match="not str: encode"):
        engine.generate("text")
