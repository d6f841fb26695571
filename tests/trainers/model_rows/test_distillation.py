from collections import Counter

import pytest

torch = pytest.importorskip("torch", reason="rows are tensors: pip install torch accelerate")

from support.small_models import bits, fitted  # noqa: E402

from hf_sgpe import SGPEError  # noqa: E402
from trainers.model_rows import distillation  # noqa: E402
from trainers.model_rows.distillation import Distillation, Snippet, choose_snippets, distil  # noqa: E402


@pytest.fixture
def lines(sample):
    return [line for line in sample["si"][:20_000].splitlines() if line.strip()]


def test_distilling_brings_states_nearer_and_leaves_all_else(extended, lines):
    _, new, old = extended
    model, ids = fitted(extended)
    settings = Distillation(per_token=10, length=96, batch_size=4, learning_rate=1e-2)
    snippets = choose_snippets(new, old, ids, lines, settings)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    def distance():
        total = 0.0
        with torch.no_grad():
            for snippet in snippets[:10]:
                states = [
                    model.base_model(input_ids=torch.tensor([ids])).last_hidden_state[0, places]
                    for ids, places in ((snippet.old, snippet.old_ends), (snippet.new, snippet.new_ends))
                ]
                total += ((states[0] - states[1]) ** 2).sum().item()
        return total

    began = distance()
    distil(model, ids, snippets, settings, progress=False)
    assert distance() < 0.9 * began
    kept = [id for id in range(len(model.get_input_embeddings().weight)) if id not in ids]
    for name, tensor in model.state_dict().items():
        is_table = tensor.shape[0] == len(model.get_input_embeddings().weight)
        assert bits(tensor[kept] if is_table else tensor) == bits(before[name][kept] if is_table else before[name])
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_each_new_token_gets_its_snippets_if_the_text_has_them(extended, lines):
    _, new, old = extended
    ids = fitted(extended)[1]
    settings = Distillation(per_token=3, length=60)
    snippets = choose_snippets(new, old, ids, lines, settings)
    every = choose_snippets(new, old, ids, lines, Distillation(per_token=10**6, length=60))
    there, uses = (Counter(id for one in some for id in set(one.new)) for some in (every, snippets))
    assert all(uses[id] >= min(3, there[id]) for id in ids)
    assert len(snippets) < len(every)
    for one in snippets:
        assert len(one.old) <= 60
        for old_end, new_end in zip(one.old_ends, one.new_ends, strict=True):
            assert old.decode(one.old[: old_end + 1]) == new.decode(one.new[: new_end + 1])
    with pytest.raises(SGPEError, match="has none of the new tokens"):
        choose_snippets(new, old, ids, ["plain English"], settings)


@pytest.mark.parametrize("layer", [1, None])
def test_an_interrupted_run_ends_with_the_same_rows(extended, lines, layer, tmp_path, monkeypatch):
    _, new, old = extended
    settings = Distillation(per_token=4, batch_size=4, learning_rate=1e-2, layer=layer)
    whole, ids = fitted(extended)
    snippets = choose_snippets(new, old, ids, lines, settings)
    distil(whole, ids, snippets, settings, progress=False)
    cut, _ = fitted(extended)
    file, losses, calls = tmp_path / "state.pt", distillation._losses, []

    def failing(*arguments):
        calls.append(1)
        if len(calls) == len(snippets) // 8:
            raise KeyboardInterrupt
        return losses(*arguments)

    monkeypatch.setattr(distillation, "_losses", failing)
    with pytest.raises(KeyboardInterrupt):
        distil(cut, ids, snippets, settings, state=file, progress=False)
    again, _ = fitted(extended)
    distil(again, ids, snippets, settings, state=file, progress=False)
    assert len(calls) < 1.3 * len(snippets) / 4  # it does not start again
    assert bits(whole.get_input_embeddings().weight) == bits(again.get_input_embeddings().weight)
    with pytest.raises(SGPEError, match="other settings or text: remove it"):
        distil(again, ids, snippets[1:], settings, state=file, progress=False)


def test_old_tokens_are_read_only_up_to_the_layer_that_is_compared(extended, lines):
    _, new, old = extended
    model, ids = fitted(extended)
    snippets = choose_snippets(new, old, ids, lines, Distillation(per_token=1))[:4]
    batch = distillation._Reader().batch(model, [snippet.old for snippet in snippets])
    whole = model.model(**batch, output_hidden_states=True).hidden_states[1]
    later = []
    model.model.layers[1].register_forward_hook(lambda *_: later.append(1))
    states, logits = distillation._states(model, batch, 1)
    assert torch.equal(states, whole)
    assert logits is None
    assert not later


def test_separate_tables_learn_from_separate_losses(extended, lines):
    """The embedding must not learn from the prediction, and the output must not learn from the states."""
    _, new, old = extended
    model, ids = fitted(extended)
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    model.config.tie_word_embeddings = False
    settings = Distillation(per_token=2)
    snippets = choose_snippets(new, old, ids, lines, settings)[:4]
    distance, predicted = distillation._losses(model, snippets, None, distillation._Reader())
    tables = model.get_input_embeddings().weight, model.lm_head.weight
    alone = [
        torch.autograd.grad(loss, table, retain_graph=True)[0]
        for loss, table in zip((distance, predicted), tables, strict=True)
    ]
    distillation._backward(model, distance, predicted, 1.0)
    assert all(torch.equal(table.grad, gradient) and gradient.any() for table, gradient in zip(tables, alone, strict=True))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"per_token": 0}, "per_token must be at least 1, not 0"),
        ({"layer": 0}, "layer must be at least 1, not 0"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0"),
        ({"predict": -1.0}, "predict must be at least 0"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(SGPEError, match=message):
        Distillation(**settings)


def test_a_layer_that_the_model_lacks_is_refused(extended):
    model, ids = fitted(extended)
    with pytest.raises(SGPEError, match=r"at most 2, .* 3"):
        distil(model, ids, [Snippet([1], [1], [0], [0])], Distillation(layer=3))
