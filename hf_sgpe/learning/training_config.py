"""TrainingConfig: the settings of training. Together with the text, they determine the learned tokenizer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from hf_sgpe.bpe.trainer import TIE_BREAKS
from hf_sgpe.bpe.unit_tier import BYTES
from hf_sgpe.corpora.corpus_weights import checked_weights
from hf_sgpe.errors import SGPEError
from hf_sgpe.learning.unit_choice import CUT_COST, check_cut_cost
from hf_sgpe.splitting.normalization import NORMALIZATIONS
from hf_sgpe.splitting.scripts.script_registry import resolve_scripts
from hf_sgpe.splitting.splitting import RECIPES, Splitting, checked_list
from hf_sgpe.vocabulary.special_tokens import (
    Template,
    bos_eos_template,
    check_special_tokens,
    cls_sep_template,
    trained_roles,
)

TRAINED_ROLES = ("bos_token", "eos_token", "pad_token")
"""The roles that a special token can have, which are fields of `TrainingConfig`."""

_SPECIAL_TOKENS_POSITIONS = ("end", "start", "after-bytes", "given")


@dataclass(frozen=True)
class TrainingConfig:
    """The settings of training. Together with the text, they determine the learned tokenizer.

    If a field is None, the constructor sets it to its default. From then on, the default counts as a given value, so
    `dataclasses.replace` keeps it. These fields may stay None: ``chat_template``, ``model_max_length``, ``bos_token``,
    ``eos_token`` and ``pad_token`` (see `roles`). ``cut_cost``, ``letter_coverage``, ``syllable_coverage`` and
    ``min_unit_frequency`` stay None if they do not affect the choice of letters and syllables.

    Args:
        vocab_size: Number of tokens, including special tokens. With the recipe sgpe, tokens for bytes and rare characters
            are added to this number.
        recipe: How text is split. ``hybrid``: words of ``scripts`` consist of whole syllables, and ``pattern`` splits all
            other text. ``portable``: ``pattern``, which other runtimes know, splits all text, and syllables inside the
            resulting words stay whole. ``sgpe``: text is split as in the SGPE document. ``bpe``: ``pattern`` splits all
            text, and merges start from bytes.
        scripts: Names of the scripts whose syllables stay whole, or ``("all",)``. ``bpe`` does not use them.
        pattern: Name of one of `SPLIT_PATTERNS`, or a regular expression. ``sgpe`` does not use it.
        min_frequency: Merge no pair that occurs less often than this.
        cut_cost: Cost, in tokens, of a letter or syllable that a token boundary cuts: a higher cost gives fewer cuts but
            more tokens (default: 2, or none if one of the next three settings is given; extend has its own scale).
        letter_coverage: Give a token to each of the most frequent letters, until these letters make up this share (0 to 1)
            of all letters in the text. Without cut_cost, only this share decides (then the default is 0.9999).
        syllable_coverage: Give a token to each of the most frequent syllables, until these syllables make up this share of
            all syllables in the text (default without cut_cost: 0.999).
        min_unit_frequency: Instead of the two coverages: give a token to each letter and syllable that occurs at least this
            often.
        tie_break: Rule that chooses among equally frequent pairs: smallest-pair-id, greatest-pair-bytes or
            greatest-pair-id.
        normalization: Unicode normalization: nfc or none (default: nfc for hybrid, else none).
        special_tokens: Special tokens, or a mapping from special tokens to ids. Special tokens in the training text are
            skipped. None means the recipe's default.
        special_tokens_position: Place of the special tokens' ids: end, start or after-bytes (default: end, or start for
            sgpe; given for a mapping).
        chat_template: ``llama3``, ``chatml``, ``alpaca`` or Jinja source. It is saved with the tokenizer. The special tokens
            of a named template are added to a list ``special_tokens``. A mapping must already contain them.
        bos_token: Special token that begins a text (default: the token of the chat template, or one with a known spelling).
        eos_token: Special token that ends a text or a turn (default: the same).
        pad_token: Special token for padding (default: the token that ends a text). If the model should learn to end its
            texts, and the collator excludes padding from the loss, give another token.
        add_bos_token: Put the BOS token before each text when special tokens are added. The recipe sgpe refuses this if it
            puts [CLS] and [SEP] around each text.
        add_eos_token: Put the EOS token after each text when special tokens are added.
        model_max_length: Length, in tokens, to which transformers truncates text (default: no limit).
        weights: Dict from file names or globs to the weight of each word in these files, to balance languages whose corpora
            differ in size. If several keys match a file, the key that equals the file's path is used. If no key equals the
            path, the first matching key is used. The default weight is 1.

    >>> TrainingConfig(vocab_size=1000).normalization
    'nfc'
    """

    vocab_size: int
    recipe: str = "hybrid"
    scripts: tuple[str, ...] = ("sinhala",)
    pattern: str = "o200k"
    min_frequency: int = 2
    letter_coverage: float | None = None
    syllable_coverage: float | None = None
    min_unit_frequency: int | None = None
    tie_break: str = "smallest-pair-id"
    normalization: str | None = None
    special_tokens: Sequence[str] | Mapping[str, int] | None = field(default=None, hash=False)
    special_tokens_position: str | None = None
    chat_template: str | None = None
    bos_token: str | None = None
    eos_token: str | None = None
    pad_token: str | None = None
    add_bos_token: bool = False
    add_eos_token: bool = False
    cut_cost: float | None = None
    model_max_length: int | None = None
    weights: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        _check_known("recipe", self.recipe, tuple(RECIPES))
        if isinstance(self.special_tokens, Mapping) and self.special_tokens_position is None:
            object.__setattr__(self, "special_tokens_position", "given")
        for name in ("normalization", "special_tokens", "special_tokens_position"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, getattr(RECIPES[self.recipe], name))
        if (self.special_tokens_position == "given") != isinstance(self.special_tokens, Mapping):
            raise SGPEError(
                "special_tokens_position must have the value 'given' if special_tokens maps tokens to ids, and another "
                "value otherwise"
            )
        for name in ("scripts", "special_tokens"):
            value = getattr(self, name)
            if not isinstance(value, Mapping):
                object.__setattr__(self, name, checked_list(name, value))
        object.__setattr__(self, "scripts", resolve_scripts(self.scripts))
        if self.chat_template is not None:
            self._check_chat_template(self.chat_template)
        for role, token in self._given_roles().items():
            if not isinstance(token, str):
                raise SGPEError(f"{role} must be a string, not {token!r}")
            self._add_special_tokens([token], role)
        self._check_added()
        object.__setattr__(self, "weights", checked_weights(self.weights))
        _check_known("tie_break", self.tie_break, TIE_BREAKS)
        _check_known("normalization", self.normalization, NORMALIZATIONS)
        _check_known("special_tokens_position", self.special_tokens_position, _SPECIAL_TOKENS_POSITIONS)
        for name in ("letter_coverage", "syllable_coverage"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, (int, float)) or not 0 <= value <= 1):
                raise SGPEError(f"{name} must be between 0 and 1, not {value!r}")
        if self.cut_cost is not None:
            check_cut_cost(self.cut_cost)
        if RECIPES[self.recipe].uses_scripts:
            if not self.scripts:
                raise SGPEError(f"the recipe {self.recipe} needs a script: give at least one, or use the recipe bpe")
            self._choose_by()
        for name in ("min_frequency", "min_unit_frequency", "model_max_length"):
            value = getattr(self, name)
            if (value is not None or name == "min_frequency") and (not isinstance(value, int) or value < 1):
                raise SGPEError(f"{name} must be a whole number of at least 1, not {value!r}")
        if not isinstance(self.vocab_size, int):
            raise SGPEError(f"vocab_size must be a whole number, not {self.vocab_size!r}")
        assert self.special_tokens is not None
        check_special_tokens(self.special_tokens, str(self.normalization))
        if isinstance(self.special_tokens, Mapping):
            object.__setattr__(self, "special_tokens", dict(self.special_tokens))
            _check_ids(self.special_tokens, self.vocab_size)
        num_bytes = 0 if self.recipe == "sgpe" else len(BYTES)
        least = num_bytes + len(self.special_tokens)
        if self.vocab_size < least:
            parts = [f"{num_bytes} bytes"] * bool(num_bytes) + [f"{len(self.special_tokens)} special tokens"]
            raise SGPEError(f"vocab_size {self.vocab_size} is too small: {' and '.join(parts)} need at least {least}")
        _ = self.splitting  # raises the errors of a wrong split

    def _choose_by(self) -> None:
        """Set the defaults of ``cut_cost`` and of the two coverages, which depend on the values that were given."""
        if self.recipe == "sgpe" and self.cut_cost is not None:
            raise SGPEError(
                "the recipe sgpe has no cut_cost, because it chooses syllables by coverage or min_unit_frequency: "
                "leave cut_cost out"
            )
        coverages = {"letter_coverage": 0.9999, "syllable_coverage": 0.999}
        given = [name for name in (*coverages, "min_unit_frequency") if getattr(self, name) is not None]
        if self.recipe != "sgpe" and not given and self.cut_cost is None:
            object.__setattr__(self, "cut_cost", CUT_COST)
        if self.cut_cost is None:
            for name, usual in coverages.items():
                if getattr(self, name) is None:
                    object.__setattr__(self, name, usual)

    def _check_chat_template(self, template: str) -> None:
        # Imported here so that --help does not load Jinja.
        from hf_sgpe.chat.templates import SPECIAL_TOKENS, check_template, load_template

        if not isinstance(template, str):
            raise SGPEError(f"chat_template must be a name or a Jinja template, not {template!r}")
        check_template(load_template(template))
        self._add_special_tokens(SPECIAL_TOKENS.get(template, ()), f"chat template {template}")

    def _add_special_tokens(self, tokens: Iterable[str], what: str) -> None:
        assert self.special_tokens is not None
        missing = [token for token in tokens if token not in self.special_tokens]
        if missing and isinstance(self.special_tokens, Mapping):
            raise SGPEError(f"the {what} needs the special tokens {', '.join(missing)}: add them to special_tokens with ids")
        if missing:
            object.__setattr__(self, "special_tokens", (*self.special_tokens, *missing))

    def _given_roles(self) -> dict[str, str]:
        return {role: token for role in TRAINED_ROLES if (token := getattr(self, role)) is not None}

    def _check_added(self) -> None:
        """Check that ``add_bos_token`` and ``add_eos_token`` have the special tokens that they need."""
        for name, verb in {"add_bos_token": "begins", "add_eos_token": "ends"}.items():
            value, role = getattr(self, name), name.removeprefix("add_")
            if not isinstance(value, bool):
                raise SGPEError(f"{name} must be True or False, not {value!r}")
            if value and role not in self.roles():
                raise SGPEError(f"{name} needs a special token that {verb} texts: give {role}, such as <{role[:3]}>")
            if value and self.recipe == "sgpe" and cls_sep_template(self.special_tokens or ()):
                raise SGPEError(
                    f"{name} cannot be used with the recipe sgpe, because this recipe puts [CLS] and [SEP] around a text: "
                    f"leave out {name}"
                )

    def template(self) -> Template | None:
        """Return the special tokens that ``add_special_tokens=True`` puts around a text, or None.

        >>> TrainingConfig(vocab_size=1000, bos_token="<s>", add_bos_token=True).template().single
        (('<s>', 0), ('$A', 0))
        """
        if self.recipe == "sgpe" and (template := cls_sep_template(self.special_tokens or ())):
            return template
        return bos_eos_template(self.roles(), add_bos_token=self.add_bos_token, add_eos_token=self.add_eos_token)

    def roles(self) -> dict[str, str]:
        """Return a dict from roles, such as ``bos_token``, to the special tokens of the finished tokenizer.

        >>> TrainingConfig(vocab_size=1000, chat_template="chatml").roles()
        {'bos_token': '<|endoftext|>', 'eos_token': '<|im_end|>', 'pad_token': '<|endoftext|>'}
        """
        return trained_roles(self.special_tokens or (), self.chat_template, self._given_roles())

    @property
    def unit_scripts(self) -> tuple[str, ...]:
        """The scripts whose syllables stay whole. Empty for the recipe ``bpe``."""
        return self.scripts if RECIPES[self.recipe].uses_scripts else ()

    @cached_property
    def splitting(self) -> Splitting:
        """The rules that split text into words. Word counts can be added up only if their splittings are equal."""
        return Splitting(self.recipe, self.scripts, self.pattern, self.normalization, tuple(self.special_tokens or ()))

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain JSON values."""
        values = {setting.name: getattr(self, setting.name) for setting in fields(self)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainingConfig:
        """Read the result of `to_dict`. Unknown keys are ignored."""
        names = {setting.name for setting in fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in names})


def _check_known(name: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise SGPEError(f"unknown {name} {value!r}: choose from {', '.join(known)}")


def _check_ids(special_tokens: Mapping[str, int], vocab_size: int) -> None:
    taken: dict[int, str] = {}
    for token, id in special_tokens.items():
        if type(id) is not int or not 0 <= id < vocab_size:
            raise SGPEError(f"special token {token!r} has the id {id!r}: give an id from 0 to {vocab_size - 1}")
        if id in taken:
            raise SGPEError(f"special tokens {taken[id]!r} and {token!r} have the same id {id}: give each its own id")
        taken[id] = token
