"""Rows for tokens in models in memory: fitted to another tokenizer, and trained at a rate of their own."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="language models need PyTorch: pip install torch accelerate")
pytest.importorskip("accelerate", reason="language models need accelerate: pip install torch accelerate")

from support.models import permuted, train_llama  # noqa: E402
from support.small_models import bits, fitted  # noqa: E402
from transformers import (  # noqa: E402
    AutoModelForCausalLM,
    BartConfig,
    BartForConditionalGeneration,
    GPTJConfig,
    GPTJForCausalLM,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from hf_sgpe import SGPEError, SGPETokenizerFast  # noqa: E402
from hf_sgpe.learning.adaptation import PARTS  # noqa: E402
from trainers import TokenizerTrainer, TrainingConfig  # noqa: E402
from trainers.language_models.language_model import small_llama  # noqa: E402
from trainers.language_models.scoring import bits_per_byte  # noqa: E402
from trainers.model_rows.embedding_rows import RowMap  # noqa: E402
from trainers.model_rows.token_tables import (  # noqa: E402
    embedding_rows,
    extended_ids,
    fit_embeddings,
    fitting_rows,
    moved_ids,
    parameter_groups,
)


@pytest.fixture(scope="module")
def other(sample):
    """A tokenizer trained on other text, with a split and roles of its own."""
    config = TrainingConfig(900, "hybrid", ("sinhala",), special_tokens=("<|pad|>", "</s>"))
    return TokenizerTrainer(config).train(iterator=[sample["si"][10_000:], sample["en"][10_000:]])


def logits(model, ids):
    """For the same ids with any model; an encoder–decoder reads them, and is made to say them."""
    with torch.no_grad():
        return model(input_ids=ids, **({"labels": ids} if model.config.is_encoder_decoder else {})).logits


def models_of(kind, rows, pad):
    """Small models that differ in what they have for each id."""
    torch.manual_seed(1)
    small = {"vocab_size": rows, "pad_token_id": pad, "bos_token_id": None, "eos_token_id": None, "initializer_range": 0.3}
    if kind in ("tied", "untied"):
        config = small_llama(rows, layers=1, width=16, heads=2, length=64)
        config.update(small | {"tie_word_embeddings": kind == "tied"})
        return LlamaForCausalLM(config).eval()
    if kind == "biased output":
        model = GPTJForCausalLM(GPTJConfig(**small, n_embd=16, n_layer=1, n_head=2, rotary_dim=4, tie_word_embeddings=False))
        torch.nn.init.normal_(model.lm_head.bias)
        return model.eval()
    if kind == "T5":
        sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
        return T5ForConditionalGeneration(T5Config(**small | sizes, decoder_start_token_id=pad)).eval()
    sizes = dict.fromkeys(("d_model", "encoder_ffn_dim", "decoder_ffn_dim"), 16) | {"max_position_embeddings": 64}
    sizes |= dict.fromkeys(("encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads"), 1)
    forced = {"decoder_start_token_id": pad, "forced_eos_token_id": pad}
    model = BartForConditionalGeneration(BartConfig(**small | sizes | forced, init_std=0.3, scale_embedding=True))
    model.final_logits_bias.normal_()
    return model.eval()


KINDS = ["tied", "untied", "biased output", "T5", "BART"]


@pytest.mark.parametrize("kind", KINDS)
def test_with_ids_shuffled_a_model_says_the_same(kind, lm_tokenizer, sample):
    shuffled = permuted(lm_tokenizer)
    new_id = torch.tensor(
        [shuffled.get_vocab()[token] for token in lm_tokenizer.convert_ids_to_tokens(range(len(lm_tokenizer)))]
    )
    model = models_of(kind, 704, lm_tokenizer.pad_token_id)
    ids = torch.tensor([lm_tokenizer(sample["en"][:100])["input_ids"]])
    before = logits(model, ids)[..., : len(lm_tokenizer)]
    assert str(fit_embeddings(model, shuffled, lm_tokenizer)) == "700 rows kept, 4 spare"
    assert torch.tensor([shuffled(sample["en"][:100])["input_ids"]]).equal(new_id[ids])
    assert torch.allclose(logits(model, new_id[ids])[..., new_id], before, atol=1e-5)
    for module in model.modules():
        if getattr(module, "weight", None) is model.get_input_embeddings().weight and hasattr(module, "padding_idx"):
            assert module.padding_idx in (None, shuffled.pad_token_id)
    for name in ("decoder_start_token_id", "forced_eos_token_id"):
        for config in (model.config, model.generation_config):
            assert getattr(config, name, None) in (None, shuffled.pad_token_id)
    assert not model.config.is_encoder_decoder or model.config.decoder_start_token_id == shuffled.pad_token_id


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_is_fitted_to_a_tokenizer(kind, lm_tokenizer, other):
    model = models_of(kind, 720, lm_tokenizer.pad_token_id)
    model.generation_config.eos_token_id = [lm_tokenizer.eos_token_id, lm_tokenizer.pad_token_id]
    model.generation_config.suppress_tokens = [lm_tokenizer.pad_token_id]
    model.generation_config.bad_words_ids = [[lm_tokenizer.pad_token_id, lm_tokenizer.eos_token_id]]
    before = {name: table.clone() for name, table in model.state_dict().items()}
    row_map = fit_embeddings(model, other, lm_tokenizer, multiple=48)
    assert len(other) == 900
    assert 256 < len(row_map.kept) < 900
    assert model.config.vocab_size == len(model.get_input_embeddings().weight) == 912
    assert (model.get_output_embeddings().weight is model.get_input_embeddings().weight) == (kind in ("tied", "T5", "BART"))
    followed = {name for name, table in model.state_dict().items() if table.shape != before[name].shape}
    for name, table in model.state_dict().items():
        if name not in followed:
            assert torch.equal(table, before[name])
            continue
        old, new = (rows[0] if name == "final_logits_bias" else rows for rows in (before[name], table))
        assert len(new) == 912
        for id, old_id in row_map.kept.items():
            assert torch.equal(new[id], old[old_id])
        for id, pieces in row_map.pieces.items():
            assert torch.allclose(new[id], old[list(pieces)].mean(0), atol=1e-5)
        assert torch.allclose(new[900:], old[:700].mean(0).expand_as(new[900:]), atol=1e-5)
    extra = {"biased output": {"lm_head.bias"}, "BART": {"final_logits_bias"}}
    assert followed >= extra.get(kind, set())
    assert row_map.kept[other.eos_token_id] == lm_tokenizer.eos_token_id
    for config in (model.config, model.generation_config):
        assert (config.bos_token_id, config.pad_token_id) == (None, other.pad_token_id)
    assert model.generation_config.eos_token_id == [other.eos_token_id, other.pad_token_id]
    assert model.generation_config.suppress_tokens == [other.pad_token_id]
    assert model.generation_config.bad_words_ids == [[other.pad_token_id, other.eos_token_id]]
    ids = torch.tensor([[0, other.pad_token_id]])
    assert torch.isfinite(model(input_ids=ids, labels=ids).loss)
    with pytest.raises(SGPEError, match="multiple of rows must be from 1 to 4,096"):
        fit_embeddings(model, lm_tokenizer, other, multiple=0)


@pytest.mark.parametrize("kind", KINDS)
def test_with_the_same_tokenizer_nothing_changes(kind, lm_tokenizer):
    model = models_of(kind, 709, lm_tokenizer.pad_token_id)  # with spare rows of its own
    before = {name: table.clone() for name, table in model.state_dict().items()}
    assert fit_embeddings(model, SGPETokenizerFast.from_bpe(lm_tokenizer.to_bpe()), lm_tokenizer).changes_nothing
    for name, table in model.state_dict().items():
        assert table.numpy().tobytes() == before[name].numpy().tobytes()
    assert model.config.vocab_size == 709
    assert model.config.eos_token_id == model.config.bos_token_id == lm_tokenizer.eos_token_id


@pytest.mark.parametrize("rows", [699, 2000])
def test_rows_of_another_tokenizer_are_refused(rows, lm_tokenizer, other):
    model = models_of("tied", rows, None)
    with pytest.raises(SGPEError, match=rf"{rows:,} rows .* 700 ids"):
        fit_embeddings(model, other, lm_tokenizer)
    assert len(model.get_input_embeddings().weight) == rows


def test_a_model_keeps_its_knowledge_with_another_tokenizer(lm_tokenizer, other, sample, tmp_path):
    texts, held_out = sample["en"][:16_000].splitlines(), sample["en"][16_000:].splitlines()
    shape = {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    train_llama(tmp_path, lm_tokenizer.to_bpe(), texts, steps=150, **shape, **heads)

    def bits(new, *, by_id=False):
        model = AutoModelForCausalLM.from_pretrained(tmp_path)
        if by_id:
            model.resize_token_embeddings(embedding_rows(new, multiple=1))
        else:
            fit_embeddings(model, new, lm_tokenizer, multiple=1)
        return bits_per_byte(model, new, held_out)

    own = bits(lm_tokenizer)
    assert bits(permuted(lm_tokenizer)) == pytest.approx(own, rel=1e-6)
    assert bits(permuted(lm_tokenizer), by_id=True) > own + 0.5
    assert own < bits(other) < (own + bits(other, by_id=True)) / 2


def test_ids_with_gaps_have_rows_all_the_same(lm_tokenizer):
    gapped = SGPETokenizerFast.from_bpe(lm_tokenizer.to_bpe())
    gapped.get_vocab = lambda: {"a": 0, "b": 1000}
    assert embedding_rows(gapped) == 1024
    assert embedding_rows(gapped, multiple=1) == 1001


def test_an_extended_tokenizer_says_which_rows_are_new(extended):
    _, new, old = extended
    assert extended_ids(new) == fitting_rows(512, new, old).new
    assert extended_ids(old) == []


@pytest.mark.parametrize("parts", PARTS)
def test_only_trained_parts_change(parts, extended):
    model, new = fitted(extended)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    groups, rows = parameter_groups(model, parts, new, learning_rate=0.0, rows_learning_rate=0.1)
    optimizer = torch.optim.AdamW(groups, lr=0.0, weight_decay=0.0)
    rows.attach(optimizer)
    ids = torch.tensor([new[:8]])
    for _ in range(2):
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    table = model.get_input_embeddings().weight
    old = [id for id in range(len(table)) if id not in new]
    assert bits(table.detach()[old]) == bits(before["model.embed_tokens.weight"][old])
    assert (table.detach()[new[:8]] != before["model.embed_tokens.weight"][new[:8]]).all()
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert "model.embed_tokens.weight" in trained
    assert (trained == set(dict(model.named_parameters()))) == (parts == "all")
    assert any("layers" in name for name in trained) == (parts in ("all", "ends"))


def test_rows_learn_at_a_rate_of_their_own_as_an_optimizer_of_two_tables_would(extended):
    """Compare with the readable way: the same steps with new and old rows as two parameters."""
    model, new = fitted(extended)
    groups, rows = parameter_groups(model, "embeddings", new, learning_rate=0.01, rows_learning_rate=0.05)
    optimizer = torch.optim.AdamW(groups, weight_decay=0.1)
    rows.attach(optimizer)
    table = model.get_input_embeddings().weight
    old = [id for id in range(len(table)) if id not in new]
    apart = [torch.nn.Parameter(table.detach()[ids].clone()) for ids in (old, new)]
    reference = torch.optim.AdamW([{"params": apart[:1], "lr": 0.01}, {"params": apart[1:], "lr": 0.05}], weight_decay=0.1)
    ids = torch.tensor([[*new[:6], *old[40:46]]])
    for _ in range(3):
        model(input_ids=ids, labels=ids).loss.backward()
        for one, which in zip(apart, (old, new), strict=True):
            one.grad = table.grad[which].clone()
        optimizer.step()
        optimizer.zero_grad()
        reference.step()
        # Other parameters of the model are frozen, so both ways see the same gradients.
        assert torch.allclose(table.detach()[new], apart[1].detach(), atol=1e-6)
        assert torch.allclose(table.detach()[old], apart[0].detach(), atol=1e-6)


def test_parts_that_cannot_be_trained_are_named(extended):
    model, _ = fitted(extended)
    with pytest.raises(SGPEError, match=r"'heads': .* new-rows"):
        parameter_groups(model, "heads", [1], learning_rate=1.0)
    with pytest.raises(SGPEError, match="there are no new rows to train"):
        parameter_groups(model, "new-rows", [], learning_rate=1.0)


@pytest.mark.parametrize("id", [0, 1])
def test_a_trimmed_tokenizer_without_roles_leaves_the_models_own_tokens(id):
    # The old ids 5 and 6 become 0 and 1. No token of the new tokenizer is bos, eos or pad.
    row_map = RowMap(rows=2, known=range(7), kept={0: 5, 1: 6}, pieces={})
    without_roles = SimpleNamespace(
        init_kwargs={"sgpe": {"trimmed": True}}, bos_token_id=None, eos_token_id=None, pad_token_id=None
    )
    config = {"bos_token_id": 5 + id, "eos_token_id": [5, 6], "pad_token_id": None, "hidden_size": 5}
    assert moved_ids(config, row_map, without_roles) == {"bos_token_id": id, "eos_token_id": [0, 1]}
