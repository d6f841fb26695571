"""TokenizingConfig: the settings of tokenizing. With the corpus and the tokenizer, they determine the token files."""

from __future__ import annotations

from dataclasses import dataclass

from hf_sgpe.corpora.validation_part import check_share
from hf_sgpe.errors import SGPEError


@dataclass(frozen=True)
class TokenizingConfig:
    """The settings for writing a corpus to files of token ids.

    Args:
        format: nanogpt: ids alone, for numpy.memmap, as nanoGPT reads them; megatron: IndexedDataset of Megatron-LM;
            datatrove: DatatroveFileDataset, as nanotron reads it; parquet: one row for each document, for datasets.
        end_token: Special token after each document (default: the tokenizer's EOS token). In Python, True means the default,
            and False means no token, which works only for formats that store where documents end.
        lines: Treat each line of a text file as a document, instead of the whole file.
        text_field: Field (.jsonl) or column (.parquet) that contains the text.
        shard_tokens: Size of a shard in tokens. A shard ends with the document that reaches this size.
        validation_share: Share of the documents for validation, such as 0.01. Documents are chosen by a hash of their text.
            With this setting, the output contains the folders train and validation, the corpus is read twice, and each
            document must fit into memory.
    """

    format: str = "nanogpt"
    end_token: str | bool = True
    lines: bool = False
    text_field: str = "text"
    shard_tokens: int = 100_000_000
    validation_share: float | None = None

    def __post_init__(self) -> None:
        if self.shard_tokens < 1:
            raise SGPEError(f"shard_tokens must be at least 1, not {self.shard_tokens}")
        if self.validation_share is not None:
            check_share(self.validation_share)
