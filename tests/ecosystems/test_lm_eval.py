"""lm-evaluation-harness against the server: the same numbers as with transformers, on the task of the documentation."""

import json
import os
import shutil
import subprocess

import pytest
from support.ecosystems import LM_EVAL, needs_lm_eval
from support.paths import ROOT
from support.serving import serving

from hf_sgpe import BPETokenizer
from hf_sgpe.generation import TextGenerator
from hf_sgpe.serving.requests import Served

pytestmark = [pytest.mark.slow, needs_lm_eval]

EXAMPLES = ROOT / "examples"


@pytest.fixture(scope="module")
def model(small, sample, tmp_path_factory):
    from support.models import train_llama

    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    folder = tmp_path_factory.mktemp("judged") / "model"
    return train_llama(folder, BPETokenizer.from_pretrained(small), [sample["si"]], steps=20, **size)


def run_task(out, folder, task, kind, **settings):
    """Return the results of lm_eval for a task in a folder, and a row for each question in order."""
    command = [LM_EVAL, "-m", "lm_eval", "--model", kind, "--tasks", task, "--include_path", folder, "--device", "cpu"]
    command += ["--model_args", ",".join(f"{name}={value}" for name, value in settings.items())]
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": str(out / "cache"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*map(str, command), "--log_samples", "--output_path", str(out)],
        cwd=folder,
        env={**os.environ, **offline},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (results,) = out.glob("**/results_*.json")
    (samples,) = out.glob("**/samples_*.jsonl")
    rows = sorted(map(json.loads, samples.read_text(encoding="utf-8").splitlines()), key=lambda row: row["doc_id"])
    scores = json.loads(results.read_text(encoding="utf-8"))["results"][task]
    return {name: value for name, value in scores.items() if name.startswith("acc")}, rows


def judged(out, kind, **settings):
    """Return the results of lm_eval, and the log-likelihood of each choice with whether it is the most probable text."""
    scores, rows = run_task(out, EXAMPLES / "made_up_task", "made_up", kind, **settings)
    return (
        scores,
        [float(answer[0][0]) for row in rows for answer in row["resps"]],
        [str(answer[0][1]) for row in rows for answer in row["resps"]],
    )


def test_the_server_is_judged_as_the_model_is(model, tmp_path):
    scores, logprobs, are_greedy = judged(tmp_path / "hf", "hf", pretrained=model, dtype="float32")
    with (
        TextGenerator.load(model, "transformers", device="cpu") as generator,
        serving(Served("judged", generator, None)) as running,
    ):
        given = {"model": "judged", "base_url": f"{running.url}/completions", "tokenizer": model, "max_length": 256}
        for name, more in (("ids", {"num_concurrent": 4}), ("text", {"tokenized_requests": False})):
            of_server = judged(tmp_path / name, "local-completions", **given, **more)
            assert of_server[0] == scores
            assert of_server[1] == pytest.approx(logprobs, abs=1e-4)
            assert of_server[2] == are_greedy
    assert len(logprobs) == 160


def test_a_line_must_be_continued_by_its_own_end(model, sample, tmp_path):
    folder = tmp_path / "continuations"
    shutil.copytree(EXAMPLES / "continuations", folder)
    lines = [line for line in sample["si"].splitlines() if line.count(" ") > 9][:8]
    (folder / "held-out.txt").write_text("\n".join([*lines, lines[0], "", "ක", "ක" * 40]) + "\n", encoding="utf-8")
    scores, rows = run_task(tmp_path / "out", folder, "continuations", "hf", pretrained=model, dtype="float32")
    questions = [row["doc"] for row in rows]
    for line, question in zip(lines, questions, strict=False):
        assert f"{question['beginning']} {question['ends'][question['answer']]}" == line
        assert len(set(question["ends"])) == 4
    assert questions[-1]["beginning"] == "ක" * 20
    assert len(questions) == 9
    logprobs = [[float(answer[0][0]) for answer in row["resps"]] for row in rows]
    right = sum(max(range(4), key=one.__getitem__) == row["doc"]["answer"] for one, row in zip(logprobs, rows, strict=True))
    assert scores["acc,none"] == pytest.approx(right / 9)
