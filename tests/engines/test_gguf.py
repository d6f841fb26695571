import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from support.corpora import HELD_OUT, LANGUAGES, corpus, held_out
from support.llama_cpp import known_to_llama_cpp

from hf_sgpe import BPETokenizer, SGPEError, TrainingConfig, WordCounts, train_from_counts
from hf_sgpe.cli.export import ExportOptions, export
from hf_sgpe.formats import gguf_tokenizer, tokenizer_json
from hf_sgpe.generation import GenerationOptions, TextGenerator
from hf_sgpe.splitting.normalization import prepare
from hf_sgpe.splitting.patterns import PATTERNS
from hf_sgpe.vocabulary.added_patterns import Matching
from hf_sgpe.weights import gguf as our_gguf, gguf_models

gguf = pytest.importorskip("gguf", reason="GGUF files are written with gguf: pip install gguf")
llama_cpp = pytest.importorskip("llama_cpp", reason="GGUF files are for llama.cpp: pip install llama-cpp-python")
torch = pytest.importorskip("torch", reason="the models are made with PyTorch: pip install torch")

from support.models import random_model, variants  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402

from hf_sgpe.generation.engines.transformers import load_whole  # noqa: E402
from hf_sgpe.weights.llama_log import silence  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

SMALL = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 256,
    "initializer_range": 0.2,
}
# A row in as many variants as it takes for each of its values.
ROWS = [(kind, number) for kind, row in gguf_models.COMPARED.items() for number in range(len(variants(row)))]


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


def logits_of(path, ids):
    silence()
    precision = {"type_k": llama_cpp.GGML_TYPE_F32, "type_v": llama_cpp.GGML_TYPE_F32}
    llm = llama_cpp.Llama(str(path), n_ctx=256, logits_all=True, verbose=False, **precision)
    llm.eval(ids)
    found = np.array(llm.scores[: len(ids)], np.float64)
    llm.close()
    return found


def expected_logits(folder, ids):
    model = load_whole(folder, dtype=torch.float32).eval()
    with torch.inference_mode():
        return model(torch.tensor([ids])).logits[0].double().numpy()


def close(found, expected, tolerance):
    return np.abs(found - expected).max() < tolerance * np.abs(expected).max()


@pytest.mark.parametrize(("kind", "number"), ROWS)
def test_supported_models_compute_the_same_from_a_gguf_file(kind, number, tokenizer, tmp_path):
    row = variants(gguf_models.COMPARED[kind])[number]
    # So many layers that one of Gemma's looks back over all of the context.
    layers = {"num_hidden_layers": 8} if kind == "gemma3_text" else {}
    folder = random_model(tmp_path / "model", kind, row, vocab_size=tokenizer.vocab_size, **layers)
    tokenizer.save(folder)
    our_gguf.write(folder, tmp_path / "model.gguf", "F32")
    ids = tokenizer.encode("ශ්‍රී ලංකාව and a little more text, so that positions matter") * 2
    # For GPT-2 and Gemma llama.cpp looks gelu up in a table of 16 bits.
    tolerance = 2e-3 if kind in ("gpt2", "gemma", "gemma2", "gemma3_text") else 1e-4
    assert close(logits_of(tmp_path / "model.gguf", ids), expected_logits(folder, ids), tolerance)


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


