"""Generation with llama.cpp and its Python package llama-cpp-python, on CPUs and on NVIDIA, AMD and Apple GPUs."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.unreadable import check_no_pointer
from hf_sgpe.generation.engines.conversion import load_converted
from hf_sgpe.generation.engines.engine import Engine, Logits, Watch, check_whole
from hf_sgpe.generation.engines.kept_prefixes import common_length, number_of_prefixes
from hf_sgpe.generation.engines.sampling_options import GenerationOptions
from hf_sgpe.weights import gguf, gguf_models
from hf_sgpe.weights.llama_log import last_lines, silence
from hf_sgpe.weights.model_config import transformers_config

if TYPE_CHECKING:
    from llama_cpp import llama_sampler_p

LONGEST_CONTEXT = 8192
"""Default maximum of the context, in tokens. There is a maximum because loading a model allocates memory for its whole
context.
"""

_MODEL_FILE = "model.gguf"


class LlamaCppEngine(Engine):
    """A model in a GGUF file.

    A folder in the format of transformers is converted to a GGUF file with weights of the same type when it is first loaded.
    The file is cached.

    Args:
        path: The GGUF file, or the folder.
        n_ctx: Number of tokens in the context. None: the model's own limit, but at most `LONGEST_CONTEXT`.
        n_gpu_layers: Number of layers to compute on a GPU: -1 for all, 0 for none. Without a GPU, this setting has no
            effect.
        exact: Cache keys and values in 32 bits, and convert a folder's weights to 32 bits. The weights of a GGUF file keep
            their type. For GPT-2, llama.cpp still looks up gelu in a 16-bit table.
        keep_prefixes: 1 to keep the keys and values of the last text, or 0. If a prompt shares a prefix with this text, this
            prefix is not computed again. None means 1, or 0 with ``exact``.
    """

    name = "llama.cpp"
    imports = ("llama_cpp",)
    packages = ("llama-cpp-python",)
    pip = "pip install llama-cpp-python gguf (or the extra [llama-cpp])"
    runs = ("gguf", "transformers")
    rank = 13

    def __init__(
        self,
        path: Path,
        *,
        n_ctx: int | None = None,
        n_gpu_layers: int = -1,
        exact: bool = False,
        keep_prefixes: int | None = None,
    ) -> None:
        super().__init__()
        import llama_cpp

        prefixes = number_of_prefixes(keep_prefixes, exact=exact)
        if prefixes > 1:
            raise SGPEError(f"keep_prefixes must be 0 or 1, not {prefixes}: llama.cpp has only one context")

        silence()
        for name, value, least in (("n_ctx", n_ctx, 1), ("n_gpu_layers", n_gpu_layers, -1)):
            if value is not None:
                check_whole(name, value, least)
        precision = {"type_k": llama_cpp.GGML_TYPE_F32, "type_v": llama_cpp.GGML_TYPE_F32} if exact else {}

        def load(file: Path) -> tuple[dict[str, str], int, Any]:
            last_lines.clear()
            # Read the metadata first, because loading a model allocates the memory of its whole context.
            with closing(llama_cpp.Llama(str(file), vocab_only=True, verbose=False)) as llm:
                metadata = dict(llm.metadata)
            longest = int(metadata.get(f"{metadata['general.architecture']}.context_length", LONGEST_CONTEXT))
            if n_ctx is not None and n_ctx > longest:
                raise SGPEError(f"n_ctx {n_ctx:,} is more than the {longest:,} tokens of {path}: give a smaller n_ctx")
            length = n_ctx or min(longest, LONGEST_CONTEXT)
            llm = llama_cpp.Llama(str(file), n_ctx=length, n_gpu_layers=n_gpu_layers, verbose=False, **precision)
            return metadata, length, llm

        try:
            if path.is_dir():
                convert = partial(_convert, exact=exact)
                kind = "gguf-f32" if exact else "gguf"
                loaded = load_converted(path, kind, convert, lambda folder: load(folder / _MODEL_FILE))
            else:
                loaded = load(path)
        except SGPEError:
            raise
        except Exception as error:
            check_no_pointer(path)
            reasons = [line for line in last_lines if "error" in line] or [str(error)]
            raise SGPEError(f"{path}: llama.cpp cannot load this model ({reasons[0].strip()})") from None
        metadata, self.context_length, self._llm = loaded
        self.vocab_size, self.embedding_length = self._llm.n_vocab(), self._llm.n_embd()
        ends = (metadata.get(f"tokenizer.ggml.{role}_token_id") for role in ("eos", "eot"))
        self.stop_ids = frozenset(int(id) for id in ends if id is not None)
        self._reuses = prefixes > 0

    @classmethod
    def devices(cls) -> tuple[str, ...]:
        import llama_cpp

        silence()
        return ("CPU", "GPU") if llama_cpp.llama_supports_gpu_offload() else ("CPU",)

    @classmethod
    def why_not(cls, path: Path) -> str:
        return gguf_models.why_not(transformers_config(path)) if path.is_dir() else ""

    def _release(self) -> None:
        self._llm.close()

    def _go_on(
        self, ids: list[int], options: GenerationOptions, stop_ids: frozenset[int], watch: Watch | None
    ) -> Generator[int, None, None]:
        import llama_cpp

        llm = self._llm
        with _sampler(options, len(ids) + options.max_new_tokens, self.vocab_size) as sampler:
            for seen in ids if options.repetition_penalty != 1 else ():
                llama_cpp.llama_sampler_accept(sampler, seen)
            self._begin(ids)
            last = None
            for number in range(options.max_new_tokens):
                if watch is not None:
                    # The sampler reads the logits in place.
                    (logits,) = self._computed(1)
                    if (replaced := watch(last, logits.copy())) is not None:
                        logits[:] = replaced
                # Sampling also makes the repetition penalty apply to this token.
                id = llama_cpp.llama_sampler_sample(sampler, llm.ctx, -1)
                yield id
                last = id
                if number + 1 < options.max_new_tokens:
                    llm.eval([id])

    def _hidden(self, ids: list[int]) -> Generator[Logits, None, None]:
        import llama_cpp

        llm, width = self._llm, self.embedding_length
        llama_cpp.llama_set_embeddings(llm.ctx, True)
        try:
            for logits in self._logits(ids):
                rows = (llama_cpp.llama_get_embeddings_ith(llm.ctx, number) for number in range(len(logits)))
                yield np.array([np.ctypeslib.as_array(row, shape=(width,)) for row in rows])
        finally:
            llama_cpp.llama_set_embeddings(llm.ctx, False)

    def _logits(self, ids: list[int]) -> Generator[Logits, None, None]:
        llm = self._llm
        llm.reset()
        for start in range(0, len(ids), llm.n_batch):
            part = ids[start : start + llm.n_batch]
            # The same as `eval`, but `eval` keeps only the logits of the last token.
            llm._ctx.kv_cache_seq_rm(-1, start, -1)
            llm._batch.set_batch(part, n_past=start, logits_all=True)
            llm._ctx.decode(llm._batch)
            yield self._computed(len(part)).copy()

    def _computed(self, tokens: int) -> Logits:
        """Return the logits for the last ``tokens`` tokens that were computed. The array is a view of llama.cpp's memory."""
        import llama_cpp

        ctx = self._llm.ctx
        address = llama_cpp.llama_get_logits_ith(ctx, -1) if tokens == 1 else llama_cpp.llama_get_logits(ctx)
        return np.ctypeslib.as_array(address, shape=(tokens, self.vocab_size))

    def _begin(self, ids: list[int]) -> None:
        """Run the model on a prompt. A prefix that it shares with the previous text, as in a chat, is not computed again."""
        import llama_cpp

        llm = self._llm
        cached = llm.input_ids[: llm.n_tokens].tolist() if self._reuses else []
        # The last token is always computed, because its logits are needed.
        common = common_length(cached, ids[:-1])
        self.reused = 0
        if common and llama_cpp.llama_memory_seq_rm(llama_cpp.llama_get_memory(llm.ctx), -1, common, -1):
            llm.n_tokens = self.reused = common
            ids = ids[common:]
        else:
            llm.reset()
        llm.eval(ids)


