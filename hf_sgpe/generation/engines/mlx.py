"""Generation with MLX, on Apple Silicon and on the CPU under Linux."""

from __future__ import annotations

import platform
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.json_files import read_json
from hf_sgpe.generation.engines.engine import Engine, Logits, Watch, loading
from hf_sgpe.generation.engines.kept_prefixes import KeptPrefixes, number_of_prefixes
from hf_sgpe.generation.engines.sampling_options import GenerationOptions
from hf_sgpe.weights.model_config import Compared, Like, end_ids, rope, transformers_config, uncompared
from hf_sgpe.weights.safetensors_files import check_head, stored, weight_files

if TYPE_CHECKING:
    import mlx.core as mx


class MLXEngine(Engine):
    """A language model that mlx-lm runs, from a folder in the format of transformers or mlx-lm.

    Args:
        exact: If True, compute in 32 bits, including the cache of keys and values. If False, compute in the type of the
            weights.
        keep_prefixes: See `hf_sgpe.generation.engines.transformers.TransformersEngine`. Nothing is kept for models with a
            sliding window.
    """

    name = "mlx"
    imports = ("mlx.core", "mlx_lm")
    packages = ("mlx-lm", "mlx")
    pip = "pip install mlx-lm 'mlx[cpu]' (or the extra [mlx])"
    runs = ("mlx", "transformers")
    rank = 11
    rank_on_gpu = 0

    def __init__(self, path: Path, *, exact: bool = False, keep_prefixes: int | None = None) -> None:
        super().__init__()
        self._prefixes: KeptPrefixes[list[Any]] = KeptPrefixes(number_of_prefixes(keep_prefixes, exact=exact), _crop)
        import mlx.core as mx
        from mlx_lm.utils import load_model

        config = transformers_config(path)
        with loading(path):
            self._model, _ = load_model(path, model_config=_for_mlx(config, read_json(path / "config.json")))
        if exact:
            self._model.set_dtype(mx.float32)
        self.vocab_size = config["vocab_size"]
        self.context_length = config["max_position_embeddings"]
        self.embedding_length = config["hidden_size"]
        self.stop_ids = frozenset(end_ids(path, config))

    @classmethod
    def devices(cls) -> tuple[str, ...]:
        return ("Apple GPU",) if (platform.system(), platform.machine()) == ("Darwin", "arm64") else ("CPU",)

    @classmethod
    def why_not(cls, path: Path) -> str:
        """Return why mlx-lm might compute other logits than transformers, or an empty string."""
        config = transformers_config(path)
        reason = uncompared(config, COMPARED)
        if reason or "quantization" in config:
            return reason
        # mlx-lm reads every file of weights in the folder.
        try:
            files = weight_files(path)
        except SGPEError as error:
            return f"reads only safetensors ({error})"
        if extra := [file.name for file in sorted(path.glob("model*.safetensors")) if file not in files]:
            return f"would also read {extra[0]}, but this file is not part of the model: move the file"
        if config.get("tie_word_embeddings"):
            try:
                check_head(path, stored(path), config, "model.embed_tokens.weight")
            except SGPEError as error:
                return f"uses the embedding as the head ({error})"
        return ""

    def _release(self) -> None:
        import mlx.core as mx

        self._model = None
        self._prefixes.clear()
        mx.clear_cache()

    def _go_on(
        self, ids: list[int], options: GenerationOptions, stop_ids: frozenset[int], watch: Watch | None
    ) -> Generator[int, None, None]:
        import mlx.core as mx
        from mlx_lm.generate import generate_step
        from mlx_lm.models.cache import make_prompt_cache

        cache, self.reused = self._prefixes.take(ids)
        if cache is None:
            cache = make_prompt_cache(self._model)
        mx.random.seed(options.seed_or_random())
        steps = generate_step(
            mx.array(ids[self.reused :]),
            self._model,
            prompt_cache=cache,
            max_tokens=options.max_new_tokens,
            sampler=_sampler(options, self.vocab_size),
            logits_processors=[*([_show(watch)] if watch else []), *_penalty(options, ids)],
        )
        tokens = ids.copy()
        try:
            for token, _ in steps:
                tokens.append(int(token))
                yield tokens[-1]
        finally:
            steps.close()
            if _can_crop(cache):
                self._prefixes.keep(tokens[: cache[0].offset], cache)

    def _logits(self, ids: list[int]) -> Generator[Logits, None, None]:
        return self._passes(self._model, ids)

    def _hidden(self, ids: list[int]) -> Generator[Logits, None, None]:
        return self._passes(self._model.model, ids)

    def _passes(self, model: Any, ids: list[int]) -> Generator[Logits, None, None]:
        """Run a model, which may lack its last matrix, on a part of the ids at a time, and yield the output for each
        part.
        """
        import mlx.core as mx
        from mlx_lm.models.cache import make_prompt_cache

        cache = make_prompt_cache(self._model)
        for start in range(0, len(ids), _TOGETHER):
            output = model(mx.array(ids[start : start + _TOGETHER])[None], cache=cache)[0]
            yield np.array(output.astype(mx.float32))


