"""Model types that are extended most, each as a small random model: all tables follow, and old text is predicted as before.

The table of `docs/extend.md` lists these types.
"""

import json
import re
import shutil

import pytest
from support.paths import ROOT

torch = pytest.importorskip("torch", reason="rows are tensors: pip install torch accelerate")
transformers = pytest.importorskip("transformers")

from support.small_models import LAYERS, SMALL, bits, tensors_of  # noqa: E402
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers  # noqa: E402
from tokenizers.trainers import BpeTrainer  # noqa: E402

from hf_sgpe import BPETokenizer, SGPETokenizerFast  # noqa: E402
from hf_sgpe.vocabulary.reserved_tokens import reserved_ids, without_reserved  # noqa: E402
from trainers import ExtensionConfig, TokenizerExtender  # noqa: E402
from trainers.model_rows.distillation import Distillation, choose_snippets, distil  # noqa: E402
from trainers.model_rows.token_tables import fit_embeddings  # noqa: E402
from trainers.model_rows.transplanting import transplant  # noqa: E402

# Rows of a model for 500 tokens, and the rows of the layers' own embeddings of Gemma 3n, which has fewer.
ROWS, FEWER = 512, 490
LAYERS_OWN = {"hidden_size_per_layer_input": 4, "num_kv_shared_layers": 0}
KINDS_OF_LAYERS = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 8}
VISION = LAYERS | {"num_hidden_layers": 1, "image_size": 28, "patch_size": 14}
PLACES = {"image_token_id": 7, "boi_token_id": 8, "eoi_token_id": 9}
GEMMA4 = SMALL | KINDS_OF_LAYERS | {"global_head_dim": 8}
GEMMA4_VISION = SMALL | {"num_key_value_heads": 2, "num_hidden_layers": 1, "pooling_kernel_size": 1, "patch_size": 4}
HEARS = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "output_proj_dims": 16}
LAYERS_NAME = "embed_tokens_per_layer"

# Class → its configuration, by the values that all have.
TYPES = {
    "GemmaForCausalLM": lambda same: transformers.GemmaConfig(**SMALL, **same),
    "Gemma2ForCausalLM": lambda same: transformers.Gemma2Config(**SMALL, **same),
    "Gemma3ForCausalLM": lambda same: transformers.Gemma3TextConfig(**SMALL, **KINDS_OF_LAYERS, **same),
    "Gemma3ForConditionalGeneration": lambda same: transformers.Gemma3Config(
        text_config=SMALL | KINDS_OF_LAYERS | same,
        vision_config=VISION,
        mm_tokens_per_image=4,
        image_token_index=7,
        boi_token_index=8,
        eoi_token_index=9,
        tie_word_embeddings=same["tie_word_embeddings"],
    ),
    "Gemma3nForCausalLM": lambda same: transformers.Gemma3nTextConfig(
        **SMALL, **KINDS_OF_LAYERS, **LAYERS_OWN, vocab_size_per_layer_input=FEWER, altup_num_inputs=2, laurel_rank=4, **same
    ),
    "Gemma4ForCausalLM": lambda same: transformers.Gemma4TextConfig(
        **GEMMA4, **LAYERS_OWN, vocab_size_per_layer_input=ROWS, **same
    ),
    "Gemma4ForConditionalGeneration": lambda same: transformers.Gemma4Config(
        text_config=GEMMA4 | LAYERS_OWN | {"vocab_size_per_layer_input": ROWS} | same,
        vision_config=GEMMA4_VISION,
        audio_config=HEARS,
        **PLACES,
        audio_token_id=10,
        video_token_id=11,
        boa_token_id=12,
        eoa_token_index=13,
        tie_word_embeddings=same["tie_word_embeddings"],
    ),
    "LlamaForCausalLM": lambda same: transformers.LlamaConfig(**SMALL, **same),
    "MistralForCausalLM": lambda same: transformers.MistralConfig(**SMALL, **same),
    "Phi3ForCausalLM": lambda same: transformers.Phi3Config(**LAYERS, num_key_value_heads=1, **same),
    "PaliGemmaForConditionalGeneration": lambda same: transformers.PaliGemmaConfig(
        text_config=SMALL | {"model_type": "gemma"} | same,
        vision_config=VISION,
        image_token_index=7,
        projection_dim=16,
        tie_word_embeddings=same["tie_word_embeddings"],
    ),
    "Mistral3ForConditionalGeneration": lambda same: transformers.Mistral3Config(
        text_config=SMALL | {"model_type": "mistral"} | same,
        vision_config=VISION | {"model_type": "pixtral", "head_dim": 8},
        image_token_index=7,
        tie_word_embeddings=same["tie_word_embeddings"],
    ),
}


