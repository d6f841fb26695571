"""Readers for the files of cards: Markdown tables and HTML pages."""

import re
from html.parser import HTMLParser
from typing import Any

PICTURES = ["pictures/compression.svg", "pictures/token_lengths.svg", "pictures/tokens_per_word.svg"]


def tables(markdown: str) -> list[list[list[str]]]:
    found = re.findall(r"(?:^\|.*\|\n)+", markdown, re.MULTILINE)
    rows = [[re.split(r"(?<!\\)\|", line)[1:-1] for line in table.splitlines()] for table in found]
    return [[[cell.strip() for cell in row] for row in table] for table in rows]


class Checker(HTMLParser):
    """A parser that checks that elements are closed in order and that no external resources are loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str | None] = []
        self.text = ""

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        values = dict(attributes)
        assert len(values) == len(attributes), (tag, attributes)
        assert tag not in ("script", "link", "img", "iframe", "object"), tag
        for name in ("src", "href", "xlink:href", "data", "srcset"):
            assert values.get(name, "#").startswith("#"), values
        self.ids += [values["id"]] if "id" in values else []
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: Any) -> None:
        self.handle_starttag(tag, attributes)
        assert self.open.pop() == tag

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def check_html(page: str) -> str:
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    assert len(set(checker.ids)) == len(checker.ids)
    assert not re.search(r"@import|url\((?!#)", page)
    return checker.text