def _can_crop(cache: list[Any]) -> bool:
    """Return whether a cache can be cropped: every layer contains the keys and values of all tokens."""
    from mlx_lm.models.cache import KVCache

    return all(type(layer) is KVCache for layer in cache)


def _crop(cache: list[Any], length: int) -> None:
    from mlx_lm.models.cache import trim_prompt_cache

    trim_prompt_cache(cache, cache[0].offset - length)


# Number of tokens in one pass of `_logits`. The logits of a pass are the largest array in memory.
_TOGETHER = 256


_NO, _YES, _EITHER = (False,), (True,), (False, True)
_NUMBERS, _PARTS = Like((0.5, 1.25)), Like((0.5, 1.0))
_LLAMA3 = "llama3(factor, high_freq_factor, low_freq_factor, original_max_position_embeddings)"
_ROPES = ("default()", "linear(factor)", _LLAMA3, "yarn(factor, original_max_position_embeddings)")
_USUAL = {"hidden_act": ("silu",), "tie_word_embeddings": _EITHER, "rope": ("default()",)}
_SLIDING = ("three layers of four",)

COMPARED: Compared = {
    "cohere": dict(_USUAL, tie_word_embeddings=_YES, attention_bias=_EITHER, use_qk_norm=_EITHER, logit_scale=_NUMBERS),
    "cohere2": dict(_USUAL, tie_word_embeddings=_YES, attention_bias=_EITHER, logit_scale=_NUMBERS, sliding_window=_SLIDING),
    "ernie4_5": dict(_USUAL, use_bias=_EITHER),
    "glm4": dict(_USUAL, tie_word_embeddings=_NO, attention_bias=_EITHER, partial_rotary_factor=_PARTS),
    "granite": dict(
        _USUAL,
        rope=_ROPES,
        attention_bias=_EITHER,
        mlp_bias=_EITHER,
        embedding_multiplier=_NUMBERS,
        logits_scaling=_NUMBERS,
        residual_multiplier=_NUMBERS,
        attention_multiplier=_NUMBERS,
    ),
    "helium": dict(_USUAL, tie_word_embeddings=_NO, attention_bias=_NO, mlp_bias=_NO),
    "hunyuan_v1_dense": dict(_USUAL, attention_bias=_NO),
    "llama": dict(_USUAL, rope=_ROPES, attention_bias=_EITHER, mlp_bias=_EITHER),
    "mistral": dict(_USUAL, rope=_ROPES, sliding_window=(None,)),
    "mixtral": dict(_USUAL, sliding_window=(None,)),
    "nemotron": dict(_USUAL, hidden_act=("relu2",), attention_bias=_EITHER, mlp_bias=_EITHER, partial_rotary_factor=_PARTS),
    "olmo2": dict(_USUAL, rope=_ROPES, attention_bias=_EITHER),
    "olmo3": dict(_USUAL, attention_bias=_EITHER, sliding_window=_SLIDING),
    "olmoe": dict(_USUAL, attention_bias=_NO, norm_topk_prob=_EITHER, clip_qkv=(None,)),
    "phi": dict(_USUAL, hidden_act=("gelu_new",), tie_word_embeddings=_NO, qk_layernorm=_NO, partial_rotary_factor=_PARTS),
    "phi3": dict(_USUAL, sliding_window=(None,), partial_rotary_factor=_PARTS),
    "qwen2": dict(_USUAL, rope=_ROPES, sliding_window=(None,)),
    "qwen2_moe": dict(
        _USUAL,
        tie_word_embeddings=_NO,
        sliding_window=(None,),
        decoder_sparse_step=(1,),
        mlp_only_layers=([],),
        norm_topk_prob=_NO,
        qkv_bias=_YES,
    ),
    "qwen3": dict(_USUAL, rope=_ROPES, attention_bias=_NO, sliding_window=(None,)),
    "qwen3_moe": dict(
        _USUAL,
        attention_bias=_NO,
        sliding_window=(None,),
        decoder_sparse_step=(1,),
        mlp_only_layers=([],),
        norm_topk_prob=_EITHER,
    ),
    "seed_oss": dict(_USUAL, rope=_ROPES, attention_bias=_EITHER, attention_out_bias=_EITHER, mlp_bias=_EITHER),
    "smollm3": dict(
        _USUAL, attention_bias=_EITHER, mlp_bias=_EITHER, sliding_window=(None,), no_rope_layers=Like(([1, 0, 1, 1],))
    ),
    "starcoder2": dict(_USUAL, hidden_act=("gelu",), use_bias=_YES, sliding_window=(None,)),
}
"""The settings for which mlx-lm computes the same results as transformers, keyed by type of model. A test compares each
value. This table is needed, because mlx-lm silently ignores unknown fields.
"""


