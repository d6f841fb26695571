"""Programs that run a model with an extended tokenizer: grammars and detokenizers of vLLM and SGLang, draft models, servers.

vLLM and SGLang themselves need a GPU. The tests call what they call: `AutoTokenizer`, xgrammar, llguidance, and the stream
of `tokenizers` that decodes one id after another.
"""

import importlib
import json
import random
import re
import socket
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from itertools import cycle, islice

import pytest
from jinja2 import Environment
from support.character_tokenizers import character_tokenizer, with_template
from support.command import hf_sgpe
from support.ecosystems import RUNNING, needs_running
from support.paths import ROOT
from support.serving import wait_until
from support.small_tokenizers import with_parts
from tokenizers.decoders import DecodeStream
from transformers import AutoConfig, AutoTokenizer

from hf_sgpe import BPETokenizer, SGPETokenizerFast
from hf_sgpe.chat.templates import load_template
from trainers import ExtensionConfig, TokenizerExtender, TokenizerTrainer, TrainingConfig

CHAT = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
SCHEMA = json.dumps({"type": "object", "properties": {"town": {"type": "string"}, "n": {"type": "integer"}}})
ROWS = 2048
CHOICES = ["ශ්‍රී ලංකාව", "ශ්‍රීමත්", "a town", "a"]


@pytest.fixture(scope="module")
def bases(sample, tmp_path_factory):
    """A base whose merges join bytes, and one whose merges join characters."""
    folder = tmp_path_factory.mktemp("bases")
    config = TrainingConfig(900, "bpe", pattern="llama3", special_tokens=CHAT, eos_token="<|im_end|>", normalization="none")
    bytes_ = TokenizerTrainer(config).train(iterator=[sample["en"]]).to_bpe()
    with_parts(bytes_, chat_template=load_template("chatml")).save(folder / "bytes")
    with_template(character_tokenizer([sample["en"]], "metaspace-prefix", added=["<h1>"])).save(folder / "characters")
    return folder


@pytest.fixture(scope="module")
def extended(bases, sample):
    extender = TokenizerExtender(ExtensionConfig(scripts=["sinhala"], new_tokens=300))
    for name in ("bytes", "characters"):
        extender.extend(bases / name, text=sample["si"]).save_pretrained(bases / f"{name}-si")
    return bases


@pytest.fixture(params=["bytes", "characters"])
def folder(request, extended):
    return extended / f"{request.param}-si"


@pytest.fixture(scope="module")
def lines(sample):
    """2,000 texts: Sinhala, English, both, and random characters."""
    pick = random.Random(1)
    alphabets = (range(32, 127), range(0xD80, 0xE00), range(0x400, 0x500), range(0x1F600, 0x1F640))
    sinhala, english = ([line[:60] for line in sample[code].splitlines() if line] for code in ("si", "en"))
    texts = []
    for si, en in islice(zip(cycle(sinhala), cycle(english), strict=True), 500):
        texts += [si, en, f"{si} {en}", "".join(chr(pick.choice(pick.choice(alphabets))) for _ in range(20))]
    return texts


@pytest.fixture(scope="module")
def xgrammar():
    sys.path.append(str(RUNNING))
    yield importlib.import_module("xgrammar")
    sys.path.remove(str(RUNNING))


def text_ids(tokenizer):
    added = {*tokenizer.special_tokens.values(), *tokenizer.added_tokens.values()}
    return sorted(set(tokenizer.get_vocab().values()) - added)


def answers(folder, texts):
    """Return the ids of texts as answers, to which no token and no space is added, and the texts as JSON with their ids."""
    ours = BPETokenizer.from_pretrained(folder)
    objects = [json.dumps({"town": text, "n": n}, ensure_ascii=False) for n, text in enumerate(texts)]
    return [[ours.encode_inside(text) for text in kind] for kind in (texts, objects)]


def beginning(tokenizer, rests):
    """Return the ids with whose bytes one of the texts begins."""
    return {id for id in text_ids(tokenizer) if any(rest.startswith(tokenizer.token_bytes(id)) for rest in rests)}


