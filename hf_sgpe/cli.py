"""The command line. The one module that knows all packages; each command imports what it needs when it runs."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import IO, Annotated, Any, TypeVar

import typer

from hf_sgpe import __version__, kernel
from hf_sgpe.command import one_line
from hf_sgpe.errors import SGPEError
from hf_sgpe.normalization import normalize
from hf_sgpe.pretokenizers.abugidas import SCRIPTS
from hf_sgpe.pretokenizers.patterns import SPLIT_PATTERNS
from hf_sgpe.quiet import quiet_libraries

app = typer.Typer(
    name="hf-sgpe",
    help="Train, use and measure tokenizers that keep written syllables whole.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Number = TypeVar("Number", int, float)

_TOKENIZER_HELP = "Folder, tokenizer.json or Hub repository."


class Specials(str, Enum):
    none = "none"
    all = "all"


class Table(str, Enum):
    table = "table"
    json = "json"


class Lines(str, Enum):
    ids = "ids"
    json = "json"


def _version(value: bool) -> None:
    if value:
        print(f"hf-sgpe {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


@app.command(
    epilog="Example: [bold]hf-sgpe train corpora/si.txt.xz corpora/en.jsonl --out my-tokenizer --vocab-size 32000[/bold]"
)
def train(
    corpus: Annotated[
        list[str] | None,
        typer.Argument(
            help="Files, folders or globs: .txt, .jsonl, .parquet, plain or .gz .xz .zst .bz2.", show_default=False
        ),
    ] = None,
    *,
    out: Annotated[str, typer.Option("--out", "-o", help="Folder to write the tokenizer to.", show_default=False)],
    vocab_size: Annotated[int, typer.Option(help="Number of tokens, special tokens included.")] = 32_000,
    recipe: Annotated[str, typer.Option(help="hybrid, sgpe or bpe.")] = "hybrid",
    script: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Script whose syllables stay whole: {', '.join(SCRIPTS)}, or all (repeatable; default: sinhala).",
            show_default=False,
        ),
    ] = None,
    pattern: Annotated[
        str, typer.Option(help=f"Split pattern for everything else: {', '.join(SPLIT_PATTERNS)}, or a regex.")
    ] = "o200k",
    min_frequency: Annotated[int, typer.Option(help="Never merge a pair that occurs less often.")] = 2,
    letter_coverage: Annotated[
        float | None, typer.Option(help="Share of running letters that get a token (default: 0.9999).", show_default=False)
    ] = None,
    syllable_coverage: Annotated[
        float | None, typer.Option(help="Share of running syllables that get a token (default: 0.999).", show_default=False)
    ] = None,
    min_unit_frequency: Annotated[
        int | None, typer.Option(help="Instead: letters and syllables that occur so often.", show_default=False)
    ] = None,
    tie_break: Annotated[
        str, typer.Option(help="smallest-pair-id, greatest-pair-bytes or greatest-pair-id.")
    ] = "smallest-pair-id",
    normalization: Annotated[
        str | None, typer.Option(help="nfc or none (default: nfc for hybrid, else none).", show_default=False)
    ] = None,
    special_token: Annotated[
        list[str] | None,
        typer.Option(
            help="Special token (repeatable; default: <|endoftext|>, or the five of SGPE for sgpe).", show_default=False
        ),
    ] = None,
    special_tokens_position: Annotated[
        str | None, typer.Option(help="end, start or after-bytes (default: end, or start for sgpe).", show_default=False)
    ] = None,
    chat_template: Annotated[
        str | None,
        typer.Option(
            help="llama3, chatml, alpaca or a .jinja file; the special tokens of a named one come along.", show_default=False
        ),
    ] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option(
            help="How much a file's words count: NAME-OR-GLOB=NUMBER (repeatable; the first that fits a file counts).",
            show_default=False,
        ),
    ] = None,
    text_field: Annotated[
        str,
        typer.Option(
            "--text-field", "--text-column", help="Field or column with the text in .jsonl, .parquet and the dataset."
        ),
    ] = "text",
    dataset: Annotated[
        list[str] | None,
        typer.Option(
            help="Dataset on the Hub or in a folder, besides any corpus: NAME or NAME:CONFIG (repeatable).",
            show_default=False,
        ),
    ] = None,
    split: Annotated[str | None, typer.Option(help="Split of the dataset (default: train).", show_default=False)] = None,
    streaming: Annotated[
        bool, typer.Option("--streaming", help="Read the dataset while it is downloaded, and keep no copy.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Threads that count words; processes without native kernels (default: one a core).", show_default=False
        ),
    ] = None,
    save_counts: Annotated[
        Path | None,
        typer.Option(
            help="Also keep the counted words, weighted, in this file, even if training fails later.", show_default=False
        ),
    ] = None,
    from_counts: Annotated[
        list[Path] | None,
        typer.Option(help="Train on words counted before (repeatable; added up), besides any text.", show_default=False),
    ] = None,
) -> None:
    """Train a tokenizer on text and save it as a folder that plain AutoTokenizer loads."""
    from hf_sgpe.atomic import atomic_directory, check_file
    from hf_sgpe.formats.tokenizer_json import check_folder, write
    from trainers import TokenizerTrainer, TrainingConfig, WordCounts, find_files, read_dataset

    if not corpus and not from_counts and not dataset:
        raise SGPEError("nothing to train on: give text, a dataset, or words counted before by --from-counts")
    for option, is_given in {"--streaming": streaming, "--split": split is not None}.items():
        if is_given and not dataset:
            raise SGPEError(f"{option} is for a dataset: name one by --dataset")
    if weight and not corpus and not from_counts:
        raise SGPEError("--weight is for files: a dataset counts once")
    given: dict[str, Any] = {
        "letter_coverage": letter_coverage,
        "syllable_coverage": syllable_coverage,
        "scripts": script,
        "special_tokens": special_token,
    }
    config = TrainingConfig(
        vocab_size=vocab_size,
        recipe=recipe,
        pattern=pattern,
        min_frequency=min_frequency,
        min_unit_frequency=min_unit_frequency,
        tie_break=tie_break,
        normalization=normalization,
        special_tokens_position=special_tokens_position,
        chat_template=chat_template and _chat_template(chat_template),
        weights=named_numbers(weight or [], "--weight", "NAME-OR-GLOB=NUMBER, for example 'si*=2.5'", float),
        **{name: value for name, value in given.items() if value is not None},
    )
    trainer = TokenizerTrainer(config, workers=workers)
    datasets = [
        read_dataset(name, split=split or "train", text_column=text_field, streaming=streaming) for name in dataset or ()
    ]
    # What cannot be written should be known before an hour of training, not after.
    check_folder(out, with_chat_template=chat_template is not None)
    if save_counts:
        if save_counts.resolve() == Path(out).resolve():
            raise SGPEError(f"--save-counts and --out both name {out}: give two names")
        check_file(save_counts)
        if save_counts.resolve() in [file.resolve() for file in find_files(corpus or ())]:
            raise SGPEError(f"--save-counts {save_counts} is part of the corpus: give another name")
    with atomic_directory(out) as folder:
        counts = WordCounts({}, config.counting())
        if corpus or from_counts:
            counts += trainer.count(files=corpus or (), counts=from_counts or (), text_field=text_field)
        for texts in datasets:
            counts += trainer.count(iterator=texts)
        if save_counts:
            counts.save(save_counts)
        tokenizer = trainer.learn(counts)
        write(tokenizer, folder)
    print(f"{out}: {tokenizer.vocab_size:,} tokens, learned from {counts.total():,.0f} words ({len(counts):,} distinct)")


@app.command(
    "train-sgpe",
    epilog="Example: [bold]hf-sgpe train-sgpe corpus.jsonl --out sgpe --vocab-size 32000 --prune-freq 20[/bold]",
)
def train_sgpe(
    corpus: Annotated[list[str], typer.Argument(help="As for train; the document's are .jsonl.", show_default=False)],
    *,
    out: Annotated[str, typer.Option("--out", "-o", help="Folder to write to.", show_default=False)],
    vocab_size: Annotated[int, typer.Option(help="Number of tokens to aim for, special tokens included.")] = 100_000,
    prune_freq: Annotated[int, typer.Option(help="Syllables that occur less often become \\[UNK].")] = 100,
    min_freq: Annotated[int, typer.Option(help="Never merge a pair that occurs less often.")] = 2,
    checkpoint_every: Annotated[int, typer.Option(help="Merges between checkpoints.")] = 20_000,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the last checkpoint in --out, if there is one.")
    ] = False,
    script: Annotated[
        list[str] | None,
        typer.Option(help="Script (repeatable; default: sinhala, the document's).", show_default=False),
    ] = None,
    text_field: Annotated[str, typer.Option(help="Field with the text in .jsonl and .parquet.")] = "text",
    workers: Annotated[int | None, typer.Option(help="As for train.", show_default=False)] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log the first ten merges and every thousandth.")] = False,
) -> None:
    """Train as the SGPE document does: vocab.json, checkpoints, and a lossless tokenizer.json of the same tokens."""
    from trainers import SGPETrainer

    if verbose:
        logging.getLogger("trainers").setLevel(logging.INFO)
    trainer = SGPETrainer(
        vocab_size=vocab_size,
        prune_freq=prune_freq,
        min_freq=min_freq,
        checkpoint_every=checkpoint_every,
        scripts=tuple(script or ("sinhala",)),
        workers=workers,
    )
    vocabulary = trainer.train(corpus, out, text_field=text_field, resume=resume)
    print(f"{out}: {len(vocabulary.vocab):,} tokens, {len(vocabulary.merges):,} merges")
    more = vocabulary.to_bpe().vocab_size - len(vocabulary.vocab)
    print(f"tokenizer.json has {more:,} more, for what vocab.json cannot spell")


class Export(str, Enum):
    folder = "folder"
    tiktoken = "tiktoken"
    gguf = "gguf"


@app.command(epilog="Example: [bold]hf-sgpe export my-tokenizer --format tiktoken --out my.tiktoken[/bold]")
def export(
    source: Annotated[
        str,
        typer.Argument(
            help="A tokenizer (folder, tokenizer.json or Hub repository), a .tiktoken file or an SGPE vocab.json; "
            "for gguf the folder of a model.",
            show_default=False,
        ),
    ],
    *,
    out: Annotated[str, typer.Option("--out", "-o", help="Folder or file to write.", show_default=False)],
    output: Annotated[
        Export,
        typer.Option(
            "--format",
            help="folder: what AutoTokenizer loads; tiktoken: a .tiktoken file; gguf: a model with its tokenizer for "
            "llama.cpp.",
        ),
    ] = Export.folder,
    pattern: Annotated[
        str | None, typer.Option(help="Split pattern of a .tiktoken file (default: cl100k).", show_default=False)
    ] = None,
    special_token: Annotated[
        list[str] | None,
        typer.Option(help="Special token of a .tiktoken file: TEXT=ID (repeatable).", show_default=False),
    ] = None,
    weight_type: Annotated[
        str | None,
        typer.Option(help="Of gguf: F32, F16, BF16 or Q8_0 (default: that of the weights).", show_default=False),
    ] = None,
    tokenizer_source: Annotated[
        str | None,
        typer.Option("--tokenizer", "-t", help="Of gguf: in place of the one in the model's folder.", show_default=False),
    ] = None,
) -> None:
    """Write a tokenizer in another form, with the same ids, or a model with its tokenizer as GGUF."""
    from hf_sgpe.formats import sgpe_vocab, tiktoken
    from hf_sgpe.model import BPETokenizer

    if output is Export.gguf:
        if special_token or pattern:
            raise SGPEError("--special-token and --pattern are for .tiktoken files")
        _export_gguf(Path(source), Path(out), weight_type, tokenizer_source)
        return
    if weight_type or tokenizer_source:
        raise SGPEError("--weight-type and --tokenizer are for --format gguf")
    if source.endswith(".tiktoken"):
        special_tokens = named_numbers(special_token or [], "--special-token", "TEXT=ID", int)
        tokenizer = tiktoken.read(source, pattern=pattern or "cl100k", special_tokens=special_tokens)
    elif special_token or pattern:
        raise SGPEError("--special-token and --pattern are for .tiktoken files: other forms hold their own")
    elif source.endswith(sgpe_vocab.VOCAB_FILE):
        tokenizer = sgpe_vocab.read(source).to_bpe()
    else:
        tokenizer = BPETokenizer.from_pretrained(source)
    if output is Export.folder:
        tokenizer.save(out)
    else:
        tiktoken.write(tokenizer, out)
        specials = " ".join(f"{token}={id}" for token, id in tokenizer.special_tokens.items()) or "none"
        print(f"{out}: {len(tokenizer.vocab):,} tokens. Not in the file: split pattern, special tokens ({specials})", end="")
        print("" if tokenizer.normalization == "none" else f", normalization ({tokenizer.normalization})")
        return
    print(f"{out}: {tokenizer.vocab_size:,} tokens")


def _export_gguf(source: Path, out: Path, weight_type: str | None, tokenizer: str | None) -> None:
    from hf_sgpe.formats import gguf
    from hf_sgpe.model import BPETokenizer

    if not source.is_dir():
        raise SGPEError(f"{source}: no folder: give that of a model of transformers")
    loaded = BPETokenizer.from_pretrained(tokenizer or str(source))
    pre = gguf.write(source, out, weight_type, tokenizer=loaded)
    size = out.stat().st_size / 1e6
    if pre is None:
        print(
            f"{out}: {size:,.1f} MB. llama.cpp has no pre-tokenizer that splits as this tokenizer does: give it ids, "
            "as hf-sgpe chat does"
        )
    else:
        form = "" if loaded.normalization == "none" else f" of text in the form {loaded.normalization.upper()}"
        print(f"{out}: {size:,.1f} MB. llama.cpp itself gives the same ids{form} (pre-tokenizer {pre})")


@app.command(epilog="Example: [bold]hf-sgpe engines --format json[/bold]")
def engines(
    output: Annotated[Table, typer.Option("--format", help="table or json.")] = Table.table,
) -> None:
    """Show what can run models here: engines, versions, devices, and what is missing."""
    from hf_sgpe.generation import available_engines

    found = available_engines()
    if output is Table.json:
        print(json.dumps([info._asdict() for info in found], ensure_ascii=False, indent=2))
        return
    from rich.table import Table as RichTable

    table = RichTable(box=None, pad_edge=False)
    for title in ("engine", "installed", "devices", "why not"):
        table.add_column(title)
    for info in found:
        why_not = f"{info.why_not}: {info.pip}" if info.why_not else ""
        table.add_row(info.name, info.version or "–", ", ".join(info.devices) or "–", why_not)
    _print_table(table)


@app.command(
    epilog="Examples: [bold]hf-sgpe chat my-model[/bold], [bold]hf-sgpe chat my-model -p 'ශ්‍රී ලංකාව' --engine mlx[/bold]"
)
def chat(
    model: Annotated[
        str,
        typer.Argument(
            help="Folder of a model of transformers, OpenVINO or MLX, GGUF file or Hub repository.", show_default=False
        ),
    ],
    *,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            "--tokenizer", "-t", help=f"{_TOKENIZER_HELP} (default: the model's; a GGUF file needs one)", show_default=False
        ),
    ] = None,
    prompt: Annotated[str | None, typer.Option("--prompt", "-p", help="Answer this, and end.", show_default=False)] = None,
    json_lines: Annotated[
        bool,
        typer.Option(
            "--json",
            help='Read lines such as {"prompt": "…"} or {"messages": […]} from stdin, and write one with "text" for each.',
        ),
    ] = False,
    engine: Annotated[
        str | None,
        typer.Option(
            help="mlx, openvino, llama.cpp or transformers (default: the best one here; hf-sgpe engines shows them).",
            show_default=False,
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(help="cpu, cuda … of transformers; CPU, GPU, NPU, AUTO of OpenVINO.", show_default=False),
    ] = None,
    n_ctx: Annotated[
        int | None,
        typer.Option(help="Tokens in the context of llama.cpp (default: the model's, up to 8192).", show_default=False),
    ] = None,
    n_gpu_layers: Annotated[
        int | None, typer.Option(help="Layers of llama.cpp on a GPU (default: -1, all).", show_default=False)
    ] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Compute in 32 bits, the same tokens on every engine.")] = False,
    template: Annotated[
        str | None,
        typer.Option(help="Chat template: llama3, chatml, alpaca or a .jinja file.", show_default=False),
    ] = None,
    system: Annotated[str | None, typer.Option(help="System prompt.", show_default=False)] = None,
    max_new_tokens: Annotated[int, typer.Option(help="Tokens in an answer at the most.")] = 512,
    temperature: Annotated[float, typer.Option(help="0 for always the most probable token.")] = 0.7,
    top_p: Annotated[float, typer.Option(help="Only the most probable tokens that together have this probability.")] = 0.9,
    top_k: Annotated[int, typer.Option(help="Only so many of the most probable tokens; 0 for all.")] = 0,
    min_p: Annotated[float, typer.Option(help="Only tokens with this part of the highest probability.")] = 0.0,
    repetition_penalty: Annotated[float, typer.Option(help="Above 1: tokens that were there become less probable.")] = 1.0,
    seed: Annotated[int | None, typer.Option(help="The same one gives the same answer.", show_default=False)] = None,
    stop: Annotated[
        list[str] | None, typer.Option(help="Text at which an answer ends (repeatable).", show_default=False)
    ] = None,
) -> None:
    """Talk with a model, at the terminal or from scripts. Without a chat template it goes on from what you type."""
    from hf_sgpe.generation import GenerationOptions, TextGenerator, terminal

    if prompt is not None and json_lines:
        raise SGPEError("--prompt and --json: give one of them")
    options = GenerationOptions(
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        seed=seed,
        stop=tuple(stop or ()),
    )
    settings = {"device": device, "n_ctx": n_ctx, "n_gpu_layers": n_gpu_layers}
    given = {name: value for name, value in settings.items() if value is not None}
    source = template and _chat_template(template, "--template")
    with TextGenerator.load(model, engine, tokenizer=tokenizer, exact=exact, **given) as generator:
        conversation = terminal.Conversation(generator, options, system_prompt=system, template=source)
        if prompt is not None:
            terminal.once(conversation, *_well_formed([prompt]))
        elif json_lines:
            for line in terminal.json_lines(conversation, _stdin_lines()):
                print(line, flush=True)
        elif sys.stdin is not None and sys.stdin.isatty():
            terminal.interact(conversation)
        else:
            for line in filter(str.strip, _stdin_lines()):
                terminal.once(conversation, line)


def _chat_template(name: str, option: str = "--chat-template") -> str:
    """What an option names: a template of ours, or the content of a file."""
    from hf_sgpe.chat.templates import SPECIAL_TOKENS, check_template

    if name in SPECIAL_TOKENS:
        return name
    try:
        template = Path(name).read_text(encoding="utf-8")
        check_template(template)
    except FileNotFoundError:
        raise SGPEError(f"{option} {name}: no such file, and not one of {', '.join(SPECIAL_TOKENS)}") from None
    except UnicodeDecodeError:
        raise SGPEError(f"{option} {name}: not UTF-8") from None
    except SGPEError as error:
        raise SGPEError(f"{option} {name}: {error}") from None
    return template


def named_numbers(given: list[str], option: str, form: str, number: Callable[[str], Number]) -> dict[str, Number]:
    """The names and numbers of options such as ``--weight si.txt=2``.

    Raises:
        SGPEError: one is of another form, or a name comes twice.
    """
    numbers: dict[str, Number] = {}
    for text in given:
        name, _, value = text.rpartition("=")
        if name in numbers:
            raise SGPEError(f"{option} {text!r}: {name!r} has a number already")
        try:
            numbers[name] = number(value if name else "")
        except ValueError:
            raise SGPEError(f"{option} {text!r}: write {form}") from None
    return numbers


@app.command(epilog="Example: [bold]echo 'ශ්‍රී ලංකාව' | hf-sgpe encode --tokenizer my-tokenizer[/bold]")
def encode(
    text: Annotated[
        list[str] | None, typer.Argument(help="Texts; none to read lines from stdin.", show_default=False)
    ] = None,
    *,
    tokenizer: Annotated[
        list[str],
        typer.Option("--tokenizer", "-t", help=f"{_TOKENIZER_HELP} Repeatable with --html.", show_default=False),
    ],
    html: Annotated[
        Path | None,
        typer.Option(
            help="Write a page to this file instead that shows the tokens and syllables of the texts; stdin is one text.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Lines, typer.Option("--format", help="ids: numbers with spaces between; json: text, ids and tokens.")
    ] = Lines.ids,
    special: Annotated[
        Specials, typer.Option(help="Whether special tokens written in the text count as such.")
    ] = Specials.none,
    add_special_tokens: Annotated[
        bool, typer.Option("--add-special-tokens", help="Put the tokenizer's template around each text.")
    ] = False,
) -> None:
    """Turn text into token ids, one line of ids for each line of text."""
    from hf_sgpe.model import BPETokenizer

    if html:
        if output is not Lines.ids or special is not Specials.none or add_special_tokens:
            raise SGPEError("--html shows the text's own tokens: leave out --format, --special and --add-special-tokens")
        _write_page(html, text, tokenizer)
        return
    if len(tokenizer) > 1:
        raise SGPEError("--tokenizer is given several times: only --html shows several")
    loaded = BPETokenizer.from_pretrained(tokenizer[0])
    for line in _well_formed(text) if text else _stdin_lines():
        ids = loaded.encode(line, add_special_tokens=add_special_tokens, allowed_special=special.value)
        if output is Lines.ids:
            print(*ids)
        else:
            tokens = [loaded.decode([id]) for id in ids]
            print(json.dumps({"text": line, "ids": ids, "tokens": tokens}, ensure_ascii=False))


def _write_page(path: Path, texts: list[str] | None, tokenizers: list[str]) -> None:
    from hf_sgpe.atomic import atomic_file
    from hub_cards.token_view import TokenView

    with atomic_file(path) as temporary:
        readers = {name: name for name in tokenizers}
        view = TokenView(_well_formed(texts) if texts else "\n".join(_stdin_lines()), readers)
        temporary.write_text(view.to_html(), encoding="utf-8", newline="\n")
    print(f"{path}: {len(view.texts):,} {'text' if len(view.texts) == 1 else 'texts'} as tokens of {', '.join(readers)}")


@app.command(epilog="Example: [bold]echo 'hello' | hf-sgpe encode -t my-tokenizer | hf-sgpe decode -t my-tokenizer[/bold]")
def decode(
    ids: Annotated[
        list[str] | None, typer.Argument(help="Token ids; none to read lines from stdin.", show_default=False)
    ] = None,
    *,
    tokenizer: Annotated[str, typer.Option("--tokenizer", "-t", help=_TOKENIZER_HELP, show_default=False)],
    skip_special_tokens: Annotated[bool, typer.Option("--skip-special-tokens", help="Leave special tokens out.")] = False,
) -> None:
    """Turn token ids into text. A line is ids with spaces or commas between, a JSON list, or a JSON object with "ids"."""
    from hf_sgpe.model import BPETokenizer

    loaded = BPETokenizer.from_pretrained(tokenizer)
    for number, line in enumerate([" ".join(ids)] if ids else _stdin_lines(), 1):
        try:
            print(loaded.decode(_parse_ids(line), skip_special_tokens))
        except SGPEError as error:
            raise SGPEError(f"{'arguments' if ids else f'stdin, line {number}'}: {error}") from None


@app.command(epilog="Example: [bold]hf-sgpe info my-tokenizer[/bold]")
def info(
    tokenizer: Annotated[str | None, typer.Argument(help=_TOKENIZER_HELP, show_default=False)] = None,
    output: Annotated[Table, typer.Option("--format", help="table or json.")] = Table.table,
) -> None:
    """Show what a tokenizer is made of and how it was trained; without one, versions."""
    facts = _versions() if tokenizer is None else _facts(tokenizer)
    if output is Table.json:
        print(json.dumps(facts, ensure_ascii=False, indent=2))
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        print(f"{name:{width}}  {shown}")


@app.command(epilog="Example: [bold]hf-sgpe evaluate --tokenizer my-tokenizer --tokenizer llama3-hf si.txt en.txt[/bold]")
def evaluate(
    files: Annotated[list[str], typer.Argument(help="Held-out text, in the formats that train takes.", show_default=False)],
    tokenizer: Annotated[
        list[str], typer.Option("--tokenizer", "-t", help=f"{_TOKENIZER_HELP} Repeatable.", show_default=False)
    ],
    output: Annotated[Table, typer.Option("--format", help="table or json.")] = Table.table,
    text_field: Annotated[str, typer.Option(help="Field with the text in .jsonl and .parquet.")] = "text",
) -> None:
    """Measure tokenizers side by side: tokens per word, bytes per token, cut syllables and letters, and more as json.

    Parity compares a text with the English one, if a file's name says so (en.txt) and both have equally many lines.
    """
    from tqdm import tqdm

    from hub_cards.comparison import REFERENCE, TextFiles
    from hub_cards.languages import language_in_name
    from hub_cards.metrics import evaluate as measure
    from hub_cards.metrics import load_measurable
    from trainers import find_files

    paths = find_files(files)
    measured = {name: load_measurable(name) for name in tokenizer}
    found = {}
    with tqdm(total=len(paths) * len(measured), desc="Measuring", unit=" runs", disable=None, leave=False) as bar:
        for path in paths:
            for name, token_ends in measured.items():
                found[path, name] = measure(token_ends, TextFiles((path,), text_field))
                if not found[path, name].lines:
                    raise SGPEError(f"{path}: holds no text to measure")
                bar.update()
    english = [path for path in paths if language_in_name(path) == REFERENCE]
    results = []
    for (path, name), measures in found.items():
        parity = measures.parity(found[english[0], name]) if len(english) == 1 else None
        results.append({"file": str(path), "tokenizer": name, **measures.to_dict(), "parity": parity})
    if output is Table.json:
        print(json.dumps(results, ensure_ascii=False, indent=2))
    else:
        _print_results(results)


@app.command(
    epilog="Example: [bold]hf-sgpe card my-tokenizer --eval si.txt --eval en.txt --baseline llama3=llama3-hf[/bold]"
)
def card(
    tokenizer: Annotated[str, typer.Argument(help=_TOKENIZER_HELP, show_default=False)],
    *,
    text: Annotated[
        list[str] | None,
        typer.Option(
            "--eval",
            help="Held-out text to measure on: LANGUAGE=FILE, or FILE if its name tells the language, as ntrex_si.txt does "
            "(repeatable). English, if it is among them, is what parity compares with: the same lines in each language.",
            show_default=False,
        ),
    ] = None,
    baseline: Annotated[
        list[str] | None,
        typer.Option(help="Tokenizer to measure beside it: NAME=TOKENIZER (repeatable).", show_default=False),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="user/name, as the card's code loads it (default: the tokenizer's folder).", show_default=False),
    ] = None,
    license: Annotated[str | None, typer.Option(help="Licence, such as apache-2.0.", show_default=False)] = None,
    language: Annotated[
        list[str] | None,
        typer.Option(
            help="Language it is for, such as si (repeatable; default: those measured that do not fall back to bytes).",
            show_default=False,
        ),
    ] = None,
    dataset: Annotated[
        list[str] | None, typer.Option(help="Dataset it was trained on (repeatable).", show_default=False)
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="Folder to write to (default: the tokenizer's).", show_default=False)
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Overwrite a README.md that somebody wrote or changed.")
    ] = False,
    text_field: Annotated[str, typer.Option(help="Field with the text in .jsonl and .parquet.")] = "text",
) -> None:
    """Write the tokenizer's card: README.md, the same as one page, index.html, and pictures."""
    from hf_sgpe.hub import check_name, split_name
    from hf_sgpe.model import BPETokenizer
    from hub_cards.comparison import compare, texts_of
    from hub_cards.model_card import check_card, check_metadata, write_card
    from hub_cards.plots import check_matplotlib

    if out is None and not Path(tokenizer).is_dir():
        raise SGPEError(f"{tokenizer}: no folder to write a card to: give one by --out")
    if baseline and not text:
        raise SGPEError("--baseline needs text to measure on: give --eval")
    folder = out or tokenizer
    loaded = BPETokenizer.from_pretrained(tokenizer)
    if name is None:
        path = Path(tokenizer).resolve()
        name = split_name(tokenizer)[0] if not path.exists() else path.name if path.is_dir() else path.parent.name
    else:
        check_name(name)
    # What cannot be written should be known before minutes of measuring, not after.
    check_card(folder, loaded, measured=bool(text), replace=replace)
    check_metadata(license, language or ())
    evaluations = None
    if text:
        check_matplotlib()
        texts = texts_of(text, text_field=text_field)
        evaluations = compare(loaded, texts, name=name.rpartition("/")[2], baselines=_baselines(baseline or []))
    written = write_card(
        folder,
        loaded,
        name=name,
        evaluations=evaluations,
        license=license,
        languages=language or (),
        datasets=dataset or (),
        replace=replace,
    )
    print(f"{folder}: {', '.join(written)}")


