import pytest

from hf_sgpe import SGPEError
from hf_sgpe.formats.renumbering import ids_in, moved_config, moved_content, moved_settings

IDS = {3: 0, 5: 1, 8: 2}


def test_renumbering_moves_all_ids_of_a_tokenizer_json():
    template = {"type": "TemplateProcessing", "special_tokens": {"<s>": {"id": "<s>", "ids": [5], "tokens": ["<s>"]}}}
    roberta = {"type": "RobertaProcessing", "cls": ["<s>", 5], "sep": ["</s>", 8], "trim_offsets": True}
    content = {
        "added_tokens": [{"id": 5, "content": "<s>"}, {"id": 8, "content": "</s>"}],
        "padding": {"pad_id": 8, "pad_token": "</s>"},
        "post_processor": {"type": "Sequence", "processors": [{"type": "ByteLevel"}, template, roberta]},
    }
    moved = moved_content(content, IDS)
    assert moved["added_tokens"] == [{"id": 1, "content": "<s>"}, {"id": 2, "content": "</s>"}]
    assert moved["padding"] == {"pad_id": 2, "pad_token": "</s>"}
    _, after, older = moved["post_processor"]["processors"]
    assert after["special_tokens"]["<s>"] == {"id": "<s>", "ids": [1], "tokens": ["<s>"]}
    assert (older["cls"], older["sep"], older["trim_offsets"]) == (["<s>", 1], ["</s>", 2], True)
    assert content["added_tokens"][0]["id"] == 5
    assert moved_content({"added_tokens": [], "post_processor": None}, IDS)["post_processor"] is None


def test_a_padding_without_an_id_is_moved():
    assert moved_content({"padding": {}}, {5: 6})["padding"] == {"pad_id": 0}


def test_ids_of_configurations_move():
    config = {"eos_token_id": [8, 4], "pad_token_id": 4, "text_config": {"image_token_index": 3, "hidden_size": 8}}
    assert sorted(ids_in(config)) == [3, 4, 4, 8]
    moved = moved_config(config | {"suppress_tokens": [5, 8]}, IDS)
    assert moved["text_config"] == {"image_token_index": 0, "hidden_size": 8}
    assert (moved["eos_token_id"], moved["pad_token_id"], moved["suppress_tokens"]) == ([2], None, [1, 2])


def test_ids_in_lists_of_words_move():
    config = {
        "bad_words_ids": [[5, 8], [4], [8]],
        "force_words_ids": [[[5], [8, 4]], [[4]], [8]],
        "forced_decoder_ids": [[1, 8], [2, None], [3, 4]],
        "sequence_bias": [[[8, 5], -0.5], [[4], 2.0]],
        "top_k": 5,
    }
    assert moved_config(config, IDS) == {
        "bad_words_ids": [[1, 2], [2]],
        "force_words_ids": [[[1]], [2]],
        "forced_decoder_ids": [[1, 2], [2, None]],
        "sequence_bias": [[[2, 1], -0.5]],
        "top_k": 5,
    }
    assert moved_config({"bad_words_ids": [[4]], "sequence_bias": None}, IDS) == {
        "bad_words_ids": None,
        "sequence_bias": None,
    }


def test_a_token_that_only_the_settings_have():
    settings = {"added_tokens_decoder": {"8": {"content": "</s>"}}, "model_max_length": 8}
    assert moved_settings(settings, IDS) == {"added_tokens_decoder": {"2": {"content": "</s>"}}, "model_max_length": 8}
    with pytest.raises(SGPEError, match=r"'<x>' with the id 9"):
        moved_settings({"added_tokens_decoder": {"9": {"content": "<x>"}}}, IDS)


def test_values_that_are_no_ids_are_dropped():
    assert moved_config({"eos_token_id": [[], "a", 4, None]}, {4: 1}) == {"eos_token_id": [1]}
