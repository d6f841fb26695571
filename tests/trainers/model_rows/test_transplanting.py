import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from support.paths import ROOT

torch = pytest.importorskip("torch", reason="rows are tensors: pip install torch accelerate")

from support.small_models import KINDS, bits, load, saved_model, tensors_of  # noqa: E402
from transformers import (  # noqa: E402
    LlamaConfig,
)

from hf_sgpe import BPETokenizer, SGPEError, SGPETokenizerFast, Splitting  # noqa: E402
from trainers.model_rows.row_starts import by_position  # noqa: E402
from trainers.model_rows.token_tables import fit_embeddings  # noqa: E402
from trainers.model_rows.transplanting import transplant  # noqa: E402


def test_an_index_with_a_single_shard_keeps_its_form(tokenizer_folders, tmp_path):
    model = saved_model("gpt2", tokenizer_folders / "old", tmp_path / "model")
    shard = "model-00001-of-00001.safetensors"
    (model / "model.safetensors").rename(model / shard)
    index = {"metadata": {"total_size": 0}, "weight_map": dict.fromkeys(tensors_of(model), shard)}
    (model / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    out = tmp_path / "out"
    transplant(model, tokenizer_folders / "extended", out)
    assert sorted(file.name for file in out.glob("model*")) == [shard, "model.safetensors.index.json"]
    assert tensors_of(out).keys() == tensors_of(model).keys()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("to", ["extended", "own"])
@pytest.mark.parametrize("kind", KINDS)
def test_all_but_new_rows_is_the_same_bit_for_bit(kind, to, tokenizer_folders, tmp_path):
    is_sharded = kind in ("llama", "gpt2", "bart")
    model = saved_model(
        kind, tokenizer_folders / "old", tmp_path / "model", **({"max_shard_size": "20KB"} if is_sharded else {})
    )
    assert (model / "model.safetensors.index.json").exists() == is_sharded
    done = transplant(model, tokenizer_folders / to, tmp_path / "out")
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
    names = [SGPETokenizerFast.from_pretrained(tokenizer_folders / one) for one in (to, "old")]
    expected = load(model)
    fit_embeddings(expected, *names, multiple=1)
    loaded = load(tmp_path / "out")
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


def test_spare_rows_padding_and_weights(tokenizer_folders, tmp_path):
    model = saved_model("llama", tokenizer_folders / "old", tmp_path / "model", rows=640)
    done = transplant(model, tokenizer_folders / "extended", tmp_path / "out", multiple=48, start=by_position)
    assert done.row_map.rows == 672
    assert done.modules_to_save == ["embed_tokens", "lm_head"]
    (before, after) = (tensors_of(folder)["lm_head.weight"] for folder in (model, tmp_path / "out"))
    assert bits(before[600:]) == bits(after[600:640])
    id, pieces = max(done.row_map.pieces.items(), key=lambda item: len(item[1]))
    weights = torch.arange(1, len(pieces) + 1) / (len(pieces) * (len(pieces) + 1) / 2)
    assert torch.allclose(after[id].float(), weights @ before[list(pieces)].float(), atol=5e-3)


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        ("cut", r"safetensors is damaged"),
        ("shard", r"safetensors is missing, .* model\.safetensors\.index\.json"),
        ("shape", r"safetensors is damaged"),
        ("index", r"no model\.safetensors, .* model\.safetensors\.index\.json"),
        ("bin", r"pytorch_model\.bin"),
        ("rows", r"\[512, 16\], .* 600"),
        ("away", r"'weight_map'"),
        ("names", r"lost is missing"),
        ("config", r"config\.json"),
        ("nan", r"model\.embed_tokens\.weight is damaged"),
        ("tokenizer", r"2,000 rows .* 500 ids"),
        ("none", r"--model-tokenizer"),
        ("no config", r"config\.json and model\.safetensors"),
    ],
)
def test_damaged_models_are_one_line_and_nothing_is_written(harm, message, tokenizer_folders, tmp_path):
    rows = 2000 if harm == "tokenizer" else 512
    model = saved_model("llama", tokenizer_folders / "old", tmp_path / "model", rows=rows, max_shard_size="20KB")
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
        broken = load(model)
        broken.get_input_embeddings().weight.data[5] = torch.nan
        broken.save_pretrained(model, max_shard_size="20KB")
    elif harm == "none":
        for file in model.glob("token*"):
            file.unlink()
    with pytest.raises(SGPEError, match=message) as error:
        transplant(model, tokenizer_folders / "extended", tmp_path / "out")
    assert "\n" not in str(error.value)
    assert {path.name for path in tmp_path.iterdir()} == {"model"}


def test_a_folder_in_use_is_not_written_to(tokenizer_folders, tmp_path):
    model = saved_model("smollm", tokenizer_folders / "old", tmp_path / "model")
    with pytest.raises(SGPEError, match="is a source of the model"):
        transplant(model, tokenizer_folders / "extended", model)
    with pytest.raises(SGPEError, match=r"tokenizer of [\d,]+ tokens"):
        transplant(model, tokenizer_folders / "extended", tokenizer_folders / "own")


_WITHIN = """
import resource, sys
from trainers.model_rows.transplanting import transplant
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
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    written, tables, megabytes = map(int, done.stdout.split())
    assert (written, tables) == (rows, 2)
    assert megabytes < 4000
    assert sum(file.stat().st_size for file in (tmp_path / "out").glob("*.safetensors")) > 16e9
    shutil.rmtree(tmp_path)
