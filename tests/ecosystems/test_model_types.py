import json
import sys

import pytest
from support.ecosystems import ask, every_transformers
from support.stranger import digest

from hf_sgpe import BPETokenizer
from hf_sgpe.formats.tokenizer_config import OVERRULED

pytestmark = pytest.mark.slow

# Configurations that cannot be made of defaults alone, with a tokenizer or without: two need timm, one other values.
NO_MODEL = {"gemma3n_vision", "timm_wrapper", "gemma4_assistant"}


def saved_next_to(folder, model_type, out):
    """Return a folder with the same tokenizer, saved where the config.json of a model is."""
    out.mkdir()
    (out / "config.json").write_text(json.dumps({"model_type": model_type}), encoding="utf-8")
    BPETokenizer.from_pretrained(folder).save(out)
    return out


@every_transformers
def test_the_ids_are_the_same_beside_every_type_of_model(small, telling, expected, python, tmp_path):
    ours = digest(list(expected(small, telling)))
    next_to = saved_next_to(small, "qwen2", tmp_path / "both")
    plain, named = ask(
        python, *({"ask": "encode_beside_models", "folder": folder, "texts": telling} for folder in (small, next_to))
    )
    assert len(named) > 400
    different = {model_type: answer for model_type, answer in named.items() if answer != {"digest": ours}}
    assert {model_type: answer for model_type, answer in different.items() if "no_model" not in answer} == {}
    assert different.keys() <= NO_MODEL
    overruled = {model_type for model_type, answer in plain.items() if answer != {"digest": ours}} - NO_MODEL
    # Transformers 4 overrules no saved tokenizer. The day transformers 5 overrules none, the auto_map and its file can go.
    assert bool(overruled) == (python == sys.executable)
    assert overruled <= OVERRULED


@every_transformers
def test_every_recipe_has_its_ids_beside_models_with_and_without_trust(folders, telling, expected, python, tmp_path):
    model_types = ["llama", "gpt2", "bert", "t5", *(OVERRULED if python == sys.executable else ["qwen2", "siglip2"])]
    options = {"ask": "encode_beside_models", "texts": telling, "model_types": model_types}
    next_to = {name: saved_next_to(folder, "qwen2", tmp_path / name) for name, folder in folders.items()}
    ways = [(name, trust) for trust in (False, True) for name in folders]
    answers = ask(python, *({**options, "folder": next_to[name], "trust_remote_code": trust} for name, trust in ways))
    for (name, _), answer in zip(ways, answers, strict=True):
        ours = digest(list(expected(folders[name], telling)))
        assert answer == {model_type: {"digest": ours} for model_type in model_types}


def test_a_pipeline_finds_the_tokenizer_beside_its_model(folders, tmp_path):
    pytest.importorskip("torch")
    from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM, pipeline

    from hf_sgpe import BPETokenizer

    tokenizer = BPETokenizer.from_pretrained(folders["hybrid"])
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    Qwen2ForCausalLM(Qwen2Config(vocab_size=4000, num_key_value_heads=2, **sizes)).save_pretrained(tmp_path)
    tokenizer.save(tmp_path)
    generate = pipeline("text-generation", model=str(tmp_path))
    ids = tokenizer.encode("ශ්‍රී ලංකාව")
    assert generate.tokenizer("ශ්‍රී ලංකාව")["input_ids"] == ids == AutoTokenizer.from_pretrained(tmp_path).encode("ශ්‍රී ලංකාව")
    [answer] = generate("ශ්‍රී ලංකාව", max_new_tokens=3, do_sample=False)
    assert answer["generated_text"].startswith("ශ්‍රී ලංකාව")
