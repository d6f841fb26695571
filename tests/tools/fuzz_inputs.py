"""Feed damaged input to the readers of the package: requests, tokenizer folders, chat templates, schemas and word counts.

Each input is a valid example in which some values are replaced. A reader may refuse it in one line (SGPEError, or an HTTP
status below 500), but must not fail otherwise, and must not take more than ten seconds of processor time. A failure prints
the number with which --seed repeats the input alone.

Example: python tests/tools/fuzz_inputs.py --inputs 20000
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from copy import deepcopy
from http.client import HTTPConnection
from pathlib import Path
from typing import Annotated, Any

import typer
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.calling import TOKENIZER, served_by
from support.engines import Bigram
from support.piece_tokenizers import KINDS, piece_folder
from support.serving import serving

from hf_sgpe import BPETokenizer, SGPEError, TrainingConfig, WordCounts
from hf_sgpe.chat.templates import render
from hf_sgpe.cli import run_script
from hf_sgpe.formats.folder_of_any_kind import read_folder
from hf_sgpe.formats.piece_folder import PieceFolder
from hf_sgpe.generation.json_schemas import closed
from hf_sgpe.terminal.progress import somebody_watches

SECONDS = 10
_HELLO = [{"role": "user", "content": "Hi"}]
_SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "string", "pattern": "^a+$", "maxLength": 4, "format": "date"},
        "b": {"anyOf": [{"type": "integer", "minimum": 1}, {"$ref": "#/$defs/c"}]},
        "d": {"type": "array", "items": {"enum": ["x", 1, None]}, "minItems": 1, "maxItems": 2},
    },
    "required": ["a"],
    "$defs": {"c": {"const": "c"}},
    "additionalProperties": False,
}
_TOOL = {"type": "function", "function": {"name": "add", "description": "Add.", "parameters": _SCHEMA, "strict": True}}
_CALL = {"id": "abcdefghi", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
_SAMPLING = {"temperature": 1, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1, "seed": 1, "n": 1}
_CHAT = {"messages": _HELLO, "max_tokens": 3, "stream": False, "stop": ["x"], **_SAMPLING}
_FORMAT = {"type": "json_schema", "json_schema": {"name": "n", "schema": _SCHEMA, "strict": True}}
_ANSWERED = [
    *_HELLO,
    {"role": "assistant", "content": None, "tool_calls": [_CALL]},
    {"role": "tool", "tool_call_id": "abcdefghi", "content": "3"},
]
_REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", {**_CHAT, "logprobs": True, "top_logprobs": 2}),
    ("/v1/chat/completions", {**_CHAT, "response_format": _FORMAT}),
    ("/v1/chat/completions", {**_CHAT, "tools": [_TOOL], "tool_choice": "required", "parallel_tool_calls": False}),
    ("/v1/chat/completions", {**_CHAT, "messages": _ANSWERED}),
    ("/v1/completions", {"prompt": "a", "max_tokens": 2, "echo": True, "logprobs": 1, "stream_options": None, **_SAMPLING}),
    ("/v1/completions", {"prompt": [1, 2], "max_tokens": 2, "structured_outputs": {"regex": "a+b?"}, "stop_token_ids": [1]}),
    ("/v1/completions", {"prompt": "a", "max_tokens": 2, "structured_outputs": {"choice": ["a", "b"]}, "min_tokens": 0}),
    ("/v1/completions", {"prompt": "a", "max_tokens": 2, "structured_outputs": {"grammar": 'start: "a" b\nb: /b+/'}}),
    ("/v1/embeddings", {"input": ["a"], "encoding_format": "float"}),
    ("/tokenize", {"prompt": "a", "add_special_tokens": True, "return_token_strs": True}),
    ("/tokenize", {"messages": _HELLO, "tools": [_TOOL], "chat_template_kwargs": {"a": 1}}),
    ("/detokenize", {"tokens": [1, 2, 3]}),
]
_NASTY: list[Any] = [
    "a" * 3000,
    10**30,
    *json.loads(
        """[null, true, false, 0, -1, 1, 2, 5, 2147483648, 9007199254740992, 9223372036854775808, 1e30, 0.5, -1.5, 1e-308,
        1e308, 1e999, "", "a", "\\u0000", "\\ud800", "ශ්‍රී", "<s>", "#", "#/$defs/c", "(", "[", "object", "string",
        "{{ 9**9 }}", [], {}, [null], [[]], [{}], {"": null}, {"a": {"a": {"a": []}}}, ["a", "a"],
        [1, -1, 1099511627776], {"$ref": "#"}, {"type": "object"}]"""
    ),
]
_FRAGMENTS = """
    {{ messages[0].content }}¦{% for m in messages %}¦{% endfor %}¦{{ m.role }}¦{% if ¦{% endif %}¦a¦{% set x = ¦ %}¦{{ ¦ }}¦
    messages¦x¦ ~ ¦ + ¦ * ¦ ** ¦99999¦'ab'¦[x, x]¦{'a': x}¦range(99999)¦|list¦|tojson¦|join(x)¦|replace('a', x)¦|length
    |upper¦|indent(99999)¦|batch(9)¦.split()¦.format(x)¦namespace(x=1)¦{% macro f(a) %}¦{% endmacro %}¦f(f(x))¦[1:]¦==
    in ¦%
""".replace("\n", "¦").split("¦")


def damaged(source: random.Random, value: Any) -> Any:
    """A copy of a JSON value with one to three values replaced, removed, repeated or moved."""
    value = deepcopy(value)
    for _ in range(source.randint(1, 3)):
        places = [*_places(value)]
        if not places:
            return source.choice(_NASTY)
        inside, key = source.choice(places)
        kind = source.random()
        if kind < 0.6:
            inside[key] = deepcopy(source.choice(_NASTY))
        elif kind < 0.75:
            inside[key] = deepcopy(source.choice([other[place] for other, place in places]))
        elif kind < 0.85 and isinstance(inside, dict):
            del inside[key]
        elif isinstance(inside, list):
            inside.extend([inside[key]] * source.choice((1, 2, 300)))
        else:
            inside[str(source.choice(_NASTY))] = inside[key]
    return value


def _places(value: Any) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in [*items]:
        yield value, key
        yield from _places(item)


class Requests:
    """Servers of random models."""

    def __init__(self, stack: ExitStack) -> None:
        ends = [TOKENIZER.special_tokens["</s>"]]
        served = [served_by(Bigram(len(TOKENIZER), stop_ids=ends), style) for style in ("qwen", "coder")]
        self._running = [stack.enter_context(serving(one)) for one in served]

    def __call__(self, source: random.Random) -> None:
        path, record = source.choice(_REQUESTS)
        body = json.dumps(damaged(source, record))
        running = source.choice(self._running)
        with closing(HTTPConnection(running.host, running.port, timeout=60)) as connection:
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            content = answer.read()
        assert answer.status < 500, f"{path} {body}: status {answer.status}, {content[:200]!r}"


class Folders:
    """Folders of tokenizers (one that merges, Unigram and WordPiece) whose JSON files are damaged."""

    def __init__(self, folder: Path) -> None:
        TOKENIZER.save(folder / "tokenizer")
        lines = ["the words of a small text", "and some other words"] * 20
        made = [folder / "tokenizer", *(piece_folder(kind, lines, folder / kind, own_class=False) for kind in KINDS)]
        self._files = [{file: file.read_bytes() for file in one.iterdir() if file.suffix == ".json"} for one in made]

    def __call__(self, source: random.Random) -> None:
        files = source.choice(self._files)
        for file, data in files.items():
            file.write_bytes(data)
        file = source.choice(sorted(files))
        data = files[file]
        if source.random() < 0.8:
            data = json.dumps(damaged(source, json.loads(data))).encode()
        else:
            place = source.randrange(len(data))
            data = data[:place] + source.randbytes(source.randint(0, 8)) + data[place + source.randint(0, 8) :]
        file.write_bytes(data)
        for read in (BPETokenizer.from_pretrained, read_folder):
            try:
                opened = read(str(file.parent))
                if isinstance(opened, PieceFolder):
                    opened.encode_batch(["the words", "ශ්‍රී"])
            except SGPEError as error:
                assert "\n" not in str(error), f"an error of several lines: {error}"


def render_template(source: random.Random) -> None:
    """Render a template that is put together from fragments."""
    template = "".join(source.choices(_FRAGMENTS, k=source.randint(1, 12)))
    try:
        render(_HELLO, f"{{{{ '' }}}}{template}")
    except SGPEError as error:
        assert str(error).strip(), "an error without a message"


def read_schema(source: random.Random) -> None:
    """Check a schema, and make it strict."""
    try:
        closed(damaged(source, _SCHEMA))
    except SGPEError as error:
        assert "\n" not in str(error)


class Counts:
    """A file of word counts with damaged bytes."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "counts.parquet"
        words = WordCounts.from_texts(["a bc def ශ්‍රී " * 50], TrainingConfig(vocab_size=300, recipe="bpe"))
        words.save(self._file)
        self._data = self._file.read_bytes()

    def __call__(self, source: random.Random) -> None:
        data = bytearray(self._data)
        for _ in range(source.randint(1, 8)):
            data[source.randrange(len(data))] = source.randrange(256)
        self._file.write_bytes(data[: source.randint(1, len(data))] if source.random() < 0.2 else data)
        try:
            WordCounts.load(self._file)
        except SGPEError as error:
            assert "\n" not in str(error)


def fuzz(
    inputs: Annotated[int, typer.Option(help="Number of inputs.")] = 1000,
    seed: Annotated[int | None, typer.Option(help="Number of a single input to repeat.")] = None,
) -> None:
    """Feed damaged requests, folders, templates, schemas and counts to their readers."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        requests = Requests(stack)
        # A third of all inputs are requests.
        _feed(
            [requests, requests, Folders(folder), render_template, read_schema, Counts(folder)],
            range(inputs) if seed is None else [seed],
        )
    print(f"{inputs if seed is None else 1:,} inputs, no failure")


def _feed(targets: Sequence[Callable[[random.Random], None]], numbers: Sequence[int]) -> None:
    for number in tqdm(numbers, disable=not somebody_watches(), unit="inputs"):
        target = targets[number % len(targets)]
        began = time.process_time()
        try:
            target(random.Random(number))
        except Exception as error:
            raise SGPEError(f"input {number} ({type(error).__name__}): {error}") from error
        if (seconds := time.process_time() - began) > SECONDS:
            raise SGPEError(f"input {number} took {seconds:.0f} seconds of processor time")


if __name__ == "__main__":
    run_script(fuzz, __doc__)
