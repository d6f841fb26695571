import json

import pytest
from support.notebooks import EXAMPLES, printed, run_notebook

from hf_sgpe import BPETokenizer, SGPETokenizerFast

NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


@pytest.fixture(scope="module")
def base(sample, tmp_path_factory):
    torch = pytest.importorskip("torch", reason="models are of PyTorch: pip install torch accelerate")
    pytest.importorskip("nbclient", reason="notebooks are run by: pip install nbclient ipykernel")
    from transformers import LlamaForCausalLM

    from trainers.language_models.language_model import small_llama

    english = BPETokenizer.train_from_iterator([sample["en"]], 400, pattern="qwen2", special_tokens=["<|endoftext|>"])
    tokenizer = SGPETokenizerFast.from_bpe(english)
    tokenizer.chat_template = "{% for message in messages %}{{ message.content }}\n{% endfor %}"
    folder = tmp_path_factory.mktemp("base")
    tokenizer.save_pretrained(folder)
    torch.manual_seed(1)
    shape = small_llama(len(tokenizer), layers=1, width=16, heads=2, length=256)
    shape.eos_token_id = tokenizer.eos_token_id
    LlamaForCausalLM(shape).save_pretrained(folder)
    return folder


def test_notebooks_hold_no_outputs_and_install_first():
    assert [path.name for path in NOTEBOOKS] == ["compare_tokenizers.ipynb", "extend_a_model.ipynb", "train_a_model.ipynb"]
    for path in NOTEBOOKS:
        content = json.loads(path.read_text(encoding="utf-8"))
        code = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
        assert [cell["outputs"] for cell in code] == [[]] * len(code), f"{path}: clear its outputs"
        assert "".join(code[0]["source"]).startswith("%pip install")


@pytest.mark.slow
def test_extending_a_model(base, tmp_path):
    model = r'"HuggingFaceTB/SmolLM2-135M-Instruct"'
    outputs = run_notebook(
        "extend_a_model.ipynb", tmp_path, (model, repr(str(base))), (r"= 1000 ", "= 200 "), (r"STEPS = \d+", "STEPS = 3")
    )
    said = printed(outputs)
    assert "100 of 100 lines have the same ids" in said
    assert "200 started from their pieces" in said
    assert any("sgpe-view" in output.get("data", {}).get("text/html", "") for output in outputs)
    assert (tmp_path / "model" / "model.safetensors").exists()


@pytest.mark.slow
def test_comparing_tokenizers(base, tmp_path):
    others = ("HuggingFaceTB/SmolLM2-135M", "Qwen/Qwen3-0.6B", "bigscience/bloom-560m")
    outputs = run_notebook("compare_tokenizers.ipynb", tmp_path, *((f'"{name}"', repr(str(base))) for name in others))
    said = printed(outputs)
    assert "cut syllables" in said and "BLOOM" in said
    assert (tmp_path / "site" / "tokenizer-4.json").exists()


@pytest.mark.slow
def test_training_a_model(base, tmp_path):
    said = printed(run_notebook("train_a_model.ipynb", tmp_path, (r"STEPS = \d+", "STEPS = 20")))
    before, after = (float(word) for word in said.split() if word.replace(".", "").isdigit() and "." in word)
    assert after < before
