import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from hf_sgpe.errors import SGPEError
from hf_sgpe.serving import model_folders
from hf_sgpe.serving.model_folders import ModelFolders, check_memory


def model_in(folder, text="{}"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(text, encoding="utf-8")
    (folder / "model.safetensors").write_bytes(b"0" * 1000)
    return folder


class Loader:
    """A function that loads models: the text of their configuration, which must not be empty."""

    def __init__(self):
        self.closed = []

    def __call__(self, path, name):
        text = Path(path, "config.json").read_text(encoding="utf-8")
        if not text:
            raise SGPEError(f"{path}/config.json: empty")
        return SimpleNamespace(name=name, text=text, generator=SimpleNamespace(close=lambda: self.closed.append(text)))


def test_a_folder_of_models_and_models_are_found_by_name(tmp_path):
    for name in ("pool/b", "pool/a", "alone"):
        model_in(tmp_path / name)
    (tmp_path / "pool" / "notes").mkdir()
    (tmp_path / "pool" / "q.gguf").write_bytes(b"GGUF")
    (tmp_path / "pool" / "readme.txt").write_text("a", encoding="utf-8")
    given = [str(tmp_path / "alone"), str(tmp_path / "pool")]
    assert list(ModelFolders(given, Loader()).found()) == ["alone", "a", "b", "q.gguf"]
    assert ModelFolders(given[:1], Loader(), "mine").found() == {"mine": given[0]}
    with pytest.raises(SGPEError, match=r"--name .* 4"):
        ModelFolders(given, Loader(), "mine")
    model_in(tmp_path / "pool" / "c", "{")  # broken: found, and refused when it is loaded
    assert "c" in ModelFolders(given, Loader()).found()
    with pytest.raises(SGPEError, match=r"alone is given twice"):
        ModelFolders([given[0], given[0]], Loader())
    model_in(tmp_path / "other" / "alone")
    with pytest.raises(SGPEError, match="same name, alone"):
        ModelFolders([given[0], str(tmp_path / "other")], Loader())


def test_only_new_and_changed_models_are_loaded_again_and_broken_ones_stay(tmp_path):
    load, lines = Loader(), []
    alone = model_in(tmp_path / "alone", "one")
    for name in ("a", "b"):
        model_in(tmp_path / "pool" / name, name)
    folders = ModelFolders([str(alone), str(tmp_path / "pool")], load)

    def reloaded():
        lines.clear()
        return {one.name: one.text for one in folders.reload(lines.append)}

    first = folders.load()
    assert [one.text for one in first] == ["one", "a", "b"]
    assert folders.reload(lines.append) == first and lines == []

    model_in(tmp_path / "pool" / "b", "changed")
    model_in(tmp_path / "pool" / "c", "new")
    model_in(alone, "")
    assert reloaded() == {"alone": "one", "a": "a", "b": "changed", "c": "new"}
    assert lines == [f"error: {alone}/config.json: empty; alone stays as it was", "reloaded b", "loaded c"]

    (tmp_path / "pool" / "c" / "config.json").unlink()
    shutil.rmtree(tmp_path / "pool" / "a")
    shutil.rmtree(alone)
    assert reloaded() == {"alone": "one", "b": "changed", "c": "new"}
    assert [line.partition(":")[0] for line in lines] == ["error", "error", "removed a"]

    model_in(alone, "two")
    model_in(tmp_path / "pool" / "c", "newer")
    os.utime(tmp_path / "pool" / "b" / "config.json", ns=(1, 1))
    assert reloaded() == {"alone": "two", "b": "changed", "c": "newer"}
    assert lines == ["reloaded alone", "reloaded b", "reloaded c"]
    assert load.closed == []
    folders.close()
    assert sorted(load.closed) == ["changed", "newer", "two"]


def test_models_stay_if_none_is_left(tmp_path):
    lines = []
    for name in ("a", "b"):
        model_in(tmp_path / "pool" / name, name)
    folders = ModelFolders([str(tmp_path / "pool")], Loader())
    first = folders.load()
    for name in ("a", "b"):
        shutil.rmtree(tmp_path / "pool" / name)
    assert folders.reload(lines.append) == first
    assert lines[-1] == "error: no model is left; the models stay as they are"
    assert not [line for line in lines if line.startswith("removed")]


def test_models_that_were_loaded_before_a_broken_one_are_closed(tmp_path):
    load = Loader()
    given = [str(model_in(tmp_path / "a", "a")), str(model_in(tmp_path / "b", ""))]
    with pytest.raises(SGPEError, match="empty"):
        ModelFolders(given, load).load()
    assert load.closed == ["a"]


def test_a_further_model_needs_memory(tmp_path, monkeypatch):
    given = [str(model_in(tmp_path / name, name)) for name in ("a", "b")]
    check_memory(given[0])
    monkeypatch.setattr(model_folders, "_available_memory", lambda: 999)
    assert len(ModelFolders(given[:1], Loader()).load()) == 1
    with pytest.raises(SGPEError, match=r"b: .* 0\.0 GB"):
        ModelFolders(given, Loader()).load()
    monkeypatch.setattr(model_folders, "_available_memory", lambda: None)
    assert len(ModelFolders(given, Loader()).load()) == 2
