"""LinguisTriePreTokenizer: a readable implementation that splits text into words, and words into units.

A word is a stretch of text. Merges never join tokens of two words. A unit is the smallest part from which training starts: a
syllable in a word of a supported script, or a byte elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable

from hf_sgpe.errors import SGPEError
from hf_sgpe.splitting.regex_pre_tokenizer import RegexPreTokenizer, WordSplitter
from hf_sgpe.splitting.scripts.script_registry import resolve_script
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.splitting.syllables import LinguisTrie, segment_into_words


class LinguisTriePreTokenizer(WordSplitter):
    """A pre-tokenizer that splits text into words by script, and words into syllables.

    Training and encoding use the regexes in `patterns` instead, which find the same words faster.

    With a ``pattern``, a word of a script consists of an optional space, a letter or mark of the script, and any further
    letters, marks and joiners. The pattern splits the text between these words. Without a pattern, words are those of the
    SGPE document (`segment_into_words`).

    Args:
        scripts: Names of the scripts whose words are kept whole.
        pattern: Name of one of `SPLIT_PATTERNS`, or a regex, for all other text. ``None`` means words as in the SGPE
            document.

    >>> LinguisTriePreTokenizer(["sinhala"], "gpt2").split("ශ්‍රී ලංකාව, hello world")
    ['ශ්\u200dරී', ' ලංකාව', ',', ' hello', ' world']
    >>> LinguisTriePreTokenizer(["sinhala"], "gpt2").segment(" ලංකාව")
    [' ලං', 'කා', 'ව']
    """

    def __init__(self, scripts: Iterable[str] = ("sinhala",), pattern: str | None = "o200k") -> None:
        self.scripts = tuple(scripts)
        if not self.scripts:
            raise SGPEError("LinguisTriePreTokenizer needs a script: give at least one, or use RegexPreTokenizer")
        self.trie = LinguisTrie(self.scripts, whole_clusters=pattern is not None)
        self._other = None if pattern is None else RegexPreTokenizer(pattern)
        self.splitting = Splitting("sgpe" if pattern is None else "hybrid", self.scripts, pattern or "", "none")
        self.patterns = self.splitting.regexes
        # The characters that continue a word of each script.
        self._inside = {
            name: resolve_script(name).letters_and_marks().union(chr(c) for a, b in joiners for c in range(a, b + 1))
            for name, joiners in zip(self.splitting.scripts, self.splitting.script_joiners, strict=True)
        }

    def split(self, text: str) -> list[str]:
        if self._other is None:
            units = self.trie.tokenize(text, leading_space=True)
            return ["".join(word) for word in segment_into_words(units, self.scripts)]
        words: list[str] = []
        position = gap = 0
        while position < len(text):
            script = self.trie.script_of(text[position : position + 2])
            if script not in self._inside:
                position += 1
                continue
            end = self._word_end(script, text, position)
            words += self._other.split(text[gap:position])
            words.append(text[position:end])
            position = gap = end
        return words + self._other.split(text[gap:])

    def segment(self, word: str) -> list[str] | list[bytes]:
        """Return the units of a word: its syllables if the word is in one of the scripts, otherwise its bytes or, without a
        ``pattern``, its characters. The first syllable includes the word's leading space.
        """
        if self._other is None or self.trie.script_of(word):
            return self.trie.tokenize(word, leading_space=True)
        return self._other.segment(word)

    def _word_end(self, script: str, text: str, start: int) -> int:
        end = start + (text[start] == " ") + 1
        while end < len(text) and text[end] in self._inside[script]:
            end += 1
        return end
