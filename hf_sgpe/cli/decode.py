"""``decode``: decode token ids to text."""

from __future__ import annotations

import json
from dataclasses import dataclass

from hf_sgpe.cli.application import Json, command
from hf_sgpe.cli.input_lines import stdin_lines
from hf_sgpe.cli.tokenizer_options import TokenizerFirst
from hf_sgpe.errors import SGPEError
from hf_sgpe.terminal.options import SEVERAL, arguments, option, option_list


@dataclass(frozen=True, kw_only=True)
class _DecodeOptions(TokenizerFirst):
    ids: list[str] = arguments("Token ids (default: read lines from stdin).")
    older_ids: list[str] = option_list("", "--ids", hidden=True, metavar=SEVERAL)
    skip_special_tokens: bool = option("Leave special tokens out of the text.", False)


@command(epilog="Example: echo 'hello' | hf-sgpe encode my-tokenizer | hf-sgpe decode my-tokenizer")
def decode(given: _DecodeOptions, as_json: Json = False) -> None:
    """Decode token ids to text.

    An input line contains ids separated by spaces or commas, a JSON list of ids, or a JSON object with "ids". With --json,
    each line of output is an object with "ids" and "text".
    """
    from hf_sgpe.tokenizer import BPETokenizer

    name, written, further = given.tokenizer_and_rest(given.ids)
    written = [*written, *given.older_ids]
    if further:
        raise SGPEError("--tokenizer is given more than once: give one tokenizer")
    loaded = BPETokenizer.from_pretrained(name)
    for number, line in enumerate([" ".join(written)] if written else stdin_lines(), 1):
        try:
            ids = _parse_ids(line)
            text = loaded.decode(ids, given.skip_special_tokens)
        except SGPEError as error:
            raise SGPEError(f"{'arguments' if written else f'stdin, line {number}'}: {error}") from None
        print(json.dumps({"ids": ids, "text": text}, ensure_ascii=False) if as_json else text)


def _parse_ids(line: str) -> list[int]:
    try:
        if line.lstrip().startswith(("[", "{")):
            value = json.loads(line)
            ids = value["ids"] if isinstance(value, dict) else value
            if not all(type(id) is int for id in ids):
                raise ValueError
            return list(ids)
        parts = line.replace(",", " ").split()
        if not all(part.lstrip("-").isdecimal() for part in parts):
            raise ValueError
        return [int(part) for part in parts]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise SGPEError("expected token ids such as '12 345', a JSON list or a JSON object with ids") from None
