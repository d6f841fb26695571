"""GGUF files: what llama.cpp computes from them, and how it splits text itself."""

import json

import numpy as np
import pytest
from support.data import DATA, corpus, needs_data

from hf_sgpe import BPETokenizer, SGPEError, TrainingConfig, WordCounts, train_from_counts
from hf_sgpe.formats import gguf as our_gguf
from hf_sgpe.generation import GenerationOptions, TextGenerator
from hf_sgpe.normalization import normalize

gguf = pytest.importorskip("gguf", reason="GGUF files are written with gguf: pip install gguf")
llama_cpp = pytest.importorskip("llama_cpp", reason="GGUF files are for llama.cpp: pip install llama-cpp-python")
torch = pytest.importorskip("torch", reason="the models are made with PyTorch: pip install torch")

from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM  # noqa: E402

from hf_sgpe.generation.llama_cpp import silence  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

SMALL = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 256,
    "initializer_range": 0.2,
}
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
VARIANTS = {
    "llama": {},
    "grouped queries": {"num_key_value_heads": 2},
    "tied": {"tie_word_embeddings": True},
    "wide heads": {"head_dim": 32},
    "biases": {"attention_bias": True, "mlp_bias": True},
    "rope base": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
    "linear rope": {"rope_parameters": {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 4.0}},
    "llama 3 rope": {"rope_parameters": LLAMA3_ROPE},
}


@pytest.fixture(scope="module")
def tokenizer(sample):
    config = TrainingConfig(vocab_size=700, recipe="bpe", pattern="gpt2", special_tokens=("<s>", "</s>", "<pad>"))
    return train_from_counts(WordCounts.from_texts(sample.values(), config), config)


def saved(folder, tokenizer, model):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "bias" in name or "norm" in name:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder)
    tokenizer.save(folder)
    return folder


def llama(folder, tokenizer, **options):
    torch.manual_seed(1)
    config = LlamaConfig(**{"vocab_size": tokenizer.vocab_size, **SMALL, **options})
    return saved(folder, tokenizer, LlamaForCausalLM(config))


def gpt2(folder, tokenizer):
    torch.manual_seed(1)
    config = GPT2Config(
        vocab_size=tokenizer.vocab_size, n_embd=64, n_layer=2, n_head=4, n_positions=256, initializer_range=0.2
    )
    return saved(folder, tokenizer, GPT2LMHeadModel(config))


def logits_of(path, ids):
    silence()
    precision = {"type_k": llama_cpp.GGML_TYPE_F32, "type_v": llama_cpp.GGML_TYPE_F32}
    llm = llama_cpp.Llama(str(path), n_ctx=256, logits_all=True, verbose=False, **precision)
    llm.eval(ids)
    found = np.array(llm.scores[: len(ids)], np.float64)
    llm.close()
    return found


def expected_logits(folder, ids):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.inference_mode():
        return model(torch.tensor([ids])).logits[0].double().numpy()


def close(found, expected, tolerance):
    return np.abs(found - expected).max() < tolerance * np.abs(expected).max()


@pytest.mark.parametrize("variant", VARIANTS)
def test_llama_computes_the_same_from_the_file(variant, tokenizer, tmp_path):
    folder = llama(tmp_path / "model", tokenizer, **VARIANTS[variant])
    our_gguf.write(folder, tmp_path / "model.gguf", "F32")
    ids = tokenizer.encode("ශ්‍රී ලංකාව and a little more text, so that positions matter") * 2
    assert close(logits_of(tmp_path / "model.gguf", ids), expected_logits(folder, ids), 1e-4)


def test_gpt2_computes_the_same_from_the_file(tokenizer, tmp_path):
    folder = gpt2(tmp_path / "model", tokenizer)
    our_gguf.write(folder, tmp_path / "model.gguf")
    ids = tokenizer.encode("ශ්‍රී ලංකාව and a little more text")
    # llama.cpp looks gelu up in a table of 16 bits.
    assert close(logits_of(tmp_path / "model.gguf", ids), expected_logits(folder, ids), 1e-2)


