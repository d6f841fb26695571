"""``serve``: serve a model over HTTP."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_sgpe.cli.application import Json, command
from hf_sgpe.cli.model_options import ModelOptions
from hf_sgpe.errors import SGPEError, not_installed
from hf_sgpe.serving.limits import Limits
from hf_sgpe.terminal.options import arguments, option, option_list
from hf_sgpe.terminal.progress import is_quiet

if TYPE_CHECKING:
    from hf_sgpe.serving.requests import Served


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """The models of the server, its address, and access to it."""

    others: list[str] = arguments("Other models, or folders with several models. Each request names its model.")
    chat_template_kwargs: str | None = option(
        "Variables of the chat template as JSON, such as '{\"enable_thinking\": false}'; variables in a request "
        "override them."
    )
    name: str | None = option("Name of the model in the API (default: the last part of the model's path).")
    host: str = option("Address to listen on; 0.0.0.0 for all addresses of this machine.", "127.0.0.1")
    port: int = option("Port to listen on; 0 for any free port.", 8000)
    api_key: str | None = option(
        "Key that clients must send as Authorization: Bearer KEY (default: none). Other users of this machine can see a "
        "key on the command line, but not a key in the environment variable.",
        envvar="HF_SGPE_API_KEY",
    )
    api_key_file: Path | None = option("File of keys, one on each line. Clients must send one of these keys.")
    cors_origin: list[str] = option_list(
        "Origin of web pages that may use the server, such as https://example.org; * for all (repeatable; default: none)."
    )
    access_log: bool = option("Print one line for each request on stderr.", False)


@command(
    epilog="Examples: hf-sgpe serve my-model, HF_SGPE_API_KEY=secret hf-sgpe serve my-model.gguf "
    "--engine llama.cpp --host 0.0.0.0 --port 8080"
)
def serve(model: ModelOptions, given: ServeOptions, limits: Limits, as_json: Json = False) -> None:
    """Serve models over an OpenAI-compatible API: completions, chat, embeddings, streaming. Ctrl-C stops the server; SIGHUP
    loads new and changed models."""
    try:
        from hf_sgpe.serving import server
        from hf_sgpe.serving.access import check_origins, read_keys
        from hf_sgpe.serving.routes import create_app
    except ModuleNotFoundError:
        raise not_installed("serving needs Starlette and uvicorn", "starlette", "uvicorn", extra="serve") from None
    from hf_sgpe.serving.model_folders import ModelFolders
    from hf_sgpe.serving.template_parameters import read_variables

    variables = read_variables(given.chat_template_kwargs or "{}", "--chat-template-kwargs")

    def all_keys() -> list[str]:
        return [*([given.api_key] if given.api_key else []), *(read_keys(given.api_key_file) if given.api_key_file else [])]

    keys = all_keys()
    check_origins(given.cors_origin)
    template = model.read_template()

    def load(path: str, name: str) -> Served:
        return _load(replace(model, model=path), name, template, limits, variables)

    def reload() -> list[Served]:
        try:
            keys[:] = all_keys()
        except SGPEError as error:
            say(f"error: {error}; the keys stay as they were")
        return folders.reload(say)

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    folders = ModelFolders([model.model, *given.others], load, given.name)
    for option_name in ("tokenizer", "template"):
        if getattr(model, option_name) and len(folders.found()) > 1:
            raise SGPEError(
                f"--{option_name} works only with one model: put the {option_name} into the folder of each model instead"
            )
    with server.bind(given.host, given.port) as bound, closing(folders):
        served = folders.load()
        url = server.url_of(bound)
        if server.is_open_to_others(bound) and not keys:
            say(f"warning: anyone who can reach {url} can use this model: set HF_SGPE_API_KEY to require a key")

        def say_where() -> None:
            names, engines = [one.name for one in served], [one.generator.engine.name for one in served]
            if as_json:
                several = {"models": names} if len(names) > 1 else {}
                facts = {"model": names[0], "engine": engines[0], "url": url, **several}
                print(json.dumps(facts, ensure_ascii=False), flush=True)  # one line: the reader waits for it
            elif not is_quiet():
                listed = ", ".join(f"{name} on {engine}" for name, engine in zip(names, engines, strict=True))
                say(f"{listed} at {url} (Ctrl-C stops it)")

        hosts = server.hosts_of(bound, given.host)
        log = say if given.access_log else None
        app = create_app(*served, api_keys=keys, origins=given.cors_origin, hosts=hosts, log=log)
        server.server_of(app, say_where, reload).run([bound])


def _load(model: ModelOptions, name: str, template: str | None, limits: Limits, variables: Mapping[str, Any]) -> Served:
    """Load a model with its tokenizer, chat template and response template."""
    from hf_sgpe.chat.response_reader import read_response_template
    from hf_sgpe.generation.engines.detection import find_model
    from hf_sgpe.serving.requests import Served

    generator = model.load()
    try:
        has_template = template or generator.tokenizer.chat_template
        chat = generator.chat(template=template) if has_template else None
        if chat and (template or variables):
            # If the template has an error, fail now and not in each request.
            chat.encode([{"role": "user", "content": "?"}], variables=variables)
        saved = Path(model.tokenizer) if model.tokenizer else find_model(model.model)
        return Served(name, generator, chat, limits, read_response_template(saved), variables)
    except BaseException:
        generator.close()
        raise
