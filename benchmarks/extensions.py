"""Extend tokenizers with hf_sgpe and in other ways, and compare the results for docs/benchmarks.md.

Each way runs in its own process, and learns the same number of tokens from the same lines of text. Ways that need a missing
package or folder are left out. For all ways, run ``pip install mergekit``, clone
https://github.com/taidopurason/tokenizer-extension and https://github.com/NVIDIA-NeMo/Nemotron, and give the two folders.

Example: python benchmarks/extensions.py si.txt --script si --bases llama-3 mistral-nemo --eval ntrex_si.txt \
    --other ntrex_en.txt ntrex_hi.txt --continued-bpe tokenizer-extension --nemotron Nemotron
"""

from __future__ import annotations

import json
import shutil
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from harness import ROOT, Records, Sample, apart, beginning, command, measured, peak_bytes
from reporting import table, write_pages
from tokens import measures_of
from vocabularies import KNOWN

from hf_sgpe import BPETokenizer, ExtensionConfig, SGPEError
from hf_sgpe.evaluation.auto_tokenizer import read_with_auto_tokenizer
from hf_sgpe.evaluation.measurable import load
from hf_sgpe.evaluation.results import CUT_SYLLABLES
from hf_sgpe.evaluation.runtimes import EXACT, LLAMA_CPP, NFC_ONLY, verdict_of
from hf_sgpe.evaluation.same_ids import compare_ids
from hf_sgpe.formats.sentencepiece_model import MODEL_FILE
from hf_sgpe.formats.tokenizer_folder import TokenizerFolder
from hf_sgpe.formats.tokenizer_json import TOKENIZER_FILE
from hf_sgpe.splitting.scripts.script import runs
from hf_sgpe.splitting.scripts.script_registry import resolve_script
from trainers import TokenizerExtender, find_files, read_lines

RECORD = ROOT / "docs" / "measured" / "extensions.jsonl"
_HERE = "hf_sgpe"
_STEPS = Path("src/nemotron/steps/tokenizer_extension")
"""Folder of the steps in Nemotron."""


@dataclass(frozen=True)
class _Job:
    """An extension to make. The tokenizer in the folder ``base`` gets ``size`` new tokens for ``script``. The tokens are
    learned from ``lines``, and the result is saved in the folder ``out``.
    """

    base: Path
    lines: list[str]
    size: int
    script: str
    out: Path

    def tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(self.base)

    def write(self, model: Mapping[str, Any]) -> None:
        """Save the base with another ``model`` in its tokenizer.json."""
        shutil.copytree(self.base, self.out)
        content = json.loads((self.base / TOKENIZER_FILE).read_text(encoding="utf-8"))
        (self.out / TOKENIZER_FILE).write_text(json.dumps({**content, "model": model}), encoding="utf-8", newline="\n")


# ---------------------------------------------------------------- ways to extend


def _extend_here(job: _Job) -> None:
    folder, config = TokenizerFolder.read(job.base), ExtensionConfig([job.script], new_tokens=job.size)
    extender = TokenizerExtender(config, progress=False)
    extension = extender.learn(folder, extender.count(folder, iterator=job.lines))
    job.out.mkdir()
    folder.with_vocabulary_of(extension.tokenizer).write(job.out)


def _add_words(job: _Job) -> None:
    tokenizer = job.tokenizer()
    counts = Counter(word for line in job.lines for word in line.split())
    new = (word for word, _ in counts.most_common() if len(tokenizer.encode(word, add_special_tokens=False)) > 1)
    tokenizer.add_tokens(list(islice(new, job.size)))
    tokenizer.save_pretrained(job.out)


def _learned(job: _Job) -> tuple[Any, dict[str, int], list[tuple[str, str]]]:
    """Train a new tokenizer with the split of the base. Return the base, the new tokenizer's tokens up to the last of
    ``job.size`` tokens that the base lacks, and the merges of these tokens.
    """
    base = job.tokenizer()
    model = json.loads(base.train_new_from_iterator([job.lines], 2 * job.size + 1000).backend_tokenizer.to_str())["model"]
    known, vocab, new = base.get_vocab(), {}, 0
    for token, id in sorted(model["vocab"].items(), key=lambda item: item[1]):
        new += token not in known
        if new > job.size:
            break
        vocab[token] = id
    return base, vocab, [(left, right) for left, right in model["merges"] if left + right in vocab]


