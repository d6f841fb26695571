from dataclasses import replace

import pytest
from support.sentencepiece_like import content

from hf_sgpe import BPETokenizer
from hf_sgpe.evaluation.token_use import use_of_tokens
from hf_sgpe.formats import tokenizer_json
from hf_sgpe.formats.tokenizer_folder import TokenizerFolder
from hf_sgpe.generation import GenerationOptions, load_engine
from hf_sgpe.vocabulary.trimming import trimmed
from hf_sgpe.weights import gguf

torch = pytest.importorskip("torch", reason="the models are trained with PyTorch: pip install torch")
pytestmark = pytest.mark.filterwarnings("ignore")

GREEDY = GenerationOptions(max_new_tokens=12, temperature=0)
KEPT = ("si", "hi", "en")


@pytest.fixture(scope="module")
def kept_prompts(texts):
    lines = [line for language in KEPT for line in texts[language][:400] if len(line.split()) > 6]
    return [" ".join(line.split()[:3]) for line in lines[:: len(lines) // 12]]


@pytest.fixture(scope="module")
def smaller(models, texts, tmp_path_factory):
    """The model before, the model without the tokens that three languages do not need, and the ids of its tokens."""
    from trainers.model_rows.transplanting import transplant

    folder = tmp_path_factory.mktemp("smaller")
    text = "\n".join(line for language in KEPT for line in texts[language][:2000])
    (folder / "kept.txt").write_text(text, encoding="utf-8", newline="\n")
    base = TokenizerFolder.read(models["tied"])
    [use] = use_of_tokens([base.data], [folder / "kept.txt"])
    small, trimming = base.trimmed(["cyrillic"], ids="compact", use=use)
    assert trimming.unused > 50
    (folder / "tokenizer").mkdir()
    small.write(folder / "tokenizer")
    transplant(models["tied"], folder / "tokenizer", folder / "model")
    return models["tied"], folder / "model", trimming


def test_every_engine_generates_the_tokens_of_the_model_before(engine_name, smaller, kept_prompts):
    before, after, trimming = smaller
    old, new = BPETokenizer.of(trimming.base), BPETokenizer.of(trimming.tokenizer)
    with load_engine(before, "transformers", exact=True) as engine:
        answers = {text: list(engine.generate(old.encode(text), GREEDY)) for text in kept_prompts}
    answers = {text: ids for text, ids in answers.items() if trimming.ids.keys() >= set(ids)}
    assert len(answers) > 0.6 * len(kept_prompts)
    with load_engine(after, engine_name, exact=True) as engine:
        found = {text: list(engine.generate(new.encode(text), GREEDY)) for text in answers}
    assert found == {text: [trimming.ids[id] for id in ids] for text, ids in answers.items()}


@pytest.mark.parametrize("kind", ["gpt2", "metaspace-first"])
def test_llama_cpp_encodes_text_as_the_trimmed_tokenizer_does(kind, texts, tmp_path):
    llama_cpp = pytest.importorskip("llama_cpp", reason="llama.cpp reads the file: pip install llama-cpp-python")
    lines = [line for language in ("en", "si", "ru") for line in texts[language][:150] if line.strip()]
    if kind == "gpt2":
        base = BPETokenizer.train_from_iterator(lines, 900, pattern="gpt2", special_tokens=["<s>"]).data
    else:
        base = tokenizer_json.from_dict(content(lines[:40] + lines[-40:], 500, kind))
        base = replace(base, roles={"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"})
    (tmp_path / "a.txt").write_text("\n".join(lines[:200]), encoding="utf-8", newline="\n")
    [use] = use_of_tokens([base], [tmp_path / "a.txt"])
    trimming = trimmed(base, ["cyrillic"], ids="compact", use=use)
    tokenizer = BPETokenizer.of(trimming.tokenizer)
    gguf.write_vocabulary(trimming.tokenizer, tmp_path / "vocabulary.gguf", None)
    llama = llama_cpp.Llama(str(tmp_path / "vocabulary.gguf"), vocab_only=True, verbose=False)
    for line in lines:
        assert llama.tokenize(line.encode(), add_bos=False, special=False) == tokenizer.encode(line)
    llama.close()
