from hf_sgpe.weights.model_config import rope


def test_positions_of_kinds_of_layers_are_read_next_to_empty_values():
    """As transformers 5 writes Gemma 3's configuration."""
    kinds = {
        "full_attention": {"rope_theta": 1_000_000.0, "rope_type": "linear", "factor": 8.0},
        "sliding_attention": {"rope_theta": 10_000.0, "rope_type": "default"},
    }
    positions = rope({"rope_parameters": {**kinds, "rope_theta": None, "rope_type": "default"}})
    assert positions["rope_theta"] == 1_000_000.0
    assert (positions["rope_type"], positions["factor"]) == ("linear", 8.0)
    assert positions["sliding_attention"] == kinds["sliding_attention"]
    assert rope({})["rope_theta"] == 10_000.0
