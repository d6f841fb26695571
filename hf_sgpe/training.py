"""From counted words to a tokenizer: the configuration, and the two tiers put together.

Nothing here reads files; that is the business of `trainers`.
"""

from __future__ import annotations

import logging
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from hf_sgpe.bpe.encoder import Pair, merge_words, spell_tokens
from hf_sgpe.bpe.trainer import TIE_BREAKS, learn_merges
from hf_sgpe.bpe.unit_tier import BYTES, ChosenUnits, build_unit_tier, choose_units, order_units
from hf_sgpe.byte_strings import reads_as_bytes
from hf_sgpe.counts.files import different
from hf_sgpe.counts.word_counts import WordCounts, exact_weight
from hf_sgpe.errors import SGPEError
from hf_sgpe.special_tokens import SGPE_SPECIAL_TOKENS, cls_sep_template, trained_roles
from hf_sgpe.splitting.normalization import NORMALIZATIONS, normalize
from hf_sgpe.splitting.regex_splits import RegexPreTokenizer
from hf_sgpe.splitting.scripts import SCRIPTS, resolve_scripts
from hf_sgpe.splitting.syllables import LinguisTrie
from hf_sgpe.splitting.words import RECIPES, LinguisTriePreTokenizer, make_pre_tokenizer
from hf_sgpe.tokenizer import BPETokenizer

logger = logging.getLogger(__name__)

Track = Callable[[Collection[Any], str], Iterable[Any]]

TRAINED_ROLES = ("bos_token", "eos_token", "pad_token")
"""What special tokens can be told to be: fields of `TrainingConfig`."""

SPECIAL_TOKENS_POSITIONS = ("end", "start", "after-bytes", "given")

# What a recipe takes where the configuration says None.
_RECIPE_DEFAULTS: dict[str, dict[str, Any]] = {
    "hybrid": {"normalization": "nfc", "special_tokens": ("<|endoftext|>",), "special_tokens_position": "end"},
    "bpe": {"normalization": "none", "special_tokens": ("<|endoftext|>",), "special_tokens_position": "end"},
    "sgpe": {
        "normalization": "none",
        "special_tokens": SGPE_SPECIAL_TOKENS,
        "special_tokens_position": "start",
    },
}


