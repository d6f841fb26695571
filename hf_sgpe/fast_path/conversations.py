"""``apply_chat_template`` for `SGPETokenizerFast`. It renders a conversation as text in which each character is marked as
written by the template or by a message. When it encodes this text, it recognizes only special tokens that the template
wrote.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import transformers
from tokenizers import Encoding, Tokenizer
from tokenizers.pre_tokenizers import Metaspace, PreTokenizer
from transformers import BatchEncoding, PreTrainedTokenizerFast
from transformers.tokenization_utils_base import TruncationStrategy
from transformers.utils import get_json_schema, logging
from transformers.utils.chat_template_utils import render_jinja_template

from hf_sgpe.chat.marked_text import ANSWER, Finder, Part, Written, is_plain, marks_of, parts
from hf_sgpe.chat.templates import plain, write
from hf_sgpe.errors import SGPEError
from hf_sgpe.fast_path import fast_calls
from hf_sgpe.vocabulary.added_patterns import Matching

logger = logging.get_logger(__name__)

# Names of the reasoning field in messages. Templates receive the reasoning under the first two names.
_REASONING = ("reasoning_content", "thinking", "reasoning")

# The same placeholder as in transformers, so that templates that count, cut or change texts have the same result.
_END = "CONTINUE_FINAL_MESSAGE_TAG "


def prepared(conversation: Any) -> Any:
    """Return a conversation, or a list of conversations, prepared for a template in the same way as in the newest
    transformers.

    Older versions then render the same text.
    """
    if isinstance(conversation, (list, tuple)) and conversation:
        first = conversation[0]
        if isinstance(first, (list, tuple)) or hasattr(first, "messages"):
            return [prepared(item) for item in conversation]
    messages = []
    for original in getattr(conversation, "messages", conversation):
        message = {key: value for key, value in plain(original).items() if value is not None}
        reasoning = next((message[name] for name in _REASONING if name in message), None)
        if reasoning is not None:
            message = {"thinking": reasoning, **message, "reasoning_content": reasoning}
        messages.append(message)
    return messages


def check_continued(field: bool | str) -> None:
    """Check that the installed transformers can continue this field of the last message (see ``continue_final_message``).
    Old versions always continue ``content``.
    """
    if (
        isinstance(field, str)
        and field != "content"
        and render_jinja_template.__annotations__["continue_final_message"] is bool
    ):
        raise SGPEError(
            f"continue_final_message={field!r}: transformers {transformers.__version__} can continue only the field "
            "'content': pip install --upgrade transformers"
        )


def write_conversation(
    tokenizer: PreTrainedTokenizerFast,
    messages: list[dict[str, Any]],
    source: str,
    *,
    tools: Sequence[Any] | None,
    continue_final_message: bool | str,
    variables: Mapping[str, Any],
) -> Written:
    """Render one conversation as a `Written`, a string with a mark for each character. Apart from the marks, it equals the
    result of ``tokenizer.apply_chat_template(tokenize=False)``.

    Args:
        messages: Messages from `prepared`.
        source: Jinja source of the template.
        tools: JSON schemas, or functions with a docstring.
        continue_final_message: Whether to stop at the end of the last message. A string names the field to continue.
        variables: Other variables of the template, such as ``documents`` and ``add_generation_prompt``.
    """
    if continue_final_message:
        messages = plain(messages)  # a copy
        _mark_end(messages[-1], continue_final_message if isinstance(continue_final_message, str) else "content")
    schemas = None if tools is None else [get_json_schema(tool) if callable(tool) else tool for tool in tools]
    special_tokens = dict(tokenizer.special_tokens_map)
    # Special tokens in the call replace those of the tokenizer.
    names = {*special_tokens, *tokenizer.SPECIAL_TOKENS_ATTRIBUTES}
    special_tokens.update({name: value for name, value in variables.items() if name in names})
    text = write(messages, source, special_tokens=special_tokens, variables={**variables, "tools": schemas})
    if continue_final_message:
        place = text.rindex(_END.strip())
        text = text[:place] if text.startswith(_END, place) else text[:place].rstrip()
    return text


def _mark_end(message: dict[str, Any], field: str) -> None:
    texts = message[field]
    if isinstance(texts, (list, tuple)):
        block = next(block for block in reversed(texts) if "text" in block)
        block["text"] += _END
    else:
        fields = _REASONING if field in _REASONING else (field,)
        message.update({name: texts + _END for name in fields if message.get(name) == texts})


def _finder_for(tokenizer: PreTrainedTokenizerFast) -> Finder:
    """Return a `Finder` that searches text for the special tokens of a tokenizer."""
    tokens = tokenizer.added_tokens_decoder.values()

    # The backend searches for tokens with ``normalized`` later, in the text between these tokens.
    ordinary = [token.content for token in tokens if not token.special and not token.normalized]
    matching = {token.content: Matching(token.lstrip, token.rstrip, token.single_word) for token in tokens}
    return Finder([token.content for token in tokens if token.special], ordinary, matching)


def is_harmless(tokenizer: PreTrainedTokenizerFast, text: Written) -> bool:
    """Return whether a text can be encoded without its marks. It can if the template wrote all special tokens in it."""
    if tokenizer.backend_tokenizer.normalizer and any(
        token.special and token.normalized for token in tokenizer.added_tokens_decoder.values()
    ):
        return False  # normalization could create more special tokens
    return is_plain(text, _finder_for(tokenizer))


def warn_without_answers(source: str) -> None:
    """If a template does not mark the assistant's answers, warn once, as transformers does, that the mask is all zeros."""
    if not re.search(r"\{%[-+]?\s*generation\s*[-+]?%\}", source):
        logger.warning_once(
            "return_assistant_tokens_mask==True but chat template does not contain `{% generation %}` keyword: the mask is "
            "all zeros. Put {% generation %} and {% endgeneration %} around the assistant's message in the template."
        )


