import threading
from dataclasses import replace

import numpy as np
import pytest
from support.engines import Bigram, Parrot

from hf_sgpe import SGPEError
from hf_sgpe.generation import GenerationOptions


def test_an_engine_does_one_text_at_a_time():
    engine = Parrot(range(10))
    first = engine.generate([1])
    next(first)
    other = engine.generate([1])
    assert next(other) == 0
    assert engine.ended == 1  # it does not go on behind one's back
    with pytest.raises(SGPEError, match="started another text"):
        next(first)
    second = engine.generate([1])
    next(second)
    engine.close()
    assert engine.ended == 3
    with pytest.raises(SGPEError, match="this engine was closed"):
        next(second)


def test_an_engine_gives_no_more_than_is_asked_for_or_fits():
    engine = Parrot(range(10), context_length=6)
    assert list(engine.generate([1], GenerationOptions(max_new_tokens=3))) == [0, 1, 2]
    assert engine.said == 3
    assert list(engine.generate([1, 2])) == [0, 1, 2, 3]
    with pytest.raises(SGPEError, match="fills the context of 6"):
        engine.generate(range(6))
    with pytest.raises(SGPEError, match="has the id -1"):
        engine.generate([-1])
    engine.close()
    with pytest.raises(SGPEError, match="closed"):
        engine.generate([1])


def test_one_engine_in_two_threads_is_refused():
    inside, go_on = threading.Event(), threading.Event()

    class Slow(Parrot):
        def _go_on(self, ids, options, stop_ids, watch):
            inside.set()
            go_on.wait(timeout=30)
            yield 65

    engine = Slow()
    thread = threading.Thread(target=lambda: list(engine.generate([1])))
    thread.start()
    inside.wait(timeout=30)
    for act in (lambda: next(engine.generate([1])), engine.close):
        with pytest.raises(SGPEError, match="another thread"):
            act()
    go_on.set()
    thread.join()
    engine.close()


def log_softmax(logits):
    logits = logits.astype(np.float64)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


OPTIONS = [
    GenerationOptions(max_new_tokens=20, temperature=0),
    GenerationOptions(max_new_tokens=20, temperature=1.3, top_p=0.8, top_k=9, seed=3, repetition_penalty=1.4),
]


@pytest.mark.parametrize("options", OPTIONS, ids=("greedy", "drawn"))
def test_scored_tokens_are_those_of_generate_with_the_models_own_probabilities(options):
    engine = Bigram(30, stop_ids=(5,))
    scored = list(engine.generate_scored([1, 2], options, top=4))
    assert [token.id for token in scored] == list(engine.generate([1, 2], options))
    logprobs = log_softmax(engine.table)
    last = 2
    for token in scored:
        assert token.logprob == pytest.approx(logprobs[last, token.id])
        best = np.argsort(-logprobs[last])[:4]
        assert [id for id, _ in token.top] == best.tolist()
        assert [logprob for _, logprob in token.top] == pytest.approx(logprobs[last, best])
        last = token.id


@pytest.mark.parametrize(("top", "number"), [(0, 0), (1, 1), (29, 29), (30, 30), (1000, 30)])
def test_as_many_of_the_most_probable_are_named_as_there_are(top, number):
    (token,) = Bigram(30).generate_scored([1], GenerationOptions(max_new_tokens=1, seed=1), top=top)
    assert len(dict(token.top)) == number


def test_logprobs_are_those_of_each_token_after_the_ones_before():
    engine = Bigram(30)
    ids = [3, 29, 0, 0, 7, 8, 1, 5]
    assert engine.logprobs(ids) == pytest.approx(log_softmax(engine.table)[ids[:-1], ids[1:]])
    assert engine.logprobs([3]).shape == (0,)


def test_a_text_is_scored_token_by_token_with_the_most_probable_next_one():
    engine = Bigram(30)
    ids = [3, 29, 0, 0, 7, 8, 1, 5]
    first, *others = engine.score(ids, top=3)
    assert (first.id, np.isnan(first.logprob), first.top) == (3, True, ())
    assert [token.id for token in others] == ids[1:]
    assert [token.logprob for token in others] == engine.logprobs(ids).tolist()
    best = np.argsort(-engine.table, axis=-1)[:, :3]
    assert [[id for id, _ in token.top] for token in others] == best[ids[:-1]].tolist()
    *same, following = engine.score(ids, with_next=True)
    assert [token.id for token in same] == ids
    assert (following.id, following.logprob) == (best[5, 0], pytest.approx(log_softmax(engine.table)[5].max()))
    assert [token.id for token in engine.score([3])] == [3]
    assert [token.id for token in engine.score([3], with_next=True)] == [3, best[3, 0]]


