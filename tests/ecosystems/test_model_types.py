"""What is saved, beside the config.json of a model: AutoTokenizer looks at that first, and has ideas of its own."""

import json
import sys

import pytest
from support.ecosystems import ask, every_transformers
from support.stranger import digest

pytestmark = pytest.mark.slow

# Configurations that cannot be made of defaults alone, with a tokenizer or without: two need timm, one other values.
NO_MODEL = {"gemma3n_vision", "timm_wrapper", "gemma4_assistant"}
# Those for which transformers puts a tokenizer of its own in the place of another that is not named in an auto_map.
OVERRULED = ["qwen2", "qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text", "qwen4_exp", "siglip2", "hyperclovax_vision_v2"]


@every_transformers
def test_the_ids_are_the_same_beside_every_type_of_model(small, telling, expected, python):
    ours = digest(list(expected(small, telling)))
    [answers] = ask(python, {"ask": "encode_beside_models", "folder": small, "texts": telling})
    assert len(answers) > 400
    different = {model_type: answer for model_type, answer in answers.items() if answer != {"digest": ours}}
    assert {model_type: answer for model_type, answer in different.items() if "no_model" not in answer} == {}
    assert different.keys() <= NO_MODEL


@every_transformers
def test_whatever_the_recipe_and_whoever_is_trusted(folders, telling, expected, python):
    model_types = ["llama", "gpt2", "bert", "t5", *(OVERRULED if python == sys.executable else ["qwen2", "siglip2"])]
    options = {"ask": "encode_beside_models", "texts": telling, "model_types": model_types}
    ways = [(folder, trust) for trust in (False, True) for folder in folders.values()]
    answers = ask(python, *({**options, "folder": folder, "trust_remote_code": trust} for folder, trust in ways))
    for (folder, _), answer in zip(ways, answers, strict=True):
        ours = digest(list(expected(folder, telling)))
        assert answer == {model_type: {"digest": ours} for model_type in model_types}


def test_without_the_auto_map_some_would_be_different(small, telling, expected, tmp_path):
    """The day this fails, the auto_map and its file can go."""
    for file in small.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = json.loads((tmp_path / "tokenizer_config.json").read_text(encoding="utf-8"))
    del config["auto_map"]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    options = {"texts": telling, "model_types": ["llama", *OVERRULED]}
    [answer] = ask(sys.executable, {"ask": "encode_beside_models", "folder": tmp_path, **options})
    ours = {"digest": digest(list(expected(small, telling)))}
    assert answer["llama"] == ours
    assert any(answer[model_type] != ours for model_type in OVERRULED)


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