def _append_merges(job: _Job) -> None:
    base, learned, merges = _learned(job)
    model = json.loads((job.base / TOKENIZER_FILE).read_text(encoding="utf-8"))["model"]
    known = base.get_vocab()
    new = [token for token in learned if token not in known]
    old = [tuple(merge) for merge in model["merges"]]
    seen = set(old)
    vocab = model["vocab"] | {token: len(known) + place for place, token in enumerate(new)}
    job.write({**model, "vocab": vocab, "merges": old + [merge for merge in merges if merge not in seen]})


def _new_tokenizer(job: _Job, folder: str) -> Path:
    """Save a new tokenizer for the ways that merge two tokenizers."""
    _, learned, merges = _learned(job)
    model = json.loads((job.base / TOKENIZER_FILE).read_text(encoding="utf-8"))["model"]
    vocab = {token: place for place, token in enumerate(learned)}
    made = _Job(job.base, [], 0, job.script, Path(folder) / "new")
    made.write({**model, "vocab": vocab, "merges": merges})
    return made.out / TOKENIZER_FILE


def _unite(job: _Job) -> None:
    unite = import_module("mergekit.tokenizer.build").build_union_tokenizer
    reference = import_module("mergekit.common").ModelReference
    from transformers import AutoTokenizer

    with TemporaryDirectory() as folder:
        new = _new_tokenizer(job, folder).parent
        both = {}
        for path in (job.base, new):
            tokenizer = AutoTokenizer.from_pretrained(path)
            both[reference.model_validate({"model": {"path": str(path)}})] = tokenizer
        unite(next(iter(both.values())), both).save_pretrained(job.out)


def _continue_bpe(folder: Path, job: _Job) -> None:
    sys.path.insert(0, str(folder))
    train = import_module("tokenizer_extension.train_vocab_extension").train_vocab_extension
    extend = import_module("tokenizer_extension.extension").extend_tokenizer
    tokenizer = job.tokenizer()
    learned = train(tokenizer, job.lines, job.size)
    given = {"new_vocab": learned["vocab"], "new_merges": [tuple(merge) for merge in learned["merges"]]}
    extend(tokenizer, **given, n_tokens=job.size, keep_added_token_positions=True).save_pretrained(job.out)


def _nemotron(method: str, folder: Path, job: _Job) -> None:
    sys.path[:0] = [str(folder / _STEPS), str(folder / _STEPS / "extend")]
    script = resolve_script(job.script)
    ranges = import_module("script_ranges").SCRIPT_UNICODE_RANGES
    ranges[script.name] = list(runs(map(ord, script.characters())))
    steps: Any = import_module("extension")
    steps.find_rank_dead_tokens = lambda *_: []  # this check refuses the result if a single new token cannot be produced
    with TemporaryDirectory() as texts:
        path = Path(texts) / "text.jsonl"
        path.write_text("".join(json.dumps({"text": line}) + "\n" for line in job.lines), encoding="utf-8", newline="\n")
        settings = {"model_id": str(job.base), "method": method, "extension_size": job.size, "output_dir": str(job.out)}
        language = {"script_normalizer": "none", "remove_script": script.name}
        steps.run_extension({**settings, **language, "corpus": {"path": str(path), "samples": len(job.lines)}})


def _append_pieces(job: _Job) -> None:
    """Append the pieces of a new SentencePiece model, as merge_tokenizers.py of Chinese-LLaMA-Alpaca does."""
    from io import BytesIO

    import sentencepiece
    from sentencepiece.sentencepiece_model_pb2 import ModelProto
    from transformers import AutoTokenizer

    written = BytesIO()
    options: dict[str, Any] = {
        "model_type": "bpe",
        "vocab_size": job.size * 5 // 4,
        "hard_vocab_limit": False,
        "minloglevel": 2,
    }
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(job.lines), model_writer=written, **options)
    learned = ModelProto.FromString(written.getvalue())
    model = ModelProto.FromString((job.base / MODEL_FILE).read_bytes())
    known = {piece.piece for piece in model.pieces}
    new = [piece.piece for piece in learned.pieces if piece.piece not in known]
    for text in sorted(new, key=lambda text: len(text) > 1)[: job.size]:  # the model lists characters last
        model.pieces.add(piece=text, score=0)
    with TemporaryDirectory() as folder:
        (Path(folder) / MODEL_FILE).write_bytes(model.SerializeToString())
        (Path(folder) / "tokenizer_config.json").write_text(
            '{"tokenizer_class": "LlamaTokenizer"}', encoding="utf-8", newline="\n"
        )
        AutoTokenizer.from_pretrained(folder).save_pretrained(job.out)
        shutil.copy(Path(folder) / MODEL_FILE, job.out)


