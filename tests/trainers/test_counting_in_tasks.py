import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.command import COMMAND, SCRIPTS, hf_sgpe

from hf_sgpe import WordCounts
from hf_sgpe.counts.count_files import read_info
from trainers import TrainingConfig, add_files

pytest.importorskip("datatrove", reason="counting on a cluster needs datatrove: pip install datatrove")
from filelock import FileLock

psutil = pytest.importorskip("psutil", reason="counting on disk needs psutil: pip install psutil")

CONFIG = TrainingConfig(vocab_size=999, scripts=["all"])


@pytest.fixture(scope="module")
def corpus(sample, tmp_path_factory):
    """A folder of files, and the counts of its texts."""
    folder = tmp_path_factory.mktemp("corpus")
    texts = []
    for number in range(12):
        lines = [line for text in sample.values() for line in text.splitlines()][number::3] * 20
        if number % 2:
            (folder / f"{number}.jsonl").write_text("\n".join(json.dumps({"text": line}) for line in lines))
            texts += lines
        else:
            (folder / f"{number}.txt").write_text("\n".join(lines), encoding="utf-8")
            texts.append("\n".join(lines))
    return folder, WordCounts.from_texts(texts, CONFIG)


def arguments(corpus, out, *options):
    # Tasks are forked from the process of the tests, whose memory counts, too.
    limit = [] if "--memory-limit" in options else ["--memory-limit", "8GB"]
    return [corpus, "--out", out, "--script", "all", "--tasks", 7, "--workers", 2, *limit, *options]


def count(*given, **options):
    """Count in this process, which starts those of the tasks."""
    return hf_sgpe("count", *arguments(*given), **options)


def start(*given, **options):
    command = [*COMMAND, "count", *arguments(*given)]
    return psutil.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **options)


@pytest.mark.slow
def test_the_counts_are_those_of_one_process(corpus, tmp_path):
    folder, expected = corpus
    for tasks in (1, 20):  # more than there are files
        done = count(folder, tmp_path / "out", "--overwrite", "--tasks", tasks)
        assert done.stderr == ""
        assert re.search(
            rf"{expected.total():,} words \({len(expected):,} distinct\), SHA-256 {expected.digest()}", done.stdout
        )
        assert WordCounts.load(tmp_path / "out") == expected
        assert [file.name for file in tmp_path.iterdir()] == ["out"]
    assert {Path(source["name"]).name for source in WordCounts.load(tmp_path / "out").sources} == {
        file.name for file in folder.iterdir()
    }


@pytest.mark.slow
def test_a_run_killed_at_random_moments_loses_and_doubles_nothing(corpus, tmp_path):
    folder, expected = corpus
    began = time.monotonic()
    process = start(folder, tmp_path / "whole")
    process.communicate()
    assert process.returncode == 0
    seconds = time.monotonic() - began
    source, out, killed, went_on = random.Random(3), tmp_path / "out", 0, 0
    for _ in range(40):
        if killed == 3:
            break
        went_on += (tmp_path / "out.work" / "logs").exists()
        process = start(folder, out, start_new_session=True)
        began = time.monotonic()
        try:
            process.wait(seconds * source.uniform(0.4, 0.8))
            seconds = time.monotonic() - began  # on a machine that is less busy than it was for the whole run
        except psutil.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            killed += 1
        process.communicate()
        out.unlink(missing_ok=True)  # where it was faster; the next begins anew
    assert killed == 3
    count(folder, out)
    assert WordCounts.load(out) == expected
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out", "whole"]
    assert went_on


@pytest.mark.slow
def test_workers_that_are_killed_are_made_up_for(corpus, tmp_path):
    folder, expected = corpus
    process = start(folder, tmp_path / "out", "--tasks", 30)
    source, killed = random.Random(4), 0
    while process.poll() is None:
        if killed < 6:
            for child in process.children():
                if source.random() < 0.5 and killed < 6:
                    child.kill()
                    killed += 1
        time.sleep(0.3)
    _, errors = process.communicate()
    assert (process.returncode, errors) == (0, b"")
    assert killed == 6
    assert WordCounts.load(tmp_path / "out") == expected
    assert [file.name for file in tmp_path.iterdir()] == ["out"]


@pytest.mark.slow
@pytest.mark.skipif(not find_spec("ray"), reason="Ray is not installed: pip install ray")
def test_ray_counts_the_same(corpus, tmp_path):
    folder, expected = corpus
    count(folder, tmp_path / "out", "--on", "ray", "--memory-limit", "500MB")
    assert WordCounts.load(tmp_path / "out") == expected