@pytest.mark.parametrize(("weight_type", "tolerance"), [("Q6_K", 0.1), ("Q5_K_M", 0.2), ("Q4_K_M", 0.4), ("Q4_0", 0.6)])
def test_llama_makes_smaller_types_itself(weight_type, tolerance, tokenizer, tmp_path, capfd):
    # Rows as such types need them.
    shape = {"hidden_size": 256, "intermediate_size": 256, "initializer_range": 0.05}
    folder = llama(tmp_path / "model", tokenizer, **shape)
    out = tmp_path / "out"
    our_gguf.write(folder, tmp_path / "whole.gguf", "F16")
    export(ExportOptions(source=str(folder), out=str(out / "small.gguf"), output="gguf", weight_type=weight_type))
    assert [file.name for file in out.iterdir()] == ["small.gguf"]
    assert "llama_model_quantize" not in capfd.readouterr().err
    whole, small = (gguf.GGUFReader(path) for path in (tmp_path / "whole.gguf", out / "small.gguf"))
    assert weight_type.partition("_M")[0] in {tensor.tensor_type.name for tensor in small.tensors}
    size = {reader: sum(tensor.n_bytes for tensor in reader.tensors) for reader in (whole, small)}
    assert size[small] < 0.6 * size[whole]
    own = {name for name in whole.fields if name.startswith(("llama.", "tokenizer.", "hf_sgpe."))}
    assert len(own) > 20
    for name in own:
        assert small.fields[name].contents() == whole.fields[name].contents(), name
    ids = tokenizer.encode("ශ්‍රී ලංකාව and more")
    assert close(logits_of(out / "small.gguf", ids), expected_logits(folder, ids), tolerance)
    assert tokenizer_json.to_dict(BPETokenizer.from_pretrained(out / "small.gguf")) == tokenizer_json.to_dict(tokenizer)


def test_smaller_types_need_llama(tokenizer, tmp_path, monkeypatch):
    folder = llama(tmp_path / "model", tokenizer)
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    with pytest.raises(SGPEError, match=r"llama-cpp-python"):
        our_gguf.write(folder, tmp_path / "out" / "model.gguf", "Q4_K_M")
    assert not (tmp_path / "out").exists()


def test_a_failed_quantization_ends_in_one_line(tokenizer, tmp_path, monkeypatch):
    folder = llama(tmp_path / "model", tokenizer)
    our_gguf.write(folder, tmp_path / "whole.gguf")
    (tmp_path / "whole.gguf").write_bytes((tmp_path / "whole.gguf").read_bytes()[:-5000])
    with pytest.raises(SGPEError, match=r"llama\.cpp .* Q4_0"):
        our_gguf.quantize(tmp_path / "whole.gguf", tmp_path / "small.gguf", "Q4_0")
    monkeypatch.setattr(our_gguf, "quantize", failing)
    with pytest.raises(SGPEError, match="no more room"):
        our_gguf.write(folder, tmp_path / "out" / "model.gguf", "Q4_0")
    assert not (tmp_path / "out").exists()


def failing(source, target, weight_type):
    assert source.exists()
    raise SGPEError("no more room")


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
        splitting=tokenizer.splitting,
        chat_template=template,
    )
    folder = llama(tmp_path / "model", tokenizer, vocab_size=704, eos_token_id=[698, 697])
    assert our_gguf.write(folder, tmp_path / "model.gguf") == "gpt-2"
    silence()
    llm = llama_cpp.Llama(str(tmp_path / "model.gguf"), vocab_only=True, verbose=False)
    metadata = llm.metadata
    assert metadata["general.architecture"] == "llama"
    assert metadata["general.basename"] == "model"
    assert metadata["tokenizer.ggml.pre"] == "gpt-2"
    assert metadata["tokenizer.chat_template"] == template
    assert (metadata["tokenizer.ggml.eos_token_id"], metadata["tokenizer.ggml.eot_token_id"]) == ("698", "697")
    assert llm.n_vocab() == 704
    # Special tokens are special where they are asked for, and text where they are not.
    assert llm.tokenize(b"<s>a", add_bos=False, special=True) == [tokenizer.special_tokens["<s>"], *tokenizer.encode("a")]
    assert llm.tokenize(b"<s>a", add_bos=False, special=False) == tokenizer.encode("<s>a")


@pytest.mark.parametrize("name", ["phi3-si", "Phi-3-mini", "modern-bert-si", "jina-v2-de"])
def test_the_name_of_a_folder_changes_nothing(name, tokenizer, tmp_path):
    ids = {}
    for folder in ("model", name):
        our_gguf.write(llama(tmp_path / folder, tokenizer), tmp_path / f"{folder}.gguf")
        silence()
        llm = llama_cpp.Llama(str(tmp_path / f"{folder}.gguf"), vocab_only=True, verbose=False)
        ids[folder] = llm.tokenize(b"<s> a </s>  <pad>\n b", add_bos=False, special=True)
    assert ids[name] == ids["model"]


