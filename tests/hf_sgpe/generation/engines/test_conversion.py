import threading

import pytest

from hf_sgpe import SGPEError
from hf_sgpe.generation.engines.conversion import DONE_FILE, cache_folder, load_converted


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_SGPE_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "weights").write_text("one")
    return folder


def converted(source, kind, convert):
    return load_converted(source, kind, convert, lambda folder: folder)


def copy(source, target):
    (target / "weights").write_text((source / "weights").read_text())


def test_a_conversion_is_made_once_and_again_when_its_source_changes(source):
    made = []

    def convert(source, target):
        made.append(target)
        copy(source, target)

    first = converted(source, "kind", convert)
    assert converted(source, "kind", convert) == first
    assert first.parent == cache_folder()
    assert len(made) == 1
    (source / "weights").write_text("another")
    assert (converted(source, "kind", convert) / "weights").read_text() == "another"
    assert converted(source, "other", convert) != first
    assert len(made) == 3


def test_a_conversion_that_fails_leaves_nothing(source):
    def convert(source, target):
        copy(source, target)
        raise SGPEError("no")

    with pytest.raises(SGPEError, match=r"^no$"):
        converted(source, "kind", convert)
    assert list(cache_folder().iterdir()) == []


def test_two_at_the_same_time_come_to_the_same(source):
    together = threading.Barrier(2)
    found = []

    def convert(source, target):
        together.wait(timeout=30)
        copy(source, target)

    threads = [threading.Thread(target=lambda: found.append(converted(source, "kind", convert))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2 and found[0] == found[1]
    assert sorted(file.name for file in found[0].iterdir()) == sorted(["weights", DONE_FILE])
    assert [folder.name for folder in cache_folder().iterdir()] == [found[0].name]


def test_a_cache_that_cannot_be_written_is_named(source, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HF_SGPE_CACHE", str(tmp_path / "file"))
    with pytest.raises(SGPEError, match=r"File exists: set HF_SGPE_CACHE"):
        converted(source, "kind", copy)


def test_a_damaged_conversion_is_made_again_and_one_that_does_not_load_is_removed(source):
    def load(folder):
        if (folder / "weights").read_text() != "one":
            raise RuntimeError("damaged")
        return folder

    kept = load_converted(source, "kind", copy, load)
    (kept / "weights").write_text("on")
    assert load_converted(source, "kind", copy, load) == kept
    assert (kept / "weights").read_text() == "one"
    (source / "weights").write_text("other")
    with pytest.raises(RuntimeError, match="damaged"):
        load_converted(source, "kind", copy, load)
    assert list(cache_folder().iterdir()) == [kept]


def test_an_error_of_loading_keeps_the_conversion(source):
    def load(folder):
        raise SGPEError("no such device")

    for _ in range(2):
        with pytest.raises(SGPEError, match="no such device"):
            load_converted(source, "kind", copy, load)
        assert len(list(cache_folder().iterdir())) == 1
