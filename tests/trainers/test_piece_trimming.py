"""Unigram and WordPiece tokenizers that are trimmed to a size, or to the pieces that a corpus needs."""

import json
import re
import shutil

import pytest
from hypothesis import given, strategies as st
from support.command import hf_sgpe
from support.other_scripts import TEXT
from support.piece_tokenizers import KINDS, piece_folder
from tokenizers import Tokenizer

from hf_sgpe import SGPEError
from hf_sgpe.evaluation.token_use import use_of_pieces
from hf_sgpe.formats.piece_folder import PieceFolder
from trainers import trim

SOME = ["the", " ", "\u2581", "##", "low", "мир", "中", "ක", "<s>", "<mask>", "[SEP]", "[MASK]", "\u200b", "1", "."]
strings = st.lists(st.one_of(st.sampled_from(SOME), st.characters(exclude_categories=["Cs"])), max_size=16).map("".join)


@pytest.fixture(scope="module")
def lines(sample):
    return [*sample["en"].splitlines(), *TEXT.splitlines()]


@pytest.fixture(scope="module", params=KINDS)
def base(request, lines, tmp_path_factory):
    """The folder of a tokenizer whose first half of the text is in ``corpus.txt``, and the second half in ``rest.txt``."""
    kind = request.param
    folder = piece_folder(kind, lines, tmp_path_factory.mktemp("base") / kind, own_class=kind == "WordPiece")
    half = len(lines) // 2
    for name, some in {"corpus": lines[half:], "rest": lines[:half]}.items():
        (folder / f"{name}.txt").write_text("\n".join(some), encoding="utf-8", newline="\n")
    mask = PieceFolder.read(folder).added["<mask>" if kind == "Unigram" else "[MASK]"]
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": mask}))
    return folder


@pytest.fixture(scope="module")
def size(base):
    """The number of tokens that the corpus needs, less 60."""
    pieces = PieceFolder.read(base)
    use = use_of_pieces(pieces, (base / "corpus.txt").read_text(encoding="utf-8").splitlines())
    return pieces.trimmed(use)[0].vocab_size - 60


@pytest.fixture(scope="module")
def out(base):
    return base.with_name("small")


@pytest.fixture(scope="module")
def small(base, size, out):
    return trim(base, out, tokens=size, needed_for=[base / "corpus.txt"], evaluate=[base / "rest.txt"])


def test_special_tokens_and_characters_stay_and_ids_have_no_gaps(small, size):
    before, after = small.base, small.folder
    assert after.vocab_size == size == len(small.trimming.ids)
    assert after.ids == set(range(after.vocab_size))
    assert {piece for piece in before.vocab if len(piece.removeprefix("##")) == 1} <= after.vocab.keys()
    assert after.added == {text: small.trimming.ids[id] for text, id in before.added.items()}
    assert after.unknown == small.trimming.ids[before.unknown]
    for piece, id in after.vocab.items():
        assert small.trimming.ids[before.vocab[piece]] == id
    if before.kind == "Unigram":
        scores, old = after.scores(), before.scores()
        assert min(scores.values()) == min(old.values())
        assert scores == {piece: old[piece] for piece in scores}
    gone = [times for piece, times in small.trimming.need.items() if piece not in after.vocab]
    assert max(gone) <= min(times for piece, times in small.trimming.need.items() if piece in after.vocab)


@given(text=strings)
def test_text_whose_tokens_all_stay_has_these_tokens(small, text):
    before, after = small.base, small.folder
    [old], [new] = before.encode_batch([text]), after.encode_batch([text])
    moved = [small.trimming.ids.get(id) for id in old]
    if None not in moved and (before.kind == "Unigram" or before.unknown not in old):
        assert new == moved
    if before.kind == "Unigram":
        assert old.count(before.unknown) == new.count(after.unknown)
        assert before.decode(old) == after.decode(new)


def test_the_files_have_the_new_ids(base, small, out, lines):
    library, moved = Tokenizer.from_file(str(out / "tokenizer.json")), small.trimming.ids
    for line in lines[:40]:
        assert library.encode(line, add_special_tokens=False).ids == small.folder.encode_batch([line])[0]
    first, *_, last = library.encode("the").ids
    mark = ("<s>", "</s>", "<mask>") if small.base.kind == "Unigram" else ("[CLS]", "[SEP]", "[MASK]")
    assert [library.id_to_token(first), library.id_to_token(last)] == [*mark[:2]]
    [mask] = library.encode(mark[2], add_special_tokens=False).ids
    assert mask == moved[small.base.added[mark[2]]]
    assert json.loads((out / "generation_config.json").read_text()) == {"eos_token_id": mask}
    if small.base.kind == "WordPiece":
        pieces = (out / "vocab.txt").read_text(encoding="utf-8").splitlines()
        assert {piece: id for id, piece in enumerate(pieces)} == small.folder.vocab
    runs = json.loads((out / "ids.json").read_text())["runs"]
    assert {old: old - first + new for first, last, new in runs for old in range(first, last + 1)} == moved


