"""ExtensionConfig: the settings for extending a tokenizer. Together with the tokenizer and some text, they determine the
result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from hf_sgpe.bpe.trainer import TIE_BREAKS
from hf_sgpe.corpora.corpus_weights import checked_weights
from hf_sgpe.errors import SGPEError
from hf_sgpe.learning.unit_choice import check_cut_cost
from hf_sgpe.splitting.normalization import NFC, NONE
from hf_sgpe.splitting.regex_pre_tokenizer import RegexPreTokenizer
from hf_sgpe.splitting.scripts.script import Script
from hf_sgpe.splitting.scripts.script_registry import resolve_script, resolve_scripts
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData

AUTO = "auto"
_COMPOSING = ("NFC", "NFKC", "Precompiled")


def parse_new_tokens(text: str) -> int | str:
    """Return the value of ``--new-tokens``: a number, or `AUTO`.

    >>> parse_new_tokens("16000"), parse_new_tokens("auto")
    (16000, 'auto')
    """
    if text == AUTO:
        return text
    if not text.isdecimal() or not int(text):
        raise SGPEError(f"--new-tokens {text}: give a number above 0, or {AUTO}")
    return int(text)


@dataclass(frozen=True)
class ExtensionConfig:
    """The settings for extending an existing tokenizer with the words of new scripts.

    Args:
        scripts: Scripts or languages whose words get tokens, or ``("all",)`` for all scripts.
        new_tokens: Number of tokens to add, or auto, which stops before a thousand more tokens save less than
            least_saving of the text's tokens.
        own_split: Whether to put a new split before the tokenizer's own split, so that words of the scripts stay whole
            (default: only if the tokenizer's own split cuts these words, or cuts at the joiners that the scripts use).
        letter_coverage: Only the most frequent letters may get a token. Together, they make up this share (0 to 1) of all
            letters in the text.
        syllable_coverage: The same for syllables.
        cut_cost: Cost, in tokens, of a syllable that a token boundary cuts. A cut letter costs four times as much. A higher
            cost gives fewer cuts but more tokens. The default is lower than that of train, because each new token adds a
            row to the model.
        least_saving: With new_tokens auto: the minimum saving of a thousand more tokens, as a share of the text's tokens.
        balance: How strongly to favour scripts with little text: from 0 (each word counts once) to 1 (all scripts count
            equally).
        min_frequency: Merge no pair that occurs less often than this.
        tie_break: The rule that chooses which of several equally frequent pairs is merged first (one of `TIE_BREAKS`).
        weights: Dict from file names or globs to weights. Words from a file are counted with the weight of the first name or
            glob that matches.
        reuse_ids: First use free ids. A free id is below vocab_size in the model's config.json, and no token has it.
        reuse_reserved: First use the ids of reserved tokens, such as unused12 in Gemma. Their names become ordinary text.

    >>> ExtensionConfig(scripts=["si", "Hindi"]).scripts
    ('sinhala', 'devanagari')
    """

    scripts: Sequence[str]
    new_tokens: int | str = 16_000
    own_split: bool | None = None
    letter_coverage: float = 0.9999
    syllable_coverage: float = 0.999
    cut_cost: float = 1.0
    least_saving: float = 0.005
    balance: float = 0.4
    min_frequency: int = 2
    tie_break: str = "smallest-pair-id"
    weights: Mapping[str, float] = field(default_factory=dict, hash=False)
    reuse_ids: bool = False
    reuse_reserved: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.scripts, Iterable):
            raise SGPEError(f"scripts must be a list, not {self.scripts!r}")
        object.__setattr__(self, "scripts", resolve_scripts(self.scripts))
        if not self.scripts:
            raise SGPEError("an extension needs a script: give at least one")
        if everywhere := [name for name in self.scripts if not resolve_script(name).own_words]:
            raise SGPEError(
                f"an extension must keep the ids of other text, but {everywhere[0]} occurs in all text: give another script"
            )
        if self.new_tokens != AUTO and (type(self.new_tokens) is not int or self.new_tokens < 1):
            raise SGPEError(f"new_tokens must be a whole number of at least 1, or {AUTO!r}, not {self.new_tokens!r}")
        for name in ("letter_coverage", "syllable_coverage", "least_saving", "balance"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
                raise SGPEError(f"{name} must be between 0 and 1, not {value!r}")
        check_cut_cost(self.cut_cost)
        if type(self.min_frequency) is not int or self.min_frequency < 1:
            raise SGPEError(f"min_frequency must be a whole number of at least 1, not {self.min_frequency!r}")
        if self.tie_break not in TIE_BREAKS:
            raise SGPEError(f"unknown tie_break {self.tie_break!r}: choose from {', '.join(TIE_BREAKS)}")
        for name in ("own_split", "reuse_ids", "reuse_reserved"):
            if getattr(self, name) not in (True, False, *([None] if name == "own_split" else [])):
                raise SGPEError(f"{name} must be True or False, not {getattr(self, name)!r}")
        object.__setattr__(self, "weights", checked_weights(self.weights))

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain JSON values."""
        return {**asdict(self), "scripts": list(self.scripts)}

    def splitting_for(self, base: TokenizerData) -> Splitting:
        """Return the splitting of the extended tokenizer."""
        before = base.splitting
        if base.by_characters:
            if self.own_split is not None:
                option = "--own-split" if self.own_split else "--base-split"
                raise SGPEError(
                    f"own_split={self.own_split} ({option}): a tokenizer converted from SentencePiece has no split: leave "
                    "out this option"
                )
            return before
        if self.own_split or (self.own_split is None and cut_scripts(before, self.scripts)):
            if before.recipe == "sgpe":
                raise SGPEError("a tokenizer of the recipe sgpe cannot be extended: train a tokenizer of the recipe hybrid")
            scripts = tuple(dict.fromkeys((*before.scripts, *self.scripts)))
            today = Splitting("hybrid", scripts, before.pattern, before.normalization, before.special_tokens)
            # Old scripts keep the letters and joiners that they had.
            old = len(before.scripts)
            return replace(
                today,
                letters=(*before.script_letters, *today.script_letters[old:]),
                joiners=(*before.script_joiners, *today.script_joiners[old:]),
            )
        return before

    def counting_splitting(self, base: TokenizerData) -> Splitting:
        """Return the splitting into the words to learn from. If the tokenizer has no split pattern, these are words of the
        scripts, so that no learned token crosses the edge of a word.
        """
        splitting = self.splitting_for(base)
        if not base.by_characters:
            return splitting
        # Normalizers such as NFKC compose letters, so the words to learn from must have composed letters.
        composes = any(step["type"] in _COMPOSING for step in base.normalization.normalizers)
        normalization = NFC if composes else NONE
        return Splitting("hybrid", tuple(self.scripts), normalization=normalization, special_tokens=splitting.special_tokens)


def cut_scripts(splitting: Splitting, scripts: Iterable[str]) -> list[str]:
    """Return the scripts whose words a split cuts. Scripts for which the split already has its own rules are left out.

    >>> cut_scripts(Splitting("bpe", pattern="o200k"), ["sinhala", "tamil"])
    ['sinhala']
    """
    return [name for name in scripts if name not in splitting.scripts and not keeps_words(splitting, resolve_script(name))]


def keeps_words(splitting: Splitting, script: Script) -> bool:
    """Return whether a split keeps the words of a script whole, with their letters, marks and joiners.

    >>> [keeps_words(Splitting("bpe", pattern=name), resolve_script("tamil")) for name in ("llama3", "o200k")]
    [False, True]
    """
    return len(RegexPreTokenizer.of(splitting).split(script.specimen())) == 1
