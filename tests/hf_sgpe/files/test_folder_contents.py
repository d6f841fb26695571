import pytest

from hf_sgpe import SGPEError
from hf_sgpe.formats import loading
from hf_sgpe.generation.engines.detection import kind_of_model
from hf_sgpe.weights import gguf, safetensors_files

MERGE = 'python -c "from peft import AutoPeftModelForCausalLM; AutoPeftModelForCausalLM.from_pretrained('
ADAPTER = {"adapter_config.json": b"{}", "adapter_model.safetensors": b""}
FORMS = {
    "an adapter": (
        ADAPTER,
        rf", but a LoRA adapter: merge it first: {MERGE}'{{where}}').merge_and_unload().save_pretrained(",
    ),
    "nothing": ({"notes.txt": b""}, ""),
}


@pytest.mark.parametrize("place", ["folder", "repository"])
@pytest.mark.parametrize("form", FORMS)
def test_a_folder_or_repository_without_a_tokenizer_is_refused_by_its_files(form, place, tmp_path, here):
    files, reason = FORMS[form]
    where = tmp_path / "thing" if place == "folder" else "me/thing"
    (tmp_path / "thing").mkdir()
    for name, content in files.items():
        (tmp_path / "thing" / name).write_bytes(content)
    here.add("me/thing", files)
    with pytest.raises(SGPEError) as raised:
        loading.load(where)
    assert str(raised.value).startswith(f"{where}: the {place} holds no tokenizer.json{reason.format(where=where)}")
    assert "\n" not in str(raised.value)


def test_an_adapter_is_no_model(tmp_path, saved):
    for name, content in ADAPTER.items():
        (tmp_path / name).write_bytes(content)
    for read in (kind_of_model, safetensors_files.weight_files):
        with pytest.raises(SGPEError, match=r"a LoRA adapter"):
            read(tmp_path)
    pytest.importorskip("gguf", reason="GGUF files are written by gguf: pip install gguf")
    with pytest.raises(SGPEError, match=r"a LoRA adapter"):
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
        with pytest.raises(SGPEError, match=r"a LoRA adapter"):
            use()


def test_a_tokenizer_to_train_with_is_refused_by_its_files(tmp_path, here):
    pytest.importorskip("torch", reason="models are of PyTorch: pip install torch")
    from hf_sgpe.weights.model_loading import load_tokenizer

    (tmp_path / "tekken.json").write_text("{}")
    with pytest.raises(SGPEError, match=r"tekken\.json: damaged .*'config'"):
        load_tokenizer(str(tmp_path))
    here.add("me/mistral", {"tekken.json": b"{}"})
    with pytest.raises(SGPEError, match=r"tekken\.json: damaged .*'config'"):
        load_tokenizer("me/mistral")
