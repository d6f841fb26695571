"""Generation with transformers, on the CPU or an NVIDIA or AMD GPU."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ClassVar

from hf_sgpe.errors import SGPEError
from hf_sgpe.generation.engines.engine import Engine, Logits, Watch, loading
from hf_sgpe.generation.engines.kept_prefixes import KeptPrefixes, number_of_prefixes
from hf_sgpe.generation.engines.sampling_options import GenerationOptions
from hf_sgpe.terminal.progress import without_remarks
from hf_sgpe.weights.model_config import listed, transformers_config

if TYPE_CHECKING:
    import torch


class TransformersEngine(Engine):
    """A causal language model that transformers runs.

    Args:
        device: PyTorch's name for the device: ``cpu``, ``cuda`` (also for AMD GPUs), ``cuda:1``, ``mps``. None: a GPU if
            there is one, otherwise the CPU.
        exact: If True, compute in 32 bits. If False, compute in the type of the stored weights.
        keep_prefixes: Number of texts whose keys and values are kept in memory. If a prompt shares a prefix with a kept
            text, this prefix is not computed again. None means 1, or 0 with ``exact``. Nothing is kept for models with a
            sliding window, a recurrent state, or positions that depend on the length of the text.
    """

    name = "transformers"
    imports: ClassVar[tuple[str, ...]] = ("transformers", "torch")
    packages: ClassVar[tuple[str, ...]] = ("transformers", "torch")
    pip = "pip install torch transformers"
    rank = 10
    rank_on_gpu = 1

    def __init__(
        self, path: Path, *, device: str | None = None, exact: bool = False, keep_prefixes: int | None = None
    ) -> None:
        super().__init__()
        self._prefixes: KeptPrefixes[Any] = KeptPrefixes(number_of_prefixes(keep_prefixes, exact=exact), _crop)
        self._model = self._load(path, device, exact)
        config, generation = self._model.config, self._model.generation_config
        self.vocab_size = config.get_text_config().vocab_size
        self.context_length = getattr(config.get_text_config(), "max_position_embeddings", None)
        self.embedding_length = self._length_of_embeddings()
        own = getattr(generation, "eos_token_id", None)
        self.stop_ids = frozenset(listed(getattr(config, "eos_token_id", None) if own is None else own))
        # Otherwise the repository's generation_config.json would set every option that this engine does not set.
        from transformers import GenerationConfig

        self._model.generation_config = GenerationConfig()
        if self._prefixes.most and not _can_crop(self._new_cache()):
            self._prefixes.most = 0

    @classmethod
    def devices(cls) -> tuple[str, ...]:
        """Return the CPU and the names of NVIDIA and AMD GPUs, which PyTorch both lists under CUDA."""
        import torch

        return ("CPU", *(torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())))

    def _load(self, path: Path, device: str | None, exact: bool) -> Any:
        import torch

        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        try:
            torch.zeros(1, device=device)
        except (RuntimeError, AssertionError) as error:
            raise SGPEError(f"device {device!r}: PyTorch cannot use it ({str(error).splitlines()[0]})") from None
        with loading(path), without_remarks():
            return load_whole(path, dtype=torch.float32 if exact else "auto").to(device).eval()

    def _length_of_embeddings(self) -> int:
        return int(self._model.get_output_embeddings().weight.shape[-1])

    def _release(self) -> None:
        import torch

        self._model = None
        self._prefixes.clear()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _go_on(
        self, ids: list[int], options: GenerationOptions, stop_ids: frozenset[int], watch: Watch | None
    ) -> Generator[int, None, None]:
        # transformers pushes tokens to a streamer. To pull tokens one by one, run transformers in a separate thread.
        arrived: SimpleQueue[int | BaseException | None] = SimpleQueue()
        is_over = threading.Event()
        # The thread computes at most this many tokens ahead, because a watch may keep the large arrays of logits.
        places = threading.Semaphore(_AHEAD)
        cache, self.reused = self._prefixes.take(ids)
        if cache is None and self._prefixes.most:
            cache = self._new_cache()

        def show(rows: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
            import torch

            assert watch is not None
            places.acquire()
            last = int(rows[0, -1]) if rows.shape[1] > len(ids) else None
            replaced = watch(last, logits[0].float().cpu().numpy().copy())
            return logits if replaced is None else torch.from_numpy(replaced)[None].to(logits)

        def run() -> None:
            try:
                rows = self._generate(
                    [ids], options, stop_ids, streamer=_Streamer(arrived), is_over=is_over, show=watch and show, cache=cache
                )
            except BaseException as error:
                arrived.put(error)
            else:
                if cache is not None:
                    self._prefixes.keep(rows[0, : cache.get_seq_length()].tolist(), cache)
                arrived.put(None)

        thread = threading.Thread(target=run, name="hf_sgpe-generate", daemon=True)
        thread.start()
        try:
            while (token := arrived.get()) is not None:
                if isinstance(token, BaseException):
                    raise token
                yield token
                places.release()
        finally:
            is_over.set()
            places.release()
            thread.join()

    def _new_cache(self) -> Any:
        """Return an empty cache. Return None if the model's positions depend on the length of the text, or if no cache can
        be made.
        """
        from transformers import DynamicCache

        config = self._model.config.get_text_config()
        positions = [getattr(config, name, None) for name in ("rope_parameters", "rope_scaling")]
        if any(kind in str(positions) for kind in ("dynamic", "longrope")):
            return None
        try:
            return DynamicCache(config=config)
        except TypeError:  # an older transformers cannot make a cache for a model
            return None

    def _logits(self, ids: list[int]) -> Generator[Logits, None, None]:
        for output, first in self._passes(self._model, ids):
            yield output.logits[0, first:].float().cpu().numpy()

    def _hidden(self, ids: list[int]) -> Generator[Logits, None, None]:
        for output, first in self._passes(self._model.base_model, ids):
            yield output.last_hidden_state[0, first:].float().cpu().numpy()

    def _passes(self, model: Any, ids: list[int]) -> Iterator[tuple[Any, int]]:
        """Run a model on a part of the ids at a time. Yield the output for each part, with the index of the first row that
        no earlier output contained.
        """
        import torch

        cache: Any = None
        start = 0
        while start < len(ids):
            # Without a cache, a model has to compute all tokens again.
            stop = start + _TOGETHER if start == 0 or cache is not None else len(ids)
            first = start if cache is not None else 0
            with torch.inference_mode(), without_remarks():
                output = model(
                    input_ids=torch.tensor([ids[first:stop]], device=self._model.device),
                    attention_mask=torch.ones((1, min(stop, len(ids))), dtype=torch.long, device=self._model.device),
                    past_key_values=cache,
                    use_cache=True,
                )
            cache = getattr(output, "past_key_values", None)
            yield output, start - first
            start = stop

    def _generate(
        self,
        prompts: list[list[int]],
        options: GenerationOptions,
        stop_ids: Iterable[int],
        *,
        streamer: _Streamer | None = None,
        is_over: threading.Event | None = None,
        show: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None = None,
        cache: Any = None,
    ) -> torch.Tensor:
        """Return one row per prompt, containing the prompt and its answer. Shorter prompts are padded on the left.

        Args:
            cache: Keys and values of a single prompt's first tokens, to which those of all other tokens are added.
        """
        import torch
        from transformers import GenerationConfig, RepetitionPenaltyLogitsProcessor

        config: dict[str, Any] = {
            "max_new_tokens": options.max_new_tokens,
            "eos_token_id": sorted(stop_ids) or None,
            "pad_token_id": _PADDING,
            "do_sample": not options.is_greedy,
        }
        if not options.is_greedy:
            config |= {name: getattr(options, name) for name in ("temperature", "top_p", "top_k", "min_p")}
            torch.manual_seed(options.seed_or_random())

        def broken_off(rows: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
            return torch.full((len(rows),), is_over is not None and is_over.is_set(), device=rows.device)

        # transformers applies these processors before the temperature and the cuts, but after its own repetition penalty.
        processors: list[Any] = [show] if show else []
        if options.repetition_penalty != 1:
            processors.append(RepetitionPenaltyLogitsProcessor(options.repetition_penalty))
        longest = max(map(len, prompts))
        rows = torch.tensor([[_PADDING] * (longest - len(prompt)) + prompt for prompt in prompts])
        mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        device = self._model.device
        with torch.inference_mode(), without_remarks():
            answers: torch.Tensor = self._model.generate(
                input_ids=rows.to(device),
                attention_mask=mask.to(device),
                generation_config=GenerationConfig(**config),
                streamer=streamer,
                logits_processor=processors,
                stopping_criteria=[broken_off],
                **({} if cache is None else {"past_key_values": cache}),
            )
        return answers

    def _batch(self, prompts: list[tuple[list[int], GenerationOptions]]) -> list[list[int]]:
        """Return the answer to each prompt, computed in one batch if possible. Rounding slightly changes the logits of
        prompts that are padded.
        """
        if not prompts:
            return []
        distinct = {options for _, options in prompts}
        options = prompts[0][1]
        longest = max(len(ids) for ids, _ in prompts)
        # Older versions apply the repetition penalty to padding, and padded prompts also have to fit into the context.
        if len(prompts) < 2 or len(distinct) > 1 or options.repetition_penalty != 1:
            return super()._batch(prompts)
        if options.min_new_tokens:  # each prompt needs its own watch
            return super()._batch(prompts)
        if self.context_length is not None and longest + options.max_new_tokens > self.context_length:
            return super()._batch(prompts)
        self._end()
        stop_ids = self.stop_ids_of(options)
        answers = self._generate([ids for ids, _ in prompts], options, stop_ids)[:, longest:].tolist()
        return [list(takewhile(lambda id: id not in stop_ids, row)) for row in answers]


def load_whole(path: Path, **options: Any) -> Any:
    """Load a model of transformers with exactly the weights in its folder. transformers would initialize missing weights at
    random, and ignore others.
    """
    from transformers import AutoModelForCausalLM

    # The default attention of transformers 5.5 silently ignores Gemma 2's soft cap.
    if transformers_config(path).get("attn_logit_softcapping") is not None:
        options["attn_implementation"] = "eager"
    # The error of transformers for other shapes does not name the weights.
    options |= {"output_loading_info": True, "ignore_mismatched_sizes": True, "trust_remote_code": False}
    model, info = AutoModelForCausalLM.from_pretrained(path, **options)
    for keys, problem in (
        (info["missing_keys"], "config.json requires {}, but the weights do not contain it"),
        (info["mismatched_keys"], "the shape of {} differs from the shape in config.json"),
        (info["unexpected_keys"], "the weights contain {}, but config.json does not describe it"),
    ):
        if keys:
            first = min(key if isinstance(key, str) else key[0] for key in keys)
            raise SGPEError(f"{path}: {problem.format(first)}")
    return model


def _can_crop(cache: Any) -> bool:
    """Return whether a cache can be cropped: every layer contains the keys and values of all tokens."""
    from transformers import cache_utils

    layers = getattr(cache, "layers", [])
    return bool(layers) and all(type(layer) is cache_utils.DynamicLayer for layer in layers)


def _crop(cache: Any, length: int) -> None:
    if surplus := cache.get_seq_length() - length:
        cache.crop(-surplus)  # new versions of transformers do not take a length


# Padding is always masked, so any id works.
_PADDING = 0

# Number of tokens in one pass of `_logits`. The logits of a pass are the largest array in memory.
_TOGETHER = 256

# On Apple GPUs, transformers passes on a token only after it has chosen the next token.
_AHEAD = 3


class _Streamer:
    """A streamer that puts generated tokens into a queue. transformers sends it the prompt first, which is ignored, and then
    each token.
    """

    def __init__(self, arrived: SimpleQueue[int | BaseException | None]) -> None:
        self._arrived = arrived
        self._has_prompt = False

    def put(self, value: torch.Tensor) -> None:
        if self._has_prompt:
            self._arrived.put(int(value[0]))
        self._has_prompt = True

    def end(self) -> None:
        """Do nothing, because the generating thread reports the end of the text."""
