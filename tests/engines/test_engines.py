import json
import os
import shutil
import sys
from dataclasses import replace
from importlib.metadata import version

import numpy as np
import pytest
from hypothesis import settings
from support.sampling import distribution
from support.small_tokenizers import with_parts

from hf_sgpe import SGPEError
from hf_sgpe.generation import GenerationOptions, TextGenerator, available_engines, best_engine, load_engine
from hf_sgpe.generation.stop_texts import until_stop
from hf_sgpe.vocabulary.special_tokens import Template

torch = pytest.importorskip("torch", reason="the models are trained with PyTorch: pip install torch")
pytestmark = pytest.mark.filterwarnings("ignore")

LENGTH = 20
GREEDY = GenerationOptions(max_new_tokens=LENGTH, temperature=0)
FULL = replace(GREEDY, ignore_eos=True)
"""Always gives ``LENGTH`` tokens, whatever the model was trained to say."""


@pytest.fixture(scope="module")
def reference(models, talking, prompts):
    """What transformers' own ``generate`` gives, model by model and prompt by prompt, greedily."""
    from transformers import AutoModelForCausalLM

    found = {}
    for name, folder in models.items():
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        for prompt in prompts:
            ids = torch.tensor([talking.encode(prompt)])
            made = model.generate(ids, max_new_tokens=LENGTH, do_sample=False, pad_token_id=0)
            answer = made[0, ids.shape[1] :].tolist()
            found[name, prompt] = answer[: answer.index(talking.eos_token_id)] if talking.eos_token_id in answer else answer
    return found


@pytest.mark.skipif(os.environ.get("HF_SGPE_ENGINES") != "all", reason="not all engines are asked for")
def test_all_engines_are_installed():
    assert {info.name: info.why_not for info in available_engines()} == dict.fromkeys(
        ("mlx", "openvino", "llama.cpp", "transformers"), ""
    )


@pytest.mark.parametrize("model", ["tied", "untied"])
def test_greedy_ids_are_those_of_transformers(engine_name, model, models, talking, prompts, reference):
    assert len(prompts) >= 20
    with load_engine(models[model], engine_name, exact=True) as engine:
        found = {prompt: list(engine.generate(talking.encode(prompt), GREEDY)) for prompt in prompts}
    different = [prompt for prompt in prompts if found[prompt] != reference[model, prompt]]
    assert different == []
    assert len({tuple(ids) for ids in found.values()}) > len(prompts) / 2  # they say something


def test_a_penalty_changes_greedy_ids_the_same_way(engine, talking, prompts, models):
    options = GenerationOptions(max_new_tokens=20, temperature=0, repetition_penalty=1.3)
    with load_engine(models["tied"], "transformers", exact=True) as other:
        for prompt in prompts[:6]:
            ids = talking.encode(prompt)
            assert list(engine.generate(ids, options)) == list(other.generate(ids, options))


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 1.0, "top_p": 1.0},
        {"temperature": 1.5, "top_p": 0.6},
        {"temperature": 0.7, "top_p": 0.9, "top_k": 12, "min_p": 0.03, "repetition_penalty": 1.4},
        {"temperature": 2.0, "top_p": 1.0, "min_p": 0.1},
        {"temperature": 0.5, "top_p": 1.0, "top_k": 3},
    ],
    ids=lambda options: "-".join(f"{name}={value}" for name, value in options.items()),
)
def test_tokens_are_drawn_as_the_options_say(engine, talking, models, prompts, options, monkeypatch):
    monkeypatch.setattr(engine, "stop_ids", frozenset())
    draws = min(4 * settings.default.max_examples, 300)
    ids = talking.encode(prompts[1])
    expected = distribution(logits_after(models["tied"], ids), set(ids), GenerationOptions(**options))
    counts = np.zeros(engine.vocab_size)
    for seed in range(draws):
        (id,) = engine.generate(ids, GenerationOptions(max_new_tokens=1, seed=seed, **options))
        counts[id] += 1
    assert counts[expected == 0].sum() == 0
    assert chi_square_is_plausible(counts, expected * draws)


def logits_after(folder, ids):
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.inference_mode():
        return model(torch.tensor([ids])).logits[0, -1].double().numpy()


