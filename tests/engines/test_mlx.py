import json

import numpy as np
import pytest

from hf_sgpe.generation import GenerationOptions, load_engine
from hf_sgpe.generation.engines.mlx import COMPARED

mx = pytest.importorskip("mlx.core", reason="needs MLX: pip install 'mlx-lm[cpu]'")
pytest.importorskip("mlx_lm", reason="needs MLX: pip install 'mlx-lm[cpu]'")
torch = pytest.importorskip("torch", reason="the models are made with PyTorch: pip install torch")

from support.models import random_model, variants  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

GREEDY = GenerationOptions(max_new_tokens=6, temperature=0)
# A row in as many variants as it takes for each of its values.
ROWS = [(kind, number) for kind, row in COMPARED.items() for number in range(len(variants(row)))]


def same_ids_and_logits(folder):
    """Whether the greedy ids are equal, and the largest difference between logits in parts of the largest."""
    with load_engine(folder, "transformers", exact=True) as theirs, load_engine(folder, "mlx", exact=True) as ours:
        # Shorter than a window of 16 tokens, one that becomes longer, and longer.
        lengths, size = (1, 12, 40), theirs.vocab_size
        texts = [[(7 * place * place + 3 * length) % size for place in range(length)] for length in lengths]
        with torch.inference_mode():
            expected = theirs._model(torch.tensor(texts[-1:])).logits[0].double().numpy()
        logits = np.array(ours._model(mx.array(texts[-1:])))[0].astype(np.float64)
        ids = [[list(engine.generate(text, GREEDY)) for text in texts] for engine in (theirs, ours)]
    return ids[0] == ids[1], np.abs(logits - expected).max() / np.abs(expected).max()


@pytest.mark.parametrize(("kind", "number"), ROWS)
def test_mlx_computes_what_it_is_let_run(kind, number, tmp_path):
    row = variants(COMPARED[kind])[number]
    sizes = {"head_dim": 8} if kind in ("cohere2", "helium", "mixtral") else {}  # mlx-lm has no other there, and says so
    layers = 4 if kind in ("cohere2", "olmo3", "smollm3") else 2  # one in four of these is of another kind
    folder = random_model(tmp_path / "model", kind, row, vocab_size=97, num_hidden_layers=layers, **sizes)
    if number % 2:  # what transformers takes where nothing is said is not what mlx-lm takes
        leave_out_defaults(folder, kind)
    is_same, difference = same_ids_and_logits(folder)
    assert is_same
    assert difference < 1e-4


def leave_out_defaults(folder, kind):
    from transformers import AutoConfig

    usual = AutoConfig.for_model(kind).to_dict()
    config = json.loads((folder / "config.json").read_text())
    kept = {name: value for name, value in config.items() if name == "model_type" or usual.get(name, ...) != value}
    assert len(kept) < len(config)
    (folder / "config.json").write_text(json.dumps(kept))
