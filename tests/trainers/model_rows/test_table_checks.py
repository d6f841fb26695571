import json

import pytest

torch = pytest.importorskip("torch", reason="rows are tensors: pip install torch accelerate")

from safetensors.torch import load_file, save_file  # noqa: E402
from support.small_models import SMALL, bits, saved_model, tensors_of  # noqa: E402
from transformers import Gemma3nConfig, LlamaConfig, LlamaForCausalLM, MllamaForCausalLM  # noqa: E402
from transformers.models.mllama.configuration_mllama import MllamaTextConfig  # noqa: E402

from hf_sgpe import SGPEError  # noqa: E402
from trainers.model_rows.embedding_rows import RowMap  # noqa: E402
from trainers.model_rows.table_checks import check_ids, check_tables  # noqa: E402
from trainers.model_rows.token_tables import fit_embeddings, tables_of  # noqa: E402
from trainers.model_rows.transplanting import transplant  # noqa: E402


class WithCounts(LlamaForCausalLM):
    """A Llama that counts how often it saw each token."""

    def __init__(self, config):
        super().__init__(config)
        self.register_buffer("seen", torch.zeros(config.vocab_size, dtype=torch.long))


class WithMoreHeads(LlamaForCausalLM):
    """A Llama that predicts the token after the next, too."""

    def __init__(self, config):
        super().__init__(config)
        self.next_head = torch.nn.Linear(config.vocab_size, config.hidden_size, bias=False)


def test_a_table_of_another_kind_is_named(extended):
    _, new, old = extended
    for kind, message in (
        (WithCounts, r"^WithCounts: seen \(int64, shape \[512\]\) has an entry for each token"),
        (WithMoreHeads, r"^WithMoreHeads: next_head\.weight \(float32, shape \[16, 512\]\) has an entry for each token"),
    ):
        model = kind(LlamaConfig(**SMALL, vocab_size=512))
        with pytest.raises(SGPEError, match=message):
            fit_embeddings(model, new, old)
        assert len(model.get_input_embeddings().weight) == 512


def test_equal_sizes_are_no_tables():
    """Find tables by what changes with the vocabulary, not by their sizes."""
    model = LlamaForCausalLM(LlamaConfig(**SMALL | {"intermediate_size": 512}, vocab_size=512, type_vocab_size=2))
    check_tables(model, tables_of(model))


def test_an_embedding_with_rows_of_its_own_is_named(extended):
    _, new, old = extended
    model = MllamaForCausalLM(MllamaTextConfig(**SMALL, vocab_size=504, cross_attention_layers=[1], pad_token_id=0))
    with pytest.raises(SGPEError, match=r"embed_tokens\.weight .* 512 .* 504"):
        fit_embeddings(model, new, old)


def add_tensor(model, name, shape, dtype=torch.bfloat16):
    file = model / "model.safetensors"
    tensors = load_file(file) | {name: torch.arange(torch.Size(shape).numel()).reshape(shape).to(dtype)}
    save_file(tensors, file, metadata={"format": "pt"})


def test_tables_of_draft_heads_follow(tokenizer_folders, tmp_path):
    """Such tensors are in the files of GLM-4.5, and its class in transformers ignores them."""
    model = saved_model("smollm", tokenizer_folders / "old", tmp_path / "model")
    add_tensor(model, "model.layers.2.shared_head.head.weight", [512, 16])
    add_tensor(model, "lm_head.weight", [512, 16])  # tied, and stored all the same
    add_tensor(model, "model.layers.2.other.weight", [16, 16])
    done = transplant(model, tokenizer_folders / "extended", tmp_path / "out")
    assert set(done.tables) == {"model.embed_tokens.weight", "lm_head.weight"}
    assert done.drafts == ("model.layers.2.shared_head.head.weight",)
    old, new = tensors_of(model), tensors_of(tmp_path / "out")
    for name in (*done.tables, *done.drafts):
        assert new[name].shape == (600, 16)
        assert bits(new[name][:500]) == bits(old[name][:500])
        id, pieces = next(iter(done.row_map.pieces.items()))
        assert torch.allclose(new[name][id].float(), old[name][list(pieces)].float().mean(0), rtol=1e-2)


@pytest.mark.parametrize(
    ("shape", "dtype", "message"),
    [
        ([16, 512], torch.bfloat16, r"medusa\.0 \(BF16, shape \[16, 512\]\)"),
        ([512], torch.int64, r"medusa\.0 \(I64, shape \[512\]\)"),
    ],
)
def test_other_tensors_in_files_only_are_named(shape, dtype, message, tokenizer_folders, tmp_path):
    model = saved_model("smollm", tokenizer_folders / "old", tmp_path / "model")
    add_tensor(model, "medusa.0", shape, dtype)
    with pytest.raises(SGPEError, match=message):
        transplant(model, tokenizer_folders / "extended", tmp_path / "out")


def test_the_place_of_an_image_is_not_given_to_a_word(tokenizer_folders, tmp_path):
    model = saved_model("gemma3", tokenizer_folders / "old", tmp_path / "model")
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    (model / "config.json").write_text(json.dumps(config | {"image_token_index": 505}), encoding="utf-8")
    with pytest.raises(SGPEError, match=r"image_token_index is 505"):
        transplant(model, tokenizer_folders / "extended", tmp_path / "out")


def row_map_of(rows, old, new, moved=None):
    return RowMap(rows, range(old), {id: id for id in range(old)} | (moved or {}), {id: [0] for id in new})


# As in the real model: 262,144 text tokens, 128 images, 128 sounds.
@pytest.mark.parametrize(
    ("row_map", "message"),
    [
        (row_map_of(262_400, 262_274, []), None),
        (row_map_of(262_400, 262_000, [262_001, 262_143]), None),
        (row_map_of(262_405, 262_274, [262_404]), "a token with the id 262,404"),
        (row_map_of(262_400, 262_274, [262_300]), "a token with the id 262,300"),
        (row_map_of(262_464, 262_274, []), "262,464 rows"),
        (row_map_of(262_400, 262_274, [], {262_145: 262_146, 262_146: 262_145}), "a token with the id 262,146"),
    ],
)
def test_ids_of_images_and_sounds_have_no_end_in_gemma_3n(row_map, message):
    config = Gemma3nConfig(architectures=["Gemma3nForConditionalGeneration"])
    if message is None:
        check_ids(config, row_map, 262_400, ())
        return
    with pytest.raises(SGPEError, match=f"from 262,144 on .* cannot have {message}: load only the text model with Gemma3n"):
        check_ids(config, row_map, 262_400, ())


def test_an_added_token_may_have_an_id_that_the_configuration_names():
    config = LlamaConfig(pad_token_id=7)
    check_ids(config, row_map_of(8, 7, [7]), 8, [7])
    with pytest.raises(SGPEError, match="pad_token_id is 7"):
        check_ids(config, row_map_of(8, 7, [7]), 8, ())
