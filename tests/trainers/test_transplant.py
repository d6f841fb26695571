"""A model in files that follows its tokenizer: what changes, what does not, and what is refused."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hf_sgpe import BPETokenizer, SGPEError, SGPETokenizerFast, Splitting
from trainers import ExtensionConfig, TokenizerExtender, TokenizerTrainer, TrainingConfig

torch = pytest.importorskip("torch", reason="rows are tensors: pip install torch accelerate")

from safetensors import safe_open  # noqa: E402
from transformers import (  # noqa: E402
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    BartConfig,
    BartForConditionalGeneration,
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3Config,
    Gemma3ForConditionalGeneration,
    GPT2Config,
    GPT2LMHeadModel,
    GPTJConfig,
    GPTJForCausalLM,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from trainers.distillation import distil  # noqa: E402
from trainers.row_starts import by_position, by_pursuit  # noqa: E402
from trainers.token_tables import PARTS, extended_ids, fit_embeddings, fitting_rows, parameter_groups  # noqa: E402
from trainers.transplant import transplant  # noqa: E402

LAYERS = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
SMALL = LAYERS | {"num_key_value_heads": 1, "head_dim": 8, "max_position_embeddings": 64}
GPT = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64}
BART = dict.fromkeys(("d_model", "encoder_ffn_dim", "decoder_ffn_dim"), 16) | dict.fromkeys(
    ("encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads"), 1
)
KINDS = {
    "llama": lambda ids: LlamaForCausalLM(LlamaConfig(**SMALL, **ids, tie_word_embeddings=False)),
    "smollm": lambda ids: LlamaForCausalLM(LlamaConfig(**SMALL, **ids, tie_word_embeddings=True)),
    "qwen2": lambda ids: Qwen2ForCausalLM(Qwen2Config(**SMALL, **ids, tie_word_embeddings=True)),
    "qwen3": lambda ids: Qwen3ForCausalLM(Qwen3Config(**SMALL, **ids, tie_word_embeddings=False)),
    "gemma": lambda ids: Gemma2ForCausalLM(Gemma2Config(**SMALL, **ids)),
    # Reads images, too; transformers has other names for its weights in memory than in files.
    "gemma3": lambda ids: Gemma3ForConditionalGeneration(
        Gemma3Config(
            text_config=SMALL | ids,
            vision_config=LAYERS | {"num_hidden_layers": 1, "image_size": 28, "patch_size": 14},
            mm_tokens_per_image=4,
            image_token_index=500,
        )
    ),
    "mistral": lambda ids: MistralForCausalLM(MistralConfig(**SMALL, **ids)),
    # Its output has another name in files, too.
    "neox": lambda ids: GPTNeoXForCausalLM(GPTNeoXConfig(**LAYERS, **ids, max_position_embeddings=64)),
    "gpt2": lambda ids: GPT2LMHeadModel(GPT2Config(**GPT, **ids)),
    "biased": lambda ids: GPTJForCausalLM(GPTJConfig(**GPT, **ids, rotary_dim=4, tie_word_embeddings=False)),
    "bart": lambda ids: BartForConditionalGeneration(
        BartConfig(**BART, **ids, max_position_embeddings=64, decoder_start_token_id=0)
    ),
}


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory, sample):
    """A tokenizer, one that was extended from it, and one of its own."""
    folder = tmp_path_factory.mktemp("tokenizers")
    special = ("<|endoftext|>",)
    english = TrainingConfig(500, "bpe", pattern="gpt2", special_tokens=special, normalization="none")
    TokenizerTrainer(english).train(iterator=[sample["en"][:20_000]]).save_pretrained(folder / "old")
    config = ExtensionConfig(scripts=["sinhala"], new_tokens=100)
    TokenizerExtender(config).extend(folder / "old", text=sample["si"][:20_000]).save_pretrained(folder / "extended")
    own = TrainingConfig(1200, "hybrid", ("sinhala",), special_tokens=("<|pad|>", *special))
    TokenizerTrainer(own).train(iterator=[sample["si"][:20_000], sample["en"][5_000:20_000]]).save_pretrained(folder / "own")
    return folder


def saved(kind, tokenizers, folder, *, rows=512, **options):
    """A model of half the precision with its tokenizer, whose numbers are all different."""
    torch.manual_seed(1)
    end = SGPETokenizerFast.from_pretrained(tokenizers / "old").eos_token_id
    model = KINDS[kind]({"vocab_size": rows, "bos_token_id": end, "eos_token_id": end, "pad_token_id": None})
    with torch.no_grad():
        for tensor in (*model.parameters(), *(model.final_logits_bias for _ in range(kind == "bart"))):
            tensor.normal_(std=0.3)
    shutil.copytree(tokenizers / "old", folder)
    model.to(torch.bfloat16).save_pretrained(folder, **options)
    return folder


def tensors_of(folder):
    tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, "pt") as opened:
            tensors |= {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    return tensors


def load(folder, kind):
    return (AutoModelForSeq2SeqLM if kind == "bart" else AutoModelForCausalLM).from_pretrained(folder)


def bits(tensor):
    return tensor.contiguous().view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize("to", ["extended", "own"])
@pytest.mark.parametrize("kind", KINDS)
def test_all_but_new_rows_is_the_same_bit_for_bit(kind, to, tokenizers, tmp_path):
    is_sharded = kind in ("llama", "gpt2", "bart")
    model = saved(kind, tokenizers, tmp_path / "model", **({"max_shard_size": "20KB"} if is_sharded else {}))
    assert (model / "model.safetensors.index.json").exists() == is_sharded
    done = transplant(model, tokenizers / to, tmp_path / "out")
    old, new = tensors_of(model), tensors_of(tmp_path / "out")
    assert list(old) == list(new)
    followed = {name for name in old if old[name].shape != new[name].shape}
    assert followed == set(done.tables)
    apart = {"llama": 2, "qwen3": 2, "mistral": 2, "neox": 2, "bart": 2, "biased": 3}
    assert len(followed) == apart.get(kind, 1)
    row_map = done.row_map
    assert row_map.keeps_ids == (to == "extended")
    assert done.tied == (kind not in ("llama", "qwen3", "mistral", "neox", "biased"))
    assert done.auto_class == ("AutoModelForSeq2SeqLM" if kind == "bart" else "AutoModelForCausalLM")
    for name in ("config.json", "generation_config.json") if row_map.keeps_ids else ():
        before, after = (json.loads((one / name).read_text(encoding="utf-8")) for one in (model, tmp_path / "out"))
        for config in (before, after, before.get("text_config"), after.get("text_config")):
            if config:
                config.pop("vocab_size", None)
        assert after == before
    for name, table in old.items():
        assert new[name].dtype == table.dtype == torch.bfloat16
        if name not in followed:
            assert bits(table) == bits(new[name])
            continue
        before, after = (one[0] if "final_logits_bias" in name else one for one in (table, new[name]))
        assert len(after) == row_map.rows
        assert bits(before[[*row_map.kept.values()]]) == bits(after[[*row_map.kept]])
        if row_map.keeps_ids:  # so do spare rows that no new token takes
            spare = [id for id in range(512) if id not in row_map.pieces]
            assert bits(before[spare]) == bits(after[spare])
        for id, pieces in row_map.pieces.items():
            assert torch.allclose(after[id].float(), before[list(pieces)].float().mean(0), atol=5e-3)

    # As in memory, and as transformers loads it.
    names = [SGPETokenizerFast.from_pretrained(tokenizers / one) for one in (to, "old")]
    expected = load(model, kind)
    fit_embeddings(expected, *names, multiple=1)
    loaded = load(tmp_path / "out", kind)
    assert loaded.config.get_text_config().vocab_size == row_map.rows == len(loaded.get_input_embeddings().weight)
    for name, tensor in expected.state_dict().items():
        assert bits(tensor) == bits(loaded.state_dict()[name])
    roles = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")
    configs = ([one.config, one.config.get_text_config(), one.generation_config] for one in (loaded, expected))
    for ours, theirs in zip(*configs, strict=True):
        for role in roles:
            assert getattr(ours, role, None) == getattr(theirs, role, None)
    tokenizer = SGPETokenizerFast.from_pretrained(tmp_path / "out")
    assert tokenizer.get_vocab() == names[0].get_vocab()
    if is_sharded:
        index = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text(encoding="utf-8"))
        assert index["metadata"]["total_size"] == sum(tensor.numel() * 2 for tensor in new.values())


def test_spare_rows_padding_and_weights(tokenizers, tmp_path):
    model = saved("llama", tokenizers, tmp_path / "model", rows=640)
    done = transplant(model, tokenizers / "extended", tmp_path / "out", multiple=48, start=by_position)
    assert done.row_map.rows == 672
    assert done.modules_to_save == ["embed_tokens", "lm_head"]
    (before, after) = (tensors_of(folder)["lm_head.weight"] for folder in (model, tmp_path / "out"))
    assert bits(before[600:]) == bits(after[600:640])
    id, pieces = max(done.row_map.pieces.items(), key=lambda item: len(item[1]))
    weights = torch.arange(1, len(pieces) + 1) / (len(pieces) * (len(pieces) + 1) / 2)
    assert torch.allclose(after[id].float(), weights @ before[list(pieces)].float(), atol=5e-3)


def test_an_extended_tokenizer_says_which_rows_are_new(extended):
    _, new, old = extended
    assert extended_ids(new) == fitting_rows(512, new, old).new
    assert extended_ids(old) == []


def test_old_text_is_predicted_as_before(tokenizers, tmp_path):
    model = saved("qwen3", tokenizers, tmp_path / "model")
    transplant(model, tokenizers / "extended", tmp_path / "out")
    ids = torch.tensor([SGPETokenizerFast.from_pretrained(tmp_path / "out")("the same words, the same ids")["input_ids"]])
    with torch.no_grad():
        before, after = (load(folder, "qwen3")(ids).logits[..., :500] for folder in (model, tmp_path / "out"))
    assert torch.equal(before, after)


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        ("cut", r"model-\d+-of-\d+\.safetensors: damaged: not a file of safetensors$"),
        ("shard", r"model-\d+-of-\d+\.safetensors: not there, though model\.safetensors\.index\.json names it$"),
        ("shape", r"model-\d+-of-\d+\.safetensors: damaged: not a file of safetensors$"),
        ("index", r"model: holds no model\.safetensors, and no model\.safetensors\.index\.json that names its parts$"),
        ("bin", r"model: holds pytorch_model\.bin and no model\.safetensors, which transformers writes when"),
        ("rows", r"model-\d+-of-\d+\.safetensors: \S+ has shape \[512, 16\], and config\.json asks for 600 rows$"),
        ("away", r"model\.safetensors\.index\.json: damaged: names no files beside it$"),
        ("names", r"model-\d+-of-\d+\.safetensors: damaged: lost is not in it, though model\.safetensors\.index\.json"),
        ("config", r"config\.json"),
        (
            "nan",
            r"model-\d+-of-\d+\.safetensors: model\.embed_tokens\.weight is damaged: not all of its numbers are finite$",
        ),
        ("tokenizer", r"the model has 2,000 rows for tokens, and its own tokenizer 500 ids: they do not belong together"),
        ("none", r"the folder holds no tokenizer: name the model's own by --model-tokenizer$"),
        ("no config", r"model: give the folder of a model, with config\.json and model\.safetensors$"),
    ],
)
def test_what_cannot_be_is_said_in_one_line_and_nothing_is_written(harm, message, tokenizers, tmp_path):
    rows = 2000 if harm == "tokenizer" else 512
    model = saved("llama", tokenizers, tmp_path / "model", rows=rows, max_shard_size="20KB")
    shards = sorted(model.glob("*.safetensors"))
    index = model / "model.safetensors.index.json"
    if harm == "cut":
        shards[0].write_bytes(shards[0].read_bytes()[:-100])
    elif harm == "shape":
        shards[0].write_bytes(shards[0].read_bytes().replace(b'"shape":[512,16]', b'"shape":[521,16]'))
    elif harm == "shard":
        shards[1].unlink()
    elif harm in ("index", "bin"):
        index.unlink()
        if harm == "bin":
            shards[0].rename(model / "pytorch_model.bin")
    elif harm == "rows":
        content = json.loads((model / "config.json").read_text(encoding="utf-8"))
        (model / "config.json").write_text(json.dumps(content | {"vocab_size": 600}), encoding="utf-8")
    elif harm == "away":
        index.write_text(index.read_text(encoding="utf-8").replace(shards[0].name, f"../{shards[0].name}"), encoding="utf-8")
    elif harm == "no config":
        (model / "config.json").unlink()
    elif harm == "names":
        content = json.loads(index.read_text(encoding="utf-8"))
        content["weight_map"]["lost"] = shards[0].name
        index.write_text(json.dumps(content), encoding="utf-8")
    elif harm == "config":
        (model / "config.json").write_text('{"model_type": "unheard-of"}', encoding="utf-8")
    elif harm == "nan":
        broken = load(model, "llama")
        broken.get_input_embeddings().weight.data[5] = torch.nan
        broken.save_pretrained(model, max_shard_size="20KB")
    elif harm == "none":
        for file in model.glob("token*"):
            file.unlink()
    with pytest.raises(SGPEError, match=message) as error:
        transplant(model, tokenizers / "extended", tmp_path / "out")
    assert "\n" not in str(error.value)
    assert {path.name for path in tmp_path.iterdir()} == {"model"}


def test_where_to_write_is_looked_at_before_models_are_measured(tokenizers, tmp_path, sample, monkeypatch):
    from hf_sgpe.cli.models import transplant as command

    model = saved("smollm", tokenizers, tmp_path / "model")
    (tmp_path / "en.txt").write_text(sample["en"][:500], encoding="utf-8", newline="\n")
    monkeypatch.setattr("hub_cards.transplant_card.measure", lambda *_, **__: pytest.fail("measured"))
    with pytest.raises(SGPEError, match="is what the model is made from"):
        command(str(model), tokenizer=str(tokenizers / "extended"), out=str(model), evaluate=[str(tmp_path / "en.txt")])


def test_a_folder_in_use_is_not_written_to(tokenizers, tmp_path):
    model = saved("smollm", tokenizers, tmp_path / "model")
    with pytest.raises(SGPEError, match="is what the model is made from"):
        transplant(model, tokenizers / "extended", model)
    with pytest.raises(SGPEError, match=r"holds a tokenizer of [\d,]+ tokens: give another folder"):
        transplant(model, tokenizers / "extended", tokenizers / "own")


_WITHIN = """
import resource, sys
from trainers.transplant import transplant
done = transplant(*sys.argv[1:4])
print(done.row_map.rows, len(done.tables), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.slow
def test_eight_billion_parameters_within_four_gigabytes(tmp_path):
    """Sparse files, in which all numbers are zero: 16 GB of shards, each larger than the memory that is allowed."""
    pairs = [(bytes([left]), bytes([right])) for left in range(256) for right in range(256)]
    vocab = {bytes([byte]): byte for byte in range(256)} | {a + b: 256 + rank for rank, (a, b) in enumerate(pairs)}
    longer = [(b"ab", bytes([last])) for last in range(256)]
    more = vocab | {a + b: len(vocab) + rank for rank, (a, b) in enumerate(longer)}
    splitting = Splitting("bpe", pattern="gpt2")
    for name, tokens, merges in (("old", vocab, pairs), ("new", more, pairs + longer)):
        SGPETokenizerFast.from_bpe(BPETokenizer(tokens, merges, splitting=splitting)).save_pretrained(tmp_path / name)
    rows, width = 128_256, 4096
    config = LlamaConfig(
        vocab_size=rows, hidden_size=width, num_hidden_layers=1, intermediate_size=64, num_attention_heads=32
    )
    config.architectures = ["LlamaForCausalLM"]
    model = tmp_path / "old"
    config.save_pretrained(model)
    table, rest = [rows, width], [1 << 20, 2600]
    shards = [{"model.embed_tokens.weight": table, "a": rest}, {"b": rest}, {"lm_head.weight": table, "c": rest}]
    for number, shard in enumerate(shards):
        header, end = {}, 0
        for name, shape in shard.items():
            header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end := end + 2 * int(np.prod(shape))]}
        text = json.dumps(header).encode()
        with (model / f"{number}.safetensors").open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            file.truncate(8 + len(text) + end)
    weight_map = {name: f"{number}.safetensors" for number, shard in enumerate(shards) for name in shard}
    index = {"metadata": {"total_size": 0}, "weight_map": weight_map}
    (model / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    command = [sys.executable, "-c", _WITHIN, *map(str, (model, tmp_path / "new", tmp_path / "out"))]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    written, tables, megabytes = map(int, done.stdout.split())
    assert (written, tables) == (rows, 2)
    assert megabytes < 4000
    assert sum(file.stat().st_size for file in (tmp_path / "out").glob("*.safetensors")) > 16e9
    shutil.rmtree(tmp_path)


@pytest.fixture(scope="module")
def extended(tokenizers, tmp_path_factory):
    """A small model with its own rows for an extended tokenizer, both tokenizers, and the ids of the new tokens."""
    folder = saved("smollm", tokenizers, tmp_path_factory.mktemp("models") / "model")
    return folder, *(SGPETokenizerFast.from_pretrained(tokenizers / name) for name in ("extended", "old"))


def fitted(extended):
    folder, new, old = extended
    model = load(folder, "smollm").float()
    row_map = fit_embeddings(model, new, old, multiple=1)
    return model, row_map.new


@pytest.mark.parametrize("parts", PARTS)
def test_what_is_trained_changes_and_all_else_does_not(parts, extended):
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
    """Beside the readable way: the same steps with new rows and old ones as two parameters."""
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
    with pytest.raises(SGPEError, match=r"parts to train: 'heads' is none of all, ends, embeddings, new-rows$"):
        parameter_groups(model, "heads", [1], learning_rate=1.0)
    with pytest.raises(SGPEError, match="there are no new rows to train"):
        parameter_groups(model, "new-rows", [], learning_rate=1.0)


def test_a_donor_tells_what_new_tokens_are_made_of(extended):
    """Rows of a donor that are sums of two others are found as such."""
    folder, new, old = extended
    row_map = fitting_rows(512, new, old)
    torch.manual_seed(2)
    donor_rows = torch.randn(row_map.rows, 64)
    ids = row_map.new[:5]
    for number, id in enumerate(ids):
        donor_rows[id] = 2 * donor_rows[300 + number] - donor_rows[400 + number]
    made = by_pursuit(row_map, new, new, donor_rows, terms=2)
    table = tensors_of(folder)["model.embed_tokens.weight"].float()
    for number, id in enumerate(ids):
        assert sorted(made.pieces[id]) == [300 + number, 400 + number]
        expected = 2 * table[300 + number] - table[400 + number]
        assert torch.allclose(made.apply(table)[id], expected, atol=0.02)


def test_distilling_brings_states_nearer_and_leaves_all_else(extended, sample):
    _, new, old = extended
    model, ids = fitted(extended)
    texts = [line for line in sample["si"][:20_000].splitlines() if line.strip()][:40]
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    def distance():
        total = 0.0
        with torch.no_grad():
            for text in texts[:10]:
                states = [
                    model.base_model(input_ids=torch.tensor([one(text)["input_ids"]])).last_hidden_state[0, -1]
                    for one in (old, new)
                ]
                total += ((states[0] - states[1]) ** 2).sum().item()
        return total

    began = distance()
    distil(model, new, old, ids, texts, steps=30, learning_rate=1e-2, progress=False)
    assert distance() < 0.9 * began
    kept = [id for id in range(len(model.get_input_embeddings().weight)) if id not in ids]
    for name, tensor in model.state_dict().items():
        is_table = tensor.shape[0] == len(model.get_input_embeddings().weight)
        assert bits(tensor[kept] if is_table else tensor) == bits(before[name][kept] if is_table else before[name])
    with pytest.raises(SGPEError, match="holds none of the new tokens"):
        distil(model, new, old, ids, ["plain English"], steps=1, progress=False)


def hf_sgpe(*arguments):
    command = [sys.executable, "-m", "hf_sgpe", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])