def answer_mask(text: str, encoding: Encoding) -> list[int]:
    """Return a mask with one entry for each token of ``encoding``: 1 if the token overlaps an answer of the assistant in
    ``text``, otherwise 0.
    """
    marks = marks_of(text)
    return [int(any(mark & ANSWER for mark in marks[start:stop])) for start, stop in encoding.offsets]


def encode_written(
    tokenizer: PreTrainedTokenizerFast, text: Written | Sequence[Written], options: Mapping[str, Any]
) -> BatchEncoding:
    """Encode rendered text as ``tokenizer._encode_plus(text, **options)`` does, but recognize only special tokens that the
    template wrote.
    """
    for name in ("add_special_tokens", "is_split_into_words", "text_pair"):
        if options.get(name):
            raise SGPEError(f"{name} cannot be used with conversations: leave it out (the template writes special tokens)")
    texts = [text] if isinstance(text, str) else text
    pieces = _pieces(tokenizer, texts, options)

    def make() -> list[Encoding]:
        backend = _copy(tokenizer.backend_tokenizer)
        _set_post_processing(backend, tokenizer, options)
        encodings = [backend.post_process(_joined(text_pieces), add_special_tokens=False) for text_pieces in pieces]
        _pad(tokenizer, encodings, options)
        return encodings

    if not fast_calls.needs_encodings(options):
        ids = [[id for _, piece in text_pieces for id in piece.ids] for text_pieces in pieces]
        return fast_calls.from_ids(tokenizer, ids, options, make, is_batch=texts is text)
    verbose = options.get("verbose", True)
    returned = {name: value for name, value in options.items() if name.startswith("return_") and name != "return_tensors"}
    columns: dict[str, list[Any]] = {}
    rows: list[Encoding] = []
    for place, encoding in enumerate(make()):
        converted, row_encodings = tokenizer._convert_encoding(encoding=encoding, verbose=verbose, **returned)
        for name, values in converted.items():
            columns.setdefault(name, []).extend(values)
        if returned.get("return_overflowing_tokens"):
            columns.setdefault("overflow_to_sample_mapping", []).extend([place] * len(row_encodings))
        rows += row_encodings
    for row in columns["input_ids"]:
        tokenizer._eventual_warn_about_too_long_sequence(row, options.get("max_length"), verbose)
    tensors = options.get("return_tensors")
    if isinstance(text, str) and tensors is None and not returned.get("return_overflowing_tokens"):
        columns = {name: values[0] if isinstance(values[0], list) else values for name, values in columns.items()}
    return BatchEncoding(columns, rows, tensor_type=tensors, n_sequences=1)


