"""The private names of transformers that this package uses, and what breaks without each."""

import inspect

import pytest
import transformers
from transformers import PreTrainedTokenizerFast

USED = {
    "_encode_plus": (
        {"text", "text_pair", "add_special_tokens"},
        "every call of SGPETokenizerFast: the fast path is not taken",
    ),
    "_convert_encoding": ({"encoding", "verbose"}, "chats whose messages contain special tokens: apply_chat_template fails"),
    "_eventual_warn_about_too_long_sequence": (
        {"ids", "max_length", "verbose"},
        "rows longer than model_max_length: SGPETokenizerFast fails instead of warning",
    ),
    "_add_tokens": ({"new_tokens", "special_tokens"}, "add_tokens: the fast path keeps the old tokens"),
    "_save_pretrained": ({"save_directory", "file_names"}, "save_pretrained: the folder lacks this package's settings"),
}


@pytest.mark.parametrize("name", USED)
def test_a_private_method_of_transformers_has_the_parameters_that_are_used(name):
    parameters, breaks = USED[name]
    method = getattr(PreTrainedTokenizerFast, name, None)
    remark = f"transformers {transformers.__version__} has another {name}, so this breaks: {breaks}"
    assert method is not None, remark
    assert parameters <= set(inspect.signature(method).parameters), remark