def test_a_stop_token_comes_where_it_is_asked_for():
    engine = Bigram(30, np.eye(30, k=1, dtype=np.float32) * 99, stop_ids=(5,))
    greedy = GenerationOptions(temperature=0)
    assert list(engine.generate([2], greedy)) == [3, 4]
    assert list(engine.generate([2], greedy, with_stop=True)) == [3, 4, 5]
    assert [token.id for token in engine.generate_scored([2], greedy, with_stop=True)] == [3, 4, 5]


def test_no_stop_token_ends_an_answer_before_its_time():
    # After each token, the next number is the most probable, and the number after it the second.
    logits = np.eye(30, k=1, dtype=np.float32) * 99 + np.eye(30, k=2, dtype=np.float32) * 50
    engine = Bigram(30, logits, stop_ids=(5,))
    greedy = GenerationOptions(temperature=0, max_new_tokens=8)

    def ids(**options):
        return list(engine.generate([2], replace(greedy, **options)))

    assert ids() == [3, 4]
    assert ids(min_new_tokens=2) == [3, 4]
    assert ids(min_new_tokens=3) == [3, 4, 6, 7, 8, 9, 10, 11]
    assert ids(ignore_eos=True) == [3, 4, 5, 6, 7, 8, 9, 10]
    assert ids(ignore_eos=True, stop_ids=(7,)) == [3, 4, 5, 6]
    assert ids(stop_ids=(4, 99), min_new_tokens=2) == [3, 0, 1, 2, 3]
    scored = list(engine.generate_scored([2], replace(greedy, min_new_tokens=3)))
    assert [token.id for token in scored] == ids(min_new_tokens=3)
    assert scored[2].logprob == pytest.approx(log_softmax(logits)[4, 6])  # the model's own, before stop tokens are ruled out
    assert engine.generate_batch([[2], [2]], replace(greedy, min_new_tokens=3)) == [ids(min_new_tokens=3)] * 2


def test_a_watch_can_change_the_logits():
    engine = Bigram(30)
    seen = []

    def only_odd(last, logits):
        seen.append(last)
        logits[::2] = -np.inf
        return logits

    ids = list(engine.generate([1], GenerationOptions(max_new_tokens=10, seed=1), watch=only_odd))
    assert all(id % 2 for id in ids)
    assert seen[:10] == [None, *ids[:9]]
    assert (engine.table[1] == Bigram(30).table[1]).all()


def test_bad_input_is_named_before_anything_runs():
    engine = Bigram(30)
    engine.context_length = 4
    for top in (-1, 1.5, True, "3"):
        with pytest.raises(SGPEError, match="top must be"):
            engine.generate_scored([1], top=top)
        with pytest.raises(SGPEError, match="top must be"):
            engine.score([1], top=top)
    with pytest.raises(SGPEError, match="the prompt is empty"):
        engine.generate_scored([])
    with pytest.raises(SGPEError, match="the text is empty"):
        engine.logprobs([])
    with pytest.raises(SGPEError, match="the text has the id 30"):
        engine.logprobs([30])
    assert engine.logprobs([1] * 4).shape == (3,)
    with pytest.raises(SGPEError, match=r"5 tokens, .* context of 4"):
        engine.logprobs([1] * 5)
    with pytest.raises(SGPEError, match="the text has 5 tokens"):
        engine.score([1] * 5)
    with pytest.raises(TypeError, match="encode the text first"):
        engine.logprobs("text")
    engine.close()
    with pytest.raises(SGPEError, match="this engine is closed"):
        engine.logprobs([1])


def test_a_damaged_model_is_said_to_be_one():
    engine = Bigram(3, np.full((3, 3), np.nan, np.float32))
    with pytest.raises(SGPEError, match="not finite"):
        engine.logprobs([1, 2])


def test_a_model_may_rule_tokens_out():
    logits = np.zeros((3, 3), np.float32)
    logits[:, 2] = -np.inf
    assert Bigram(3, logits).logprobs([0, 1, 2]).tolist() == [pytest.approx(-np.log(2)), -np.inf]


def test_scoring_ends_the_text_that_is_being_generated():
    engine = Bigram(30)
    older = engine.generate([1])
    next(older)
    engine.logprobs([1, 2])
    with pytest.raises(SGPEError, match="started another text"):
        next(older)