def test_the_report_counts_lines_and_compares_sizes(base, small, size, out, tmp_path):
    options = ("--tokens", size, "--for", base / "corpus.txt", "--out", tmp_path / "out")
    done = hf_sgpe("trim", base, *options)
    corpus = [line for line in (base / "corpus.txt").read_text(encoding="utf-8").splitlines() if line.strip()]
    old, new = (one.encode_batch(corpus) for one in (small.base, small.folder))
    same = sum([small.trimming.ids.get(id) for id in before] == after for before, after in zip(old, new, strict=True))
    assert 0 < same < len(corpus)
    words = sum(len(line.split()) for line in corpus)
    before, after = (sum(map(len, ids)) / words for ids in (old, new))
    assert f"{same:,} of {len(corpus):,} compared lines keep their tokens" in done.stdout
    assert f"tokens per word {before:.3f} → {after:.3f}. " in done.stdout
    assert re.search(rf"^ *{small.base.vocab_size:,} +{before:.3f} +0.0%$", done.stdout, re.MULTILINE)
    assert re.search(rf"^ *{size:,} +{after:.3f} +{1 - same / len(corpus):.1%}$", done.stdout, re.MULTILINE)
    assert "AutoTokenizer loads the tokenizer as " in done.stdout
    facts = json.loads(hf_sgpe("trim", base, *options, "--overwrite", "--json", "--eval", base / "rest.txt").stdout)
    assert (facts["for"]["same_lines"], facts["for"]["kept_lines"]) == (same, len(corpus))
    assert facts["tokens"] == {"before": small.base.vocab_size, "after": size}
    [rest] = small.results.values()
    assert facts["eval"] == {str(base / "rest.txt"): json.loads(json.dumps(rest.to_dict()))}
    assert facts["sizes"][0]["same_lines"] == facts["sizes"][0]["kept_lines"]
    assert json.loads(hf_sgpe("info", out, "--json").stdout)["unused tokens removed"] == small.trimming.unused
    for name in ("tokenizer.json", "ids.json"):
        assert (tmp_path / "out" / name).read_bytes() == (out / name).read_bytes()


def test_a_corpus_keeps_its_tokens(base, size, tmp_path):
    done = hf_sgpe("trim", base, "--unused-in", base / "corpus.txt", "--out", tmp_path / "out")
    assert re.search(r"The text of .*corpus\.txt keeps its tokens \([\d,]+ compared\)\.", done.stdout)
    before, after = PieceFolder.read(base), PieceFolder.read(tmp_path / "out")
    assert after.vocab_size == size + 60 < before.vocab_size
    lines = (base / "corpus.txt").read_text(encoding="utf-8").splitlines()
    for old, new in zip(before.encode_batch(lines), after.encode_batch(lines), strict=True):
        assert [*map(before.text_of, old)] == [*map(after.text_of, new)]


def test_a_class_with_language_codes(base, tmp_path):
    """The tokens after the pieces, such as the language codes of mBART, have the last ids in the same order."""
    folder = tmp_path / "base"
    shutil.copytree(base, folder)
    content = json.loads((base / "tokenizer.json").read_text(encoding="utf-8"))
    highest = max(token["id"] for token in content["added_tokens"])
    highest = max(highest, PieceFolder.read(base).highest_id)
    codes = [{**content["added_tokens"][0], "id": highest + 1 + n, "content": f"{n}_XX"} for n in range(3)]
    content["added_tokens"] += codes
    (folder / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    done = trim(folder, tmp_path / "out", tokens=300, needed_for=[base / "corpus.txt"])
    library = Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    assert [library.token_to_id(f"{n}_XX") for n in range(3)] == [297, 298, 299]
    assert done.trimming.ids[highest + 1] == 297


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--drop-script cyrillic", "which cannot be trimmed by scripts: give --tokens and --for, or --unused-in"),
        ("--drop-script cyrillic --tokens 300 --for rest.txt", "which cannot be trimmed by scripts"),
        ("--tokens 300 --for rest.txt --ids keep", "whose tokens always get new ids: give --ids compact"),
        (
            "--tokens 20 --for rest.txt",
            r"\d+ tokens always stay \(special tokens, bytes or single characters\): give --tokens",
        ),
        ("--tokens 9999 --for rest.txt", r"all \d+ tokens would stay: give a smaller number with --tokens"),
        ("--tokens 300 --for blank.txt", "there is no text to compare"),
        ("--tokens 300 --for counts", "tokenizer cannot be trimmed by word counts: give the text itself"),
    ],
)
def test_bad_input_is_one_line(base, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json", "rest.txt"):
        shutil.copy(base / name, tmp_path / name)
    (tmp_path / "blank.txt").write_text("\n  \n")
    if "counts" in arguments:
        hf_sgpe("count", "rest.txt", "--recipe", "bpe", "--out", "counts.parquet")
        (tmp_path / "counts.parquet").rename("counts")
    done = hf_sgpe("trim", ".", *arguments.split(), "--out", "out", code=2)
    assert re.fullmatch(f"error: .*{message}.*\n", done.stderr)
    assert not (tmp_path / "out").exists()


def test_a_post_processor_with_an_ordinary_token_is_refused(base, tmp_path):
    content = json.loads((base / "tokenizer.json").read_text(encoding="utf-8"))
    content["post_processor"]["special_tokens"]["x"] = {"id": "x", "ids": [1000], "tokens": ["x"]}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(SGPEError, match="its post-processor has the id 1000, which no special token has"):
        trim(tmp_path, tmp_path / "out", tokens=300, needed_for=[base / "corpus.txt"])
