import json
from functools import partial

import pytest

torch = pytest.importorskip("torch", reason="language models need PyTorch: pip install torch accelerate")
pytest.importorskip("accelerate", reason="language models need accelerate: pip install torch accelerate")

from transformers import (  # noqa: E402
    AutoModelForCausalLM,
    GPT2Config,
)

from hf_sgpe import SGPEError, SGPETokenizerFast  # noqa: E402
from hf_sgpe.weights.model_loading import load_model, load_predicting_model, load_tokenizer  # noqa: E402
from trainers.language_models.language_model import pack  # noqa: E402


def test_tokenizers_load_from_folder_file_and_what_transformers_knows(lm_tokenizer, tmp_path):
    lm_tokenizer.save_pretrained(tmp_path / "saved")
    for name in ("saved", "saved/tokenizer.json"):
        loaded = load_tokenizer(str(tmp_path / name))
        assert isinstance(loaded, SGPETokenizerFast)
        assert loaded("ශ්‍රී ලංකාව")["input_ids"] == lm_tokenizer("ශ්‍රී ලංකාව")["input_ids"]

    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"<unk>": 0, "</s>": 1, "one": 2, "two": 3}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words, eos_token="</s>").save_pretrained(tmp_path / "words")
    other = load_tokenizer(str(tmp_path / "words"))
    assert list(pack(["one two", "two"], other, 5)) == [[1, 2, 3, 1, 3]]
    with pytest.raises(SGPEError, match="give the folder of the file"):
        load_tokenizer(str(tmp_path / "words" / "tokenizer.json"))


def test_folders_that_cannot_be_loaded_are_named_in_one_line(tmp_path):
    GPT2Config().save_pretrained(tmp_path / "model")  # transformers makes up a tokenizer for it
    with pytest.raises(SGPEError, match=r"model: the folder holds no tokenizer$"):
        load_tokenizer(str(tmp_path / "model"))
    empty = str(tmp_path / "empty")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SGPEError, match=r"the folder holds no tokenizer$") as raised:
        load_tokenizer(empty)
    assert str(raised.value).startswith(empty)
    with pytest.raises(SGPEError, match=r"empty has no model: there is no config\.json"):
        load_model(AutoModelForCausalLM, empty)
    for name in ("nobody/nothing", "no such name"):
        for load in (load_tokenizer, partial(load_model, AutoModelForCausalLM)):
            with pytest.raises(SGPEError, match=f"^{name}: no such file or folder, and "):
                load(name)


@pytest.mark.parametrize("name", ["vocab_size", "num_attention_heads", "torch_dtype", "architectures", "bos_token_id"])
@pytest.mark.parametrize("value", ['{"a": 1}', "NaN", "1e400", '"x"', "[1]"])
def test_a_damaged_config_is_one_line(name, value, tmp_path):
    shape = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
    config = {"model_type": "llama", "vocab_size": 20, "architectures": ["LlamaForCausalLM"], **shape, name: "@"}
    (tmp_path / "config.json").write_text(json.dumps(config).replace('"@"', value), encoding="utf-8")
    with pytest.raises(SGPEError) as raised:
        load_predicting_model(str(tmp_path))
    assert str(raised.value).startswith(str(tmp_path))
    assert "\n" not in str(raised.value)


def test_no_code_of_a_model_is_run(tmp_path, monkeypatch):
    """transformers would ask on the terminal whether to run it."""
    auto_map = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "own", "auto_map": auto_map}), encoding="utf-8")
    (tmp_path / "own.py").write_text("raise SystemExit('run')", encoding="utf-8")
    questions = []
    monkeypatch.setattr("builtins.input", lambda question="": questions.append(question) or "y")
    for load in (partial(load_model, AutoModelForCausalLM), load_predicting_model):
        with pytest.raises(SGPEError, match="cannot load a model from this place"):
            load(str(tmp_path))
    assert not questions
