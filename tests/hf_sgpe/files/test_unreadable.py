import io
import lzma
import sys
from pathlib import Path

import pytest

from hf_sgpe import SGPEError
from hf_sgpe.cli.input_lines import stdin_lines
from hf_sgpe.cli.model_options import read_chat_template
from hf_sgpe.corpora.text_files import read_documents, read_lines, read_records
from hf_sgpe.counts.count_files import read_info
from hf_sgpe.files.unreadable import check_no_pointer
from hf_sgpe.formats import gguf_tokenizer, gpt2_files, loading, tiktoken
from hf_sgpe.sgpe.sgpe_vocabulary import SGPEVocabulary
from hf_sgpe.weights import safetensors_files
from trainers import read_texts

POINTER = (
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4665a5ea423c2713d436b5ee50593a9640e0018c1550b5a0002f74190d6caea8\nsize 267\n"
)
IS_POINTER = "{}: a Git LFS pointer, not the file itself: run git lfs pull in its clone"
READERS = {
    "tokenizer.json": loading.load,
    "model.gguf": gguf_tokenizer.read_tokenizer,
    "my.tiktoken": tiktoken.read,
    "vocab.json": SGPEVocabulary.load,
    "model.safetensors": lambda path: safetensors_files.stored(path.parent),
    "model.safetensors.index.json": lambda path: safetensors_files.stored(path.parent),
    "counts.parquet": read_info,
    "a.txt": lambda path: list(read_texts(path)),
    "b.txt": lambda path: list(read_lines(path)),
    "c.txt": lambda path: list(read_documents(path)),
    "d.jsonl": lambda path: list(read_records(path)),
    "e.parquet": lambda path: list(read_texts(path)),
    **{f"f.txt.{form}": lambda path: list(read_texts(path)) for form in ("gz", "xz", "zst", "bz2")},
    "g.parquet.gz": lambda path: list(read_texts(path)),
}


@pytest.mark.parametrize("name", READERS)
def test_pointers_of_git_lfs_are_named(name, tmp_path):
    path = tmp_path / name
    path.write_text(POINTER)
    with pytest.raises(SGPEError) as raised:
        READERS[name](path)
    assert str(raised.value) == IS_POINTER.format(path)


def test_pointers_of_git_lfs_beside_a_tokenizer_are_named(saved, tmp_path):
    from hf_sgpe import SGPETokenizerFast

    for name in ("tokenizer_config.json", "chat_template.jinja"):
        folder = tmp_path / name.partition(".")[0]
        folder.mkdir()
        (folder / "tokenizer.json").write_bytes((saved / "tokenizer.json").read_bytes())
        (folder / name).write_text(POINTER)
        with pytest.raises(SGPEError) as raised:
            loading.load(folder)
        assert str(raised.value) == IS_POINTER.format(folder / name)
    with pytest.raises(SGPEError, match="a Git LFS pointer"):
        SGPETokenizerFast.from_pretrained(tmp_path / "tokenizer_config")
    vocab, merges = tmp_path / "vocab.json", tmp_path / "merges.txt"
    vocab.write_text("{}")
    merges.write_text(POINTER)
    with pytest.raises(SGPEError, match=r"merges\.txt: a Git LFS pointer"):
        gpt2_files.read(vocab, merges, pattern="gpt2")


def test_weights_that_are_pointers_are_named_by_what_loads_models(saved, tmp_path):
    pytest.importorskip("torch", reason="models are of PyTorch: pip install torch")
    from transformers import AutoModelForCausalLM, LlamaConfig

    from hf_sgpe.generation import TextGenerator
    from hf_sgpe.weights.model_loading import load_model, load_predicting_model

    (tmp_path / "tokenizer.json").write_bytes((saved / "tokenizer.json").read_bytes())
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    LlamaConfig(vocab_size=4000, architectures=["LlamaForCausalLM"], **shape).save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_text(POINTER)
    for load in (
        lambda: load_model(AutoModelForCausalLM, str(tmp_path)),
        lambda: load_predicting_model(str(tmp_path)),
        lambda: TextGenerator.load(tmp_path, "transformers"),
    ):
        with pytest.raises(SGPEError, match=r"model\.safetensors: a Git LFS pointer"):
            load()


def test_other_files_are_no_pointers(saved):
    check_no_pointer(saved)
    check_no_pointer(saved / "tokenizer.json")
    check_no_pointer(saved / "none")


@pytest.mark.parametrize("encoding", ["UTF-16", "UTF-32"])
@pytest.mark.parametrize("order", ["LE", "BE"])
def test_other_encodings_are_named(encoding, order, tmp_path, monkeypatch):
    def write(name, text):
        path = tmp_path / name
        content = ("\ufeff" + text).encode(f"{encoding}-{order}")
        path.write_bytes(lzma.compress(content) if name.endswith(".xz") else content)
        return path

    reason = f"{encoding}, not UTF-8: convert it by iconv -f {encoding} -t UTF-8"
    texts = [write("a.txt", "ශ්‍රී ලංකාව\n"), write("a.txt.xz", "one\n"), write("a.jsonl", '{"text": "one"}\n')]
    for path in texts:
        for read in (read_texts, read_lines, read_documents):
            with pytest.raises(SGPEError) as raised:
                list(read(path))
            assert str(raised.value) == f"{path}: {reason}"
    with pytest.raises(SGPEError) as raised:
        loading.load(write("tokenizer.json", "{}"))
    assert str(raised.value) == f"{tmp_path / 'tokenizer.json'}: {reason}"
    template = write("chat.jinja", "{{ messages }}")
    with pytest.raises(SGPEError) as raised:
        read_chat_template(str(template))
    assert str(raised.value) == f"--chat-template {template}: {reason}"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(texts[0].read_bytes()), encoding="utf-8"))
    with pytest.raises(SGPEError) as raised:
        list(stdin_lines())
    assert str(raised.value) == f"stdin: {reason}"


def test_text_that_is_damaged_further_on_is_not_taken_for_another_encoding(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"one \xff\xfe")
    with pytest.raises(SGPEError, match=r"not UTF-8 at byte offset 4"):
        list(read_texts(Path(path)))