@pytest.mark.slow
def test_the_command_line_transplants_and_measures(tokenizers, tmp_path, sample):
    model = saved("llama", tokenizers, tmp_path / "model")
    text = tmp_path / "si.txt"
    text.write_text(sample["si"][:3000], encoding="utf-8", newline="\n")
    out = tmp_path / "out"
    done = hf_sgpe(
        "transplant", model, "-t", tokenizers / "extended", "-o", out, "--eval", text, "--json", "--init", "weighted"
    )
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["modules_to_save"] == ["embed_tokens", "lm_head"]
    assert {key: value for key, value in facts.items() if key != "out"} == json.loads((out / "transplant.json").read_text())
    scores = facts["texts"]["si.txt"]
    assert scores["after"]["tokens"] < scores["before"]["tokens"]
    # Two layers of one head of 8 numbers, keys and values, in four bytes each.
    assert scores["after"]["cache_bytes"] == scores["after"]["tokens"] * 2 * 2 * 8 * 4
    assert scores["before"]["watched"] == 0 < scores["after"]["watched"] < 1
    assert f"{scores['after']['bits_per_byte']:.4f}" in (out / "README.md").read_text(encoding="utf-8")

    named = ["--baseline", f"old={model}", "--model", out, "--model", f"old={model}"]
    done = hf_sgpe("evaluate", out, text, *named, "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [row["bits_per_byte"] for row in rows] == [scores[when]["bits_per_byte"] for when in ("after", "before")]
    assert "bits/byte" in hf_sgpe("evaluate", out, text, "--model", out).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--init", "best"], "--init best: known are mean, weighted, omp, distil"),
        (["--init", "omp"], "--init omp: give --donor, too"),
        (["--text", "si.txt"], "--text is for --init distil"),
        (["--pad-to-multiple", "0"], "--pad-to-multiple must be from 1 to 4,096, not 0"),
        (["--distil-steps", "5"], "--init mean: --distil-steps is for --init distil"),
        (["--init", "distil", "--text", "si.txt", "--distil-steps", "0"], "--distil-steps must be at least 1, not 0"),
        (["--eval", "none.txt"], "none.txt"),
    ],
)
def test_wrong_options_are_one_line(arguments, message, tokenizers, extended, tmp_path):
    done = hf_sgpe("transplant", extended[0], "-t", tokenizers / "extended", "-o", tmp_path / "out", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_models_are_measured_with_tokenizers_that_they_have_rows_for(tokenizers, extended, tmp_path):
    text = tmp_path / "si.txt"
    text.write_text("සිංහල", encoding="utf-8", newline="\n")
    done = hf_sgpe("evaluate", tokenizers / "own", text, "--model", extended[0])
    assert done.returncode == 2
    assert "they do not belong together" in done.stderr
    done = hf_sgpe("evaluate", tokenizers / "own", text, "--model", f"other={extended[0]}")
    assert "no tokenizer is called 'other'" in done.stderr


@pytest.mark.parametrize("harm", ["encoder", "class", "head", "nan", "blank"])
def test_nothing_is_written_where_measuring_fails(harm, tokenizers, tmp_path, sample):
    model = saved("bart" if harm == "encoder" else "llama", tokenizers, tmp_path / "model")
    text = tmp_path / "en.txt"
    text.write_text(" \n" if harm == "blank" else sample["en"][:500], encoding="utf-8", newline="\n")
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    if harm == "class":
        config["architectures"] = ["LlamaForSequenceClassification"]
    elif harm == "head":
        LlamaForCausalLM.from_pretrained(model).model.save_pretrained(model)
    elif harm == "nan":
        broken = LlamaForCausalLM.from_pretrained(model)
        broken.model.norm.weight.data[0] = torch.nan
        broken.save_pretrained(model)
    (model / "config.json").write_text(json.dumps(config), encoding="utf-8")
    message = {
        "encoder": "only causal language models predict text, and this one has an encoder",
        "class": "only causal language models predict text, and this one is LlamaForSequenceClassification",
        "head": "its weights hold no lm_head.weight",
        "nan": "what the model predicts is no number: its weights are damaged",
        "blank": "en.txt: holds no text",
    }[harm]
    commands = [
        ["transplant", model, "-t", tokenizers / "extended", "-o", tmp_path / "out", "--eval", text],
        ["evaluate", model, text, "--model", model],
    ]
    for command in commands:
        done = hf_sgpe(*command)
        assert done.returncode == 2
        assert message in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"model", "en.txt"}


