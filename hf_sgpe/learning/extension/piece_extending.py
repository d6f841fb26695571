"""Extending a Unigram or WordPiece tokenizer with the words of new scripts, so that all other text keeps its ids.

Both kinds look up pieces in the text. A piece with a character of a script is never found in text without this character.
So new pieces with such a character change no other text, whatever their scores are. `check_pieces` checks this.

The pieces are learned as the tokens of a BPE tokenizer are. A new Unigram piece gets a score near the median of the scores
of the base's pieces in these scripts. With higher scores, several short new pieces would win against one long old piece.
XLM-R with 7,700 new Sinhala pieces needs 1.56 tokens per word with scores around the median (-13.7), and 1.96 with scores
from -2 to 0. The base needs 2.05.
"""

from __future__ import annotations

import logging
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from math import log
from statistics import median

import numpy as np

from hf_sgpe import package
from hf_sgpe.counts.word_counts import WordCounts
from hf_sgpe.errors import SGPEError
from hf_sgpe.files.hub import public_name
from hf_sgpe.formats.piece_folder import UNIGRAM, PieceFolder
from hf_sgpe.learning.extension.character_tiers import CharacterTierLearner
from hf_sgpe.learning.extension.extension_config import AUTO, ExtensionConfig
from hf_sgpe.learning.extension.script_words import Words, number_of_tokens
from hf_sgpe.learning.observer import NOBODY, Observer
from hf_sgpe.splitting.normalization import Normalization
from hf_sgpe.splitting.scripts.script import ZWJ, ZWNJ, shared_marks
from hf_sgpe.splitting.scripts.script_registry import names_of, resolve_script
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.vocabulary.codec import make_codec
from hf_sgpe.vocabulary.confinement import Confinement
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData, Unknown

logger = logging.getLogger(__name__)

# Share of words from which a loss in normalization is an error (the script's own characters) or logged (joiners, accents).
_LOSS = 0.001
# How far the scores of new pieces are from the median of the old ones.
_SPREAD = 1.0
_MOST_CHARACTERS = 1000
_UNKNOWN = "<unk>"


@dataclass(frozen=True)
class PieceExtension:
    """A Unigram or WordPiece tokenizer, the extended tokenizer, and the effect of the extension.

    Attributes:
        tokenizer: The extended tokenizer.
        unit_tokens: Number of new pieces for characters, letters and syllables. All others were learned.
        tokens_per_piece: As in `hf_sgpe.learning.extension.extending.Extension`.
        scores: Scores of the new pieces, in the order of their ids.
    """

    base: PieceFolder
    tokenizer: PieceFolder
    scores: Mapping[str, float]
    unit_tokens: int
    tokens_per_piece: tuple[float, float]

    @property
    def new_tokens(self) -> int:
        """The number of new tokens in the extended tokenizer."""
        return self.tokenizer.vocab_size - self.base.vocab_size

    @property
    def highest_id(self) -> int:
        """The highest id of a token."""
        return self.tokenizer.highest_id

    def at(self, new_tokens: int) -> PieceFolder:
        """Return the extended tokenizer with only the first ``new_tokens`` new pieces (see `Extension.at`)."""
        return self.base.with_pieces(dict(islice(self.scores.items(), max(new_tokens, self.unit_tokens))), {})


def word_splitting(config: ExtensionConfig) -> Splitting:
    """Return the splitting into the words to learn from. The tokenizer's own normalizer changes these words later."""
    return Splitting("hybrid", tuple(config.scripts), normalization="none")


def extend_pieces(
    base: PieceFolder, counts: WordCounts, config: ExtensionConfig, *, observer: Observer = NOBODY
) -> PieceExtension:
    """Learn pieces for the words of the scripts and add these pieces to a tokenizer.

    Args:
        counts: Words of text that was split by `word_splitting`.

    Raises:
        SGPEError: the normalizer of the tokenizer deletes characters without which a script cannot be written.
    """
    _check_added_ids(base)
    _check_normalizer(base, counts, config)
    splitting = word_splitting(config)
    parts: Counter[bytes] = Counter()
    for word, times in counts.items():
        for part in base.parts_of_word(base.normalize(word.decode())):
            parts[part.encode()] += times
    words = Words.from_counts(WordCounts(parts, splitting, scale=counts.scale), config)
    if not words.words:
        raise SGPEError(f"the text has no word in {names_of(config.scripts)}: name other scripts, or add text in these")
    confinement = _confined_to(config, base)
    own = [piece for piece in base.vocab if confinement.holds(piece.encode())]
    characters = [piece for piece in _characters(base, words, config, confinement) if piece not in base.vocab]
    if config.new_tokens != AUTO and len(characters) > int(config.new_tokens):
        raise SGPEError(
            f"new_tokens {config.new_tokens} is too small: the characters of {names_of(config.scripts)} alone need "
            f"{len(characters):,} pieces"
        )
    learned, units = _learned(words, config, len(own), observer)
    found = dict.fromkeys(characters, 0) | {
        piece: count
        for token, count in learned.items()
        for piece in _pieces_of(base, token)
        if piece not in base.vocab and confinement.holds(token.encode())
    }
    most = len(found) if config.new_tokens == AUTO else int(config.new_tokens)
    new = dict(islice(found.items(), most))
    if len(new) < most:
        logger.warning("the text yields only %d of the %d new tokens requested", len(new), most)
    if not new:
        raise SGPEError(f"the tokenizer already has all pieces that the text yields for {names_of(config.scripts)}")
    note = {"base": public_name(base.name, of_folder=True), **config.to_dict(), "word_counts": counts.digest()}
    note["version"] = package.__version__
    scores = _scores(base, own, new)
    extended = base.with_pieces(scores, note)
    check_pieces(base, extended, confinement)
    texts = [word.decode() for word in words.words]
    before, after = (number_of_tokens(one, texts, words.times) / sum(words.times) for one in (base, extended))
    unit_pieces = {*characters, *(piece for token in islice(learned, units) for piece in _pieces_of(base, token))}
    return PieceExtension(base, extended, scores, len(unit_pieces.intersection(new)), (before, after))