def _ways(args: Namespace, base: Path) -> Iterator[tuple[str, Callable[[_Job], None]]]:
    """Yield the name and the function of each way that this machine can run and that suits the base."""
    yield _HERE, _extend_here
    yield "`add_tokens` of transformers, frequent words", _add_words
    if (base / MODEL_FILE).exists():
        yield "appended SentencePiece pieces (as Chinese-LLaMA)", _append_pieces
        return
    yield "appended merges of a new tokenizer", _append_merges
    if args.continued_bpe:
        yield "tokenizer-extension (continued BPE)", partial(_continue_bpe, args.continued_bpe)
    if args.nemotron:
        for method in ("add", "replace", "expand"):
            yield f"Nemotron, `{method}`", partial(_nemotron, method, args.nemotron)
    if find_spec("mergekit"):
        yield "mergekit, `union`", _unite


# ---------------------------------------------------------------- measuring


def _run(args: Namespace) -> None:
    for folder in filter(None, (args.continued_bpe, args.nemotron)):
        if not folder.is_dir():
            raise SGPEError(f"{folder}: no such folder")
    lines = list(beginning((f"{line}\n" for line in read_lines(find_files([args.corpus])[0])), args.megabytes))
    lines = [line[:-1] for line in lines]
    held_out, others = _held_out(args.eval), {file.stem: _held_out(file) for file in args.other}
    records = Records(args.record, keep=True)
    for source in args.bases:
        with TemporaryDirectory() as directory:
            base = Path(directory) / "base"
            _save_base(source, base)
            before, every = load(base), [*held_out, *(line for lines in others.values() for line in lines)]
            measures = measures_of(before, held_out)
            for name, way in _ways(args, base):
                job = _Job(base, lines, args.new_tokens, args.script, Path(directory) / "extended")
                taken = [_turn(way, job) for _ in range(args.repeats)]
                cost = {"cpu": median(one.cpu for one, _ in taken), "seconds": median(one.seconds for one, _ in taken)}
                after = load(job.out)
                same = {other: compare_ids(before, after, texts) for other, texts in others.items()}
                result = {
                    "base": source.name,
                    "way": name,
                    "turns": args.repeats,
                    **cost,
                    "peak": max(peak for _, peak in taken),
                    "before": measures,
                    "after": measures_of(after, held_out),
                    "others": {other: {"lines": one.lines, "same": one.same} for other, one in same.items()},
                    **_checks(job, after, every),
                }
                records.add(f"{source.name}: {name}", result)
                print(_table({name: result}).splitlines()[-1], flush=True)
    if args.pages:
        report(records.results)


def _held_out(path: Path) -> list[str]:
    return [line for line in read_lines(find_files([path])[0]) if line.strip()]


def _save_base(source: Path, folder: Path) -> None:
    """Save the base so that AutoTokenizer loads it unchanged, with a config.json, which mergekit needs."""
    tokenizer = BPETokenizer.from_pretrained(source)
    tokenizer.save(folder)
    if (source / MODEL_FILE).exists():
        shutil.copy(source / MODEL_FILE, folder)
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": tokenizer.vocab_size}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8", newline="\n")


def _turn(way: Callable[[_Job], None], job: _Job) -> tuple[Sample, int]:
    shutil.rmtree(job.out, ignore_errors=True)
    return apart(_measured, way, job)


def _measured(way: Callable[[_Job], None], job: _Job) -> tuple[Sample, int]:
    """Extend. Return the time taken without the import of transformers, and the peak memory of this process."""
    from transformers import AutoTokenizer  # noqa: F401

    return measured(partial(way, job))[1], peak_bytes()


