"""Folders and repositories with no tokenizer.json, or no model: what there is instead, and the line that makes one of it."""

import shlex
import sys

import pytest

from hf_sgpe import BPETokenizer, SGPEError
from hf_sgpe.cli import main
from hf_sgpe.formats import loading, tiktoken
from hf_sgpe.generation.engines.detection import kind_of_model
from hf_sgpe.weights import gguf, safetensors_files

MERGE = 'python -c "from peft import AutoPeftModelForCausalLM; AutoPeftModelForCausalLM.from_pretrained('
ADAPTER = {"adapter_config.json": b"{}", "adapter_model.safetensors": b""}
FORMS = {
    "an adapter": (
        ADAPTER,
        rf", but a LoRA adapter: merge it first: {MERGE}'{{where}}').merge_and_unload().save_pretrained(",
    ),
    "tekken": (
        {"tekken.json": b"{}", "params.json": b"{}"},
        ", but Mistral's tekken.json: convert it with transformers 5:",
    ),
    "vocabulary and merges": (
        {"vocab.json": b"{}", "merges.txt": b""},
        ", but vocab.json and merges.txt: {download}hf-sgpe export {folder}/merges.txt --pattern gpt2 (or its "
        "own) --out {folder}-hf",
    ),
    "tiktoken": (
        {"qwen.tiktoken": b""},
        ", but qwen.tiktoken: {download}hf-sgpe export {folder}/qwen.tiktoken --pattern cl100k (or its own) --out",
    ),
    "SentencePiece": (
        {"tokenizer.model": b"\n\x0e\n\x05"},
        ", but SentencePiece's tokenizer.model, which cannot be extended",
    ),
    "nothing": ({"notes.txt": b""}, ""),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_folder_without_a_tokenizer_is_refused_by_its_files(form, tmp_path):
    files, reason = FORMS[form]
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(SGPEError) as raised:
        loading.load(tmp_path)
    expected = reason.format(where=tmp_path, folder=tmp_path, download="")
    assert str(raised.value).startswith(f"{tmp_path}: the folder holds no tokenizer.json{expected}")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("form", FORMS)
def test_a_repository_without_a_tokenizer_is_refused_by_its_files(form, here):
    files, reason = FORMS[form]
    here.add("me/thing", files)
    with pytest.raises(SGPEError) as raised:
        loading.load("me/thing")
    expected = reason.format(where="me/thing", folder="thing", download="hf download me/thing --local-dir thing, then ")
    assert str(raised.value).startswith(f"me/thing: the repository holds no tokenizer.json{expected}")


def test_the_line_for_a_file_of_ranks_makes_a_tokenizer(tmp_path, sample, monkeypatch):
    """Llama 3's own folder has such a file under the name that SentencePiece's have elsewhere."""
    tokenizer = BPETokenizer.train_from_iterator([sample["en"]], 500, special_tokens=[])
    folder = tmp_path / "llama"
    folder.mkdir()
    tiktoken.write(tokenizer, folder / "my.tiktoken")
    (folder / "my.tiktoken").rename(folder / "tokenizer.model")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SGPEError) as raised:
        loading.load("llama")
    copy, export = str(raised.value).partition("the ranks of tiktoken: ")[2].split(", then ")
    command, source, target = shlex.split(copy)
    assert command == "cp"
    (tmp_path / target).write_bytes((tmp_path / source).read_bytes())
    monkeypatch.setattr(sys, "argv", shlex.split(export.replace(" (or its own)", "")))
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert loading.load("llama-hf").vocab == tokenizer.vocab


def test_an_adapter_is_no_model(tmp_path, saved):
    for name, content in ADAPTER.items():
        (tmp_path / name).write_bytes(content)
    for read in (kind_of_model, safetensors_files.weight_files):
        with pytest.raises(SGPEError, match=r"but a LoRA adapter: merge it first: python -c "):
            read(tmp_path)
    pytest.importorskip("gguf", reason="GGUF files are written by gguf: pip install gguf")
    with pytest.raises(SGPEError, match=r"but a LoRA adapter: merge it first: python -c "):
        gguf.write(tmp_path, tmp_path / "out.gguf")


def test_an_adapter_is_no_model_for_what_trains_and_transplants(tmp_path, saved):
    pytest.importorskip("torch", reason="models are of PyTorch: pip install torch")
    from transformers import AutoModelForCausalLM

    from hf_sgpe.weights.model_loading import load_model, load_tokenizer
    from trainers.model_rows.transplanting import transplant

    folder = tmp_path / "adapter"
    folder.mkdir()
    for name, content in ADAPTER.items():
        (folder / name).write_bytes(content)
    for use in (
        lambda: load_tokenizer(str(folder)),
        lambda: load_model(AutoModelForCausalLM, str(folder)),
        lambda: transplant(folder, saved, tmp_path / "out"),
    ):
        with pytest.raises(SGPEError, match=r"but a LoRA adapter: merge it first: python -c "):
            use()


def test_a_tokenizer_to_train_with_is_refused_by_its_files(tmp_path, here):
    pytest.importorskip("torch", reason="models are of PyTorch: pip install torch")
    from hf_sgpe.weights.model_loading import load_tokenizer

    (tmp_path / "tekken.json").write_text("{}")
    with pytest.raises(SGPEError, match=r"the folder holds no tokenizer, but Mistral's tekken\.json"):
        load_tokenizer(str(tmp_path))
    here.add("me/mistral", {"tekken.json": b"{}"})
    with pytest.raises(SGPEError, match=r"the repository holds no tokenizer_config\.json, but Mistral's tekken\.json"):
        load_tokenizer("me/mistral")
