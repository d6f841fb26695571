import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.character_tokenizers import NORMALIZATIONS, character_tokenizer, with_template
from support.engines import Bigram, Parrot

from hf_sgpe.generation import GenerationOptions, TextGenerator

PROMPT = "The kettle"
TEXTS = st.lists(st.sampled_from(["ශ්‍රී", " the", "the", " ", "é", "😀", "\n", "<bos>", "a"]), max_size=8).map("".join)


@pytest.fixture(scope="module", params=[*NORMALIZATIONS, "with a token in front"])
def tokenizer(request, sample):
    normalization = request.param if request.param in NORMALIZATIONS else "metaspace-prefix"
    tokenizer = character_tokenizer([sample["en"], sample["si"]], normalization, added=["<h1>"])
    return tokenizer if normalization == request.param else with_template(tokenizer)


@given(TEXTS, st.booleans())
def test_an_answer_is_what_decoding_adds_to_the_prompt(tokenizer, text, continues):
    whole = tokenizer.encode(PROMPT + text, allowed_special="all")
    ids = whole[len(tokenizer.encode(PROMPT)) - continues :]
    before = tokenizer.encode(PROMPT)
    added = tokenizer.decode([*before, *ids], skip_special_tokens=True).removeprefix(PROMPT)
    generator = TextGenerator(tokenizer, Parrot(ids))
    assert "".join(generator.stream(PROMPT)) == generator.generate(PROMPT) == added
    assert generator.generate_batch([PROMPT]) == [added]
    prompt = generator.encode(PROMPT)
    assert "".join(piece.text for piece in generator.pieces(prompt)) == added
    message = "".join(piece.text for piece in generator.pieces(prompt, is_message=True))
    assert message == tokenizer.decode(ids, skip_special_tokens=True)


def test_the_first_text_after_special_tokens_has_no_space_of_the_tokenizer(tokenizer):
    generator = TextGenerator(tokenizer, Parrot(tokenizer.encode("the kettle")))
    assert "".join(piece.text for piece in generator.pieces([tokenizer.bos_token_id])) == "the kettle"


def test_stop_texts_end_answers_with_and_without_a_space(tokenizer):
    generator = TextGenerator(tokenizer, Parrot(tokenizer.encode("one the two")))
    assert generator.generate(PROMPT, GenerationOptions(stop=" the")).strip() == "one"
    assert generator.generate(PROMPT, GenerationOptions(stop="one")).strip() == ""


@pytest.mark.parametrize("prompt", ["The kett", "a th", "ශ්‍රී ල", "The ", "é", "x é th", " ", "a😀"])
def test_healing_keeps_the_text_of_the_prompt(tokenizer, prompt):
    rows = tokenizer.rows_needed
    logits = np.random.default_rng(1).normal(size=(rows, rows)).astype(np.float32)
    logits[:, [*tokenizer.special_tokens.values(), *tokenizer.byte_tokens]] = -9
    said = []

    class Recorded(Bigram):
        def _go_on(self, *arguments):
            for id in super()._go_on(*arguments):
                said.append(id)
                yield id

    generator = TextGenerator(tokenizer, Recorded(rows, logits))
    answer = generator.generate(prompt, GenerationOptions(max_new_tokens=4, temperature=0, heal=True))
    (kept,) = generator.engine.asked
    before = tokenizer.decode(generator.encode(prompt), skip_special_tokens=True)
    assert tokenizer.decode([*kept, *said], skip_special_tokens=True) == before + answer
