"""``tokenize``: encode a corpus to files of token ids for training."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from hf_sgpe.cli.application import Json, command
from hf_sgpe.cli.corpus_options import CORPUS_HELP
from hf_sgpe.cli.tokenizer_options import TOKENIZER_HELP
from hf_sgpe.errors import SGPEError
from hf_sgpe.terminal.options import arguments, option
from hf_sgpe.terminal.printing import report

if TYPE_CHECKING:
    from trainers.token_files.tokenizing import Tokenized

# The formats are defined in `trainers.token_files.layouts`, which only this command imports. A test compares the formats
# with this dict.
_FORMATS = (
    "nanogpt: ids alone, for numpy.memmap, as nanoGPT reads them; megatron: IndexedDataset of Megatron-LM; "
    "datatrove: DatatroveFileDataset, as nanotron reads it; parquet: one row for each document, for datasets."
)


@dataclass(frozen=True, kw_only=True)
class _TokenizeOptions:
    corpus: list[str] = arguments(CORPUS_HELP)
    tokenizer: str = option(TOKENIZER_HELP, ..., "-t")
    out: str = option("Folder to write shards and manifest.json to.", ..., "-o")
    format: str = option(_FORMATS, "nanogpt")
    end_token: str | None = option("Special token after each document (default: the tokenizer's EOS token).")
    no_end_token: bool = option(
        "Put no token after documents. This works only for formats that store where documents end.", False
    )
    lines: bool = option("Treat each line of a text file as a document, instead of the whole file.", False)
    text_field: str = option(
        "Field (.jsonl) or column (.parquet) that contains the text.", "text", "--text-field", "--text-column"
    )
    shard_tokens: int = option(
        "Size of a shard in tokens. A shard ends with the document that reaches this size.", 100_000_000
    )
    validation_share: float | None = option(
        "Share of the documents for validation, such as 0.01. Documents are chosen by a hash of their text. With "
        "this option, --out contains the folders train and validation."
    )
    workers: int | None = option("Number of cores to use (default: all).")


@command(epilog="Example: hf-sgpe tokenize corpora/si.jsonl.xz --tokenizer my-tokenizer --out tokens")
def tokenize(given: _TokenizeOptions, as_json: Json = False) -> None:
    """Encode a corpus to files of token ids for training a model, on all cores and in bounded memory.

    A document is a text file, a line of .jsonl or a row of .parquet. The ids are the same as from hf-sgpe encode: special
    tokens that are written in the text are encoded as ordinary text. After an interruption, repeat the command to continue.
    The result is the same for any number of workers.
    """
    from trainers import tokenize_corpus

    if not given.corpus:
        raise SGPEError("nothing to tokenize: name files of text")
    if given.end_token is not None and given.no_end_token:
        raise SGPEError("--end-token and --no-end-token cannot be used together: leave one out")
    if given.shard_tokens < 1:
        raise SGPEError(f"--shard-tokens must be at least 1, not {given.shard_tokens}")
    options = asdict(given)
    corpus, no_end_token = options.pop("corpus"), options.pop("no_end_token")
    if given.end_token is None:
        options["end_token"] = not no_end_token
    done = tokenize_corpus(corpus, **options)
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