def write_small_tokenizer(folder, text, *, prefix):
    """Save a tokenizer of 500 tokens as SentencePiece makes them; with ``prefix``, like Llama 2's, and else like Gemma's."""
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "[multimodal]", *(f"<unused{number}>" for number in range(10))]
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    size = {"vocab_size": 500, "show_progress": False}
    learner.train_from_iterator([text], BpeTrainer(special_tokens=[*special, *byte_tokens], **size))
    model = json.loads(learner.to_str())["model"]
    merges = [tuple(pair) for pair in model["merges"]]
    backend = Tokenizer(models.BPE(model["vocab"], merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    backend.add_special_tokens(special)
    space = normalizers.Replace(" ", "▁")
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), space]) if prefix else space
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if prefix else steps)
    roles = {f"{role}_token": f"<{role}>" for role in ("pad", "eos", "bos", "unk")}
    transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **roles).save_pretrained(folder)


@pytest.fixture(scope="module")
def tokenizers_of(tmp_path_factory, sample):
    """The folders of the old and the extended tokenizer of a class of models."""
    folder = tmp_path_factory.mktemp("tokenizers")
    for prefix in (False, True):
        write_small_tokenizer(folder / f"old-{prefix}", sample["en"][:20_000], prefix=prefix)
        extender = TokenizerExtender(ExtensionConfig(scripts=["sinhala"], new_tokens=100))
        extender.extend(folder / f"old-{prefix}", text=sample["si"][:20_000]).save_pretrained(folder / f"extended-{prefix}")

    def of(name):
        prefix = name.startswith(("Llama", "Mistral", "Phi"))
        return folder / f"old-{prefix}", folder / f"extended-{prefix}"

    return of


