import json
import re
import sys

import pytest

torch = pytest.importorskip("torch", reason="language models need PyTorch: pip install torch accelerate")
pytest.importorskip("accelerate", reason="language models need accelerate: pip install torch accelerate")

from support.command import process  # noqa: E402
from support.ecosystems import FINETUNING, needs_finetuning  # noqa: E402
from support.pages import blocks  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM  # noqa: E402

from hf_sgpe.generation import GenerationOptions, TextGenerator  # noqa: E402
from trainers import ExtensionConfig, TokenizerExtender, TokenizerTrainer, TrainingConfig  # noqa: E402
from trainers.model_rows.token_tables import extended_ids  # noqa: E402
from trainers.model_rows.transplanting import transplant  # noqa: E402

RECIPES = {
    name: block.code
    for block in blocks()
    if block.page == "training-tools.md" and "test_finetuning.py runs it" in block.remark
    for name in ("my-sinhala-model", "my-chat-model", "my-assistant")
    if f'save_pretrained("{name}")' in block.code
}
CHAT = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def run(name, folder):
    assert re.search(r"max_steps=1000", RECIPES[name])
    short = "max_steps=2, per_device_train_batch_size=2, use_cpu=True, dataloader_pin_memory=False"
    code = RECIPES["my-chat-model"] + RECIPES[name] if name == "my-assistant" else RECIPES[name]
    code = code.replace("max_steps=1000", short).replace("tokenizer, 256", "tokenizer, 16")
    bf16 = "bf16=False, " if "trl" in code else ""
    code = code.replace("max_steps=2, ", f"max_steps=2, {bf16}")
    process(sys.executable, "-c", code, cwd=folder, PYTHONPATH=str(FINETUNING), HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1")


def test_the_documentation_has_the_three_recipes():
    assert set(RECIPES) == {"my-sinhala-model", "my-chat-model", "my-assistant"}


@needs_finetuning
@pytest.mark.parametrize("tied", [True, False])
def test_an_extended_model_becomes_an_assistant_with_the_same_ids(tied, sample, tmp_path):
    config = TrainingConfig(500, "bpe", pattern="gpt2", special_tokens=CHAT, normalization="none")
    TokenizerTrainer(config).train(iterator=[sample["en"][:20_000]]).save_pretrained(tmp_path / "base-model")
    extension = ExtensionConfig(scripts=["sinhala"], new_tokens=100)
    extended = TokenizerExtender(extension).extend(tmp_path / "base-model", text=sample["si"][:20_000])
    extended.save_pretrained(tmp_path / "base-model-si")
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    torch.manual_seed(1)
    LlamaForCausalLM(LlamaConfig(vocab_size=512, **sizes, tie_word_embeddings=tied)).save_pretrained(tmp_path / "base-model")
    transplant(tmp_path / "base-model", tmp_path / "base-model-si", tmp_path / "my-base-si", multiple=64)
    lines = [line for line in sample["si"].splitlines() if line][:40]
    for name, text in {"si.txt": lines, "held-out.txt": lines[:4], "en.txt": sample["en"].splitlines()[:4]}.items():
        (tmp_path / name).write_text("\n".join(text), encoding="utf-8")
    roles = [{"role": role, "content": line[:40]} for role, line in zip(("user", "assistant") * 20, lines, strict=True)]
    pairs = list(zip(roles[::2], roles[1::2], strict=True))
    chats = [{"messages": list(pair)} for pair in pairs]
    others = [pair[1] for pair in pairs[1:]]
    preferred = [{"prompt": [a], "chosen": [b], "rejected": [c]} for (a, b), c in zip(pairs, others, strict=False)]
    for name, records in {"chats.jsonl": chats, "preferences.jsonl": preferred}.items():
        (tmp_path / name).write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")

    run("my-sinhala-model", tmp_path)
    new = extended_ids(extended)
    before = AutoModelForCausalLM.from_pretrained(tmp_path / "my-base-si")
    trained = AutoModelForCausalLM.from_pretrained(tmp_path / "my-sinhala-model")
    for kind in ("get_input_embeddings", "get_output_embeddings"):
        old_rows, rows = (getattr(model, kind)().weight for model in (before, trained))
        assert old_rows.shape == rows.shape  # with padding rows
        changed = (old_rows != rows).any(1)
        kept = [id for id in range(len(rows)) if id not in new]
        assert not changed[kept].any() and changed[new].any(), kind
    adapter = (tmp_path / "my-adapter" / "adapter_model.safetensors").stat().st_size
    assert adapter < (tmp_path / "my-sinhala-model" / "model.safetensors").stat().st_size

    run("my-assistant", tmp_path)
    for name in ("my-chat-model", "my-assistant"):
        model, tokenizer = (kind.from_pretrained(tmp_path / name) for kind in (AutoModelForCausalLM, AutoTokenizer))
        assert (model.get_input_embeddings().weight is model.get_output_embeddings().weight) == tied
        assert model.get_input_embeddings().weight.equal(trained.get_input_embeddings().weight)
        assert model.generation_config.eos_token_id == extended.convert_tokens_to_ids("<|im_end|>")
        for line in (*lines, *sample["en"].splitlines()[:20]):
            assert tokenizer(line)["input_ids"] == extended(line)["input_ids"]
    with TextGenerator.load(tmp_path / "my-assistant", "transformers") as generator:
        ids = generator.encode(lines[0][:30])
        assert ids[-len(extended(lines[0][:30])["input_ids"]) :] == extended(lines[0][:30])["input_ids"]
        options = GenerationOptions(max_new_tokens=5, temperature=0)
        answered = list(generator.engine.generate(ids, options))
        expected = model.generate(torch.tensor([ids]), max_new_tokens=5, do_sample=False)[0].tolist()[len(ids) :]
        assert answered == expected[: len(answered)] and answered