def check_pieces(base: PieceFolder, extended: PieceFolder, confinement: Confinement) -> None:
    """Check that ``extended`` keeps all pieces, ids and scores of ``base``, and that each new piece has a character of the
    confinement. New scores must not be below the old ones, from which the score of unknown text follows.
    """
    for part in base.content.keys() | extended.content.keys():
        if part != "model" and base.content.get(part) != extended.content.get(part):
            raise SGPEError(f"the extended tokenizer and its base differ in {part}")
    models = [{**one.content["model"], "vocab": None} for one in (base, extended)]
    if models[0] != models[1] or base.added != extended.added:
        raise SGPEError("the extended tokenizer and its base differ in the settings of the model, or in added tokens")
    if not base.vocab.items() <= extended.vocab.items():
        piece = next(piece for piece, id in base.vocab.items() if extended.vocab.get(piece) != id)
        raise SGPEError(f"the piece {piece!r} has another id in the extended tokenizer")
    allowed = base.added.keys() | {f"<unused {id}>" for id in range(base.highest_id)}
    for piece in extended.vocab.keys() - base.vocab.keys() - allowed:
        if not confinement.holds(piece.encode()):
            raise SGPEError(f"the new piece {piece!r} can occur in text of other scripts")
    if base.kind == UNIGRAM:
        before, after = base.scores(), extended.scores()
        if any(after[piece] != score for piece, score in before.items()) or min(after.values()) < min(before.values()):
            raise SGPEError("the extended tokenizer and its base differ in the scores of pieces")


def _blank() -> TokenizerData:
    """Return a tokenizer whose merges join characters, with nothing but the characters that all scripts share."""
    shared = dict.fromkeys([_UNKNOWN, " ", ZWJ, ZWNJ, *shared_marks()])
    return TokenizerData(
        {text.encode(): id for id, text in enumerate(shared)},
        [],
        splitting=Splitting.from_regexes([], Normalization("metaspace"), (_UNKNOWN,)),
        unknown=Unknown(_UNKNOWN, True),
        special_tokens={_UNKNOWN: 0},
    )


def _learned(words: Words, config: ExtensionConfig, known: int, observer: Observer) -> tuple[dict[str, int], int]:
    """Learn tokens. Return the count of each in the words, in the order of learning. Also return the number of letters and
    syllables, which are first.

    Args:
        known: Number of pieces of the scripts that the base has. As many more tokens are learned.
    """
    blank = _blank()
    wanted = config.new_tokens if config.new_tokens == AUTO else int(config.new_tokens) + known
    tiers = CharacterTierLearner(blank, words, replace(config, new_tokens=wanted), observer=observer).tiers(reach_all=False)
    learned = tiers.new_tokens(blank.vocab)
    ids = {token: id for id, token in enumerate(dict.fromkeys([*blank.vocab, *learned]))}
    times = _token_counts(replace(blank, vocab=ids, merges=tiers.merges), words)
    return {token.decode(): times[ids[token]] for token in learned}, tiers.unit_tokens


def _pieces_of(base: PieceFolder, token: str) -> list[str]:
    """Return the pieces for a token: for a single character of WordPiece, one for each place in a word."""
    if base.kind == UNIGRAM or len(token.strip()) > 1:
        return [base.piece_of(token)]
    return [base.piece_of(f" {token.strip()}"), base.piece_of(token.strip())]