def _baselines(given: list[str]) -> dict[str, Any]:
    """The tokenizers of options such as ``--baseline llama3=llama3-hf``."""
    from hub_cards.metrics import load

    found: dict[str, Any] = {}
    for text in given:
        name, _, tokenizer = text.partition("=")
        if not name or not tokenizer:
            raise SGPEError(f"--baseline {text!r}: write NAME=TOKENIZER")
        if name in found:
            raise SGPEError(f"--baseline {text!r}: {name!r} is another one already")
        found[name] = load(tokenizer)
    return found


@app.command(epilog="Example: [bold]hf-sgpe push my-tokenizer user/name --dry-run[/bold]")
def push(
    folder: Annotated[str, typer.Argument(help="Folder with a tokenizer, and its card if it has one.", show_default=False)],
    repository: Annotated[str, typer.Argument(help="user/name; created if need be.", show_default=False)],
    *,
    private: Annotated[bool, typer.Option("--private", help="Make the repository private, if it is created here.")] = False,
    revision: Annotated[
        str | None, typer.Option(help="Branch; a new one starts where main is (default: main).", show_default=False)
    ] = None,
    pull_request: Annotated[bool, typer.Option("--pull-request", help="Propose it as a pull request.")] = False,
    token: Annotated[
        str | None,
        typer.Option(
            help="Token with write access. Others can see it in the list of processes and your history: "
            "better to log in once by 'hf auth login', or to set HF_TOKEN.",
            show_default=False,
        ),
    ] = None,
    message: Annotated[str, typer.Option("--message", "-m", help="Message of the commit.")] = "Upload tokenizer",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only look at what is there and show what would go; nothing is sent.")
    ] = False,
    replace_card: Annotated[
        bool, typer.Option("--replace-card", help="Let a generated card replace a README.md that somebody wrote or changed.")
    ] = False,
) -> None:
    """Upload a tokenizer with its card and pictures to the Hugging Face Hub, in one commit."""
    import warnings

    from hub_cards.push import push as upload

    with warnings.catch_warnings(record=True) as remarks:
        pushed = upload(
            folder,
            repository,
            private=private or None,
            revision=revision,
            create_pr=pull_request,
            token=token,
            commit_message=message,
            replace_card=replace_card,
            dry_run=dry_run,
        )
    for remark in remarks:
        logging.warning(" ".join(str(remark.message).split()))
    width = max(len(file.path) for file in pushed.files)
    for file in pushed.files:
        large = ", as a large file (LFS)" if file.large else ""
        kept = ": the one on the Hub was written or changed by somebody, or measured; --replace-card puts this there"
        change = file.change + kept if file.change == "kept" else file.change
        print(f"{file.path:{width}}  {file.size / 1000:10,.1f} kB  {change}{large}")
    if pushed.left_out:
        print(f"left out: {', '.join(pushed.left_out)}")
    changed = sum(file.change in ("new", "changed") for file in pushed.files)
    if dry_run:
        done = "nothing was sent; the repository would be created" if pushed.created else "nothing was sent"
    elif pushed.created:
        done = "created and pushed"
    else:
        done = "pushed" if changed else "nothing has changed"
    print(f"{pushed.url}: {done}")


