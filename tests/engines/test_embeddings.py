import numpy as np
import pytest
import torch

from hf_sgpe.errors import SGPEError
from hf_sgpe.generation import GenerationOptions


def test_an_embedding_is_the_mean_of_the_last_hidden_states(engine, talking, prompts, models):
    from transformers import AutoModelForCausalLM

    long = talking.encode(" ".join(prompts))[:200]
    if not engine.embedding_length:
        with pytest.raises(SGPEError, match=f"{engine.name} has no embeddings"):
            engine.embed(long)
        return
    options = GenerationOptions(max_new_tokens=8, temperature=0)
    before = [*engine.generate(long[:20], options)]
    model = AutoModelForCausalLM.from_pretrained(models["tied"], dtype=torch.float32).eval()
    for ids in (long, long[:1], *map(talking.encode, prompts[:3])):
        with torch.inference_mode():
            expected = model(torch.tensor([ids]), output_hidden_states=True).hidden_states[-1][0].mean(0).numpy()
        found = engine.embed(ids)
        assert found.dtype == np.float32
        assert len(found) == engine.embedding_length
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
    assert [*engine.generate(long[:20], options)] == before
    with pytest.raises(SGPEError, match="the text is empty"):
        engine.embed([])
