"""``hf-sgpe info``."""

from importlib.metadata import version

import pytest
from support.command import hf_sgpe


def test_info_without_a_tokenizer_shows_versions():
    assert "tokenizers" in hf_sgpe("info").stdout
    assert hf_sgpe("--version").stdout == f"hf-sgpe {version('hf-sgpe')}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("info damaged", r"damaged/tokenizer\.json: not valid JSON"),
        ("info worn", r"tokenizer_config\.json: the entry 'sgpe' is damaged"),
        ("info vocab.json", "is an SGPE vocabulary: convert it first with hf-sgpe export"),
        (
            "info x.tiktoken",
            r"has neither a split pattern nor special tokens: name them with hf-sgpe export x\.tik",
        ),
    ],
)
def test_bad_input_is_one_line(refuses, arguments, message):
    refuses(arguments, message)