def _print_results(results: list[dict[str, Any]]) -> None:
    from rich.table import Table as RichTable

    table = RichTable(box=None, pad_edge=False)
    table.add_column("file")
    table.add_column("tokenizer")
    for title in ("tokens/word", "bytes/token", "cut syllables", "cut letters", "fallback", "parity"):
        table.add_column(title, justify="right")
    previous = ""
    files = {row["file"] for row in results}
    short = len({Path(file).name for file in files}) == len(files)
    for row in results:
        shown = Path(row["file"]).name if short else row["file"]
        table.add_row(
            shown if row["file"] != previous else "",
            row["tokenizer"],
            _number(row["tokens_per_word"], "{:.3f}"),
            _number(row["bytes_per_token"], "{:.3f}"),
            _number(row["cut_syllable_share"], "{:.3%}"),
            _number(row["cut_letter_share"], "{:.3%}"),
            _number(row["fallback_rate"], "{:.3%}"),
            _number(row["parity"], "{:.3f}"),
        )
        previous = row["file"]
    _print_table(table)


def _print_table(table: Any) -> None:
    from rich.console import Console

    # Piped, there is no width to fit: whoever reads it wants whole lines.
    Console(width=None if sys.stdout.isatty() else 1000, highlight=False, markup=False).print(table)


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)


