import math

import pytest

torch = pytest.importorskip("torch", reason="language models need PyTorch: pip install torch accelerate")
pytest.importorskip("accelerate", reason="language models need accelerate: pip install torch accelerate")

from support.small_models import make_llama  # noqa: E402

from hf_sgpe import SGPEError  # noqa: E402
from trainers.language_models.scoring import beginning_of, bits_per_byte, limits_of, score_texts  # noqa: E402


def slow_bits(model, tokenizer, texts, length):
    """Token by token, each from the context that `bits_per_byte` says it has."""
    stride = max(length // 2, 1)
    ids, own = [], []
    for text in texts:
        row = tokenizer(text, add_special_tokens=False)["input_ids"]
        ids += [tokenizer.eos_token_id, *row]
        own += [False] + [True] * len(row)
    bits = 0.0
    for place in range(1, len(ids)):
        start = 0
        while place - start > length:
            start += stride
        assert place - start >= min(stride, place)
        if own[place]:
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([ids[start:place]])).logits[0, -1].double()
            bits -= math.log2(logits.softmax(-1)[ids[place]])
    return bits / sum(len(text.encode()) for text in texts)


@pytest.mark.parametrize("length", [None, 1, 2, 5, 8, 40])
def test_bits_per_byte_are_those_of_scoring_token_by_token(lm_tokenizer, sample, length, monkeypatch):
    model = make_llama(lm_tokenizer).train()
    texts = [*sample["si"][:150].split("\n"), "", sample["en"][:60]]
    assert sum(len(lm_tokenizer(text)["input_ids"]) for text in texts) > 64
    monkeypatch.setattr("trainers.language_models.causal_objective.MEASURED_TOKENS", 50)
    found = bits_per_byte(model, lm_tokenizer, texts, length=length)
    assert found == pytest.approx(slow_bits(model, lm_tokenizer, texts, length or 64), rel=1e-5)
    assert model.training


@pytest.mark.parametrize(("kind", "caches"), [("Mamba", False), ("Rwkv", False), ("Lfm2", True), ("GraniteMoeHybrid", True)])
def test_models_whose_layers_have_other_states_are_scored(kind, caches, lm_tokenizer, sample):
    transformers = pytest.importorskip("transformers")
    attention = {"num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 16}
    mixed = {"Lfm2": "conv full_attention", "GraniteMoeHybrid": "mamba attention"}
    own = {
        "Mamba": {"state_size": 4},
        "Rwkv": {"attention_hidden_size": 16, "intermediate_size": 16},
        "Lfm2": attention,
        "GraniteMoeHybrid": {**attention, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 4},
    }[kind]
    if not hasattr(transformers, f"{kind}Config"):
        pytest.skip(f"this version of transformers has no {kind}")
    size = {"vocab_size": len(lm_tokenizer), "hidden_size": 16, "num_hidden_layers": 2}
    layers = {"layer_types": mixed[kind].split()} if kind in mixed else {}
    config = getattr(transformers, f"{kind}Config")(**size, **own, **layers)
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    texts = [sample["si"][:60], sample["en"][:40]]
    score = score_texts(model, lm_tokenizer, texts, length=64)
    assert score.bits / score.bytes == pytest.approx(slow_bits(model, lm_tokenizer, texts, 64), rel=1e-4)
    assert (score.cache_bytes is not None) == caches


def test_bits_per_byte_of_a_model_that_knows_nothing(lm_tokenizer):
    model = make_llama(lm_tokenizer)
    torch.nn.init.zeros_(model.get_output_embeddings().weight)
    text = "ශ්‍රී ලංකාව"
    tokens = len(lm_tokenizer(text)["input_ids"])
    expected = tokens * math.log2(model.config.vocab_size) / len(text.encode())
    assert bits_per_byte(model, lm_tokenizer, [text]) == pytest.approx(expected, rel=1e-5)
    assert bits_per_byte(model, lm_tokenizer, [text] * 100) == pytest.approx(expected, rel=1e-5)
    with pytest.raises(SGPEError, match="no text"):
        bits_per_byte(model, lm_tokenizer, ["", ""])


def test_in_a_limited_time_only_the_beginning_is_read(lm_tokenizer, sample, monkeypatch):
    monkeypatch.setattr("trainers.language_models.scoring._estimated_seconds", lambda model, encoded: 100.0)
    model, texts = make_llama(lm_tokenizer), [sample["si"], sample["en"]]
    score = score_texts(model, lm_tokenizer, texts, minutes=0.5)
    read = beginning_of(texts, sum(map(len, texts)) * 30 // 100)
    assert score.bits == pytest.approx(score_texts(model, lm_tokenizer, read).bits)
    assert score.characters == sum(map(len, read)) < 0.3 * sum(map(len, texts))
    assert beginning_of(texts, score.characters) == read
    share = f"{score.characters / sum(map(len, texts)):.0%}"
    assert limits_of({"a": texts}, {"a": score}) == [
        f"a: bits per byte of the first {share} of the text (all with --eval-minutes 0)"
    ]
    for minutes in (None, 2):
        whole = score_texts(model, lm_tokenizer, texts, minutes=minutes)
        assert whole.characters == sum(map(len, texts))
        assert limits_of({"a": texts}, {"a": whole}) == []


def test_the_estimate_of_the_time_is_near(lm_tokenizer, sample):
    model, texts = make_llama(lm_tokenizer), [sample["si"]] * 20
    score = score_texts(model, lm_tokenizer, texts, minutes=1e-5)
    assert 0 < score.characters < sum(map(len, texts)) / 4


def test_the_beginning_of_texts_ends_with_a_line():
    texts = ["one\ntwo\n", "", "three\nfour"]
    whole = "".join(texts)
    for characters in range(len(whole) + 3):
        beginning = "".join(beginning_of(texts, characters))
        assert whole.startswith(beginning)
        assert len(beginning) <= characters
        assert beginning in ("", whole) or beginning.endswith("\n") or "\n" not in beginning
    assert beginning_of(texts, len(whole)) == texts