def saved(name, tokenizer, folder, *, tied):
    torch.manual_seed(1)
    same = {"vocab_size": ROWS, "bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0, "tie_word_embeddings": tied}
    model = getattr(transformers, name)(TYPES[name](same))
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.normal_(std=0.3)
    shutil.copytree(tokenizer, folder)
    model.save_pretrained(folder)
    return folder


def predict(name, folder, ids):
    model = getattr(transformers, name).from_pretrained(folder).eval()
    with torch.no_grad():
        return model, model(input_ids=ids).logits


@pytest.mark.one_in(3)
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("name", TYPES)
def test_every_table_follows_and_old_text_is_predicted_as_before(name, tied, tokenizers_of, tmp_path, sample):
    tokenizer, extended = tokenizers_of(name)
    folder = saved(name, tokenizer, tmp_path / "model", tied=tied)
    done = transplant(folder, extended, tmp_path / "out")
    before, after = tensors_of(folder), tensors_of(tmp_path / "out")
    assert list(before) == list(after)
    assert {key for key in before if before[key].shape != after[key].shape} == set(done.tables)
    has_layers = any(LAYERS_NAME in key for key in before)
    assert len(done.tables) == 1 + (not done.tied) + has_layers
    assert done.tied == tied
    row_map = done.row_map
    assert row_map.new == list(range(500, 600))
    for key, table in before.items():
        rows = after[key]
        if key not in done.tables:
            assert bits(table) == bits(rows)
            continue
        assert len(rows) == row_map.rows == 600
        # Ids without a row read the first one.
        old = torch.cat([table, table[:1].expand(ROWS - len(table), -1)])
        assert bits(old[:500]) == bits(rows[:500])
        for id, pieces in row_map.pieces.items():
            assert torch.allclose(rows[id], old[list(pieces)].mean(0), atol=1e-6)

    config, old_config = (
        json.loads((one / "config.json").read_text(encoding="utf-8")) for one in (tmp_path / "out", folder)
    )
    for one in (config, old_config):
        for part in (one, one.get("text_config", {})):
            for size in ("vocab_size", "vocab_size_per_layer_input"):
                assert one is old_config or part.get(size, 600) == 600
                part.pop(size, None)
    assert config == old_config  # and so all ids of images and sounds

    # 5.5 cannot read the ids for which Gemma 3n has no row.
    ids = torch.tensor([SGPETokenizerFast.from_pretrained(folder)(sample["en"][:200])["input_ids"]])
    ids = ids.where((ids < FEWER) & ((ids < 7) | (ids > 13)), 20)
    ours, theirs = (predict(name, one, ids)[1] for one in (tmp_path / "out", folder))
    assert bits(ours[..., :500]) == bits(theirs[..., :500])
    with torch.no_grad():
        fitted, _ = predict(name, folder, ids)
        fit_embeddings(fitted, *map(SGPETokenizerFast.from_pretrained, (extended, tokenizer)), multiple=1)
        loaded, new = predict(name, tmp_path / "out", torch.tensor([row_map.new]))
        assert torch.isfinite(new).all()
        assert bits(fitted(input_ids=torch.tensor([row_map.new])).logits) == bits(new)
    for key, tensor in fitted.state_dict().items():
        assert bits(tensor) == bits(loaded.state_dict()[key])
    text = fitted.config.get_text_config()
    assert text.vocab_size == 600 == getattr(text, "vocab_size_per_layer_input", 600)


@pytest.mark.parametrize("name", ["Gemma3nForCausalLM", "LlamaForCausalLM"])
def test_new_tokens_take_the_rows_of_reserved_ones(name, tokenizers_of, tmp_path, sample):
    """The model keeps its size and its configuration, and predicts all other tokens as before."""
    tokenizer, _ = tokenizers_of(name)
    folder = saved(name, tokenizer, tmp_path / "model", tied=True)
    old = BPETokenizer.from_pretrained(tokenizer)
    names = reserved_ids(old.data)
    assert len(names) == 10
    SGPETokenizerFast.from_bpe(BPETokenizer.of(without_reserved(old.data, names))).save_pretrained(tmp_path / "less")
    (tmp_path / "less" / "config.json").write_text('{"vocab_size": 500}', encoding="utf-8")
    extender = TokenizerExtender(ExtensionConfig(scripts=["sinhala"], new_tokens=8, reuse_ids=True))
    extender.extend(tmp_path / "less", text="මම ගම මම ගම " * 9).save_pretrained(tmp_path / "new")
    new = BPETokenizer.from_pretrained(tmp_path / "new")
    assert new.encode(sample["en"]) == old.encode(sample["en"])
    assert "<unused3>" in old.decode(old.encode("<unused3>")) and new.decode(new.encode("<unused3>")).strip() == "<unused3>"

    done = transplant(folder, tmp_path / "new", tmp_path / "out")
    row_map = done.row_map
    assert row_map.keeps_ids
    assert row_map.rows == ROWS
    assert 4 <= len(row_map.new) <= 8
    assert set(row_map.new) <= set(names.values())
    configs = [(one / "config.json").read_text(encoding="utf-8") for one in (folder, tmp_path / "out")]
    assert json.loads(configs[0]) == json.loads(configs[1])
    before, after = tensors_of(folder), tensors_of(tmp_path / "out")
    for key, table in before.items():
        assert table.shape == after[key].shape
        kept = [id for id in range(len(table)) if id not in row_map.pieces or key not in done.tables]
        assert bits(table[kept]) == bits(after[key][kept])
        for id, pieces in row_map.pieces.items() if key in done.tables else ():
            assert torch.allclose(after[key][id], table[list(pieces)].mean(0), atol=1e-6)
    ids = torch.tensor([old.encode(sample["en"][:200])])
    ids = ids.where(ids < FEWER, 20)
    kept = [id for id in range(500) if id not in row_map.pieces]
    ours, theirs = (predict(name, one, ids)[1] for one in (tmp_path / "out", folder))
    assert bits(ours[..., kept]) == bits(theirs[..., kept])


def test_rows_of_the_layers_own_embeddings_are_distilled_too(tokenizers_of, tmp_path, sample):
    """The hidden states that Gemma 3n returns have one more dimension than the last ones, which are compared."""
    name = "Gemma3nForCausalLM"
    tokenizers = [SGPETokenizerFast.from_pretrained(one) for one in reversed(tokenizers_of(name))]
    model, _ = predict(name, saved(name, tokenizers_of(name)[0], tmp_path / "model", tied=True), torch.tensor([[1]]))
    row_map = fit_embeddings(model, *tokenizers, multiple=1)
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    settings = Distillation(per_token=1, batch_size=4)
    snippets = choose_snippets(*tokenizers, row_map.new, sample["si"][:2000].splitlines(), settings)[:8]
    distil(model, row_map.new, snippets, settings, progress=False)
    changed = {key for key, tensor in model.state_dict().items() if not torch.equal(tensor, before[key])}
    assert changed == {"model.embed_tokens.weight", "lm_head.weight", f"model.{LAYERS_NAME}.weight"}
    for key in changed:
        assert bits(model.state_dict()[key][:500]) == bits(before[key][:500])


def test_the_table_of_the_documentation_has_these_types():
    page = (ROOT / "docs" / "extend.md").read_text(encoding="utf-8")
    section = page[page.index("### Which models?") :].partition("\n## ")[0]
    assert set(re.findall(r"^\|.*", section, re.MULTILINE)) and set(re.findall(r"`(\w+For\w+)`", section)) == set(TYPES)