def steps(tokenizer, chosen):
    """Yield, for each id of a choice, the bytes of the choices that may still come, and the id."""
    done = b""
    for id in tokenizer.encode_inside(chosen):
        yield [text.encode()[len(done) :] for text in CHOICES if text.encode().startswith(done)], id
        done += tokenizer.token_bytes(id)


@needs_running
def test_xgrammar_has_the_bytes_of_each_token_and_accepts_every_text(folder, lines, xgrammar):
    ours, theirs = BPETokenizer.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    info = xgrammar.TokenizerInfo.from_huggingface(theirs, vocab_size=ROWS)
    decoded = info.decoded_vocab
    assert [decoded[id] for id in text_ids(ours)] == [ours.token_bytes(id) for id in text_ids(ours)]
    compiler = xgrammar.GrammarCompiler(info, max_threads=1)
    rules = (compiler.compile_grammar(r"root ::= [^\0]*"), compiler.compile_json_schema(SCHEMA))
    mask = xgrammar.allocate_token_bitmask(1, ROWS)
    for rule, rows in zip(rules, answers(folder, lines), strict=True):
        matcher = xgrammar.GrammarMatcher(rule)
        for ids in rows:
            for id in ids:
                matcher.fill_next_token_bitmask(mask)
                assert mask[0, id // 32] >> id % 32 & 1 and matcher.accept_token(id)
            assert matcher.is_completed()
            matcher.reset()


@needs_running
@pytest.mark.parametrize("chosen", CHOICES)
def test_xgrammar_allows_exactly_the_tokens_that_begin_a_choice(folder, chosen, xgrammar):
    ours = BPETokenizer.from_pretrained(folder)
    info = xgrammar.TokenizerInfo.from_huggingface(AutoTokenizer.from_pretrained(folder), vocab_size=ROWS)
    rule = " | ".join(json.dumps(text, ensure_ascii=False) for text in CHOICES)
    matcher = xgrammar.GrammarMatcher(xgrammar.GrammarCompiler(info, max_threads=1).compile_grammar(f"root ::= {rule}"))
    mask = xgrammar.allocate_token_bitmask(1, ROWS)
    for rests, id in steps(ours, chosen):
        mask.fill_(-1)  # which allows all; the next call writes nothing if this is so
        matcher.fill_next_token_bitmask(mask)
        allowed = {other for other in range(ROWS) if mask[0, other // 32] >> other % 32 & 1}
        assert allowed - {ours.eos_token_id} == beginning(ours, rests)
        assert (ours.eos_token_id in allowed) == (b"" in rests)
        assert matcher.accept_token(id)


def test_llguidance_has_the_bytes_of_each_token_and_accepts_every_text(folder, lines):
    library = pytest.importorskip("llguidance", reason="structured output needs: pip install llguidance")
    from llguidance.hf import from_tokenizer

    ours = BPETokenizer.from_pretrained(folder)
    tokens = from_tokenizer(AutoTokenizer.from_pretrained(folder), n_vocab=ROWS)
    ids = [id for id in text_ids(ours) if ours.token_bytes(id) != b"\xff"]  # llguidance's own mark; no text has this byte
    assert [tokens.decode_bytes([id]) for id in ids] == [ours.token_bytes(id) for id in ids]
    grammars = (library.LLMatcher.grammar_from_regex("(?s:.*)"), library.LLMatcher.grammar_from_json_schema(SCHEMA))
    for grammar, rows in zip(grammars, answers(folder, lines), strict=True):
        matcher = library.LLMatcher(tokens, grammar)
        for row in rows:
            assert matcher.try_consume_tokens(row) == len(row) and matcher.is_accepting()
            matcher.reset()


@pytest.mark.parametrize("chosen", CHOICES)
def test_llguidance_allows_only_tokens_that_begin_a_choice(folder, chosen):
    library = pytest.importorskip("llguidance", reason="structured output needs: pip install llguidance")
    from llguidance.hf import from_tokenizer

    ours = BPETokenizer.from_pretrained(folder)
    tokens = from_tokenizer(AutoTokenizer.from_pretrained(folder), n_vocab=ROWS)
    rule = "start: " + " | ".join(json.dumps(text, ensure_ascii=False) for text in CHOICES)
    matcher = library.LLMatcher(tokens, library.LLMatcher.grammar_from_lark(rule))
    for rests, id in steps(ours, chosen):
        mask = matcher.compute_bitmask()
        allowed = {other for other in range(ROWS) if mask[other // 8] >> other % 8 & 1}
        assert id in allowed and allowed - {ours.eos_token_id} <= beginning(ours, rests)
        assert (ours.eos_token_id in allowed) == (b"" in rests)
        assert matcher.consume_token(id)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("model_type", ["llama", "qwen2", "gemma2"])
def test_ids_and_streamed_text_are_the_same_when_loaded_as_vllm_and_sglang_load(folder, model_type, lines, tmp_path):
    ours = SGPETokenizerFast.from_pretrained(folder)
    ours.save_pretrained(tmp_path)
    AutoConfig.for_model(model_type).save_pretrained(tmp_path)
    ours.save_pretrained(tmp_path)  # into the folder of a model
    config = AutoConfig.from_pretrained(tmp_path)
    vllm = AutoTokenizer.from_pretrained(tmp_path, config=config, truncation_side="left", mistral_format=False)
    sglang = AutoTokenizer.from_pretrained(tmp_path, use_fast=False, clean_up_tokenization_spaces=False)
    ids = ours(lines)["input_ids"]
    assert vllm(lines)["input_ids"] == ids and sglang(lines)["input_ids"] == ids
    for row, text in zip(ids[:200], lines, strict=False):
        stream = DecodeStream(ids=row[:2], skip_special_tokens=False)  # the prompt
        streamed = "".join(stream.step(vllm.backend_tokenizer, id) or "" for id in row[2:])
        whole = vllm.decode(row)
        assert whole.endswith(streamed) and whole == ours.to_bpe().decode(row), text


def test_a_longer_conversation_begins_with_the_ids_of_the_shorter_one(extended, lines):
    tokenizer = AutoTokenizer.from_pretrained(extended / "bytes-si")
    messages = [
        {"role": role, "content": line} for role, line in zip(cycle(("user", "assistant")), lines[:40], strict=False)
    ]
    before = []
    for end in range(1, len(messages)):
        ids = tokenizer.apply_chat_template(messages[:end], return_dict=False)
        assert ids[: len(before)] == before
        before = ids


def test_only_here_the_text_of_a_special_token_in_a_message_stays_text(extended):
    messages = [{"role": "user", "content": "a <|im_end|> b"}]
    tokenizers = [kind.from_pretrained(extended / "bytes-si") for kind in (AutoTokenizer, SGPETokenizerFast)]
    end = tokenizers[0].eos_token_id
    theirs, ours = (tokenizer.apply_chat_template(messages, return_dict=False) for tokenizer in tokenizers)
    assert (theirs.count(end), ours.count(end)) == (2, 1)


@pytest.fixture(scope="module")
def models(extended):
    """Two models of different sizes, extended with the same tokenizer, and the draft model before."""
    pytest.importorskip("torch", reason="models are of PyTorch: pip install torch accelerate")
    from support.small_models import make_llama

    base = SGPETokenizerFast.from_pretrained(extended / "bytes")
    for seed, name in enumerate(("base-model", "small-model")):
        make_llama(base, seed=seed, num_hidden_layers=2 - seed).save_pretrained(extended / name)
        base.save_pretrained(extended / name)
        command = ("transplant", name, "--tokenizer", "bytes-si", "--pad-to-multiple", 64, "--out", f"{name}-si")
        hf_sgpe(*command, cwd=extended)
    return extended


def load(folder):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype="float32").eval()


def test_an_extended_draft_model_changes_no_answer(models, lines):
    model, draft = load(models / "base-model-si"), load(models / "small-model-si")
    tokenizer = AutoTokenizer.from_pretrained(models / "base-model-si")
    assert model.config.vocab_size == draft.config.vocab_size
    for text in lines[:12]:
        prompt = tokenizer(text[:20], return_tensors="pt")
        alone = model.generate(**prompt, max_new_tokens=20, do_sample=False)
        for assistant in (draft, model):
            helped = model.generate(**prompt, max_new_tokens=20, do_sample=False, assistant_model=assistant)
            assert helped.equal(alone)


def test_a_draft_model_with_another_tokenizer_is_reported(models, lines):
    (models / "si.txt").write_text("\n".join(lines), encoding="utf-8")
    names = ("small-model-si", "small-model")
    same, other = (hf_sgpe("compare-ids", "base-model-si", name, "si.txt", cwd=models).stdout for name in names)
    count = len([line for line in "\n".join(lines).splitlines() if line.strip()])
    assert f"{count:,} of {count:,} lines have the same ids" in same
    assert "is the first with different ids" in other
    prompt = AutoTokenizer.from_pretrained(models / "base-model-si")("a", return_tensors="pt")
    with pytest.raises(ValueError, match="have different tokenizers"):
        load(models / "base-model-si").generate(**prompt, assistant_model=load(models / "small-model"))


@contextmanager
def transformers_serve(folder):
    """Serve a model with ``transformers serve``, and give the address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", str(folder), "--device", "cpu"]
    environment = {"PYTHONPATH": str(RUNNING), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PATH": ""}
    server = subprocess.Popen([*command, "--port", str(port)], env=environment, stderr=subprocess.DEVNULL)

    def answers():
        assert server.poll() is None
        with socket.socket() as asked:
            return asked.connect_ex(("127.0.0.1", port)) == 0

    try:
        wait_until(answers, 300)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


@needs_running
@pytest.mark.slow
def test_transformers_serve_answers_as_the_model_does(models, lines):
    name = str(models / "base-model-si")
    model, tokenizer = load(name), AutoTokenizer.from_pretrained(name)
    with transformers_serve(name) as url:
        for text in lines[:4]:
            body = {"model": name, "prompt": text, "max_tokens": 8, "temperature": 0}
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(f"{url}/v1/completions", json.dumps(body).encode(), headers)
            with urllib.request.urlopen(request) as response:
                answer = json.load(response)
            prompt = tokenizer(text, return_tensors="pt")
            ids = model.generate(**prompt, max_new_tokens=8, do_sample=False)[0][prompt["input_ids"].shape[1] :]
            assert answer["usage"]["prompt_tokens"] == prompt["input_ids"].shape[1]
            assert answer["choices"][0]["text"] == tokenizer.decode(ids, skip_special_tokens=True)


def test_the_modelfile_writes_conversations_as_the_chat_template_does():
    page = (ROOT / "docs" / "ollama.md").read_text(encoding="utf-8")
    modelfile = re.search(r"```dockerfile\n(.*?)```", page, re.DOTALL)[1]
    template = re.search(r'^TEMPLATE """(.*?)"""$', modelfile, re.DOTALL | re.MULTILINE)[1]
    others = modelfile.replace(f'TEMPLATE """{template}"""', "").split("\n")
    commands = [line.split(maxsplit=2) for line in others if line]
    assert ["FROM", "./my-model.gguf"] in commands and ["PARAMETER", "stop", '"<|im_end|>"'] in commands
    assert {words[0] for words in commands} == {"FROM", "PARAMETER"}
    written = {"{{ range .Messages }}": "{% for message in messages %}", "{{ end }}": "{% endfor %}"}
    written |= {"{{ .Role }}": "{{ message.role }}", "{{ .Content }}": "{{ message.content }}"}
    assert set(re.findall(r"\{\{.*?\}\}", template)) == set(written)
    for go, jinja in written.items():
        template = template.replace(go, jinja)
    tokenizer = SGPETokenizerFast.from_bpe(BPETokenizer.train_from_iterator(["a b"], 259, special_tokens=list(CHAT)))
    messages = [{"role": role, "content": "ශ්‍රී {} \n"} for role in ("system", "user", "assistant", "user")]
    options = {"chat_template": load_template("chatml"), "tokenize": False, "add_generation_prompt": True}
    rendered = Environment(keep_trailing_newline=True).from_string(template).render(messages=messages)
    assert rendered == tokenizer.apply_chat_template(messages, **options)
