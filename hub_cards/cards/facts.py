"""Facts about a tokenizer's parts, training and limits. These facts do not depend on measurements of text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hf_sgpe.evaluation.runtimes import DIFFERS, EXACT, NFC_ONLY, REFUSED, stated
from hf_sgpe.evaluation.vocabulary_health import NO_SCRIPT, alike, scripts_of, unreachable_ids
from hf_sgpe.formats import tokenizer_json
from hf_sgpe.generation.conversation import end_of_turn
from hf_sgpe.splitting.normalization import NFC
from hf_sgpe.splitting.scripts.script_registry import every_script, names_of
from hf_sgpe.tokenizer import BPETokenizer
from hf_sgpe.vocabulary.trimming import COMPACT, PARTS
from hub_cards.markup import code, listed, sentences

# Roles of special tokens that programs look up by name.
_ROLES = ("bos_token", "eos_token", "pad_token", "unk_token")
_NORMALIZATIONS = {
    "nfc": "Unicode's form NFC",
    "none": "none: text stays as it is",
    "metaspace": "U+2581 becomes a space",
    "metaspace-prefix": "U+2581 becomes a space, and each piece of text between added tokens gets a space before it",
    "metaspace-always": "U+2581 becomes a space, and each piece of text between added tokens begins with a space",
    "metaspace-first": "U+2581 becomes a space, and the text begins with a space",
}
_NO_SCRIPT = (NO_SCRIPT, PARTS)

SAMPLE = "Hello, world!"
"""A sample text for tokenizers without a script."""

_TIES = {
    "smallest-pair-id": "one with the smallest ids",
    "greatest-pair-id": "one with the greatest ids",
    "greatest-pair-bytes": "one with the greatest bytes",
}


@dataclass(frozen=True)
class Facts:
    """Facts about one tokenizer, for the templates of its card."""

    tokenizer: BPETokenizer

    @property
    def training(self) -> dict[str, Any]:
        """The configuration of the training. It is empty if this package did not train the tokenizer."""
        return _with_known_scripts(self.tokenizer.metadata.get("training", {}))

    @property
    def _extensions(self) -> list[dict[str, Any]]:
        """The extensions, oldest first."""
        return [_with_known_scripts(one) for one in self.tokenizer.metadata.get("extensions", ())]

    @property
    def _trimmings(self) -> list[dict[str, Any]]:
        """The descriptions of removed tokens, oldest first."""
        return list(self.tokenizer.metadata.get("trimmed", ()))

    @property
    def scripts(self) -> list[str]:
        """Names of the scripts whose syllables the tokenizer keeps whole."""
        trained = [] if self.training.get("recipe") == "bpe" else self.training.get("scripts", ())
        return list(dict.fromkeys([*trained, *(script for one in self._extensions for script in one.get("scripts", ()))]))

    @property
    def summary(self) -> str:
        bases = [one["base"] for one in self._extensions if one.get("base")] if self.scripts else []
        (summary,) = sentences(
            "summary",
            tokenizer=self.tokenizer,
            scripts=list(map(str.title, self.scripts)),
            by_clusters=all(every_script()[name].by_clusters for name in self.scripts),
            bases=bases,
            trimmed=bases and self._trimmings,
            compact=bases and any(one.get("ids") == COMPACT for one in self._trimmings),
        )
        return summary

    @property
    def sample(self) -> str:
        """A few words in the tokenizer's first script."""
        return next(filter(None, (every_script()[script].greeting for script in self.scripts)), SAMPLE)

    @property
    def word_counts(self) -> str:
        """The hash of the word counts that the tokenizer was trained on; empty if unknown."""
        digest = str(self.tokenizer.metadata.get("word_counts", ""))
        return digest if re.fullmatch("[0-9a-f]{64}", digest) else ""

    def table(self) -> list[tuple[str, str]]:
        """Return pairs (name, value)."""
        tokenizer, training = self.tokenizer, self.training
        longest = tokenizer_json.config(tokenizer.data).get("model_max_length")
        normalization = tokenizer.data.normalization
        steps = [step["type"] for step in normalization.normalizers]  # before the scheme
        unreachable, near = unreachable_ids(tokenizer.data), alike(tokenizer.vocab)
        template = [name for name, _ in tokenizer.template.single] if tokenizer.template else []
        facts = {
            "Vocabulary": f"{tokenizer.vocab_size:,} tokens, {self._bytes()}",
            "Extended": "; ".join(
                f"from {code(one.get('base', 'a tokenizer'))} by {one.get('new_tokens', 0):,} tokens for {_scripts_of(one)}"
                for one in self._extensions
            ),
            "Trimmed": "; ".join(map(_trimmed, self._trimmings)),
            "Merges": f"{len(tokenizer.merges):,}",
            "Special tokens": _with_ids(sorted(tokenizer.special_tokens.items(), key=lambda item: item[1])) or "none",
            "Parts of special tokens": "; ".join(self._parts()),
            "Longest input": f"{longest:,} tokens (`model_max_length`)" if longest else "",
            "Added tokens": _with_ids([*tokenizer.added_tokens.items()]),
            "Around each text": " ".join("the text" if name == "$A" else code(name) for name in template),
            "Normalization": "; then ".join(filter(None, (listed(steps), _NORMALIZATIONS[normalization.scheme]))),
            "Same ids in": self._runtimes({EXACT}),
            "Same ids for text in NFC in": self._runtimes({NFC_ONLY}),
            "Other ids, or refused, in": self._runtimes({DIFFERS, REFUSED}),
            "Recipe": code(training["recipe"]) if "recipe" in training else "",
            "Syllables of": listed(map(str.title, self.scripts)),
            "Tokens of their own": self._coverage() if self.scripts and self.training else "",
            "Balanced": self._balance(),
            "Words": self._words(),
            "Tokens that no text gets": (
                f"{len(unreachable):,}: their own bytes are encoded by other tokens, or are in no text"
                if unreachable
                else ""
            ),
            "Tokens nearly alike": (
                f"{near['case']:,} that differ only in case from another, {near['space']:,} only in a leading space"
            ),
        }
        return [(name, value) for name, value in facts.items() if value]

    def _runtimes(self, verdicts: Container[str]) -> str:
        return listed(name for name, verdict in stated(self.tokenizer) if verdict.what in verdicts)

    def _bytes(self) -> str:
        if self.tokenizer.by_characters:
            return "including the 256 bytes of characters without a token, so it can encode any text"
        missing = 256 - sum(len(token) == 1 for token in self.tokenizer.vocab)
        if missing:
            return f"including all but {missing} of the 256 bytes: encoding drops the missing bytes"
        return "including all 256 bytes, so it can encode any text"

    def _parts(self) -> Iterator[str]:
        """Yield a phrase for each role, with its special token or "none", and one for the token that ends a chat turn."""
        tokenizer = self.tokenizer
        if not tokenizer.special_tokens:
            return
        for role in dict.fromkeys((*_ROLES, *tokenizer.roles)):
            token = tokenizer.roles.get(role)
            yield f"{code(role)} {code(token) if token else 'none'}"
        if tokenizer.chat_template:
            ends = tokenizer.convert_ids_to_tokens(end_of_turn(tokenizer, tokenizer.chat_template))
            yield f"end of a chat turn {code(ends[0]) if ends else 'no special token'}"

    def _coverage(self) -> str:
        training, ways = self.training, []
        cost = training.get("cut_cost")
        if cost is not None:
            ways.append(f"letters and syllables that save as much as a learned token (cut cost {cost:g})")
        least = training.get("min_unit_frequency")
        if least:
            ways.append(f"letters and syllables that occur {least:,} times or more")
        for unit in ("letter", "syllable"):
            share = training.get(f"{unit}_coverage")
            if share and not least:
                ways.append(f"the most frequent {unit}s that make up {100 * share:.10g} % of a script's running {unit}s")
        return ", and ".join(ways)

    def _balance(self) -> str:
        balance = self.tokenizer.metadata.get("balance")
        if not balance:
            return ""
        before, after = balance["before"], balance["after"]
        return (
            f"with {balance['by']}: the Gini of the cost changed from {before['gini']:.3f} to {after['gini']:.3f}, "
            f"and the number of tokens by {after['tokens'] / before['tokens'] - 1:+.1%}"
        )

    def _words(self) -> str:
        splitting = self.tokenizer.splitting
        if splitting.recipe == "sgpe":
            return "runs of these scripts, and every other character alone"
        if not splitting.regexes:
            return "none: merges cross the whole text, in SentencePiece's manner"
        patterns = (splitting.pattern,) if isinstance(splitting.pattern, str) else splitting.pattern
        spelled = ", then ".join(f"the pattern {code(pattern)}" for pattern in patterns)
        if not splitting.scripts:
            return spelled
        return f"an optional space and letters of one script; other text is split with {spelled}"

    def composition(self) -> list[tuple[str, int]]:
        """Return pairs (script of the first letter, number of tokens), the largest numbers first and tokens without a script
        last. Scripts with few tokens are counted together as "other scripts".
        """
        vocab = self.tokenizer.vocab
        counts = Counter(name if name in _NO_SCRIPT else name.title() for name in scripts_of(vocab))
        few = [script for script, count in counts.items() if count < len(vocab) / 200 and script not in _NO_SCRIPT]
        if len(few) > 1:
            counts["other scripts"] = sum(map(counts.pop, few))
        return sorted(counts.items(), key=lambda item: (item[0] in _NO_SCRIPT, -item[1], item[0]))

    def making(self, datasets: Sequence[str] = ()) -> list[str]:
        """Return paragraphs about the training and the extensions."""
        return sentences(
            "making",
            facts=self,
            extensions=[
                (code(one.get("base", "A tokenizer")), f"{one.get('new_tokens', 0):,}", _scripts_of(one))
                for one in self._extensions
            ],
            trimmed=self._trimmings,
            parts=self.tokenizer.spelling.symbols,
            tie="" if self._extensions else _TIES[self.training.get("tie_break", "smallest-pair-id")],
            in_parity=self.tokenizer.metadata.get("balance", {}).get("by") == "merges",
            datasets=datasets,
        )

    def limits(self, name: str) -> list[str]:
        """Return sentences about the limits. ``name`` is the path or the ``user/name`` on the Hub."""
        return sentences(
            "limits",
            tokenizer=self.tokenizer,
            name=name,
            has_units=self.scripts,
            extended=self._extensions,
            trimmed=self._trimmings,
            in_nfc=self.tokenizer.data.normalization == NFC,
        )


def _with_known_scripts(note: Mapping[str, Any]) -> dict[str, Any]:
    """Return a note of the tokenizer without names of scripts that this package does not know. Anybody can edit a note."""
    scripts = [name for name in note.get("scripts", ()) if name in every_script()]
    return {**note, "scripts": scripts} if "scripts" in note else {**note}


def _scripts_of(note: Mapping[str, Any]) -> str:
    return listed(map(str.title, note.get("scripts", ())))


def _trimmed(note: Mapping[str, Any]) -> str:
    scripts = f"the tokens of {names_of(map(str.title, note['scripts']))}" if note["scripts"] else ""
    how = "needs least" if "tokens" in note else "does not need"
    unused = f"{note['unused']:,} tokens that a corpus {how}" if note.get("unused") else ""
    return f"without {listed(filter(None, (scripts, unused)))}"


def _with_ids(tokens: Sequence[tuple[str, int]]) -> str:
    return "; ".join(f"{code(token)} with id {id}" for token, id in tokens)