def _pieces(
    tokenizer: PreTrainedTokenizerFast, texts: Sequence[Written], options: Mapping[str, Any]
) -> list[list[tuple[Part, Encoding]]]:
    """Cut each text into parts (see `Part`), and encode the parts. Return one list for each text: pairs of a part and its
    encoding.
    """
    split = options.get("split_special_tokens")
    if split is None:
        split = tokenizer.split_special_tokens
    backend = _copy(tokenizer.backend_tokenizer)
    special = _finder_for(tokenizer)
    pieces = []
    for text in texts:
        text_pieces = []
        backend.pre_tokenizer = tokenizer.backend_tokenizer.pre_tokenizer
        for part in [Part(text, False, (0, len(text)))] if split else parts(text, special):
            backend.encode_special_tokens = not part.is_special
            if part.span[0] > 0:
                backend.pre_tokenizer = _inside_text(backend.pre_tokenizer)
            text_pieces.append((part, backend.encode(part.text, add_special_tokens=False)))
        pieces.append(text_pieces)
    return pieces


def _copy(backend: Tokenizer) -> Tokenizer:
    """Return a copy of the backend without post-processing. The copy shares the model, but not the settings."""
    copy = Tokenizer(backend.model)
    copy.normalizer = backend.normalizer
    copy.pre_tokenizer = backend.pre_tokenizer
    copy.add_tokens([token for _, token in sorted(backend.get_added_tokens_decoder().items())])
    return copy


def _inside_text(pre_tokenizer: PreTokenizer | None) -> PreTokenizer | None:
    """Return a pre-tokenizer for a part that does not begin a text. A Metaspace with the scheme ``first`` is replaced,
    because it must not put a space before such a part.
    """
    if not isinstance(pre_tokenizer, Metaspace) or pre_tokenizer.prepend_scheme != "first":
        return pre_tokenizer
    return Metaspace(pre_tokenizer.replacement, prepend_scheme="never", split=pre_tokenizer.split)


def _joined(pieces: Iterable[tuple[Part, Encoding]]) -> Encoding:
    """Join the encodings of a text's parts into one encoding. `Encoding.merge` is not used, because it loses offsets."""
    whole: dict[str, list[Any]] = {
        name: [] for name in ("ids", "type_ids", "tokens", "special_tokens_mask", "attention_mask")
    }
    offsets: list[tuple[int, int]] = []
    words: list[int] = []
    for part, piece in pieces:
        for name, values in whole.items():
            values += getattr(piece, name)
        begin = part.span[0]
        offsets += [part.span] if part.is_special else [(start + begin, stop + begin) for start, stop in piece.offsets]
        before = words[-1] + 1 if words else 0
        words += [word + before for word in cast(list[int], piece.word_ids)]
    state = {**whole, "offsets": offsets, "words": words, "overflowing": [], "sequence_ranges": {}}
    joined = Encoding()
    joined.__setstate__(json.dumps(state).encode())
    joined.set_sequence_id(0)
    return joined


def _set_post_processing(backend: Tokenizer, tokenizer: PreTrainedTokenizerFast, options: Mapping[str, Any]) -> None:
    backend.post_processor = tokenizer.backend_tokenizer.post_processor
    strategy = options.get("truncation_strategy", TruncationStrategy.DO_NOT_TRUNCATE)
    if strategy != TruncationStrategy.DO_NOT_TRUNCATE:
        backend.enable_truncation(
            options["max_length"],
            stride=options.get("stride", 0),
            strategy=strategy.value,
            direction=tokenizer.truncation_side,
        )


def _pad(tokenizer: PreTrainedTokenizerFast, encodings: list[Encoding], options: Mapping[str, Any]) -> None:
    length = fast_calls.padded_length([len(encoding) for encoding in encodings], options)
    for encoding in encodings if length else ():
        encoding.pad(
            length,
            direction=options.get("padding_side") or tokenizer.padding_side,
            pad_id=tokenizer.pad_token_id,
            pad_type_id=tokenizer.pad_token_type_id,
            pad_token=tokenizer.pad_token,
        )
