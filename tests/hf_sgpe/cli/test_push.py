import shutil

from support.command import hf_sgpe


def test_an_adapter_is_not_pushed_as_a_tokenizer(tmp_path, saved):
    folder = shutil.copytree(saved, tmp_path / "lora")
    (folder / "adapter_config.json").write_text("{}")
    done = hf_sgpe("push", folder, "me/lora", "--dry-run", cwd=tmp_path, code=2)
    assert "lora has no model, but a LoRA adapter: merge it first" in done.stderr


def test_a_file_is_not_a_folder(refuses):
    refuses("push tok/tokenizer.json me/name --dry-run", r"tok/tokenizer\.json: a file: give its folder")
