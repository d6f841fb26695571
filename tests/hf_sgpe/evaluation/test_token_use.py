import json
from collections import Counter
from functools import cache

import numpy as np
import pytest
from support.sentencepiece_like import KINDS, RARER_KINDS, content

from hf_sgpe import BPETokenizer, SGPEError, WordCounts
from hf_sgpe.evaluation import token_use
from hf_sgpe.evaluation.token_use import document_parts, use_of_tokens
from hf_sgpe.formats import tokenizer_json

LINES = ["the low lower lowest", "newer \U0001f600 x", "", "ලංකාව ලංකාවේ the", "  two  spaces <b>"]


@cache
def base_of(kind):
    if kind in KINDS | RARER_KINDS:
        return tokenizer_json.from_dict(content(LINES * 3, 90, kind, {"<b>": False}))
    return BPETokenizer.train_from_iterator(LINES * 5, 300, pattern=kind).data


@pytest.fixture(params=["gpt2", r"\S+|\s+", *KINDS, *RARER_KINDS])
def base(request):
    return base_of(request.param)


def test_the_ids_of_documents_are_counted(base, tmp_path, monkeypatch):
    monkeypatch.setattr(token_use, "_BATCH_CHARACTERS", 30)
    text = "\n".join(LINES * 40)
    (tmp_path / "a.txt").write_text(text, encoding="utf-8", newline="\n")
    rows = "".join(json.dumps({"text": line}) + "\n" for line in LINES * 4)
    (tmp_path / "b.jsonl").write_text(rows, encoding="utf-8")
    tokenizer = BPETokenizer.of(base)
    expected = Counter(tokenizer.encode(text))
    for line in LINES * 4:
        expected.update(tokenizer.encode(line))
    [use] = use_of_tokens([base], [tmp_path / "a.txt", tmp_path / "b.jsonl"])
    assert {int(id): int(use[id]) for id in np.flatnonzero(use)} == expected


def test_the_parts_of_a_document_have_its_tokens(base, tmp_path, monkeypatch):
    from hf_sgpe.corpora import text_files

    monkeypatch.setattr(text_files, "_BLOCK_BYTES", 64)
    text = "\n".join(LINES * 30)
    (tmp_path / "a.txt").write_text(text, encoding="utf-8", newline="\n")
    parts = list(document_parts(base, tmp_path / "a.txt"))
    assert "".join(part for part, _ in parts) == text
    assert [begins for _, begins in parts] == [True] + [False] * (len(parts) - 1)
    assert (len(parts) > 5) == (str(base.normalization) in ("metaspace", "metaspace-first") or base.splitting.allows_cuts)
    tokenizer, inside = BPETokenizer.of(base), BPETokenizer.of(base.inside_text())
    ids = [id for part, begins in parts for id in (tokenizer if begins else inside).encode(part)]
    assert ids == tokenizer.encode(text)


def test_word_counts_are_as_good_as_their_text(tmp_path):
    base = base_of("gpt2")
    text = "\n".join(LINES * 40)
    (tmp_path / "a.txt").write_text(text, encoding="utf-8", newline="\n")
    WordCounts.from_texts([text], base.splitting).save(tmp_path / "a.parquet")
    by_text, by_counts = (use_of_tokens([base], [tmp_path / name])[0] for name in ("a.txt", "a.parquet"))
    assert by_text.tolist() == by_counts.tolist()
    with pytest.raises(SGPEError, match=r"a\.parquet: .* 'gpt2'"):
        use_of_tokens([base_of(r"\S+|\s+")], [tmp_path / "a.parquet"])
    with pytest.raises(SGPEError, match="merges across words"):
        use_of_tokens([base_of("metaspace")], [tmp_path / "a.parquet"])
