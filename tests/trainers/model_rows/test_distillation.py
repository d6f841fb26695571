"""New rows that are taught by the old tokenizer's model."""

import pytest

torch = pytest.importorskip("torch", reason="rows are tensors: pip install torch accelerate")

from support.small_models import bits, fitted  # noqa: E402

from hf_sgpe import SGPEError  # noqa: E402
from trainers.model_rows.distillation import distil  # noqa: E402


def test_distilling_brings_states_nearer_and_leaves_all_else(extended, sample):
    _, new, old = extended
    model, ids = fitted(extended)
    texts = [line for line in sample["si"][:20_000].splitlines() if line.strip()][:40]
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    def distance():
        total = 0.0
        with torch.no_grad():
            for text in texts[:10]:
                states = [
                    model.base_model(input_ids=torch.tensor([one(text)["input_ids"]])).last_hidden_state[0, -1]
                    for one in (old, new)
                ]
                total += ((states[0] - states[1]) ** 2).sum().item()
        return total

    began = distance()
    distil(model, new, old, ids, texts, steps=30, learning_rate=1e-2, progress=False)
    assert distance() < 0.9 * began
    kept = [id for id in range(len(model.get_input_embeddings().weight)) if id not in ids]
    for name, tensor in model.state_dict().items():
        is_table = tensor.shape[0] == len(model.get_input_embeddings().weight)
        assert bits(tensor[kept] if is_table else tensor) == bits(before[name][kept] if is_table else before[name])
    with pytest.raises(SGPEError, match="has none of the new tokens"):
        distil(model, new, old, ids, ["plain English"], steps=1, progress=False)
