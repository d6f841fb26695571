"""Serving a model to others: ``serve``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hf_sgpe.cli import shared_options
from hf_sgpe.cli.application import Json, Quiet, command, print_json, read_chat_template
from hf_sgpe.errors import not_installed
from hf_sgpe.terminal.progress import is_quiet


@command(
    epilog="Examples: hf-sgpe serve my-model, HF_SGPE_API_KEY=secret hf-sgpe serve my-model.gguf "
    "--engine llama.cpp --host 0.0.0.0 --port 8080"
)
def serve(
    model: shared_options.Model,
    *,
    tokenizer: shared_options.ModelTokenizer = None,
    engine: shared_options.Engine = None,
    device: shared_options.Device = None,
    n_ctx: shared_options.ContextLength = None,
    n_gpu_layers: shared_options.GPULayers = None,
    exact: shared_options.Exact = False,
    template: shared_options.Template = None,
    name: Annotated[
        str | None, typer.Option(help="What clients call the model (default: the last part of MODEL).", show_default=False)
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen at; 0.0.0.0 for all that this machine has.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen at; 0 for one that is free.")] = 8000,
    api_key: Annotated[
        str | None,
        typer.Option(
            envvar="HF_SGPE_API_KEY",
            help="What clients must send as Authorization: Bearer KEY (default: nothing). Others on this machine can see "
            "it here, and not in the variable.",
            show_default=False,
        ),
    ] = None,
    max_new_tokens: Annotated[int, typer.Option(help="The most tokens in an answer that a request may ask for.")] = 4096,
    max_choices: Annotated[int, typer.Option(help="The most answers that a request may ask for.")] = 16,
    max_waiting: Annotated[int, typer.Option(help="Requests that may wait while another is answered.")] = 128,
    max_body: Annotated[int, typer.Option(help="The most bytes in the body of a request.")] = 4 << 20,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Serve a model with the routes of OpenAI's API: completions, chats, streams. Ctrl-C ends it."""
    try:
        from hf_sgpe.serving import server
        from hf_sgpe.serving.routes import create_app
    except ModuleNotFoundError:
        raise not_installed("serving needs Starlette and uvicorn", "starlette", "uvicorn", extra="serve") from None
    from hf_sgpe.generation import TextGenerator
    from hf_sgpe.serving.requests import Limits, Served

    limits = Limits(max_body, max_new_tokens, max_choices, max_waiting)
    source = template and read_chat_template(template, "--template")
    settings = shared_options.engine_settings(device=device, n_ctx=n_ctx, n_gpu_layers=n_gpu_layers)
    with (
        server.bind(host, port) as bound,
        TextGenerator.load(model, engine, tokenizer=tokenizer, exact=exact, **settings) as generator,
    ):
        has_template = source or generator.tokenizer.chat_template
        chat = generator.chat(template=source) if has_template else None
        if chat and source:
            chat.encode([{"role": "user", "content": "?"}])  # what the template lacks is said now, and not to each client
        called = name or (Path(model).resolve().name if Path(model).exists() else model)
        url = server.url_of(bound)
        if server.is_open_to_others(bound) and not api_key:
            print(f"warning: whoever reaches {url} can use this model: set HF_SGPE_API_KEY", file=sys.stderr)

        def say_where() -> None:
            if as_json:
                print_json({"model": called, "engine": generator.engine.name, "url": url})
                sys.stdout.flush()
            elif not is_quiet():
                print(f"{called} on {generator.engine.name} at {url} (Ctrl-C ends it)", file=sys.stderr, flush=True)

        app = create_app(Served(called, generator, chat, limits), api_key=api_key or None)
        server.server_of(app, say_where).run([bound])
