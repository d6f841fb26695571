"""Generation by MLX: on Apple Silicon, and on the CPU of Linux."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_sgpe.errors import SGPEError
from hf_sgpe.formats.model_config import end_ids, rope
from hf_sgpe.formats.safetensors_files import check_head, stored, weight_files
from hf_sgpe.formats.tokenizer_json import read_json
from hf_sgpe.generation.engine import Engine, loading
from hf_sgpe.generation.options import GenerationOptions
from hf_sgpe.quiet import without_remarks

if TYPE_CHECKING:
    import mlx.core as mx


class MLXEngine(Engine):
    """A language model that mlx-lm loads, from a folder of transformers or its own.

    Args:
        path: Its folder.
        exact: Compute in 32 bits, the cache of keys and values included; otherwise in the type of the weights.

    Raises:
        SGPEError: mlx-lm is missing, or the folder holds no such model.
    """

    name = "mlx"

    def __init__(self, path: Path, *, exact: bool = False) -> None:
        super().__init__()
        import mlx.core as mx
        from mlx_lm.utils import load_model

        given, whole = read_json(path / "config.json"), _whole(path)
        added = {name: value for name, value in whole.items() if name not in given}
        with loading(path):
            self._model, config = load_model(path, model_config={**added, **_for_mlx(whole)})
        if exact:
            self._model.set_dtype(mx.float32)
        text = config.get("text_config") or config
        self.vocab_size = text["vocab_size"]
        self.context_length = text.get("max_position_embeddings") or text.get("n_positions")
        self.stop_ids = frozenset(end_ids(path, config))

    def _release(self) -> None:
        import mlx.core as mx

        self._model = None
        mx.clear_cache()

    def _go_on(self, ids: list[int], options: GenerationOptions, stop_ids: frozenset[int]) -> Generator[int, None, None]:
        import mlx.core as mx
        from mlx_lm.generate import generate_step

        if options.seed is not None:
            mx.random.seed(options.seed)
        steps = generate_step(
            mx.array(ids),
            self._model,
            max_tokens=options.max_new_tokens,
            sampler=_sampler(options, self.vocab_size),
            logits_processors=_penalty(options, ids),
        )
        try:
            for token, _ in steps:
                yield int(token)
        finally:
            steps.close()


# What mlx-lm computes as transformers does, and what it needs to be told for that.
_ROPES: dict[str, set[str]] = {
    "default": set(),
    "linear": {"factor"},
    "dynamic": {"factor"},
    "llama3": {"factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"},
    "yarn": {"factor", "original_max_position_embeddings"},
}


def why_not(folder: Path) -> str:
    """What mlx-lm would pass over in a model's folder, and so compute something else; empty if nothing is known.

    Raises:
        SGPEError: the folder holds no model.
    """
    config = _whole(folder)
    kind = config.get("model_type")
    if kind == "gpt2":
        return "does not load GPT-2 as transformers writes it"
    if kind in ("llama", "mistral", "qwen2", "qwen3"):
        if config.get("hidden_act", "silu") != "silu":
            return f"computes silu in place of {config['hidden_act']}"
        window = config.get("sliding_window")
        is_used = config.get("use_sliding_window", True)
        length = config.get("max_position_embeddings")
        if window and is_used and (not isinstance(length, int) or window < length):
            return f"has no sliding_window of {window}"
        positions = rope(config)
        form = positions["rope_type"]
        if form not in _ROPES:
            return f"has no rope of type {form!r}"
        if missing := _ROPES[form] - positions.keys():
            return f"does not know what rope of type {form!r} is without {', '.join(sorted(missing))}"
        for name, usual in (("attention_factor", None), ("truncate", True)):
            if positions.get(name, usual) != usual:
                return f"has no {name} of rope"
    if config.get("quantization"):
        return ""
    # It reads all files of weights that it finds.
    try:
        files = weight_files(folder)
    except SGPEError as error:
        return f"reads safetensors only ({error})"
    if others := [file.name for file in sorted(folder.glob("model*.safetensors")) if file not in files]:
        return f"would read {others[0]} too, which is no part of the model: move it"
    if config.get("tie_word_embeddings"):
        try:
            check_head(folder, stored(folder), config, "model.embed_tokens.weight")
        except SGPEError as error:
            return f"takes the embedding for the head ({error})"
    return ""


def _whole(folder: Path) -> dict[str, Any]:
    """``config.json`` with what transformers takes where it says nothing."""
    from transformers import AutoConfig

    config = read_json(folder / "config.json")
    try:
        with without_remarks():
            whole = AutoConfig.from_pretrained(folder).to_dict()
    except Exception:  # a kind of model that it does not know, or mlx-lm's own
        return config
    # Of the others what is said counts, as mlx-lm reads it.
    for name in ("tie_word_embeddings", "rope_parameters", "sliding_window", "use_sliding_window"):
        if name not in config and whole.get(name) is not None:
            config[name] = whole[name]
    return config


def _for_mlx(config: dict[str, Any]) -> dict[str, Any]:
    """What to change in a configuration: transformers 5 has the rope base where mlx-lm does not look for it."""
    parameters = config.get("rope_parameters") or {}
    if "rope_theta" in config or "rope_theta" not in parameters:
        return {}
    changes: dict[str, Any] = {"rope_theta": parameters["rope_theta"]}
    if parameters.get("rope_type", "default") != "default" and not config.get("rope_scaling"):
        changes["rope_scaling"] = {name: value for name, value in parameters.items() if name != "rope_theta"}
    return changes


def _sampler(options: GenerationOptions, vocab_size: int) -> Any:
    """mlx-lm's own sampler divides by the temperature last; the steps are its, the order that of `GenerationOptions`."""
    import mlx.core as mx
    from mlx_lm.sample_utils import apply_min_p, apply_top_k, apply_top_p

    if options.is_greedy:
        return None

    def sample(logits: mx.array) -> mx.array:
        logits = logits.astype(mx.float32) / options.temperature
        if 0 < options.top_k < vocab_size:
            logits = apply_top_k(logits, options.top_k)
        if options.top_p < 1:
            # It sums probabilities, and they must add up to one.
            logits = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
            # Where the sum is rounded to one, it leaves none.
            greatest = logits >= logits.max(axis=-1, keepdims=True)
            logits = mx.where(greatest, logits, apply_top_p(logits, options.top_p))
        if options.min_p > 0:
            logits = apply_min_p(logits, options.min_p)
        return mx.random.categorical(logits)

    return sample


def _penalty(options: GenerationOptions, prompt: list[int]) -> list[Any]:
    """mlx-lm's own counts the last of the prompt's tokens only."""
    import mlx.core as mx
    from mlx_lm.sample_utils import make_repetition_penalty

    if options.repetition_penalty == 1:
        return []
    before = mx.array(prompt[:-1], mx.uint32)
    penalize = make_repetition_penalty(options.repetition_penalty, len(prompt) + options.max_new_tokens)
    return [lambda tokens, logits: penalize(mx.concatenate([before, tokens.astype(mx.uint32)]), logits)]