@pytest.mark.slow
@pytest.mark.skipif(not find_spec("ray"), reason="Ray is not installed: pip install ray")
def test_a_task_that_fails_on_ray_is_named(corpus, tmp_path, monkeypatch, caplog):
    """A failure ends the count. Before that, a step without progress is reported."""
    folder, _ = corpus
    shutil.copytree(folder, tmp_path / "corpus")
    beginning = json.dumps({"text": "low lower " * 1000}) + "\n"
    (tmp_path / "corpus" / "damaged.jsonl").write_text(beginning * 500 + "{\n", encoding="utf-8")
    monkeypatch.setattr("trainers.counting_in_tasks._PATIENCE", 0.01)
    done = count(tmp_path / "corpus", tmp_path / "out", "--on", "ray", "--memory-limit", "500MB", code=2)
    assert "damaged.jsonl" in done.stderr
    assert "no task has ended for" in done.stderr + caplog.text
    assert not (tmp_path / "out").exists()


def test_rare_words_can_be_left_out(corpus, tmp_path):
    folder, expected = corpus
    count(folder, tmp_path / "out", "--min-count", 60, "--tasks", 2, "--adding-tasks", 2)
    kept = {word: count for word, count in expected.items() if count >= 60}
    assert dict(WordCounts.load(tmp_path / "out").items()) == kept
    dropped = read_info(tmp_path / "out").dropped
    assert (dropped["distinct"], dropped["min_count"]) == (len(expected) - len(kept), 60)
    WordCounts(dict(expected.items()), expected.splitting).save(tmp_path / "whole")
    alone = add_files([tmp_path / "whole"], tmp_path / "kept", min_count=60)
    assert alone.digest == read_info(tmp_path / "out").digest
    assert alone.dropped["total"] == dropped["total"]
    assert alone.dropped["pair"] <= dropped["pair"]  # found for each part of the words by itself


def test_datasets_and_files_on_the_hub_are_counted_and_gone_on_with(sample, tmp_path, here, monkeypatch):
    datasets = pytest.importorskip("datasets", reason="reading datasets needs the package: pip install datasets")
    for name, value in {"HF_ENDPOINT": here.address, "HF_HUB_OFFLINE": False, "HF_DATASETS_OFFLINE": False}.items():
        monkeypatch.setattr(datasets.config, name, value)
    import pyarrow as pa
    import pyarrow.parquet as pq

    lines = sample["ta"].splitlines()
    files = {}
    for number in range(3):
        pq.write_table(pa.table({"text": lines[number::3]}), tmp_path / "part.parquet")
        files[f"train-{number}.parquet"] = (tmp_path / "part.parquet").read_bytes()
    (tmp_path / "part.parquet").unlink()
    expected = WordCounts.from_texts([*lines, "one file more"], CONFIG)
    here.add("datasets/me/set", files)
    here.add("datasets/me/other", {"a.txt": b"one file more"})
    given = ["hf://datasets/me/other", tmp_path / "out", "--dataset", "me/set", "--tasks", 4]
    here.fail("^GET /datasets/me/set/resolve/.*train-2", status=403)
    written = set()
    for _ in range(2):
        done = count(*given, code=2)
        assert re.fullmatch(r"error: dataset me/set: .*403.*\n", done.stderr), done.stderr
        written.add((tmp_path / "out.work" / "counted" / "00000-of-00004.parquet").stat().st_mtime_ns)
    assert len(written) == 1
    here.faults.clear()
    assert count(*given).stderr == ""
    assert WordCounts.load(tmp_path / "out") == expected
    commit = here.repositories["datasets/me/set"].at().sha
    assert WordCounts.load(tmp_path / "out").sources[1] == {"name": "me/set", "split": "train", "commit": commit}


SBATCH = """#!/usr/bin/env python3
import os, re, subprocess, sys
*options, script = sys.argv[1:]
text = open(script).read()
with open(os.environ["SUBMITTED"], "a") as log:
    print(re.search("--job-name=(.*)", text)[1], *[option for option in options if "dependency" in option], file=log)
offset = next((option.partition("RUN_OFFSET=")[2] for option in options if "RUN_OFFSET" in option), "0")
array = re.search(r"#SBATCH --array=0-(\\d+)", text)
for task in range(int(array[1]) + 1) if array else ():
    environment = {**os.environ, "SLURM_ARRAY_TASK_ID": str(task), "RUN_OFFSET": offset}
    environment["SLURM_NODELIST"] = "here"
    subprocess.run(["bash", script], check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print("Submitted batch job", 17)
"""
SRUN = """#!/usr/bin/env bash
while [[ $1 == -* ]]; do if [[ $1 == -n ]]; then shift; fi; shift; done
exec "$@"
"""


