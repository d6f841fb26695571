"""``tekken.json``, Mistral's tokenizer format. It contains tokens with ranks, as in tiktoken, a split pattern and special
tokens.
"""

from __future__ import annotations

import base64
from pathlib import Path

from hf_sgpe.errors import SGPEError
from hf_sgpe.files.json_files import read_json
from hf_sgpe.formats import tiktoken
from hf_sgpe.splitting.splitting import Splitting
from hf_sgpe.vocabulary.special_tokens import Template
from hf_sgpe.vocabulary.tokenizer_data import TokenizerData

# The special tokens of files before version 7. Such files do not list them (mistral_common, Tekkenizer).
_FIRST_SPECIAL_TOKENS = (
    *("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
    *("[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]"),
    *("[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"),
)
_ROLES = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}


def read(path: Path) -> TokenizerData:
    """Return the tokenizer in a ``tekken.json``. If special tokens are added, it puts ``<s>`` before each text.

    Special tokens have the lowest ids. As in mistral_common, tokens beyond the file's ``default_vocab_size`` are left out.
    Each id that is reserved for a special token but unused gets a token with a name such as ``<SPECIAL_20>``.
    """
    content = read_json(path)
    try:
        config = content["config"]
        number, listed = config["default_num_special_tokens"], content.get("special_tokens")
        named = dict(enumerate(_FIRST_SPECIAL_TOKENS))
        if listed is not None:
            named = {entry["rank"]: entry["token_str"] for entry in listed}
        if len(named) > number or set(named) != set(range(len(named))):
            raise ValueError(f"its special tokens do not have the ids 0 to {len(named) - 1}")
        special = {named.get(id, f"<SPECIAL_{id}>"): id for id in range(number)}
        entries = content["vocab"][: config["default_vocab_size"] - len(special)]
        ranks = {base64.b64decode(entry["token_bytes"], validate=True): rank for rank, entry in enumerate(entries)}
        pattern = config["pattern"]
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise SGPEError(f"{path}: damaged or not a tekken.json ({type(error).__name__}: {error})") from None
    if len(ranks) < len(entries):
        raise SGPEError(f"{path}: damaged: a token occurs twice in its vocabulary")
    roles = {role: token for role, token in _ROLES.items() if token in special}
    around = Template.around_each(["<s>"], []) if "<s>" in special else None
    try:
        splitting = Splitting.from_regexes([pattern])
        return tiktoken.of_ranks(
            ranks, first_id=len(special), splitting=splitting, special_tokens=special, roles=roles, template=around
        )
    except SGPEError as error:
        raise SGPEError(f"{path}: {error}") from None