def _checks(job: _Job, after: Any, lines: list[str]) -> dict[str, Any]:
    """Count moved ids, lines with the same ids in other programs, and lines that decode to themselves."""
    from tokenizers import Tokenizer

    old, new = (Tokenizer.from_file(str(folder / TOKENIZER_FILE)) for folder in (job.base, job.out))
    ids = read_with_auto_tokenizer(job.out, lines).ids
    decoded = (new.decode(row, skip_special_tokens=False) for row in ids)
    same: dict[str, Any] = {"AutoTokenizer": sum(row == _ids(after, line) for row, line in zip(ids, lines, strict=True))}
    if (job.out / MODEL_FILE).exists():
        import sentencepiece

        rows = sentencepiece.SentencePieceProcessor(model_file=str(job.out / MODEL_FILE)).encode(lines)
        same["sentencepiece"] = sum(row == other for row, other in zip(ids, rows, strict=True))
    if isinstance(after, BPETokenizer):
        same[LLAMA_CPP] = verdict_of(after.data, LLAMA_CPP).what
    return {
        "new_tokens": new.get_vocab_size() - old.get_vocab_size(),
        "moved": sum(new.token_to_id(token) != id for token, id in old.get_vocab().items()),
        "lines": len(lines),
        "decoded": sum(text == line for text, line in zip(decoded, lines, strict=True)),
        "runs": same,
    }


def _ids(tokenizer: Any, line: str) -> list[int]:
    ids = tokenizer.encode(line)
    return list(ids if isinstance(tokenizer, BPETokenizer) else ids[0])


# ---------------------------------------------------------------- the table


def _table(results: Mapping[str, Any]) -> str:
    rows: list[Sequence[str]] = []
    own = next(iter(results.values()))
    for one in results.values():
        if one["way"] == _HERE:
            own = one
            title = KNOWN[one["base"]].title if one["base"] in KNOWN else one["base"]
            rows.append([f"**{title}**, before", "", *_quality(one["before"]), *[""] * 6])
        changed = sum(other["lines"] - other["same"] for other in one["others"].values())
        all_changed = sum(other["lines"] for other in one["others"].values())
        ratio = "" if one is own else f" ({one['cpu'] / own['cpu']:.1f}×)"
        counts = (f"{changed:,} of {all_changed:,}", f"{one['moved']:,}", f"{one['lines'] - one['decoded']:,}")
        costs = (f"{one['cpu']:.1f} s{ratio}", f"{one['peak'] / 1e6:,.0f} MB", _runs_in(one))
        rows.append([one["way"], f"{one['new_tokens']:,}", *_quality(one["after"]), *counts, *costs])
    heading = ("way", "new tokens", "tokens per word", "cut syllables", "other lines changed", "old ids moved")
    return table((*heading, "lines not decoded exactly", "processor time", "peak memory", "same ids in"), rows)


def _quality(measures: Mapping[str, Any]) -> tuple[str, str]:
    return f"{measures['tokens_per_word']:.2f}", CUT_SYLLABLES.show(measures["cut_syllable_share"])


def _runs_in(one: Mapping[str, Any]) -> str:
    """List the programs that return the same ids from the saved files."""
    names = [name for name in ("AutoTokenizer", "sentencepiece") if one["runs"].get(name) == one["lines"]]
    names += [LLAMA_CPP] if one["runs"].get(LLAMA_CPP) in (EXACT, NFC_ONLY) else []
    return ", ".join(names)


TABLES = {"ways to extend": ("docs/benchmarks.md", _table)}
"""The page of each table, and the function that writes the table, keyed by the table's name."""


def report(results: Mapping[str, Any], out: Path | None = None) -> None:
    write_pages(TABLES, results)


if __name__ == "__main__":
    with command(__doc__, _run) as option:
        option("corpus", type=Path, help="text to learn from, one document per line")
        option("--script", required=True, help="script of the text, such as si")
        option("--bases", type=Path, nargs="+", required=True, help="folders with the tokenizers to extend")
        option("--new-tokens", default=16_000, help="number of tokens to add")
        option("--megabytes", default=10.0, help="megabytes of the text to use")
        option("--repeats", default=3, help="number of measurements of time and memory")
        option("--eval", type=Path, required=True, help="held-out text in the script")
        option("--other", type=Path, nargs="+", required=True, help="other texts; their ids should not change")
        option("--continued-bpe", type=Path, help="cloned folder of tokenizer-extension (default: not measured)")
        option("--nemotron", type=Path, help="cloned folder of Nemotron (default: not measured)")
        option("--record", default=RECORD, help="JSON Lines file for the results; results in it are kept")
        option("--pages", action="store_true", help="also write the table into docs/benchmarks.md")
