"""Tool calls whose arguments are text between tags, as Qwen 3 Coder and Qwen 3.5 write them. The arguments are converted to
JSON.
"""

from __future__ import annotations

from hf_sgpe.chat.text_values import CallOfTexts

BEGINNING = "<function="
"""The beginning of a call: ``<function=NAME><parameter=KEY>VALUE</parameter>…</function>``."""

PARAMETER, END_OF_VALUE, END = "<parameter=", "</parameter>", "</function>"
"""The other parts of a call."""


class TaggedCall(CallOfTexts):
    """A reader of a tool call such as ``<function=add><parameter=a>1</parameter></function>``."""

    def add(self, character: str) -> None:
        self._characters.append(character)
        if character != ">":
            return
        if self._key is not None and "".join(self._characters[-len(END_OF_VALUE) :]) != END_OF_VALUE:
            return
        part = "".join(self._characters[self._begun :])
        self._begun = len(self._characters)
        if self.name is None:
            self._begin(part[len(BEGINNING) : -1].strip())
        elif self._key is not None:
            self._add_value(part[: -len(END_OF_VALUE)].removeprefix("\n").removesuffix("\n"))
        elif part.strip() == END:
            self._end()
        elif part.lstrip().startswith(PARAMETER):
            self._key = part.strip()[len(PARAMETER) : -1].strip()