@pytest.fixture(scope="module")
def spoken(talking, models, tmp_path_factory):
    """A file of a model that was trained, with a tokenizer that has a template and roles."""
    path = tmp_path_factory.mktemp("spoken") / "phi3.gguf"
    our_gguf.write(models["tied"], path, "F32", pre_tokenizer="nearest")
    return path


def test_a_file_brings_its_own_tokenizer(spoken, talking, models, prompts):
    own = BPETokenizer.from_pretrained(spoken)
    assert tokenizer_json.to_dict(own) == tokenizer_json.to_dict(BPETokenizer.from_pretrained(models["tied"]))
    for name in ("metadata", "roles", "chat_template", "eos_token_id", "normalization"):
        assert getattr(own, name) == getattr(talking, name), name
    assert own.roles
    options = GenerationOptions(max_new_tokens=10, temperature=0)
    with (
        TextGenerator.load(spoken, exact=True) as theirs,
        TextGenerator.load(models["tied"], "transformers", exact=True) as ours,
    ):
        assert theirs.generate_batch(prompts[:4], options) == ours.generate_batch(prompts[:4], options)
        assert list(theirs.chat("Be brief.").say("hello", options)) == list(ours.chat("Be brief.").say("hello", options))


def test_another_tokenizer_is_refused(spoken, talking, models, texts, tmp_path):
    config = TrainingConfig(vocab_size=2001, recipe="bpe", special_tokens=("<|endoftext|>",), chat_template="chatml")
    other = train_from_counts(WordCounts.from_texts(texts["en"], config), config)
    other.save(tmp_path / "other")
    assert other.vocab_size == talking.vocab_size
    with pytest.raises(SGPEError, match=r"phi3\.gguf: token .* /?.*/other") as caught:
        TextGenerator.load(spoken, tokenizer=tmp_path / "other")
    assert "\n" not in str(caught.value)
    with pytest.raises(SGPEError, match=r"phi3\.gguf: token \d+ is '.+' here, but '.+'"):
        TextGenerator.load(spoken, tokenizer=other)
    for same in (models["tied"], talking, spoken):
        TextGenerator.load(spoken, tokenizer=same).close()


