import json

import pytest

torch = pytest.importorskip("torch", reason="rows are tensors: pip install torch accelerate")

from support.command import benchmark  # noqa: E402
from support.small_models import tensors_of  # noqa: E402

from trainers.model_rows.row_starts import by_pursuit  # noqa: E402
from trainers.model_rows.token_tables import fitting_rows  # noqa: E402


def test_a_donor_tells_what_new_tokens_are_made_of(extended):
    """Rows of a donor that are sums of two others are found as such."""
    folder, new, old = extended
    row_map = fitting_rows(512, new, old)
    torch.manual_seed(2)
    donor_rows = torch.randn(row_map.rows, 64)
    ids = row_map.new[:5]
    for number, id in enumerate(ids):
        donor_rows[id] = 2 * donor_rows[300 + number] - donor_rows[400 + number]
    made = by_pursuit(row_map, new, new, donor_rows, terms=2)
    table = tensors_of(folder)["model.embed_tokens.weight"].float()
    for number, id in enumerate(ids):
        assert sorted(made.pieces[id]) == [300 + number, 400 + number]
        expected = 2 * table[300 + number] - table[400 + number]
        assert torch.allclose(made.apply(table)[id], expected, atol=0.02)


@pytest.mark.slow
def test_starts_are_compared_while_a_model_trains(tokenizer_folders, extended, tmp_path, sample):
    for language in ("si", "en"):
        lines = sample[language].splitlines()
        (tmp_path / f"{language}.txt").write_text("\n".join(lines[:60]), encoding="utf-8", newline="\n")
        (tmp_path / f"held-{language}.txt").write_text("\n".join(lines[60:64]), encoding="utf-8", newline="\n")
    text = ["si.txt", "--keep", "en.txt", "--eval", "si=held-si.txt", "en=held-en.txt", "--parts", "ends", "--seeds", "2"]
    size = ["--steps", "4", "--batch", "32", "--length", "32", "--distil-snippets", "1", "--rows-learning-rate", "1e-3"]
    names = [extended[0], tokenizer_folders / "extended", *text, *size, "--donor", extended[0], "--out", "runs"]
    done = benchmark("model_starts.py", *names, cwd=tmp_path)
    lines = (tmp_path / "runs" / "model_starts.jsonl").read_text(encoding="utf-8").splitlines()
    runs = {record["about"]: record["result"] for record in map(json.loads, lines)}
    assert len(runs) == 12
    for name, run in runs.items():
        sizes = [point["bytes"] for point in run["points"]]
        assert sizes == sorted(sizes)
        assert (run["points"][0]["on_new_tokens"]["si"] > 0) == (not name.startswith("as it is"))
    assert runs["as it is, seed 1"]["points"][-1]["bytes"] < runs["mean, seed 1"]["points"][-1]["bytes"]
    shown = (tmp_path / "runs" / "transplant.md").read_text(encoding="utf-8")
    assert shown in done.stdout
    assert [line.split(" | ")[0] for line in shown.splitlines()[2:]] == [
        f"| {start}" for start in ("as it is", "random", "mean", "weighted", "distilled", "omp")
    ]
    assert f" | {runs['mean, seed 1']['points'][0]['bits_per_byte']['si']:.4f} | " in shown
    assert (tmp_path / "runs" / "transplant.svg").exists()
    again = benchmark("model_starts.py", *names, cwd=tmp_path)
    assert "seed 1: " not in again.stdout  # finished runs are not repeated
    assert again.stdout in done.stdout