def _convert(source: Path, target: Path, *, exact: bool) -> None:
    # The engine passes ids to the model, so the file's pre-tokenizer has no effect.
    gguf.write(source, target / _MODEL_FILE, "F32" if exact else None, pre_tokenizer=gguf.NEAREST)


@contextmanager
def _sampler(options: GenerationOptions, tokens: int, vocab_size: int) -> Iterator[llama_sampler_p]:
    """Yield a chain of llama.cpp's samplers that applies the steps in the order of `GenerationOptions`. By default,
    llama.cpp would apply the temperature last.
    """
    import llama_cpp

    chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
    steps: list[Any] = []
    if options.repetition_penalty != 1:
        steps.append(llama_cpp.llama_sampler_init_penalties(vocab_size, tokens, options.repetition_penalty, 0.0, 0.0))
    if options.is_greedy:
        steps.append(llama_cpp.llama_sampler_init_greedy())
    else:
        steps.append(llama_cpp.llama_sampler_init_temp(options.temperature))
        if options.top_k:
            steps.append(llama_cpp.llama_sampler_init_top_k(options.top_k))
        if options.top_p < 1:
            steps.append(llama_cpp.llama_sampler_init_top_p(options.top_p, 1))
        if options.min_p > 0:
            steps.append(llama_cpp.llama_sampler_init_min_p(options.min_p, 1))
        steps.append(llama_cpp.llama_sampler_init_dist(options.seed_or_random()))
    for step in steps:
        llama_cpp.llama_sampler_chain_add(chain, step)
    try:
        yield chain
    finally:
        llama_cpp.llama_sampler_free(chain)
