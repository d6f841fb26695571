"""``tokenize``: encode a corpus to files of token ids for training."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

from hf_sgpe.cli.application import Json, command
from hf_sgpe.cli.corpus_options import CORPUS_HELP
from hf_sgpe.cli.tokenizer_options import TOKENIZER_HELP
from hf_sgpe.errors import SGPEError
from hf_sgpe.learning.tokenizing_config import TokenizingConfig
from hf_sgpe.terminal.options import Given, arguments, option, options_of
from hf_sgpe.terminal.printing import report

if TYPE_CHECKING:
    from trainers.token_files.tokenizing import Tokenized


@dataclass(frozen=True, kw_only=True)
class _TokenizeOptions:
    corpus: list[str] = arguments(CORPUS_HELP)
    tokenizer: str = option(TOKENIZER_HELP, ..., "-t")
    out: str = option("Folder to write shards and manifest.json to.", ..., "-o")
    no_end_token: bool = option(
        "Put no token after documents. This works only for formats that store where documents end.",
        False,
        after="end_token",
    )
    workers: int | None = option("Number of cores to use (default: all).", after="validation_share")


_TOKENIZING = options_of(
    TokenizingConfig,
    "format end_token lines text_field shard_tokens validation_share",
    end_token={
        "help": "Special token after each document (default: the tokenizer's EOS token).",
        "type": str | None,
        "default": None,
    },
    text_field={"names": ("--text-field", "--text-column")},
)


@command(epilog="Example: hf-sgpe tokenize corpora/si.jsonl.xz --tokenizer my-tokenizer --out tokens")
def tokenize(given: _TokenizeOptions, settings: Annotated[Given, _TOKENIZING], as_json: Json = False) -> None:
    """Encode a corpus to files of token ids for training a model, on all cores and in bounded memory.

    A document is a text file, a line of .jsonl or a row of .parquet. The ids are the same as from hf-sgpe encode: special
    tokens that are written in the text are encoded as ordinary text. After an interruption, repeat the command to continue.
    The result is the same for any number of workers.
    """
    from trainers import tokenize_corpus

    if not given.corpus:
        raise SGPEError("nothing to tokenize: name files of text")
    if given.no_end_token:
        if "end_token" in settings:
            raise SGPEError("--end-token and --no-end-token cannot be used together: leave one out")
        settings["end_token"] = False
    done = tokenize_corpus(given.corpus, given.tokenizer, given.out, workers=given.workers, **settings)
    facts = {**asdict(done), "out": str(done.out)}
    if done.validation is not None:
        facts["validation"]["out"] = str(done.validation.out)
    parts = [done] if done.validation is None else [done, done.validation]
    report("\n".join(map(_sentence, parts)), facts, as_json)


def _sentence(done: Tokenized) -> str:
    def several(count: int, thing: str) -> str:
        return f"{count:,} {thing}{'s' * (count != 1)}"

    speed = f"{done.new_text_bytes / 1e6 / done.seconds:,.1f} MB/s" if done.new_text_bytes else "all shards existed already"
    return (
        f"{done.out}: {several(done.documents, 'document')}, {several(done.tokens, 'token')} as {done.dtype} in "
        f"{several(done.shards, 'shard')} ({done.format}), "
        f"{done.text_bytes / max(done.tokens, 1):.2f} bytes per token, {speed}"
    )