def _for_mlx(config: dict[str, Any], written: dict[str, Any]) -> dict[str, Any]:
    """Convert a configuration of transformers, including its defaults, to the fields of mlx-lm, which has other defaults.

    Args:
        written: The fields that the configuration file sets.
    """
    settings = {name: value for name, value in config.items() if value is not None or name in written}
    if config["model_type"] == "qwen3_moe":  # transformers 5.5 renames or omits these fields
        head_dim = config["hidden_size"] // config["num_attention_heads"]
        settings = {"num_experts": config.get("num_local_experts"), "head_dim": head_dim} | settings
    if "rope_parameters" not in config:
        return settings
    positions = rope(config)
    scaling = {name: value for name, value in positions.items() if name not in ("rope_theta", "partial_rotary_factor")}
    return settings | {
        "rope_theta": positions["rope_theta"],
        "rope_scaling": None if positions["rope_type"] == "default" else scaling,
    }


def _sampler(options: GenerationOptions, vocab_size: int) -> Any:
    """Return a sampler that applies mlx-lm's steps in the order of `GenerationOptions`. By default, mlx-lm would apply the
    temperature last. Return None if the most probable token is always chosen.
    """
    import mlx.core as mx
    from mlx_lm.sample_utils import apply_min_p, apply_top_k, apply_top_p

    if options.is_greedy:
        return None

    def sample(logits: mx.array) -> mx.array:
        logits = logits.astype(mx.float32) / options.temperature
        if 0 < options.top_k < vocab_size:
            logits = apply_top_k(logits, options.top_k)
        if options.top_p < 1:
            # apply_top_p needs log-probabilities that are normalized.
            logits = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
            # If the sum of the probabilities is rounded to one, apply_top_p removes every token.
            greatest = logits >= logits.max(axis=-1, keepdims=True)
            logits = mx.where(greatest, logits, apply_top_p(logits, options.top_p))
        if options.min_p > 0:
            logits = apply_min_p(logits, options.min_p)
        return mx.random.categorical(logits)

    return sample


def _show(watch: Watch) -> Any:
    import mlx.core as mx

    is_first = True

    def show(tokens: mx.array, logits: mx.array) -> mx.array:
        nonlocal is_first
        last, is_first = None if is_first else int(tokens[-1]), False
        replaced = watch(last, np.array(logits[0].astype(mx.float32)))
        return logits if replaced is None else mx.array(replaced)[None].astype(logits.dtype)

    return show


def _penalty(options: GenerationOptions, prompt: list[int]) -> list[Any]:
    """Return, in a list, a logits processor that penalizes the tokens of the whole prompt and answer. mlx-lm's default
    penalty covers only the last tokens. The list is empty if there is no penalty.
    """
    import mlx.core as mx
    from mlx_lm.sample_utils import make_repetition_penalty

    if options.repetition_penalty == 1:
        return []
    before = mx.array(prompt[:-1], mx.uint32)
    penalize = make_repetition_penalty(options.repetition_penalty, len(prompt) + options.max_new_tokens)
    return [lambda tokens, logits: penalize(mx.concatenate([before, tokens.astype(mx.uint32)]), logits)]
