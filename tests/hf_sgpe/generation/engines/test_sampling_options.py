import pytest

from hf_sgpe import SGPEError
from hf_sgpe.generation import GenerationOptions


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens .* 0"),
        ({"max_new_tokens": 1.5}, "max_new_tokens must be a whole number"),
        ({"max_new_tokens": True}, "max_new_tokens must be a whole number"),
        ({"temperature": -0.1}, "temperature .* -0.1"),
        ({"temperature": float("nan")}, "temperature .* nan"),
        ({"temperature": float("inf")}, "temperature"),
        ({"temperature": 10**400}, "temperature .* 1000"),
        ({"temperature": "hot"}, "temperature .* 'hot'"),
        ({"top_p": 0}, "top_p .* 0"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_k": -1}, "top_k .* 2\\*\\*31"),
        ({"min_p": 1.1}, "min_p must be a number between 0 and 1"),
        ({"repetition_penalty": 0}, "repetition_penalty .* 0.001 to 1000"),
        ({"seed": -1}, "seed must be a whole number from 0"),
        ({"seed": 2**32 - 1}, "seed must be"),
        ({"stop": ("a", "")}, "stop must be a list of non-empty strings"),
        ({"stop": (1,)}, "stop must be a list of non-empty strings"),
        ({"heal": 1}, "heal must be true or false, not 1"),
        ({"whole_syllables": "yes"}, "whole_syllables .* 'yes'"),
        ({"min_new_tokens": -1}, "min_new_tokens .* -1"),
        ({"ignore_eos": None}, "ignore_eos must be true or false, not None"),
        ({"skip_special_tokens": 0}, "skip_special_tokens .* 0"),
        ({"stop_ids": ("a",)}, "stop_ids must be whole numbers"),
    ],
)
def test_options_out_of_range_are_refused(option, message):
    with pytest.raises(SGPEError, match=message):
        GenerationOptions(**option)


def test_options_accept_a_single_stop_text_and_a_whole_temperature():
    options = GenerationOptions(stop="x", stop_ids=3, temperature=1, seed=None)
    assert (options.stop, options.stop_ids, options.is_greedy) == (("x",), (3,), False)
    assert GenerationOptions(temperature=0).is_greedy
    assert type(options.temperature) is float  # transformers takes nothing else
    assert options.with_at_most(5).max_new_tokens == 5
    assert options.with_at_most(5000) is options
