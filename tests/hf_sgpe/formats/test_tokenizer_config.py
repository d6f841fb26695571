import json
import pickle

import pytest
from support.command import hf_sgpe
from support.small_tokenizers import with_parts
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from hf_sgpe import BPETokenizer, ExtensionConfig, SGPETokenizerFast
from hf_sgpe.formats.tokenizer_config import AUTO_CLASS_FILE, CONFIG_FILE, config_files, for_every_loader
from hf_sgpe.formats.tokenizer_folder import TokenizerFolder
from trainers import TokenizerExtender

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = "{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}"


def settings_in(folder):
    return json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))


@pytest.fixture
def resaved(tmp_path):
    """A tokenizer of this package that transformers 5 loaded and saved again."""
    tokenizer = BPETokenizer.train_from_iterator(["low lower"], 300, special_tokens=SPECIAL)
    with_parts(tokenizer, chat_template=TEMPLATE).save(tmp_path / "first")
    PreTrainedTokenizerFast.from_pretrained(tmp_path / "first").save_pretrained(tmp_path / "resaved")
    settings = settings_in(tmp_path / "resaved")
    assert settings["tokenizer_class"] == "TokenizersBackend"
    assert settings["extra_special_tokens"] == SPECIAL[1:]
    assert settings["is_local"] is True
    return tmp_path / "resaved"


def check(folder):
    settings = settings_in(folder)
    assert settings["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert "auto_map" not in settings
    assert settings["additional_special_tokens"] == SPECIAL[1:]
    assert settings["chat_template"] == TEMPLATE
    assert settings["model_input_names"] == ["input_ids", "attention_mask"]
    assert settings["clean_up_tokenization_spaces"] is False
    assert not settings.keys() & {"extra_special_tokens", "is_local", "local_files_only", "backend", "files_loaded"}
    assert not (folder / AUTO_CLASS_FILE.name).exists()


def test_every_writer_writes_the_same(resaved, tmp_path):
    BPETokenizer.from_pretrained(resaved).save(tmp_path / "data")
    SGPETokenizerFast.from_pretrained(resaved).save_pretrained(tmp_path / "fast")
    (tmp_path / "folder").mkdir()
    TokenizerFolder.read(resaved).write(tmp_path / "folder")  # what transplanting writes
    extender = TokenizerExtender(ExtensionConfig(["sinhala"], new_tokens=20))
    extender.extend(resaved, text="ශ්‍රී ලංකාව " * 9).save_pretrained(tmp_path / "extended")
    for name in ("data", "fast", "folder", "extended"):
        check(tmp_path / name)
    ids = BPETokenizer.from_pretrained(resaved).encode("low lower")
    assert SGPETokenizerFast.from_pretrained(tmp_path / "folder")("low lower")["input_ids"] == ids


def test_other_settings_are_kept():
    given = {"model_input_names": ["input_ids"], "clean_up_tokenization_spaces": True, "bos_token": "<s>", "x": 1}
    assert for_every_loader(given).items() >= given.items()
    named = {"extra_special_tokens": {"image_token": "<image>"}}
    assert for_every_loader(named).items() >= named.items()
    lists = {"extra_special_tokens": ["<b>", "<c>"], "additional_special_tokens": ["<a>", "<b>"]}
    assert for_every_loader(lists)["additional_special_tokens"] == ["<a>", "<b>", "<c>"]
    files = config_files({}, own_class="SGPETokenizerFast")
    assert files.keys() == config_files({}, model_type="llama").keys() == {CONFIG_FILE}
    assert json.loads(files[CONFIG_FILE]).items() >= {"tokenizer_class": "SGPETokenizerFast"}.items()
    assert "auto_map" not in json.loads(files[CONFIG_FILE])


def test_an_auto_map_is_written_for_the_models_that_need_it(resaved, tmp_path):
    (tmp_path / "qwen").mkdir()
    (tmp_path / "qwen" / "config.json").write_text('{"model_type": "qwen2"}')
    tokenizer = BPETokenizer.from_pretrained(resaved)
    tokenizer.save(tmp_path / "qwen")
    SGPETokenizerFast.from_bpe(tokenizer).save_pretrained(tmp_path / "qwen")
    (tmp_path / "extended").mkdir()
    TokenizerFolder.read(tmp_path / "qwen").write(tmp_path / "extended")
    BPETokenizer.from_pretrained(tmp_path / "extended").save(tmp_path / "again")
    for name in ("qwen", "extended", "again"):
        assert settings_in(tmp_path / name)["auto_map"] == {
            "AutoTokenizer": [None, "tokenization_sgpe.PreTrainedTokenizerFast"]
        }
        assert (tmp_path / name / AUTO_CLASS_FILE.name).read_bytes() == AUTO_CLASS_FILE.read_bytes()


MORE = {
    "padding_side": "left",
    "truncation_side": "left",
    "model_input_names": ["input_ids"],
    "response_template": {"x": [1]},
    "add_prefix_space": False,
    "unknown": {"of": "others"},
}


@pytest.mark.parametrize("templates", ["files", "setting"])
def test_every_writer_keeps_the_other_settings(resaved, tmp_path, templates):
    settings = settings_in(resaved) | MORE
    tools = "{{ tools }}"
    if templates == "files":
        (resaved / "additional_chat_templates").mkdir()
        (resaved / "additional_chat_templates" / "tools.jinja").write_text(tools)
    else:
        (resaved / "chat_template.jinja").unlink()
        settings["chat_template"] = [{"name": "default", "template": TEMPLATE}, {"name": "tools", "template": tools}]
    (resaved / CONFIG_FILE).write_text(json.dumps(settings))
    BPETokenizer.from_pretrained(resaved).save(tmp_path / "data")
    pickle.loads(pickle.dumps(BPETokenizer.from_pretrained(resaved))).save(tmp_path / "pickled")
    hf_sgpe("export", resaved, "--out", tmp_path / "exported")
    hf_sgpe("trim", resaved, "--drop-script", "latin", "--out", tmp_path / "trimmed")
    BPETokenizer.from_pretrained(tmp_path / "trimmed").save(tmp_path / "trimmed and saved")
    SGPETokenizerFast.from_bpe(BPETokenizer.from_pretrained(resaved)).save_pretrained(tmp_path / "fast")
    for name in ("data", "pickled", "exported", "trimmed", "trimmed and saved"):
        assert settings_in(tmp_path / name).items() >= MORE.items(), name
        loaded = AutoTokenizer.from_pretrained(tmp_path / name)
        assert (loaded.padding_side, loaded.truncation_side, loaded.model_input_names) == ("left", "left", ["input_ids"])
        # The oldest supported version of transformers does not know this setting.
        assert getattr(loaded, "response_template", MORE["response_template"]) == MORE["response_template"]
        assert loaded.chat_template == {"default": TEMPLATE, "tools": tools}, name
    assert SGPETokenizerFast.from_pretrained(tmp_path / "fast").padding_side == "left"