@pytest.mark.slow
def test_slurms_job_scripts_count_the_same(corpus, tmp_path):
    folder, expected = corpus
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in {"sbatch": SBATCH, "srun": SRUN, "scontrol": "#!/bin/sh\necho here\n"}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    options = ["--on", "slurm", "--partition", "cpu", "--tasks", 3, "--adding-tasks", 2]
    count(folder, tmp_path / "out", *options, PATH=path, SUBMITTED=str(tmp_path / "submitted"))
    assert WordCounts.load(tmp_path / "out") == expected
    jobs = (tmp_path / "submitted").read_text().splitlines()
    assert [job for job in jobs if "merge" not in job][:1] == ["count-words-count"]
    assert any(job == "count-words-add --dependency=afterok:17" for job in jobs)
    script = (tmp_path / "out.work" / "logs" / "count" / "launch_script.slurm").read_text()
    assert "#SBATCH --partition=cpu" in script and "#SBATCH --array=0-2" in script


def test_bad_input_ends_in_one_line(corpus, tmp_path):
    folder, _ = corpus
    (tmp_path / "bad.jsonl").write_text('{"text": "fine"}\n{"text": 5}\n')
    for given, message in {
        (tmp_path / "bad.jsonl", tmp_path / "out"): r".*bad\.jsonl, line 2: field 'text' must be a string, not int",
        (tmp_path / "nowhere", tmp_path / "out"): r".*nowhere: no such file or folder",
        (folder, tmp_path): r".* is a folder: give a file to write to",
        (folder, tmp_path / "out", "--executor", "slurm"): r"--on slurm needs --partition NAME and the program sbatch: .*",
        (folder, tmp_path / "out", "--adding-tasks", 0): r"--adding-tasks must be a number from 1 to 99999, not 0",
        (folder, tmp_path / "out", "--recipe", "none"): r"--recipe none: choose from .*",
        (folder, tmp_path / "out", "--on", "moon"): r"--on moon: choose from local, slurm, ray, spark",
        (
            folder,
            tmp_path / "out",
            "--on",
            "spark",
        ): r"--tasks cannot be used with --on spark: leave it out, and use Spark's own settings",
        (folder, tmp_path / "out", "--workers", -1): r"--workers must be a number from 1 to 1024, not -1",
        (folder, tmp_path / "out", "--memory-limit", "nan"): r"--memory-limit 'nan': expected a number and a unit, .*",
        (folder, folder / "0.txt"): r"--out .*0\.txt is part of the corpus: give another name",
        (folder, tmp_path / "out", "--work", tmp_path): r"--work .*: the corpus and --out must not be in this .*",
        (folder, tmp_path / "out", "--work", folder): r"--work .*: the corpus and --out must not be in this .*",
        (folder, tmp_path / "out", "--work", SCRIPTS): r"--work .* has other files: give an empty or a new folder",
        (folder, tmp_path / "out", "--min-count", 0): r"--min-count must be at least 1, not 0",
    }.items():
        done = count(*given, code=2)
        assert done.stdout == ""
        assert re.fullmatch(rf"error: {message}\n", done.stderr), done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["bad.jsonl"]
    assert len(list(folder.iterdir())) == 12


def test_parts_of_another_count_are_not_taken(corpus, tmp_path):
    """Where there are some; the work folder may lie in the corpus."""
    (tmp_path / "a.jsonl").write_text('{"text": "one two"}\n')
    # Beyond the beginning, which is read before any task.
    (tmp_path / "b.jsonl").write_text(json.dumps({"text": "a " * (1 << 19)}) + '\n{"text": 5}\n')
    count(tmp_path, tmp_path / "out", "--workers", 1, "--tasks", 2, code=2)
    assert (tmp_path / "out.work").is_dir()
    before = (tmp_path / "a.jsonl").stat().st_mtime_ns
    (tmp_path / "a.jsonl").write_text('{"text": "two one"}\n')
    os.utime(tmp_path / "a.jsonl", ns=(before + 1_000_000_000,) * 2)
    done = count(tmp_path, tmp_path / "out", "--workers", 1, "--tasks", 2, code=2)
    assert re.fullmatch(
        r"error: .*out\.work was started with different settings \(.*times\): give the old values of .*, or .*\n",
        done.stderr,
    )
    with FileLock(tmp_path / "out.work" / ".lock"):
        done = count(tmp_path, tmp_path / "out", "--tasks", 2, code=2)
    assert re.fullmatch(r"error: .*out\.work: another process writes to this folder: .*\n", done.stderr)
