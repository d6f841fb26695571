"""A folder to train in, and what the tests ask of bad input."""

import json
import shutil
from functools import partial

import pytest
from support.command import check_refusal, hf_sgpe

from trainers import TokenizerTrainer, TrainingConfig


@pytest.fixture(scope="session")
def folder(tmp_path_factory, sample):
    """A folder with tokenizers, and texts and pairs of them."""
    pytest.importorskip("torch", reason="training needs PyTorch: pip install torch accelerate")
    pytest.importorskip("accelerate", reason="training needs accelerate: pip install torch accelerate")
    from tokenizers import Tokenizer, models
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

    from trainers.language_models.language_model import small_llama

    folder = tmp_path_factory.mktemp("training")
    texts = [sample["si"][:20_000], sample["en"][:20_000]]
    for name, options in {
        "none": {"special_tokens": ()},
        "bare": {"special_tokens": ("<|endoftext|>",)},
        "padding": {"pad_token": "<|pad|>"},
        "chat": {"chat_template": "chatml"},
    }.items():
        config = TrainingConfig(600, "bpe", **options)
        TokenizerTrainer(config).train(iterator=texts).save_pretrained(folder / name)
    (folder / "si.txt").write_text(sample["si"], encoding="utf-8")
    (folder / "empty.txt").touch()
    (folder / "held out.txt").write_text(sample["si"][:2000], encoding="utf-8")
    lines = {language: sample[language].splitlines()[:30] for language in ("si", "en")}
    for language, text in lines.items():
        (folder / f"30-{language}.txt").write_text("\n".join(text) + "\n", encoding="utf-8")
    pairs = list(zip(lines["si"], lines["en"], strict=True))
    (folder / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    records = (json.dumps({"source": source, "target": target}) for source, target in pairs)
    (folder / "pairs.jsonl").write_text("\n".join(records), encoding="utf-8")
    for name, rows in {"model of bare": 640, "small": 100}.items():
        LlamaForCausalLM(small_llama(rows, layers=1, width=16, heads=2, length=16)).save_pretrained(folder / name)
    shutil.copytree(folder / "bare", folder / "model of bare", dirs_exist_ok=True)
    words = Tokenizer(models.WordLevel({"<unk>": 0, "</s>": 1, "one": 2}, unk_token="<unk>"))
    PreTrainedTokenizerFast(tokenizer_object=words, eos_token="</s>").save_pretrained(folder / "words")
    return folder


@pytest.fixture
def refused(folder):
    return partial(check_refusal, hf_sgpe, folder)