def test_files_that_hold_no_tokenizer_json_need_one(models, talking, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:  # as they were written before, and by others
        patch.setattr(gguf_tokenizer, "TOKENIZER_KEY", "something.else")
        our_gguf.write(models["tied"], tmp_path / "old.gguf", "F32", pre_tokenizer="nearest")
    with pytest.raises(SGPEError, match=r"old\.gguf: .* no tokenizer\.json"):
        TextGenerator.load(tmp_path / "old.gguf")
    with TextGenerator.load(tmp_path / "old.gguf", tokenizer=talking) as generator:
        assert generator.generate("the", GenerationOptions(max_new_tokens=3, temperature=0)) is not None


EXACT_PRE = {name: known.name for name in PATTERNS if name != "cl100k" and (known := known_to_llama_cpp(name))}
RECIPES = {pattern: {"recipe": "bpe", "pattern": pattern} for pattern in EXACT_PRE}
INDIC = ("sinhala", "devanagari", "bengali", "gujarati", "tamil", "telugu", "kannada")
RECIPES |= {
    f"portable {pattern}": {"recipe": "portable", "pattern": pattern, "scripts": INDIC} for pattern in ("o200k", "bloom")
}


@pytest.fixture(scope="module")
def lines(sample):
    """Text in every language, in pieces of up to a thousand characters, of whole lines.

    On longer ones some of llama.cpp's regexes take long, and on shorter ones it takes long to begin with o200k's.
    """
    found = [line for text in sample.values() for line in text.splitlines()]
    for language in HELD_OUT:
        found += held_out(language)[::8]
    for language in LANGUAGES:
        found += corpus(language, 8_000).splitlines()
    pieces = [""]
    for line in found:
        if len(line) < 1000:
            if len(pieces[-1]) + len(line) > 1000:
                pieces.append("")
            pieces[-1] += line + "\n"
    return pieces


@pytest.mark.text
@pytest.mark.parametrize("recipe", RECIPES)
def test_llama_splits_text_as_the_tokenizer_does(recipe, lines, tmp_path):
    config = TrainingConfig(vocab_size=6000, **RECIPES[recipe])
    tokenizer = train_from_counts(WordCounts.from_texts(lines[::5], config), config)
    folder = llama(tmp_path / "model", tokenizer, hidden_size=16, num_hidden_layers=1, intermediate_size=16)
    assert our_gguf.write(folder, tmp_path / "model.gguf") == EXACT_PRE[config.pattern]
    silence()
    llm = llama_cpp.Llama(str(tmp_path / "model.gguf"), vocab_only=True, verbose=False)
    different = []
    for line in lines:
        text = prepare(line, tokenizer.normalization)
        if llm.tokenize(text.encode(), add_bos=False, special=False) != tokenizer.encode(text):
            different.append(line)
    assert different == []


def test_a_tokenizer_that_llama_has_not_says_so_and_ids_do(models, talking, tmp_path, prompts):
    with pytest.raises(SGPEError, match=r"--pre-tokenizer nearest"):
        our_gguf.write(models["tied"], tmp_path / "model.gguf", "F32")
    assert not (tmp_path / "model.gguf").exists()
    assert our_gguf.write(models["tied"], tmp_path / "model.gguf", "F32", pre_tokenizer="nearest") is None
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


def test_a_file_says_that_added_tokens_of_llama_take_no_white_space(tmp_path, capsys):
    config = TrainingConfig(vocab_size=300, recipe="bpe", pattern="bloom", special_tokens=["<mask>"])
    tokenizer = train_from_counts(WordCounts.from_texts(["low lower lowest"] * 3, config), config)
    tokenizer = BPETokenizer.of(replace(tokenizer.data, matching={"<mask>": Matching(lstrip=True)}))
    folder = llama(tmp_path / "model", tokenizer, hidden_size=16, num_hidden_layers=1, intermediate_size=16)
    export(ExportOptions(source=str(folder), out=str(tmp_path / "model.gguf"), output="gguf"))
    expected = "llama.cpp's own tokenizer returns the same ids, except around '<mask>' (pre-tokenizer bloom)\n"
    assert capsys.readouterr().out.endswith(expected)
    silence()
    llm = llama_cpp.Llama(str(tmp_path / "model.gguf"), vocab_only=True, verbose=False)
    assert llm.metadata["hf_sgpe.tokenizes_exactly"] == "false"
    assert BPETokenizer.from_pretrained(tmp_path / "model.gguf").matching == tokenizer.matching


@pytest.mark.parametrize("normalization", ["none", "nfc"])
def test_a_file_says_that_llama_does_not_normalize(normalization, tmp_path, capsys):
    config = TrainingConfig(vocab_size=300, recipe="bpe", pattern="bloom", normalization=normalization)
    tokenizer = train_from_counts(WordCounts.from_texts(["क\u093c और ढ\u093c"], config), config)
    folder = llama(tmp_path / "model", tokenizer, hidden_size=16, num_hidden_layers=1, intermediate_size=16)
    export(ExportOptions(source=str(folder), out=str(tmp_path / "model.gguf"), output="gguf"))
    only = "" if normalization == "none" else " for text that is already in NFC"
    assert capsys.readouterr().out.endswith(
        f" MB. llama.cpp's own tokenizer returns the same ids{only} (pre-tokenizer bloom)\n"
    )
    silence()
    llm = llama_cpp.Llama(str(tmp_path / "model.gguf"), vocab_only=True, verbose=False)
    assert llm.metadata["hf_sgpe.tokenizes_exactly"] == ("true" if normalization == "none" else "false")
    # A letter that NFC takes apart.
    raw = "\u095c"
    assert (llm.tokenize(raw.encode(), add_bos=False) == tokenizer.encode(raw)) == (normalization == "none")
    form = prepare(raw, "nfc")
    assert llm.tokenize(form.encode(), add_bos=False) == tokenizer.encode(form)


@pytest.mark.text
def test_a_hybrid_with_blooms_pattern_comes_near(lines, tmp_path):
    config = TrainingConfig(vocab_size=8000, scripts=("all",), pattern="bloom", letter_coverage=0.95, syllable_coverage=0.3)
    tokenizer = train_from_counts(WordCounts.from_texts(lines[::5], config), config)
    folder = llama(tmp_path / "model", tokenizer, hidden_size=16, num_hidden_layers=1, intermediate_size=16)
    assert our_gguf.write(folder, tmp_path / "model.gguf", pre_tokenizer="nearest") is None
    silence()
    llm = llama_cpp.Llama(str(tmp_path / "model.gguf"), vocab_only=True, verbose=False)
    assert llm.metadata["tokenizer.ggml.pre"] == "bloom"
    texts = [prepare(line, "nfc") for line in lines]
    same = sum(llm.tokenize(text.encode(), add_bos=False) == tokenizer.encode(text) for text in texts)
    assert same / len(texts) > 0.999


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "bert"}, r"config\.json: .* 'bert'"),
        ({"hidden_act": "gelu"}, r"'llama' with hidden_act 'gelu'"),
        ({"sliding_window": 16}, "with sliding_window 'all layers'"),
        ({"model_type": "mistral", "max_position_embeddings": 8192}, "with sliding_window 'all layers'"),
        ({"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4}}, "Missing required keys in `rope_parameters`"),
        (
            {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0, "partial_rotary_factor": 0.5}},
            r"partial_rotary_factor 0\.5",
        ),
        ({"a_field_of_tomorrow": 1}, "with a_field_of_tomorrow 1"),
        ({"model_type": "gpt2", "scale_attn_weights": False, "n_layer": 2}, "with scale_attn_weights False"),
        ({"num_hidden_layers": 3}, r"model\.layers\.2\.input_layernorm\.weight,"),
        (
            {"num_hidden_layers": None},
            r"model\.layers\.2\.\S+, which",
        ),  # the default of transformers is 32
        ({"num_hidden_layers": 1}, r"model\.layers\.1\.\S+ do not belong"),
        ({"attention_bias": True}, r"model\.layers\.0\.self_attn\.q_proj\.bias,"),
        ({"hidden_size": 96}, r"model\.embed_tokens\.weight .* 700 × 64, .* 700 × 96"),
        ({"intermediate_size": 128}, r"mlp\.gate_proj\.weight .* 96 × 64, .* 128 × 64"),
        ({"vocab_size": 600}, r"id 699, .* 600 rows"),
    ],
)
def test_models_that_gguf_cannot_hold_are_refused(change, message, tokenizer, tmp_path):
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
    with pytest.raises(SGPEError, match=r"model\.safetensors is part of the model"):
        our_gguf.write(folder, folder / "model.safetensors")
    assert (folder / "model.safetensors").read_bytes() == before
    our_gguf.write(folder, folder / "model.gguf")
    our_gguf.write(folder, folder / "model.gguf")


def test_damaged_weights_are_refused(tokenizer, tmp_path):
    folder = llama(tmp_path / "model", tokenizer)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(SGPEError, match=r"model\.safetensors is damaged"):
        our_gguf.write(folder, tmp_path / "model.gguf")
    llama(tmp_path / "model", tokenizer)
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(SGPEError, match=r"model\.safetensors is damaged"):
        our_gguf.write(folder, tmp_path / "model.gguf")
    weights.unlink()
    with pytest.raises(SGPEError, match=r"has no model\.safetensors"):
        our_gguf.write(folder, tmp_path / "model.gguf")
    with pytest.raises(SGPEError, match="unknown type of weights 'Q4'"):
        our_gguf.write(folder, tmp_path / "model.gguf", "Q4")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
