"""Parameters of a request that decide where an answer ends. Their names are OpenAI's or, if OpenAI has none, vLLM's."""

from __future__ import annotations

from dataclasses import replace

from hf_sgpe.generation.engines.sampling_options import GenerationOptions
from hf_sgpe.generation.text_generator import TextGenerator
from hf_sgpe.serving.parameters import Parameters, RequestError, are_ids

STOPPING = ("stop", "stop_token_ids", "ignore_eos", "min_tokens", "skip_special_tokens")
"""The names of these parameters."""

_MOST_STOPS = 16


def read_stopping(given: Parameters, options: GenerationOptions, generator: TextGenerator) -> GenerationOptions:
    """Return ``options``, updated with the request's values of the parameters in `STOPPING`.

    Raises:
        RequestError: a parameter is invalid.
    """
    stop = given.get("stop")
    stops = [stop] if isinstance(stop, str) else [] if stop is None else stop
    if not isinstance(stops, list) or len(stops) > _MOST_STOPS or not all(isinstance(text, str) for text in stops):
        message = f"stop must be a string, or a list of up to {_MOST_STOPS} strings"
        raise RequestError(message, param="stop")
    ids = [] if given.get("stop_token_ids") is None else given.get("stop_token_ids")
    if not are_ids(ids):
        raise RequestError("stop_token_ids must be a list of token ids", param="stop_token_ids")
    if unknown := [id for id in ids if not generator.has_token(id)]:
        message = f"stop_token_ids: the tokenizer has no token with the id {unknown[0]}"
        raise RequestError(message, param="stop_token_ids")
    return replace(
        options,
        stop=tuple(filter(None, stops)),  # some clients send an empty string for no stop
        stop_ids=tuple(ids),
        ignore_eos=given.flag("ignore_eos"),
        min_new_tokens=given.whole_number("min_tokens", 0, options.max_new_tokens, least=0),
        skip_special_tokens=given.flag("skip_special_tokens", True),
    )
