"""The table of engines and types of models in the documentation, and small shapes of each type."""

import re

from support.paths import ROOT

PAGE = (ROOT / "docs" / "generate.md").read_text(encoding="utf-8")
# What differs from the sizes of all random models: what some engine asks for, and windows that prompts go beyond.
LAYERS = {"smollm3": 4, "gemma3_text": 6}  # one of them looks back over all of the context, or has no positions
SHAPES = {
    "mistral": {"sliding_window": None},
    "mixtral": {"head_dim": 8},
    "qwen3_moe": {"head_dim": 8, "norm_topk_prob": True},
    "gemma2": {"query_pre_attn_scalar": 12, "sliding_window": 16},
    "gemma3_text": {"query_pre_attn_scalar": 12, "sliding_window": 16},
    "gpt_oss": {"sliding_window": 16},
}


def table():
    """Type of a model → engine → what the documentation says of the two."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("|")]
    start = next(place for place, row in enumerate(rows) if row[0] == "models")
    found = {}
    for row in rows[start + 2 :]:
        kinds = re.findall(r"`(\w+)`", row[0])
        if not kinds:
            break
        cells = dict(zip(rows[start][1:], row[1:], strict=True))
        found |= dict.fromkeys(kinds, cells)
    return found


TABLE = table()