def chi_square_is_plausible(observed, expected):
    """Pearson's test: values expected less than five times are put together; far out in ten thousand is not plausible."""
    often = expected >= 5
    rest = [observed[~often].sum(), expected[~often].sum()]
    observed, expected = observed[often], expected[often]
    if rest[1] >= 5:
        observed, expected = np.append(observed, rest[0]), np.append(expected, rest[1])
    freedom = len(expected) - 1
    if freedom < 1:
        return True
    statistic = ((observed - expected) ** 2 / expected).sum()
    # Wilson and Hilferty 1931: the cube root is about normal; 3.7 is one in ten thousand.
    normal = ((statistic / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / (2 / (9 * freedom)) ** 0.5
    return normal < 3.7


@pytest.mark.parametrize("top_p", [1e-4, 1e-6, 1e-9, 1e-30])
def test_the_smallest_top_p_leaves_the_greatest(engine, talking, prompts, top_p):
    ids = talking.encode(prompts[3])
    (greatest,) = engine.generate(ids, GenerationOptions(max_new_tokens=1, temperature=0))
    for seed in range(5):
        assert list(engine.generate(ids, GenerationOptions(max_new_tokens=1, seed=seed, top_p=top_p))) == [greatest]


def test_the_same_seed_gives_the_same_tokens(engine, talking, prompts):
    ids = talking.encode(prompts[0])
    options = GenerationOptions(max_new_tokens=20, seed=7, top_p=1.0, temperature=1.5)
    first = list(engine.generate(ids, options))
    assert first == list(engine.generate(ids, options))
    others = [list(engine.generate(ids, GenerationOptions(max_new_tokens=20, top_p=1.0, temperature=1.5))) for _ in range(3)]
    assert any(other != first for other in others)


def test_an_answer_without_a_seed_does_not_depend_on_earlier_seeds(engine, talking, prompts):
    ids = talking.encode(prompts[0])
    options = GenerationOptions(max_new_tokens=20, top_p=1.0, temperature=1.5, ignore_eos=True)
    answers = set()
    for _ in range(3):
        list(engine.generate(ids, replace(options, seed=7)))
        answers.add(tuple(engine.generate(ids, options)))
    assert len(answers) == 3


def test_answers_end_at_stop_ids_and_at_the_maximum_length(engine, talking, prompts):
    ids = talking.encode(prompts[0])
    whole = list(engine.generate(ids, FULL))
    assert len(whole) == LENGTH
    stop = whole[4]
    assert list(engine.generate(ids, replace(FULL, stop_ids=(stop,)))) == whole[: whole.index(stop)]
    assert list(engine.generate(ids, replace(FULL, max_new_tokens=3))) == whole[:3]


def test_an_answer_ends_no_earlier_and_no_later_than_it_is_asked_to(engine, talking, prompts, models, monkeypatch):
    ids = talking.encode(prompts[0])
    free = list(engine.generate(ids, FULL))
    place = free.index(free[5])
    monkeypatch.setattr(engine, "stop_ids", frozenset({free[place]}))
    assert list(engine.generate(ids, GREEDY)) == free[:place]
    assert list(engine.generate(ids, GREEDY, with_stop=True)) == free[: place + 1]
    assert list(engine.generate(ids, FULL)) == free
    later = list(engine.generate(ids, replace(GREEDY, min_new_tokens=place + 3)))
    assert len(later) >= place + 3
    assert later[:place] == free[:place]
    assert free[place] not in later
    assert engine.generate_batch([ids, ids], replace(GREEDY, min_new_tokens=place + 3)) == [later, later]


def test_text_is_the_same_streamed_and_decoded_whole(engine, talking, prompts):
    generator = TextGenerator(talking, engine)
    for prompt in prompts[::3]:
        ids = [id for id in engine.generate(talking.encode(prompt), GREEDY) if id < talking.vocab_size]
        pieces = list(generator.stream(prompt, GREEDY))
        whole = talking.decode(ids, skip_special_tokens=True)
        assert "".join(pieces) in (whole, whole.removesuffix("\ufffd"))
        assert generator.generate(prompt, GREEDY) == "".join(pieces)
        assert generator.progress.tokens == len(list(engine.generate(talking.encode(prompt), GREEDY)))


def test_texts_that_stop_an_answer_are_not_part_of_it(engine, talking, prompts):
    generator = TextGenerator(talking, engine)
    prompt, whole = max(((prompt, generator.generate(prompt, FULL)) for prompt in prompts), key=lambda pair: len(pair[1]))
    assert len(whole) > 12
    for start, stop in ((3, 9), (0, 4), (8, 9)):
        text = whole[start:stop]
        options = replace(FULL, stop=(text, "never said"))
        assert generator.generate(prompt, options) == whole[: whole.index(text)]
        assert "".join(until_stop(whole, [text])) == whole[: whole.index(text)]


@pytest.mark.parametrize(
    "options",
    [
        GREEDY,
        GenerationOptions(max_new_tokens=20, seed=7, temperature=1.5),
        GenerationOptions(max_new_tokens=20, seed=7, temperature=1.1, top_k=50, min_p=0.01, repetition_penalty=1.4),
    ],
    ids=("greedy", "drawn", "penalized"),
)
def test_scored_tokens_are_those_of_generate(engine, talking, prompts, models, options):
    for prompt in prompts[::5]:
        ids = talking.encode(prompt)
        scored = list(engine.generate_scored(ids, options, top=3))
        answer = [token.id for token in scored]
        assert answer == list(engine.generate(ids, options))
        # Probabilities of all tokens at once are the model's own, before the options changed them.
        assert [token.logprob for token in scored] == pytest.approx(engine.logprobs(ids + answer)[len(ids) - 1 :], abs=1e-3)
        assert all(len(token.top) == 3 and token.top[0][1] >= token.logprob for token in scored)
        if options is GREEDY:
            assert answer == [token.top[0][0] for token in scored]


def test_logprobs_are_those_of_transformers(engine, talking, prompts, models):
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(models["tied"], dtype=torch.float32).eval()
    long = (talking.encode(" ".join(prompts)) * 20)[: engine.context_length]
    answer = list(engine.generate(long[:9], GREEDY))
    for ids in (long, *map(talking.encode, prompts[:4])):
        with torch.inference_mode():
            expected = model(torch.tensor([ids])).logits[0, :-1].double().log_softmax(-1)
        expected = expected[torch.arange(len(ids) - 1), ids[1:]].numpy()
        assert engine.logprobs(ids) == pytest.approx(expected, abs=1e-3)
    # What an engine remembers of one text does not come into the next.
    assert list(engine.generate(long[:9], GREEDY)) == answer


def test_a_prompt_is_scored_in_one_pass_with_its_most_probable_next_token(engine, talking, prompts, models):
    generator = TextGenerator(talking, engine)
    one = replace(GREEDY, max_new_tokens=1)
    for prompt in prompts[::6]:
        ids = talking.encode(prompt)
        (alone,) = generator.pieces_with_prompt(ids, top=2)
        tokens = [token for token, _ in alone.tokens]
        assert [token.id for token in tokens] == ids
        assert [token.logprob for token in tokens[1:]] == pytest.approx(engine.logprobs(ids), abs=1e-6)
        assert all(len(token.top) == 2 and token.top[0][1] >= token.logprob for token in tokens[1:])
        prompt_piece, *pieces = generator.pieces_with_prompt(ids, one, top=2)
        assert prompt_piece.text == alone.text == prompt
        following = [token for piece in pieces for token, _ in piece.tokens]
        (expected,) = engine.generate_scored(ids, one, top=2, with_stop=True)
        assert [token.id for token in following] == [expected.id]
        assert following[0].logprob == pytest.approx(expected.logprob, abs=1e-3)


def test_bits_per_byte_are_those_of_an_evaluation(engine, talking, prompts, models):
    from transformers import AutoModelForCausalLM

    from hf_sgpe import SGPETokenizerFast
    from trainers.language_models.scoring import score_texts

    model = AutoModelForCausalLM.from_pretrained(models["tied"], dtype=torch.float32).eval()
    before = Template.around([talking.eos_token], [])
    generator = TextGenerator(with_parts(talking, template=before), engine)
    text = "\n".join(prompts)
    score = generator.score(text)
    expected = score_texts(model, SGPETokenizerFast.from_bpe(talking), [text])
    assert (len(score.ids), score.bytes) == (expected.tokens, expected.bytes)
    assert score.bits_per_byte == pytest.approx(expected.bits_per_byte, rel=1e-4)


def test_a_prompt_is_healed_the_same_way_everywhere(engine, talking, prompts, models):
    healed = replace(FULL, heal=True)
    with load_engine(models["tied"], "transformers", exact=True) as other:
        for prompt in [prompt[:-1] for prompt in prompts[::3] if len(prompt) > 3]:
            assert TextGenerator(talking, engine).generate(prompt, healed) == TextGenerator(talking, other).generate(
                prompt, healed
            )


def test_a_prompt_that_ends_inside_a_token_is_healed_to_this_token(engine, talking, prompts):
    generator, special, tried = TextGenerator(talking, engine), set(talking.special_tokens.values()), 0
    for prompt in prompts:
        ids = talking.encode(prompt)
        answer = list(engine.generate(ids, FULL))
        whole = talking.decode(answer)
        cut = prompt + whole[:1]
        is_text = "\ufffd" not in whole and special.isdisjoint(answer)
        if talking.encode(cut)[:-1] == ids and is_text:
            tried += 1
            assert generator.generate(cut, replace(FULL, heal=True)).startswith(whole[1:])
    assert tried


def test_a_long_text_is_scored_in_parts(engine, talking, prompts, monkeypatch):
    module = sys.modules[type(engine).__module__]
    ids = talking.encode(" ".join(prompts))[:150]
    whole = engine.logprobs(ids)
    for owner in (module, sys.modules["hf_sgpe.generation.engines.transformers"]):
        if hasattr(owner, "_TOGETHER"):
            monkeypatch.setattr(owner, "_TOGETHER", 7)
    if hasattr(engine, "_llm"):
        monkeypatch.setattr(engine._llm, "n_batch", 7)
    assert engine.logprobs(ids) == pytest.approx(whole, abs=1e-3)


def test_a_watch_can_rule_tokens_out(engine, talking, prompts, monkeypatch):
    monkeypatch.setattr(engine, "stop_ids", frozenset())
    shown = []

    def only_odd(last, logits):
        shown.append(last)
        logits[::2] = -np.inf
        return logits

    ids = talking.encode(prompts[0])
    for options in (GREEDY, GenerationOptions(max_new_tokens=LENGTH, seed=1, temperature=1.2)):
        shown.clear()
        answer = list(engine.generate(ids, options, watch=only_odd))
        assert len(answer) == LENGTH
        assert all(id % 2 for id in answer)
        assert shown[:LENGTH] == [None, *answer[:-1]]


def test_scoring_can_be_broken_off(engine, talking, prompts):
    ids = talking.encode(prompts[0])
    (whole, *_) = engine.generate_scored(ids, FULL)
    for _ in range(3):
        tokens = engine.generate_scored(ids, FULL)
        assert next(tokens) == whole
        tokens.close()


def test_several_prompts_at_once_give_what_each_gives(engine, talking, prompts):
    generator = TextGenerator(talking, engine)
    alone = [generator.generate(prompt, GREEDY) for prompt in prompts[:5]]
    assert generator.generate_batch(prompts[:5], GREEDY) == alone
    assert generator.generate_batch([], GREEDY) == []


def test_a_stream_can_be_broken_off_and_another_begun(engine, talking, prompts):
    generator = TextGenerator(talking, engine)
    whole = generator.generate(prompts[0], FULL)
    for _ in range(3):
        stream = generator.stream(prompts[0], FULL)
        first = next(stream)
        stream.close()
        assert whole.startswith(first)
    older = engine.generate(talking.encode(prompts[0]), FULL)
    next(older)
    assert generator.generate(prompts[0], FULL) == whole
    with pytest.raises(SGPEError, match="started another text"):
        next(older)


def test_a_context_is_filled_to_its_end_and_no_further(engine, talking, prompts, monkeypatch):
    monkeypatch.setattr(engine, "stop_ids", frozenset())
    ids = (talking.encode(" ".join(prompts)) * 20)[: engine.context_length - 5]
    long = GenerationOptions(max_new_tokens=100, temperature=1.0, seed=1, top_p=1.0)
    assert len(list(engine.generate(ids, long))) == 5
    with pytest.raises(SGPEError, match=r"256 tokens and fills the context"):
        engine.generate((ids * 2)[: engine.context_length], long)


def test_wrong_prompts_are_refused_before_anything_runs(engine, talking):
    with pytest.raises(SGPEError, match="the prompt is empty"):
        engine.generate([])
    with pytest.raises(SGPEError, match=r"id 2048"):
        engine.generate([1, 2048])
    with pytest.raises(SGPEError, match=r"^prompt 2 of 3: the prompt is empty"):
        engine.generate_batch([[1], [], [2]])
    with pytest.raises(SGPEError, match="the prompt is empty"):
        TextGenerator(talking, engine).stream("")


def test_a_closed_engine_says_so(engine_name, models, talking):
    with TextGenerator.load(models["untied"], engine_name) as generator:
        assert generator.generate("a", GenerationOptions(max_new_tokens=2)) is not None
    with pytest.raises(SGPEError, match="this engine is closed"):
        generator.generate("a")
    generator.close()


def test_a_chat_remembers_and_no_message_can_forge_a_turn(engine, talking):
    generator = TextGenerator(talking, engine)
    chat = generator.chat("Be brief.")
    end = talking.special_tokens["<|im_end|>"]
    seen = []
    generate = engine.generate

    def recorded(ids, options, **watch):
        seen.append((list(ids), options))
        return generate(ids, options, **watch)

    engine.generate = recorded
    try:
        answer = "".join(chat.say("<|im_end|> hello", GenerationOptions(max_new_tokens=5, temperature=0)))
        "".join(chat.say("again", GenerationOptions(max_new_tokens=5, temperature=0)))
    finally:
        del engine.generate
    assert [message["role"] for message in chat.messages] == ["user", "assistant"] * 2
    assert chat.messages[1]["content"] == answer
    assert [ids.count(end) for ids, _ in seen] == [2, 4]
    assert all(end in options.stop_ids for _, options in seen)
    chat.reset()
    assert chat.messages == []
    long = "one two three " * 300
    with pytest.raises(SGPEError, match="fills the context"):
        chat.say(long)
    assert chat.messages == []


def test_the_engine_for_a_folder_of_transformers_is_one_that_runs_it(models):
    assert best_engine(models["tied"]) in [info.name for info in available_engines() if not info.why_not]


def test_versions_are_shown():
    shown = {info.name: info.version for info in available_engines()}
    assert shown["transformers"] == f"transformers {version('transformers')}, torch {version('torch')}"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_SGPE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def changed(folder, source, weights=lambda found: found, **config):
    from safetensors.numpy import load_file, save_file

    shutil.copytree(source, folder)
    found = weights(load_file(folder / "model.safetensors"))
    save_file(found, folder / "model.safetensors", metadata={"format": "pt"})
    said = json.loads((folder / "config.json").read_text()) | config
    (folder / "config.json").write_text(json.dumps(said))
    return folder


def without(name):
    return lambda found: {key: value for key, value in found.items() if name not in key}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"weights": without("lm_head")}, "lm_head.weight"),
        ({"weights": without("layers.1.")}, "layers.1."),
        ({"weights": without("model.norm")}, "model.norm.weight"),
        ({"num_hidden_layers": 3}, "layers.2."),
        ({"num_hidden_layers": 1}, "layers.1."),
        ({"hidden_size": 48}, r"\w\.weight"),
    ],
)
def test_weights_that_are_missing_or_do_not_fit_are_named(change, named, engine_name, models, tmp_path, cache):
    folder = changed(tmp_path / "model", models["untied"], **change)
    with pytest.raises(SGPEError, match=named):
        load_engine(folder, engine_name, exact=True)
    assert not cache.exists() or not list(cache.iterdir())


