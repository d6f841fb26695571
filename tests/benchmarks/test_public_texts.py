import hashlib
import io
import json
import lzma

import pytest
from harness import read_records
from public_texts import CORPORA, HELD_OUT
from support.command import benchmark
from support.corpora import corpus, held_out
from support.hub import contents

pa = pytest.importorskip("pyarrow")
pytest.importorskip("datasets")
import pyarrow.parquet as pq  # noqa: E402

FINEWEB2 = "\n".join(
    f"- config_name: {CORPORA[code].configuration}\n  data_files:\n"
    f"  - {{split: train, path: data/{CORPORA[code].configuration}/train/*}}\n"
    f"  - {{split: test, path: data/{CORPORA[code].configuration}/test/*}}"
    for code in ("si", "hi")
)


def parquet(**columns):
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, row_group_size=20)
    return file.getvalue()


@pytest.fixture
def public(here):
    """The Hub with FineWeb-2 in two languages, English and NTREX."""
    fineweb2 = {"README.md": f"---\nconfigs:\n{FINEWEB2}\n---\n".encode()}
    for code in ("si", "hi"):
        lines = corpus(code, 60_000).splitlines()
        documents = ["\n\n".join(lines[start : start + 5]) for start in range(0, len(lines), 5)]
        place = f"data/{CORPORA[code].configuration}"
        fineweb2[f"{place}/train/000_00000.parquet"] = parquet(text=documents, id=[str(n) for n in range(len(documents))])
        fineweb2[f"{place}/test/000_00000.parquet"] = parquet(text=["no text to train on"], id=["0"])
    english = {"sample/10BT/000_00000.parquet": parquet(text=corpus("en", 60_000).splitlines())}
    english["README.md"] = (
        b"---\nconfigs:\n- {config_name: sample-10BT, data_files: [{split: train, path: sample/10BT/*}]}\n---\n"
    )
    columns = {HELD_OUT[code].column: held_out(code, 30) for code in ("si", "hi", "en")}
    for source, files in (
        (CORPORA["si"], fineweb2),
        (CORPORA["en"], english),
        (HELD_OUT["si"], {"data/test-00000-of-00001.parquet": parquet(**columns)}),
    ):
        repository = here.add(f"datasets/{source.dataset}", files)
        if source.revision:
            repository.revisions[source.revision] = repository.revisions["main"]
    return here


def test_a_table_can_be_measured_on_public_text(public, tmp_path):
    out = tmp_path / "texts"
    benchmark("public_texts.py", out, "--languages", "si", "en", "--megabytes", "0.05")
    sources = json.loads((out / "corpora" / "sources.json").read_text(encoding="utf-8"))
    for code in ("si", "en"):
        text = lzma.decompress((out / "corpora" / f"{code}.txt.xz").read_bytes()).decode()
        lines = [line for line in corpus(code, 60_000).splitlines() if line.strip()]
        assert text.splitlines() == lines[: text.count("\n")]
        assert 50_000 <= len(text.encode()) < 52_000
        entry = sources[f"{code}.txt.xz"]
        assert entry["sha256"] == hashlib.sha256(text.encode()).hexdigest()
        assert (entry["dataset"], entry["revision"]) == (CORPORA[code].dataset, CORPORA[code].revision)
    assert (out / "eval" / "ntrex_si.txt").read_text(encoding="utf-8").splitlines() == held_out("si", 30)
    ntrex = json.loads((out / "eval" / "sources.json").read_text(encoding="utf-8"))
    assert ntrex["ntrex_si.txt"]["revision"] == public.repositories["datasets/mteb/NTREX"].at().sha

    options = ["--corpora", out / "corpora", "--held-out", out / "eval", "--vocabularies", tmp_path / "vocabularies"]
    benchmark("tokens.py", *options, "--only", "si-o200k-hybrid", "--no-pages", "--record", "tokens.jsonl", cwd=tmp_path)
    (record,) = read_records(tmp_path / "tokens.jsonl")
    assert record["texts"] == sources | ntrex
    assert record["result"]["corpora"]["si"]["bytes"] == sources["si.txt.xz"]["bytes"]
    assert record["result"]["measures"]["si"]["lines"] == 30


def test_text_that_is_there_is_kept_and_other_settings_are_refused(public, tmp_path):
    out = tmp_path / "texts"
    benchmark("public_texts.py", out, "--languages", "hi", "--megabytes", "0.02")
    before = contents(out)
    done = benchmark("public_texts.py", out, "--languages", "hi", "--megabytes", "0.02")
    assert done.stdout.count("already there") == 2
    refused = benchmark("public_texts.py", out, "--languages", "hi", "--megabytes", "0.03", code=2)
    assert "hi.txt.xz was not downloaded with these settings: remove this file" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert contents(out) == before


def test_a_failed_download_leaves_nothing(public, tmp_path):
    public.fail(r"^GET /datasets/HuggingFaceFW/fineweb-2/resolve/.*parquet", times=99, status=404)
    out = tmp_path / "texts"
    done = benchmark("public_texts.py", out, "--languages", "hi", code=2)
    assert "HuggingFaceFW/fineweb-2:hin_Deva" in done.stderr
    assert done.stderr.count("\n") == 1
    assert contents(out) == {}