def test_the_card_says_how_to_load_and_what_it_is_made_from(tokenizers, tmp_path):
    model = saved("bart", tokenizers, tmp_path / "model")
    (model / "README.md").write_text("---\nlicense: mit\nlanguage: [en]\n---\n# Base\n", encoding="utf-8")
    out = tmp_path / "a" / "out"
    done = hf_sgpe("transplant", model, "-t", tokenizers / "extended", "-o", out)
    assert done.returncode == 0, done.stderr
    assert "modules_to_save=['shared'], ensure_weight_tying=True." in done.stdout
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "license: mit" in card
    assert f'AutoModelForSeq2SeqLM.from_pretrained("{out.as_posix()}")' in card
    assert "ensure_weight_tying=True` (PEFT 0.18 or later)" in card
    names = {}
    exec(card[card.index("```python") + 9 :].partition("```")[0], names)
    assert len(names["model"].get_input_embeddings().weight) >= len(names["tokenizer"])

    done = hf_sgpe("transplant", model, "-t", tokenizers / "old", "-o", tmp_path / "same")
    assert "LoRA" not in done.stdout
    assert "new language" not in (tmp_path / "same" / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_starts_are_compared_while_a_model_trains(tokenizers, extended, tmp_path, sample):
    for language in ("si", "en"):
        lines = sample[language].splitlines()
        (tmp_path / f"{language}.txt").write_text("\n".join(lines[:60]), encoding="utf-8", newline="\n")
        (tmp_path / f"held-{language}.txt").write_text("\n".join(lines[60:64]), encoding="utf-8", newline="\n")
    script = Path(__file__).parents[2] / "scripts" / "benchmark_transplant.py"
    text = ["si.txt", "--keep", "en.txt", "--eval", "si=held-si.txt", "en=held-en.txt", "--parts", "ends", "--seeds", "2"]
    size = ["--steps", "8", "--batch", "64", "--length", "32", "--distil-steps", "2", "--rows-learning-rate", "1e-3"]
    size += ["--donor", str(extended[0])]
    command = [sys.executable, str(script), str(extended[0]), str(tokenizers / "extended"), *text, *size, "--out", "runs"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    runs = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in (tmp_path / "runs").glob("*-[12].json")}
    assert len(runs) == 12
    for name, run in runs.items():
        sizes = [point["bytes"] for point in run["points"]]
        assert sizes == sorted(sizes)
        assert (run["points"][0]["on_new_tokens"]["si"] > 0) == (not name.startswith("as-it-is"))
    assert runs["as-it-is-1"]["points"][-1]["bytes"] < runs["mean-1"]["points"][-1]["bytes"]
    shown = (tmp_path / "runs" / "transplant.md").read_text(encoding="utf-8")
    assert shown in done.stdout
    assert [line.split(" | ")[0] for line in shown.splitlines()[2:]] == [
        f"| {start}" for start in ("as it is", "random", "mean", "weighted", "distilled", "omp")
    ]
    assert f" | {runs['mean-1']['points'][0]['bits_per_byte']['si']:.4f} | " in shown
    assert (tmp_path / "runs" / "transplant.svg").exists()
    again = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert "seed 1: " not in again.stdout  # finished runs are not repeated
    assert again.stdout in done.stdout