def _versions() -> dict[str, Any]:
    from importlib.metadata import PackageNotFoundError, version

    facts = {"hf-sgpe": __version__, "kernel": kernel.describe(), "python": sys.version.split()[0]}
    for package in ("tokenizers", "transformers", "huggingface_hub", "regex", "numpy"):
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = f"not installed: pip install {package}"
    return facts


def _facts(tokenizer: str) -> dict[str, Any]:
    from hf_sgpe.model import BPETokenizer

    loaded = BPETokenizer.from_pretrained(tokenizer)
    facts = {
        "tokenizer": tokenizer,
        "tokens": loaded.vocab_size,
        "merges": len(loaded.merges),
        "special tokens": loaded.special_tokens,
        "normalization": loaded.normalization,
    }
    if "training" in loaded.metadata:
        # The rest of the training configuration repeats what is said above.
        shown = ("recipe", "scripts", "pattern", "min_frequency", "letter_coverage", "syllable_coverage", "tie_break")
        training = loaded.metadata["training"]
        facts |= {name.replace("_", " "): training[name] for name in shown if name in training}
        if training.get("weights"):
            facts["weights"] = training["weights"]
        facts["word counts"] = loaded.metadata.get("word_counts", "unknown")
    else:
        named = {pattern: name for name, pattern in reversed(SPLIT_PATTERNS.items())}
        facts["pattern"] = [named.get(pattern, pattern) for pattern in loaded.pre_tokenizer.patterns]
    return facts