@pytest.mark.parametrize(("weight_type", "tolerance"), [("F16", 0.01), ("BF16", 0.05), ("Q8_0", 0.2)])
def test_smaller_types_come_close(weight_type, tolerance, tokenizer, tmp_path):
    folder = llama(tmp_path / "model", tokenizer)
    our_gguf.write(folder, tmp_path / "whole.gguf", "F32")
    our_gguf.write(folder, tmp_path / "small.gguf", weight_type)
    assert (tmp_path / "small.gguf").stat().st_size < 0.75 * (tmp_path / "whole.gguf").stat().st_size
    ids = tokenizer.encode("ශ්‍රී ලංකාව and more")
    assert close(logits_of(tmp_path / "small.gguf", ids), expected_logits(folder, ids), tolerance)
    whole, small = (
        {one.name: gguf.quants.dequantize(one.data, one.tensor_type) for one in gguf.GGUFReader(tmp_path / name).tensors}
        for name in ("whole.gguf", "small.gguf")
    )
    for name, values in whole.items():
        assert np.abs(small[name] - values).max() <= np.abs(values).max() / 127, name


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_stored_types_are_kept_exactly(kind, tokenizer, tmp_path):
    folder = llama(tmp_path / "model", tokenizer)
    model = LlamaForCausalLM.from_pretrained(folder).to(getattr(torch, kind))
    model.save_pretrained(folder)
    our_gguf.write(folder, tmp_path / "model.gguf")
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(tmp_path / "model.gguf").tensors}
    found = gguf.quants.dequantize(tensors["token_embd.weight"].data, tensors["token_embd.weight"].tensor_type)
    assert tensors["token_embd.weight"].tensor_type.name == {"bfloat16": "BF16", "float16": "F16"}[kind]
    assert np.array_equal(found, model.get_input_embeddings().weight.float().detach().numpy())


def test_weights_in_several_files_are_found(tokenizer, tmp_path):
    folder = llama(tmp_path / "model", tokenizer)
    our_gguf.write(folder, tmp_path / "one.gguf")
    LlamaForCausalLM.from_pretrained(folder).save_pretrained(tmp_path / "parts", max_shard_size="200KB")
    tokenizer.save(tmp_path / "parts")
    assert len(list((tmp_path / "parts").glob("model-*.safetensors"))) > 1
    our_gguf.write(tmp_path / "parts", tmp_path / "several.gguf")
    one, several = (
        {tensor.name: tensor.data.tobytes() for tensor in gguf.GGUFReader(tmp_path / name).tensors}
        for name in ("one.gguf", "several.gguf")
    )
    assert one == several


def test_metadata_is_all_there(tokenizer, tmp_path):
    template = "{{ messages[0].content }}<s>"
    tokenizer = BPETokenizer(
        tokenizer.vocab,
        tokenizer.merges,
        special_tokens=tokenizer.special_tokens,
        patterns=tokenizer.pre_tokenizer.patterns,
        chat_template=template,
    )
    folder = llama(tmp_path / "model", tokenizer, vocab_size=704, eos_token_id=[698, 697])
    assert our_gguf.write(folder, tmp_path / "model.gguf") == "gpt-2"
    silence()
    llm = llama_cpp.Llama(str(tmp_path / "model.gguf"), vocab_only=True, verbose=False)
    metadata = llm.metadata
    assert metadata["general.architecture"] == "llama"
    assert metadata["general.name"] == "model"
    assert metadata["tokenizer.ggml.pre"] == "gpt-2"
    assert metadata["tokenizer.chat_template"] == template
    assert (metadata["tokenizer.ggml.eos_token_id"], metadata["tokenizer.ggml.eot_token_id"]) == ("698", "697")
    assert llm.n_vocab() == 704
    # Special tokens are special where they are asked for, and text where they are not.
    assert llm.tokenize(b"<s>a", add_bos=False, special=True) == [tokenizer.special_tokens["<s>"], *tokenizer.encode("a")]
    assert llm.tokenize(b"<s>a", add_bos=False, special=False) == tokenizer.encode("<s>a")


# ---------------------------------------------------------------- llama.cpp's own tokenization

RECIPES = {pattern: {"recipe": "bpe", "pattern": pattern} for pattern in our_gguf.EXACT_PRE}


@pytest.fixture(scope="module")
def lines(sample):
    """All text there is to measure on, and of the corpora, in pieces of up to a thousand characters, of whole lines.

    On longer ones some of llama.cpp's regexes take long, and on shorter ones it takes long to begin with o200k's.
    """
    found = [line for text in sample.values() for line in text.splitlines()]
    if not (DATA / "corpora").is_dir():
        return found
    for file in sorted((DATA / "eval").glob("*.txt")):
        found += file.read_text(encoding="utf-8").splitlines()
    for file in sorted((DATA / "corpora").glob("*.txt.xz")):
        found += corpus(file.name.split(".")[0], 60_000).splitlines()
    pieces = [""]
    for line in found:
        if len(line) < 1000:
            if len(pieces[-1]) + len(line) > 1000:
                pieces.append("")
            pieces[-1] += line + "\n"
    return pieces


@needs_data
@pytest.mark.parametrize("pattern", RECIPES)
def test_llama_splits_text_as_the_tokenizer_does(pattern, lines, tmp_path):
    config = TrainingConfig(vocab_size=6000, **RECIPES[pattern])
    tokenizer = train_from_counts(WordCounts.from_texts(lines[::5], config), config)
    folder = llama(tmp_path / "model", tokenizer, hidden_size=16, num_hidden_layers=1, intermediate_size=16)
    assert our_gguf.write(folder, tmp_path / "model.gguf") == our_gguf.EXACT_PRE[pattern]
    silence()
    llm = llama_cpp.Llama(str(tmp_path / "model.gguf"), vocab_only=True, verbose=False)
    different = []
    for line in lines:
        text = normalize(line, tokenizer.normalization)
        if llm.tokenize(text.encode(), add_bos=False, special=False) != tokenizer.encode(text):
            different.append(line)
    assert different == []


