import inspect
from itertools import pairwise

import pytest

from hf_sgpe import SGPEError
from hf_sgpe.generation import GenerationOptions, load_engine
from hf_sgpe.generation.engines.detection import ENGINES

OPTIONS = GenerationOptions(max_new_tokens=12, temperature=0, ignore_eos=True)


def keeps(engine_name):
    return "keep_prefixes" in inspect.signature(ENGINES[engine_name]).parameters


@pytest.fixture(scope="module")
def plain(engine_name, models):
    if not keeps(engine_name):
        pytest.skip("this engine keeps no prefixes")
    with load_engine(models["tied"], engine_name, exact=True) as engine:
        yield engine


@pytest.fixture
def keeping(engine_name, models):
    with load_engine(models["tied"], engine_name, exact=True, keep_prefixes=1) as engine:
        yield engine


def turns_of(talking, prompts):
    """The ids of a conversation after each turn."""
    said = ""
    for prompt in prompts[:8]:
        said += prompt + "\n"
        yield talking.encode(said)[:100]


def test_the_turns_of_a_conversation_have_the_same_answers(plain, keeping, talking, prompts):
    held = []
    for ids in turns_of(talking, prompts):
        prompt = (held + ids)[:200]
        answer = list(keeping.generate(prompt, OPTIONS))
        assert answer == list(plain.generate(prompt, OPTIONS))
        # The answer's last token was never computed, and at least one token of the prompt always is.
        common = sum(1 for one, other in zip(held, prompt[:-1], strict=False) if one == other)
        assert keeping.reused >= min(len(held), len(prompt)) - 2 if len(held) >= 10 else keeping.reused <= common
        assert plain.reused == 0
        held = prompt + answer


def test_answers_that_end_early_and_edited_texts_leave_nothing_wrong(plain, keeping, talking, prompts):
    texts = list(turns_of(talking, prompts))
    edited = [ids[: len(ids) // 2] + other[len(ids) // 2 :] for ids, other in pairwise(texts)]
    for ids in [texts[-1], texts[2], *edited, texts[-1], texts[0], texts[-1]]:
        expected = list(plain.generate(ids, OPTIONS))
        for length in (3, len(expected)):
            stream = keeping.generate(ids, OPTIONS)
            assert [next(stream) for _ in range(length)] == expected[:length]
            stream.close()
        assert keeping.reused == len(ids) - 1 or len(ids) <= 8  # the same text was computed before
        assert list(keeping.logprobs(ids)) == pytest.approx(list(plain.logprobs(ids)), abs=1e-4)
        drawn = GenerationOptions(max_new_tokens=6, temperature=1, repetition_penalty=1.3, seed=5)
        assert list(keeping.generate(ids, drawn)) == list(plain.generate(ids, drawn))


def test_wrong_values_of_keep_prefixes_are_refused(engine_name, models):
    if not keeps(engine_name):
        with pytest.raises(SGPEError, match=f"keep_prefixes: {engine_name}"):
            load_engine(models["tied"], engine_name, keep_prefixes=1)
        return
    with pytest.raises(SGPEError, match=r"keep_prefixes .* -1"):
        load_engine(models["tied"], engine_name, keep_prefixes=-1)
    if engine_name == "llama.cpp":
        with pytest.raises(SGPEError, match=r"keep_prefixes must be 0 or 1"):
            load_engine(models["tied"], engine_name, keep_prefixes=2)