def _characters(base: PieceFolder, words: Words, config: ExtensionConfig, confinement: Confinement) -> dict[str, None]:
    """Return the pieces of the characters of the scripts, and of each character of the words with the joiner or mark after
    it, which has no piece of its own. Scripts with thousands of characters, such as Han, are left out. If a script is an
    alphabet, only its characters in the words are returned, because many are never written.
    """
    tables = [table for table in map(resolve_script, config.scripts) if len(table.letters_and_marks()) < _MOST_CHARACTERS]
    written = frozenset().union(*(word.decode() for word in words.words))
    characters = sorted(
        character
        for table in tables
        for character in table.characters()
        if unicodedata.category(character) not in ("Cn", "Co") and (not table.by_clusters or character in written)
    )
    stable = (c for c in characters if base.normalize(c) == c and confinement.holds(c.encode()))
    shared = {ZWJ, ZWNJ, *shared_marks()}
    joined = {pair for word in words.words for pair in pairwise(word.decode()) if pair[1] in shared}
    pairs = sorted(first + mark for first, mark in joined if confinement.holds(first.encode()))
    pieces = [piece for character in stable for piece in _pieces_of(base, character)]
    pieces += [base.piece_of(f"{space}{pair}") for pair in pairs for space in ("", " ")]
    return dict.fromkeys(pieces)


def _confined_to(config: ExtensionConfig, base: PieceFolder) -> Confinement:
    """Return the confinement to those characters of the scripts that the normalizer makes from no other characters."""
    ours = Confinement.to_scripts(config.scripts).points
    others = (chr(point) for point in range(0x20, 0x110000) if point not in ours and not 0xD800 <= point < 0xE000)
    assigned = (c for c in others if unicodedata.category(c) not in ("Cn", "Co"))
    made = {ord(c) for other in assigned for c in base.normalize(other)}
    # Two characters of other scripts may be composed to one.
    composed = {point for point in ours if ours.isdisjoint(map(ord, unicodedata.normalize("NFD", chr(point))))}
    return Confinement(ours - made - composed)


def _token_counts(data: TokenizerData, words: Words) -> list[int]:
    """Return how often each id occurs in the words."""
    ids, ends = make_codec(data.inside_text()).encode_batch_to_numpy([word.decode() for word in words.words])
    times = np.repeat(np.array(words.times, dtype=np.int64), np.diff(ends, prepend=0))
    counted = np.zeros(len(data.vocab), dtype=np.int64)
    np.add.at(counted, ids, times)
    return [int(count) for count in counted]


def _scores(base: PieceFolder, own: Iterable[str], times: Mapping[str, int]) -> dict[str, float]:
    """Return the score of each new piece: around the median of the old scores, and higher for frequent pieces."""
    if base.kind != UNIGRAM:
        return dict.fromkeys(times, 0.0)
    old = base.scores()
    special = base.added.keys()
    every = [score for piece, score in old.items() if piece not in special]
    middle = median([old[piece] for piece in own] or every)
    low, most = max(middle - _SPREAD, min(every)), log(max(times.values()) + 1) or 1.0
    return {piece: low + 2 * _SPREAD * log(count + 1) / most for piece, count in times.items()}


def _check_added_ids(base: PieceFolder) -> None:
    """Check that the library gives each added token the id in the file. Otherwise, new pieces could move the id."""
    for text, id in base.added.items():
        if (found := base.backend.token_to_id(text)) != id:
            raise SGPEError(
                f"{base.name}: the added token {text!r} has the id {id} in tokenizer.json, but the tokenizers library gives "
                f"it the id {found}: load the folder with AutoTokenizer, save it, and extend the saved folder"
            )


def _check_normalizer(base: PieceFolder, counts: WordCounts, config: ExtensionConfig) -> None:
    """Check that the normalizer of the tokenizer deletes no characters of the scripts. Log a warning if it deletes joiners
    or accents.
    """
    tables = [resolve_script(name) for name in config.scripts]
    ours = frozenset().union(*(table.characters() | table.letters_and_marks() for table in tables))
    lost: Counter[str] = Counter()
    total = 0
    for word, times in counts.items():
        text = word.decode()
        if ours.isdisjoint(text):
            continue
        total += times
        before, after = (Counter(unicodedata.normalize("NFKD", one).casefold()) for one in (text, base.normalize(text)))
        for character in before - after:
            lost[character] += 0 if character.isspace() else times
    frequent = {character: times for character, times in lost.most_common() if times > _LOSS * total}
    own = [character for character in frequent if character in ours]
    if own:
        share = f"{lost[own[0]] / total:.0%} of the words lose {_named(own[:1])}"
        raise SGPEError(
            f"the normalizer of {base.name} deletes {_named(own)} from {names_of(config.scripts)}, which cannot be written "
            f"without them ({share}): choose a model that keeps them, such as a cased one"
        )
    if frequent:
        most = max(frequent.values()) / total
        logger.warning(
            "the normalizer of %s deletes %s, so up to %.1f %% of the words of %s lose a character",
            base.name,
            _named(frequent),
            100 * most,
            names_of(config.scripts),
        )


def _named(characters: Iterable[str]) -> str:
    few = [f"U+{ord(c):04X} {unicodedata.name(c, 'without a name').lower()}" for c in characters]
    return ", ".join(few[:3]) + (f" and {len(few) - 3:,} more" if len(few) > 3 else "")