def test_a_tokenizer_that_llama_has_not_says_so_and_ids_do(models, talking, tmp_path, prompts):
    assert our_gguf.write(models["tied"], tmp_path / "model.gguf", "F32") is None
    silence()
    llm = llama_cpp.Llama(str(tmp_path / "model.gguf"), vocab_only=True, verbose=False)
    assert llm.metadata["hf_sgpe.tokenizes_exactly"] == "false"
    options = GenerationOptions(max_new_tokens=20, temperature=0)
    with (
        TextGenerator.load(tmp_path / "model.gguf", tokenizer=talking, exact=True) as theirs,
        TextGenerator.load(models["tied"], "transformers", exact=True) as ours,
    ):
        assert theirs.engine.name == "llama.cpp"
        assert theirs.engine.stop_ids == ours.engine.stop_ids
        for prompt in prompts[:8]:
            assert theirs.generate(prompt, options) == ours.generate(prompt, options)


@needs_data
def test_a_hybrid_with_blooms_pattern_comes_near(lines, tmp_path):
    config = TrainingConfig(vocab_size=8000, scripts=("all",), pattern="bloom", letter_coverage=0.95, syllable_coverage=0.3)
    tokenizer = train_from_counts(WordCounts.from_texts(lines[::5], config), config)
    folder = llama(tmp_path / "model", tokenizer, hidden_size=16, num_hidden_layers=1, intermediate_size=16)
    assert our_gguf.write(folder, tmp_path / "model.gguf") is None
    silence()
    llm = llama_cpp.Llama(str(tmp_path / "model.gguf"), vocab_only=True, verbose=False)
    assert llm.metadata["tokenizer.ggml.pre"] == "bloom"
    texts = [normalize(line, "nfc") for line in lines]
    same = sum(llm.tokenize(text.encode(), add_bos=False) == tokenizer.encode(text) for text in texts)
    assert same / len(texts) > 0.999


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "bert"}, r"config\.json: a model of type 'bert': only llama, mistral and gpt2 are known"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu': llama.cpp computes silu only"),
        ({"sliding_window": 16}, "a sliding_window of 16"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, "rope of type 'yarn'"),
        ({"model_type": "gpt2", "scale_attn_weights": False, "n_layer": 2}, "scale_attn_weights is False"),
        (
            {"num_hidden_layers": 3},
            r"the weights lack model\.layers\.2\.self_attn\.q_proj\.weight, which config\.json asks for",
        ),
        ({"num_hidden_layers": None}, r"config\.json: lacks 'num_hidden_layers'"),
        ({"hidden_size": 96}, r"model\.embed_tokens\.weight is 700 × 64, and by config\.json it would be 700 × 96"),
        ({"intermediate_size": 128}, r"mlp\.gate_proj\.weight is 96 × 64, and by config\.json it would be 128 × 64"),
        ({"vocab_size": 600}, r"the tokenizer has the id 699, and the model's embedding only 600 rows"),
    ],
)
def test_what_cannot_be_written_is_refused(change, message, tokenizer, tmp_path):
    folder = llama(tmp_path / "model", tokenizer)
    config = json.loads((folder / "config.json").read_text())
    changed = {name: value for name, value in {**config, **change}.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(changed))
    with pytest.raises(SGPEError, match=message):
        our_gguf.write(folder, tmp_path / "out" / "model.gguf")
    assert not (tmp_path / "out").exists()


def test_the_model_is_not_overwritten_by_its_own_file(tokenizer, tmp_path):
    folder = llama(tmp_path / "model", tokenizer)
    before = (folder / "model.safetensors").read_bytes()
    with pytest.raises(SGPEError, match=r"model\.safetensors: is part of the model: give another name for the GGUF file"):
        our_gguf.write(folder, folder / "model.safetensors")
    assert (folder / "model.safetensors").read_bytes() == before
    our_gguf.write(folder, folder / "model.gguf")
    our_gguf.write(folder, folder / "model.gguf")


def test_damaged_weights_are_refused(tokenizer, tmp_path):
    folder = llama(tmp_path / "model", tokenizer)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(SGPEError, match=r"model\.safetensors: damaged"):
        our_gguf.write(folder, tmp_path / "model.gguf")
    llama(tmp_path / "model", tokenizer)
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(SGPEError, match=r"model\.safetensors: damaged"):
        our_gguf.write(folder, tmp_path / "model.gguf")
    weights.unlink()
    with pytest.raises(SGPEError, match=r"holds no model\.safetensors"):
        our_gguf.write(folder, tmp_path / "model.gguf")
    with pytest.raises(SGPEError, match="unknown type of weights 'Q4'"):
        our_gguf.write(folder, tmp_path / "model.gguf", "Q4")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
