"""Generating text: ``engines`` and ``chat``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from hf_sgpe.cli import shared_options
from hf_sgpe.cli.application import (
    Json,
    Quiet,
    command,
    print_json,
    print_table,
    read_chat_template,
    stdin_lines,
    well_formed,
)
from hf_sgpe.errors import SGPEError


@command(epilog="Example: hf-sgpe engines --json")
def engines(as_json: Json = False, quiet: Quiet = False) -> None:
    """Show what can run models here: engines, versions, devices, and what is missing."""
    from hf_sgpe.generation import available_engines

    infos = available_engines()
    if as_json:
        print_json([info._asdict() for info in infos])
        return
    from rich.table import Table as RichTable

    table = RichTable(box=None, pad_edge=False)
    for title in ("engine", "installed", "devices", "why not"):
        table.add_column(title)
    for info in infos:
        why_not = f"{info.why_not}: {info.pip}" if info.why_not else ""
        table.add_row(info.name, info.version or "–", ", ".join(info.devices) or "–", why_not)
    print_table(table)


@command(epilog="Examples: hf-sgpe chat my-model, hf-sgpe chat my-model -p 'ශ්‍රී ලංකාව' --engine mlx")
def chat(
    model: shared_options.Model,
    *,
    tokenizer: shared_options.ModelTokenizer = None,
    prompt: Annotated[str | None, typer.Option("--prompt", "-p", help="Answer this, and end.", show_default=False)] = None,
    json_lines: Annotated[
        bool,
        typer.Option(
            "--json",
            help='Read lines such as {"prompt": "..."} or {"messages": [...]} from stdin, and write one with "text" for '
            "each.",
        ),
    ] = False,
    engine: shared_options.Engine = None,
    device: shared_options.Device = None,
    n_ctx: shared_options.ContextLength = None,
    n_gpu_layers: shared_options.GPULayers = None,
    exact: shared_options.Exact = False,
    template: shared_options.Template = None,
    system: Annotated[str | None, typer.Option(help="System prompt.", show_default=False)] = None,
    max_new_tokens: Annotated[int, typer.Option(help="The most tokens in an answer.")] = 512,
    older_max_tokens: Annotated[int | None, typer.Option("--max-tokens", hidden=True)] = None,
    temperature: Annotated[float, typer.Option(help="0 for always the most probable token.")] = 0.7,
    top_p: Annotated[float, typer.Option(help="Only the most probable tokens that together have this probability.")] = 0.9,
    top_k: Annotated[int, typer.Option(help="Only this many of the most probable tokens; 0 for all.")] = 0,
    min_p: Annotated[float, typer.Option(help="Only tokens with this share of the highest probability or more.")] = 0.0,
    repetition_penalty: Annotated[
        float, typer.Option(help="Above 1: tokens that occurred before become less probable.")
    ] = 1.0,
    seed: Annotated[int | None, typer.Option(help="The same one gives the same answer.", show_default=False)] = None,
    stop: Annotated[
        list[str] | None, typer.Option(help="Text at which an answer ends (repeatable).", show_default=False)
    ] = None,
    whole_syllables: Annotated[
        bool,
        typer.Option(
            "--whole-syllables/--no-whole-syllables", help="Show a letter only when no further token can change it."
        ),
    ] = True,
    heal: Annotated[
        bool,
        typer.Option(
            "--heal", help="Let the model finish the last word of a prompt by a longer token; not for conversations."
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Talk with a model, at the terminal or from scripts. Without a chat template it goes on from what you type."""
    from hf_sgpe.cli import chat_session
    from hf_sgpe.generation import GenerationOptions, TextGenerator

    if prompt is not None and json_lines:
        raise SGPEError("--prompt and --json: give one of them")
    generation_options = GenerationOptions(
        max_new_tokens=max_new_tokens if older_max_tokens is None else older_max_tokens,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        seed=seed,
        stop=tuple(stop or ()),
        whole_syllables=whole_syllables,
        heal=heal,
    )
    settings = shared_options.engine_settings(device=device, n_ctx=n_ctx, n_gpu_layers=n_gpu_layers)
    source = template and read_chat_template(template, "--template")
    with TextGenerator.load(model, engine, tokenizer=tokenizer, exact=exact, **settings) as generator:
        conversation = chat_session.Conversation(generator, generation_options, system_prompt=system, template=source)
        if prompt is not None:
            chat_session.once(conversation, *well_formed([prompt]))
        elif json_lines:
            for line in chat_session.json_lines(conversation, stdin_lines()):
                print(line, flush=True)
        elif sys.stdin is not None and sys.stdin.isatty():
            chat_session.interact(conversation)
        else:
            for line in filter(str.strip, stdin_lines()):
                chat_session.once(conversation, line)