def _well_formed(texts: list[str]) -> list[str]:
    for number, text in enumerate(texts, 1):
        if normalize(text, "none") != text:
            raise SGPEError(f"text {number} is not valid in this locale's encoding: set a UTF-8 locale, or use stdin")
    return texts


def _stdin_lines() -> Iterator[str]:
    if sys.stdin is None:
        raise SGPEError("there is no stdin to read from: give the input as arguments")
    if sys.stdin.isatty():
        print("reading lines from the terminal; end with Ctrl-D", file=sys.stderr)
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise SGPEError(f"stdin, line {number}: not UTF-8 (byte {error.start} of the line)") from None


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
        raise SGPEError("expected token ids such as '12 345', a JSON list or an object with ids") from None


def main() -> None:
    """Runs the command line; bad input ends in one line on stderr and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        _write_utf8(stream)
    quiet_libraries()
    # Ended from outside, clean up as for Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    logging.addLevelName(logging.WARNING, "warning")
    logging.addLevelName(logging.INFO, "info")
    try:
        sys.exit(app(standalone_mode=False))
    except BrokenPipeError:
        # Whoever read our output has had enough. Nothing may be flushed into the closed pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (SGPEError, OSError) as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        sys.exit(2)
    except Exception as error:
        # The command line's own exceptions, whose module has moved between versions: wrong usage, and Ctrl-C.
        if type(error).__name__ == "Abort":
            print("interrupted", file=sys.stderr)
            sys.exit(128 + signal.SIGINT)
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()  # type: ignore[attr-defined]
        elif hasattr(error, "format_message"):
            print(f"error: {one_line(SGPEError(error.format_message())).rstrip('.')}: see --help", file=sys.stderr)
        else:
            raise
        sys.exit(2)


def _write_utf8(stream: IO[str]) -> None:
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(encoding="utf-8", errors="replace")


if __name__ == "__main__":
    main()