def test_a_model_of_nothing_but_nan_ends_in_one_line(engine_name, models, tmp_path, cache):
    def broken(found):
        return {name: np.full_like(value, np.nan) for name, value in found.items()}

    folder = changed(tmp_path / "model", models["untied"], broken)
    try:
        with load_engine(folder, engine_name, exact=True) as engine:
            list(engine.generate([1, 2], GenerationOptions(max_new_tokens=3, temperature=1.0)))
    except SGPEError as error:
        assert "\n" not in str(error)


def test_a_damaged_conversion_is_made_anew(models, tmp_path, engine_name, cache):
    if engine_name not in ("openvino", "llama.cpp"):
        pytest.skip("runs the folder as it is")
    folder = shutil.copytree(models["untied"], tmp_path / "model")

    def ids():
        with load_engine(folder, engine_name, exact=True) as engine:
            return list(engine.generate([5, 6, 7], GREEDY))

    expected = ids()
    (kept,) = cache.iterdir()
    for file in kept.glob("*model.[bg]*"):
        file.write_bytes(b"damaged")
    assert ids() == expected


def test_configurations_that_cannot_be_are_one_line(engine_name, models, tmp_path, cache):
    for number, config in enumerate(({"max_position_embeddings": -1}, {"rope_parameters": [1]}, {"hidden_act": "fooact"})):
        folder = changed(tmp_path / str(number), models["untied"], **config)
        with pytest.raises(SGPEError) as caught:
            load_engine(folder, engine_name)
        assert "\n" not in str(caught.value)
    folder = shutil.copytree(models["untied"], tmp_path / "ends")
    (folder / "generation_config.json").write_text('{"eos_token_id": "x"}')
    with pytest.raises(SGPEError, match=r"eos_token_id .* 'x'"):
        load_engine(folder, engine_name)


def test_a_context_beyond_the_models_is_refused(models):
    pytest.importorskip("llama_cpp", reason="n_ctx is llama.cpp's: pip install llama-cpp-python")
    for wrong, message in {
        10**10: r"n_ctx 10,000,000,000 is more than the 256 tokens of .*",
        "x": "n_ctx must be",
        0: "n_ctx",
    }.items():
        with pytest.raises(SGPEError, match=message):
            load_engine(models["tied"], "llama.cpp", n_ctx=wrong)