@dataclass(frozen=True)
class TrainingConfig:
    """Everything that decides, together with the text, which tokenizer comes out.

    After construction recipe defaults are filled in. What is None then was left open: ``min_unit_frequency``,
    ``chat_template``, ``model_max_length``, and the tokens of `roles`, which says who plays them.

    Args:
        vocab_size: Number of tokens in the finished tokenizer, special tokens included.
        recipe: ``hybrid`` (words of ``scripts`` by syllable, the rest by ``pattern``), ``sgpe`` (the SGPE document's words)
            or ``bpe`` (``pattern`` only).
        scripts: Scripts whose syllables are units, or ``("all",)``; unused by ``bpe``.
        pattern: Name of one of `SPLIT_PATTERNS`, or a regular expression; unused by ``sgpe``.
        min_frequency: A pair that occurs less often is never merged.
        letter_coverage: Share of each script's running letters that get a token of their own.
        syllable_coverage: The same for syllables.
        min_unit_frequency: Instead of both: letters and syllables that occur at least so often (SGPE's ``prune_freq``).
        tie_break: Which of equally frequent pairs merges first, one of `TIE_BREAKS`.
        normalization: ``nfc`` or ``none``; None takes the recipe's own: NFC for ``hybrid`` only.
        special_tokens: Their text, or text → id; none of it is ever learned from. None takes the recipe's own.
        special_tokens_position: Where their ids lie: ``end``, ``start``, ``after-bytes``, or ``given`` where they are mapped
            to ids. None takes ``given`` for those, else the recipe's own.
        chat_template: ``llama3``, ``chatml``, ``alpaca`` or Jinja source, saved with the tokenizer. The special tokens of a
            named one come to the others, unless those are mapped to ids.
        bos_token: The special token that begins texts. This and the next two come to the others like those of a chat
            template; None for what the chat template says, or else the spelling (``<s>``).
        eos_token: The same that ends what a model generates.
        pad_token: The same that fills rows up. None: by its spelling (``<|pad|>``), or else the token that ends texts
            (``<|endoftext|>``). Some collators keep the padding token out of the loss, so a model that is to learn to end
            its texts by ``<|endoftext|>`` with those needs another one.
        model_max_length: How many ids a model takes, to which transformers truncates; None for any number.
        weights: How much the words of a file count, to balance languages whose corpora differ in size: name of a file or
            glob → number. Of several that fit a file the first counts; without one it counts once.

    Raises:
        SGPEError: a value is out of range or unknown; the message lists the known ones.

    >>> TrainingConfig(vocab_size=1000).normalization
    'nfc'
    """

    vocab_size: int
    recipe: str = "hybrid"
    scripts: tuple[str, ...] = ("sinhala",)
    pattern: str = "o200k"
    min_frequency: int = 2
    letter_coverage: float = 0.9999
    syllable_coverage: float = 0.999
    min_unit_frequency: int | None = None
    tie_break: str = "smallest-pair-id"
    normalization: str | None = None
    special_tokens: Sequence[str] | Mapping[str, int] | None = field(default=None, hash=False)
    special_tokens_position: str | None = None
    chat_template: str | None = None
    bos_token: str | None = field(default=None, kw_only=True)
    eos_token: str | None = field(default=None, kw_only=True)
    pad_token: str | None = field(default=None, kw_only=True)
    model_max_length: int | None = field(default=None, kw_only=True)
    weights: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        _check_known("recipe", self.recipe, RECIPES)
        if isinstance(self.special_tokens, Mapping) and self.special_tokens_position is None:
            object.__setattr__(self, "special_tokens_position", "given")
        for name, default in _RECIPE_DEFAULTS[self.recipe].items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, default)
        if (self.special_tokens_position == "given") != isinstance(self.special_tokens, Mapping):
            raise SGPEError("special_tokens_position 'given' is for special tokens that are mapped to ids, and those for it")
        for name in ("scripts", "special_tokens"):
            value = getattr(self, name)
            if isinstance(value, Mapping):
                continue
            if isinstance(value, str):
                raise SGPEError(f"{name} must be a list, not the text {value!r}: write [{value!r}]")
            if not isinstance(value, Iterable):
                raise SGPEError(f"{name} must be a list, not {value!r}")
            object.__setattr__(self, name, tuple(value))
        object.__setattr__(self, "scripts", resolve_scripts(self.scripts))
        if self.chat_template is not None:
            self._check_chat_template(self.chat_template)
        for role, token in self._given_roles().items():
            if not isinstance(token, str):
                raise SGPEError(f"{role} must be text, not {token!r}")
            self._add_special_tokens([token], role)
        if not isinstance(self.weights, Mapping):
            raise SGPEError(f"weights must map names of files to numbers, not be {self.weights!r}")
        object.__setattr__(self, "weights", dict(self.weights))
        for name, weight in self.weights.items():
            try:
                exact_weight(weight)
            except SGPEError as error:
                raise SGPEError(f"weights, {name!r}: {error}") from None
        _check_known("tie_break", self.tie_break, TIE_BREAKS)
        _check_known("normalization", self.normalization, NORMALIZATIONS)
        _check_known("special_tokens_position", self.special_tokens_position, SPECIAL_TOKENS_POSITIONS)
        for name in ("letter_coverage", "syllable_coverage"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not 0 <= value <= 1:
                raise SGPEError(f"{name} must lie between 0 and 1, not {value!r}")
        for name in ("min_frequency", "min_unit_frequency", "model_max_length"):
            value = getattr(self, name)
            if (value is not None or name == "min_frequency") and (not isinstance(value, int) or value < 1):
                raise SGPEError(f"{name} must be a whole number of at least 1, not {value!r}")
        if not isinstance(self.vocab_size, int):
            raise SGPEError(f"vocab_size must be a whole number, not {self.vocab_size!r}")
        assert self.special_tokens is not None
        for token in self.special_tokens:
            _check_special_token(token, str(self.normalization))
        if isinstance(self.special_tokens, Mapping):
            object.__setattr__(self, "special_tokens", dict(self.special_tokens))
            _check_ids(self.special_tokens, self.vocab_size)
        elif len(set(self.special_tokens)) < len(self.special_tokens):
            raise SGPEError(f"special tokens occur twice: {', '.join(self.special_tokens)}")
        least = len(BYTES) + len(self.special_tokens)
        if self.vocab_size < least:
            raise SGPEError(
                f"vocab_size {self.vocab_size} is too small: {len(BYTES)} bytes and {len(self.special_tokens)} special "
                f"tokens need at least {least}"
            )
        self.pre_tokenizer()

    def _check_chat_template(self, template: str) -> None:
        from hf_sgpe.chat.templates import SPECIAL_TOKENS, check_template, load_template

        if not isinstance(template, str):
            raise SGPEError(f"chat_template must be a name or a Jinja template, not {template!r}")
        check_template(load_template(template))
        self._add_special_tokens(SPECIAL_TOKENS.get(template, ()), f"chat template {template}")

    def _add_special_tokens(self, tokens: Iterable[str], what: str) -> None:
        assert self.special_tokens is not None
        missing = [token for token in tokens if token not in self.special_tokens]
        if missing and isinstance(self.special_tokens, Mapping):
            raise SGPEError(f"the {what} needs the special tokens {', '.join(missing)}: give them ids")
        if missing:
            object.__setattr__(self, "special_tokens", (*self.special_tokens, *missing))

    def _given_roles(self) -> dict[str, str]:
        return {role: token for role in TRAINED_ROLES if (token := getattr(self, role)) is not None}

    def roles(self) -> dict[str, str]:
        """Which special token plays which part in the tokenizer that comes out.

        >>> TrainingConfig(vocab_size=1000, chat_template="chatml").roles()
        {'bos_token': '<|endoftext|>', 'eos_token': '<|im_end|>', 'pad_token': '<|endoftext|>'}
        """
        return trained_roles(self.special_tokens or (), self.chat_template, self._given_roles())

    def pre_tokenizer(self) -> RegexPreTokenizer | LinguisTriePreTokenizer:
        """The readable pre-tokenizer of this recipe: words and units."""
        return make_pre_tokenizer(self.recipe, self.scripts, self.pattern)

    def counting(self) -> dict[str, Any]:
        """The part of the configuration that decides which words a text has; equal parts give addable counts."""
        return {
            "recipe": self.recipe,
            "scripts": list(self.scripts) if self.recipe != "bpe" else [],
            "pattern": self.pattern if self.recipe != "sgpe" else "",
            "normalization": self.normalization,
            "special_tokens": sorted(self.special_tokens or ()),
            "patterns": list(self.pre_tokenizer().patterns),
        }

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain JSON values."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainingConfig:
        """The inverse of `to_dict`; keys that are no field are passed over."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in known})


def _check_known(name: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise SGPEError(f"unknown {name} {value!r}: known are {', '.join(known)}")


def _check_ids(special_tokens: Mapping[str, int], vocab_size: int) -> None:
    taken: dict[int, str] = {}
    for token, id in special_tokens.items():
        if type(id) is not int or not 0 <= id < vocab_size:
            raise SGPEError(f"special token {token!r} has the id {id!r}, which is not one of 0 to {vocab_size - 1}")
        if id in taken:
            raise SGPEError(f"special tokens {taken[id]!r} and {token!r} have the same id {id}")
        taken[id] = token


def _check_special_token(token: str, normalization: str) -> None:
    if not isinstance(token, str):
        raise SGPEError(f"special tokens must be text, not {token!r}")
    if len(token) < 2:
        raise SGPEError(f"special token {token!r} is too short: it would be taken for ordinary text")
    if normalize(token, "none") != token:
        raise SGPEError(f"special token {token!r} is not well-formed text: it holds a lone surrogate")
    if reads_as_bytes(token):
        raise SGPEError(f"special token {token!r} reads as bytes in tokenizer.json: use ASCII or letters beyond U+0143")
    if normalization == "nfc" and unicodedata.normalize("NFD", token) != token:
        # It is looked for before the text is normalized, and other text could be normalized into it.
        raise SGPEError(f"special token {token!r} holds a character that NFC composes: use another")


def train_from_counts(
    counts: WordCounts,
    config: TrainingConfig,
    *,
    on_merge: Callable[[int, Pair, int], None] | None = None,
    track: Track = lambda steps, what: steps,
) -> BPETokenizer:
    """Learns a tokenizer from counted words: the unit tier, then the statistical tier on what that leaves of each word.

    If the words give fewer merges than ``config.vocab_size`` asks for, the tokenizer is smaller and a warning is logged.

    Args:
        on_merge: Called at each merge of the statistical tier with the number of tokens before it, the pair (two such
            numbers) and its count in parts of 1 / ``counts.scale``.
        track: Given a collection and what is done with it, yields its items: a progress bar's place.

    Raises:
        SGPEError: there are no words, they were cut for another configuration, or the vocabulary is too small for the
            chosen units (the message says what would do).
    """
    if setting := different(counts.counting, config.counting()):
        has, wants = counts.counting.get(setting), config.counting().get(setting)
        raise SGPEError(
            f"the words were counted with {setting.replace('_', ' ')} {has!r}, but the configuration has {wants!r}"
        )
    if not len(counts):
        raise SGPEError("the corpus is empty: it has no words to learn from")

    pre_tokenizer = config.pre_tokenizer()
    words, times = list(counts), list(counts.values())
    chosen, ordered = ChosenUnits(set(), set()), []
    if isinstance(pre_tokenizer, LinguisTriePreTokenizer):
        trie = pre_tokenizer.trie
        _warn_of_other_scripts(words, times, pre_tokenizer)
        units = trie.count_units(track(words, "Finding units"), times, every_word=config.recipe == "sgpe")
        chosen = choose_units(
            units,
            trie,
            letter_coverage=config.letter_coverage,
            syllable_coverage=config.syllable_coverage,
            min_unit_frequency=config.min_unit_frequency and config.min_unit_frequency * counts.scale,
        )
        ordered = order_units(chosen, trie, characters={character for unit in units for character in unit})
    unit_merges = build_unit_tier([unit.encode() for unit in ordered])

    specials = config.special_tokens or ()
    num_merges = config.vocab_size - len(BYTES) - len(specials) - len(unit_merges)
    if num_merges < 0:
        raise SGPEError(
            f"vocab_size {config.vocab_size} is too small for the {len(ordered)} chosen units: it takes at least "
            f"{config.vocab_size - num_merges}, or a lower letter_coverage or syllable_coverage"
        )

    vocabulary = spell_tokens(BYTES, unit_merges)
    if config.recipe == "sgpe":
        runs = known_runs(track(words, "Cutting words"), times, trie, chosen.syllables)
        words, times = ["".join(run).encode() for run in runs], list(runs.values())
    sequences: Sequence[Sequence[int]] = words
    if unit_merges:
        sequences = merge_words(track(words, "Applying units"), unit_merges)
    with ThreadPoolExecutor(1) as beside:
        digest = beside.submit(counts.digest)  # merging natively leaves the interpreter to others
        learned = learn_merges(
            sequences,
            times,
            vocabulary=vocabulary,
            num_merges=num_merges,
            tie_break=config.tie_break,
            min_frequency=config.min_frequency * counts.scale,
            on_merge=on_merge,
        )
    vocabulary = spell_tokens(vocabulary, learned)
    if len(learned) < num_merges:
        logger.warning(
            "the corpus gives %d tokens of the %d asked for: no further pair occurs %d times",
            len(vocabulary) + len(specials),
            config.vocab_size,
            config.min_frequency,
        )
    return _assemble(vocabulary, unit_merges + learned, config, pre_tokenizer.patterns, digest.result())


def _warn_of_other_scripts(words: list[bytes], counts: list[int], pre_tokenizer: LinguisTriePreTokenizer) -> None:
    """Says so if words of a script that could be kept whole are not, which is easily overlooked."""
    others = LinguisTrie(name for name in SCRIPTS if name not in pre_tokenizer.scripts)
    total = sum(counts)
    running = others.count_scripts(words, counts)
    for script, count in sorted(running.items(), key=lambda item: -item[1]):
        if count and count * 100 >= total:
            logger.warning(
                "%.0f %% of the words are %s, which is not among the scripts: their syllables will be cut",
                100 * count / total,
                script,
            )


def known_runs(
    words: Iterable[bytes], counts: Iterable[int], trie: LinguisTrie, known: Set[str]
) -> Counter[tuple[str, ...]]:
    """What SGPE learns from: runs of known units, and how often each occurs. A unit that is not known takes no part in any
    pair, so it ends one run and the next begins after it.

    >>> known_runs(["කකිකක".encode()], [2], LinguisTrie(), {"ක"})
    Counter({('ක',): 2, ('ක', 'ක'): 2})
    """
    runs: Counter[tuple[str, ...]] = Counter()
    for word, count in zip(words, counts, strict=True):
        run: list[str] = []
        for unit in trie.tokenize(word.decode(), leading_space=True):
            if unit in known:
                run.append(unit)
            elif run:
                runs[tuple(run)] += count
                run = []
        if run:
            runs[tuple(run)] += count
    return runs


def _assemble(
    vocabulary: list[bytes],
    merges: list[Pair],
    config: TrainingConfig,
    patterns: tuple[str, ...],
    digest: str,
) -> BPETokenizer:
    """Gives tokens their final ids, special tokens where the configuration wants them, the others in order around them."""
    from hf_sgpe.chat.templates import load_template

    specials = config.special_tokens
    assert specials is not None
    if isinstance(specials, Mapping):
        special_ids = dict(specials)
    else:
        first = {"start": 0, "after-bytes": len(BYTES), "end": len(vocabulary)}[config.special_tokens_position or ""]
        special_ids = {token: first + number for number, token in enumerate(specials)}
    taken, size = set(special_ids.values()), len(vocabulary) + len(specials)
    if beyond := [token for token, id in special_ids.items() if id >= size]:
        raise SGPEError(
            f"special token {beyond[0]!r} has the id {special_ids[beyond[0]]}, but the corpus gives only {size} tokens: "
            f"give a vocab_size of {size}, and ids below it"
        )
    vocab = dict(zip(vocabulary, (id for id in range(size) if id not in taken), strict=True))
    return BPETokenizer(
        vocab,
        [(vocabulary[left], vocabulary[right]) for left, right in merges],
        special_tokens=special_ids,
        patterns=patterns,
        normalization=config.normalization or "none",
        template=cls_sep_template(specials) if config.recipe == "sgpe" else None,
        roles=config.roles(),
        chat_template=load_template(config.chat_template) if config.chat_template else None,
        model_max_length=config.model_max_length,
        metadata={"training": config.to_dict(), "word_counts": digest},
    )
