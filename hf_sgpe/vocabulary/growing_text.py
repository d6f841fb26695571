"""Growing texts: more text can be appended to them, and only their last part is encoded again to get the new ids.

A text is encoded from its last *restart*: a position at which no later text can change the preceding tokens.

- With one of the package's split patterns, a restart is a safe cut of `hf_sgpe.splitting.streams`.
- For a tokenizer whose merges join characters, a restart is a position between two characters that are not adjacent in any
  token, outside all added tokens (`hf_sgpe.vocabulary.neighbours`).
- There is no restart with any other pattern, with an added token that may contain a safe cut, or with a normalizer such as
  NFKC before merges that join characters.

The text after the last restart is the *rest*. If text was appended, the rest is encoded again when ids are read. If the rest
has long words, it is cut into words again, but only the changed words are encoded.

If a long word has grown, only a few tokens before its old end and the new text are encoded. This gives the correct ids
because of a theorem: a sequence of tokens is the encoding of a word if and only if each pair of neighbouring tokens is the
encoding of the pair's text.

Proof: suppose that encoding the word makes a merge across the boundary between two tokens of the sequence, and consider the
first such merge. All earlier merges were inside tokens of the sequence. Encoding the text of these two tokens alone makes
those of the earlier merges that are inside the pair, in the same order, and then makes this merge. So the pair is not the
encoding of its text.

The theorem applies if the first new token is the same as the first old token that it replaces. Then every pair of neighbours
is from the old encoding or from the new one, so the whole sequence is the encoding of the word.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from hf_sgpe.splitting.streams import last_cut, may_be_cut
from hf_sgpe.vocabulary.added_patterns import AddedPatterns, Matching, reaches
from hf_sgpe.vocabulary.codec import Codec

# A longer rest is kept as words. For a shorter rest, encoding it takes no longer.
_LONG_REST = 1024
# The words at the end of a rest whose ids are kept one by one. Text that is appended rarely changes an earlier word.
_RECENT_WORDS = 8
# In a longer word, only the end is encoded again.
_LONG_WORD = 256
# The number of tokens at the end of a long word that are encoded again first. It doubles until the first of them stays.
_FIRST_TOKENS = 8


class Restarts:
    """A finder of restarts: the positions in a text at which encoding can begin again. Merges join bytes."""

    # The length from which the text of a stream is searched. After a search without a restart, the text is searched again if
    # it is longer by the factor.
    _least, _growth = 0, 1

    def __init__(
        self, codec: Codec, added: AddedPatterns | None, tokens: Collection[str], matching: Mapping[str, Matching]
    ) -> None:
        allows_cuts = codec.pre_tokenizer.splitting.allows_cuts
        self._exist = allows_cuts and (added is None or may_be_cut((*tokens, *reaches(matching))))

    def last(self, text: str, searched: int = 0) -> int:
        """Return the position of the last restart inside a text, or 0 if there is none.

        Args:
            searched: The number of characters at the beginning that an earlier call, with only these characters as the text,
                searched without finding a restart.
        """
        return last_cut(text, max(searched - 2, 0)) if self._exist else 0

    def texts(self, chunks: Iterable[str]) -> Iterator[str]:
        """Regroup the chunks of a stream into texts that end at restarts, so that they can be encoded one by one."""
        held, searched, least = "", 0, self._least
        for chunk in chunks:
            held += chunk
            if len(held) < least:
                continue
            if cut := self.last(held, searched):
                yield held[:cut]
                held, searched, least = held[cut:], 0, self._least
            else:
                searched = len(held)
                least = self._growth * searched
        if held:
            yield held


class CharacterRestarts(Restarts):
    """A finder of restarts for merges that join characters."""

    _growth = 2  # so that the time to find added tokens stays linear

    def __init__(
        self, codec: Codec, added: AddedPatterns | None, tokens: Collection[str], matching: Mapping[str, Matching]
    ) -> None:
        rules = added.first.matching.values() if added else ()
        # Such a token looks back across any restart.
        looks_back = bool(added and added.then) or any(one.lstrip or one.single_word for one in rules)
        self._exist = not looks_back and not codec.is_changed_first
        self._codec = codec
        self._find = added.first.find if added else None
        self._longest = max(map(len, tokens), default=0) if added else 0
        self._least = 2 * self._longest

    def last(self, text: str, searched: int = 0) -> int:
        # An added token that begins before this place is complete.
        sure = len(text) - self._longest
        if sure <= 0 or not self._exist:
            return 0
        ends = [stop for start, stop, _ in self._find(text) if start < sure] if self._find else []
        start = max(ends[-1] if ends else 0, searched - self._longest - 1)
        cut = self._codec.neighbours.last_cut(text[start : sure + 1])
        # The first half of a surrogate pair belongs to its second half.
        return start + cut if cut and not "\ud800" <= text[start + cut - 1] < "\udc00" else 0


class GrowingText:
    """A text that can grow, and its ids. After each `append`, the ids are those that `hf_sgpe.tokenizer.BPETokenizer.encode`
    returns for the whole text.

    Use `hf_sgpe.tokenizer.BPETokenizer.growing_text` to make one. Only one thread may use it at a time.
    """

    def __init__(self, codec: Codec, added: AddedPatterns | None, restarts: Restarts) -> None:
        self._codec = codec
        self._added = added
        self._restarts = restarts
        self._settled: list[str] = []  # the text before the last restart
        self._ids: list[int] = []  # the ids of that text
        self._rest = ""
        self._rest_ids: list[int] = []
        self._new: list[str] = []  # text that was appended, and is not encoded yet
        self._words = _Words(codec)

    def append(self, text: str) -> None:
        """Append a text. It is encoded later, when ids are read."""
        if not isinstance(text, str):
            raise TypeError(f"append needs a str, not {type(text).__name__}")
        if text:
            self._new.append(text)

    @property
    def text(self) -> str:
        return "".join([*self._settled, self._rest, *self._new])

    @property
    def ids(self) -> list[int]:
        """The ids of the whole text, as a new list."""
        self._encode()
        return self._ids + self._rest_ids

    @property
    def settled(self) -> int:
        """The number of ids at the beginning that stay the same, whatever text is appended."""
        self._encode()
        return len(self._ids)

    def __len__(self) -> int:
        self._encode()
        return len(self._ids) + len(self._rest_ids)

    def _encode(self) -> None:
        if not self._new:
            return
        text = "".join([self._rest, *self._new])
        cut = self._restarts.last(text, len(self._rest))
        settled = self._codec.encode(text[:cut], self._added, continues=bool(self._settled)) if cut else []
        rest, is_inside = text[cut:], bool(self._settled) or cut > 0
        if cut:
            self._words = _Words(self._codec)
        rest_ids = None
        if len(rest) >= _LONG_REST and not self._has_added(rest):
            rest_ids = self._words.encode(rest, is_inside)
        if rest_ids is None:
            rest_ids = self._codec.encode(rest, self._added, continues=is_inside)
        # Nothing has changed if an error occurred above.
        if cut:
            self._settled.append(text[:cut])
            self._ids += settled
        self._rest, self._rest_ids, self._new = rest, rest_ids, []

    def _has_added(self, text: str) -> bool:
        if self._added is None:
            return False
        return self._added.then is not None or any(True for _ in self._added.first.find(text))


class _Words:
    """A cache of the words of a growing rest, with their ids. Each call encodes only the words that changed."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._early: list[str] = []
        self._early_ids: list[int] = []
        self._recent: dict[str, list[int]] = {}
        self._least = 0

    def encode(self, rest: str, is_inside: bool) -> list[int] | None:
        """Return the ids of a rest, or None if all its words are short: encoding the whole rest is then as fast.
        ``is_inside`` says whether there is text before the rest.
        """
        if len(rest) < self._least:
            return None
        words = self._codec.words(rest, continues=is_inside)
        if max(map(len, words), default=0) < _LONG_WORD:
            self._least = 2 * len(rest)  # so that such a rest is rarely cut
            return None
        count = max(len(words) - _RECENT_WORDS, 0)
        same = len(self._early)
        if same > count or words[:same] != self._early:
            same, self._early_ids = 0, []
        self._early_ids += self._codec.encode_words(words[same:count])
        self._early = words[:count]
        self._recent = {word: self._ids_of(word) for word in words[count:]}
        ids = self._early_ids.copy()
        for word in words[count:]:
            ids += self._recent[word]
        return ids

    def _ids_of(self, word: str) -> list[int]:
        known = self._recent.get(word)
        if known is not None:
            return known
        beginnings = (old for old in self._recent if len(old) >= _LONG_WORD and word.startswith(old))
        longest = max(beginnings, key=len, default=None)
        if longest is not None and (ids := self._continued(word, longest, self._recent[longest])) is not None:
            return ids
        return self._codec.encode_words([word])

    def _continued(self, word: str, beginning: str, ids: list[int]) -> list[int] | None:
        """Return the ids of ``word``, given the ``ids`` of its beginning, most of which stay the same (see the module). If
        most of the beginning would have to be encoded again, return None.
        """
        count = _FIRST_TOKENS
        while 2 * count < len(ids):
            # The first token must begin a character.
            pieces = list(self._codec.pieces(ids[-count:]))
            if pieces[0][0] & 0xC0 == 0x80:
                count += 1
                continue
            end = b"".join(pieces).decode(errors="replace")
            start = len(beginning) - len(end)
            if beginning.startswith(end, start):  # no byte is left out
                new = self._codec.encode_words([word[start:]])
                if new[0] == ids[-count]:
                    return ids[:-count] + new
            count *= 2
        return None
