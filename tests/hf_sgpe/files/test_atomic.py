"""Writing whole or not at all; most of it is tested where files are written."""

import subprocess
import sys
from pathlib import Path

import pytest

from hf_sgpe import BPETokenizer, SGPEError
from hf_sgpe.files.atomic import atomic_directory, atomic_file, check_directory, scratch_directory

WRITERS = {"atomic_file": atomic_file, "atomic_directory": atomic_directory, "scratch_directory": scratch_directory}

# Begins to write, says so, and goes on until it is ended.
BEGINS = """
import sys, time
from hf_sgpe.files import atomic
with getattr(atomic, sys.argv[1])(sys.argv[2]) as temporary:
    if temporary.is_dir():
        (temporary / "below").mkdir()
        temporary = temporary / "below" / "file"
    temporary.write_text("half")
    print("begun", flush=True)
    time.sleep(600)
"""


def begin(writer, target):
    running = subprocess.Popen([sys.executable, "-c", BEGINS, writer, str(target)], stdout=subprocess.PIPE, text=True)
    with running.stdout as output:
        assert output.readline() == "begun\n"
    return running


@pytest.mark.parametrize("next_writer", WRITERS)
@pytest.mark.parametrize("writer", WRITERS)
def test_files_of_a_killed_process_are_removed_and_those_of_a_running_one_stay(tmp_path, writer, next_writer):
    mine = {".out-backup01", ".out.5.tmp", "x.hf_sgpe", ".out-mine.hf_sgpe"}
    for name in mine:
        (tmp_path / name).touch()
    killed, alive = begin(writer, tmp_path / "out"), begin(writer, tmp_path / "out")
    try:
        of_both = {path.name for path in tmp_path.iterdir()} - mine
        assert len(of_both) == 4  # with a lock each
        killed.kill()
        killed.wait()
        with WRITERS[next_writer](tmp_path / "other") as temporary:
            left = {path.name for path in tmp_path.iterdir()} - mine - {temporary.name}
            assert len(left & of_both) == 2
            if temporary.is_file():
                temporary.write_text("whole")
        left = {path.name for path in tmp_path.iterdir()} - mine - {"other"}
        assert len(left & of_both) == 2
    finally:
        alive.kill()
        alive.wait()
    with WRITERS[next_writer](tmp_path / "other"):
        pass
    assert {path.name for path in tmp_path.iterdir()} - {"other"} == mine


# Writes files into a folder that other processes write into at the same time, and counts those that are there.
MANY = """
import sys
from pathlib import Path
from hf_sgpe.files.atomic import atomic_directory, atomic_file, scratch_directory
folder, process, files = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
for number in range(files):
    name = f"{process}-{number}"
    with scratch_directory(folder / "scratch") as scratch:
        (scratch / name).touch()
        if number % 2:
            with atomic_directory(folder) as temporary:
                (temporary / name).write_text(name)
        else:
            with atomic_file(folder / name) as temporary:
                temporary.write_text(name)
        assert (scratch / name).exists() and (folder / name).read_text() == name, name
"""


@pytest.mark.parametrize(("processes", "files"), [(6, 60), pytest.param(16, 40, marks=pytest.mark.slow)])
def test_many_processes_lose_nothing_in_one_folder(tmp_path, processes, files):
    folder = tmp_path / "new" / "folder"
    arguments = [[sys.executable, "-c", MANY, folder, str(process), str(files)] for process in range(processes)]
    running = [subprocess.Popen(one, stderr=subprocess.PIPE, text=True) for one in arguments]
    assert [process.communicate()[1] for process in running] == [""] * processes
    assert {path.name for path in folder.iterdir()} == {f"{one}-{two}" for one in range(processes) for two in range(files)}


def test_files_have_the_rights_that_others_have(tmp_path):
    (tmp_path / "usual").write_text("")
    with atomic_file(tmp_path / "file") as temporary:
        temporary.write_text("")
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_folder_in_the_place_of_a_file_is_told_before_anything_is_made(tmp_path):
    (tmp_path / "out" / "tokenizer.json").mkdir(parents=True)
    check_directory(tmp_path / "out", ["tokenizer_config.json"])
    check_directory(tmp_path / "new" / "out", ["tokenizer.json"])
    with pytest.raises(OSError, match=r"tokenizer\.json is a folder"):
        check_directory(tmp_path / "out", ["tokenizer_config.json", "tokenizer.json"])
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="is a file"):
        check_directory(tmp_path / "file", ["tokenizer.json"])


# Works alone in a folder many times. A second process in the folder at the same time finds the file of the first.
ALONE = """
import sys
from pathlib import Path
from hf_sgpe.files.resuming import alone_in
folder = Path(sys.argv[1])
for _ in range(40):
    with alone_in(folder, patience=60):
        (folder / "busy").touch(exist_ok=False)
        (folder / "busy").unlink()
"""


def test_two_processes_are_never_alone_in_a_folder_at_once(tmp_path):
    running = [
        subprocess.Popen([sys.executable, "-c", ALONE, tmp_path], stderr=subprocess.PIPE, text=True) for _ in range(4)
    ]
    assert [process.communicate()[1] for process in running] == [""] * 4


def test_a_folder_whose_files_are_replaced_in_part_is_not_loaded(tmp_path, monkeypatch):
    old, new = (
        BPETokenizer({bytes([byte]): id for id, byte in enumerate(order)}, []) for order in (range(256), range(255, -1, -1))
    )
    old.save(tmp_path)
    before = {file.name for file in tmp_path.iterdir()}
    replace, moved = Path.replace, []

    def dies(path, target):
        if len(moved) == 1:
            raise KeyboardInterrupt
        moved.append(replace(path, target))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", dies)
        with pytest.raises(KeyboardInterrupt):
            new.save(tmp_path)
    assert not (tmp_path / "tokenizer.json").exists()  # for programs that know no mark
    with pytest.raises(SGPEError, match="only some of its files"):
        BPETokenizer.from_pretrained(tmp_path)
    for _ in range(2):  # other files do not complete the folder
        with atomic_directory(tmp_path) as temporary:
            for name in ("README.md", "index.html"):
                (temporary / name).touch()
    with pytest.raises(SGPEError, match="only some of its files"):
        BPETokenizer.from_pretrained(tmp_path)
    for name in ("README.md", "index.html"):
        (tmp_path / name).unlink()
    new.save(tmp_path)
    assert BPETokenizer.from_pretrained(tmp_path).vocab == new.vocab
    assert {file.name for file in tmp_path.iterdir()} == before
