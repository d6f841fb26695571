"""Tokenizers without a tokenizer.json, against the libraries that read their files: ids, roles, extension, refusals."""

import base64
import json
import shutil

import pytest
import tiktoken
from hypothesis import given, strategies as st
from support.command import hf_sgpe
from support.corpora import HELD_OUT, held_out
from support.fetched import files_of_wheel
from support.texts import texts
from transformers import AutoTokenizer

from hf_sgpe import SPLIT_PATTERNS, BPETokenizer, SGPEError, SGPETokenizerFast
from hf_sgpe.formats import loading
from hf_sgpe.formats.tokenizer_folder import TokenizerFolder
from hf_sgpe.vocabulary.byte_strings import bytes_to_string

# The classes of older transformers read vocab.json and merges.txt by a deprecated function of tokenizers.
pytestmark = pytest.mark.filterwarnings("ignore:Deprecated in 0.9.0:DeprecationWarning")

END, START = "<|endoftext|>", "<|im_start|>"
FLAGS = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}


@pytest.fixture(scope="module")
def plain(sample):
    """A tokenizer without special tokens, in the order of tiktoken's ranks."""
    return BPETokenizer.train_from_iterator([sample["en"][:20_000], sample["hi"][:5_000]], 600, pattern="gpt2")


def write(folder, plain, before=(), after=(), **settings):
    """Write vocab.json, merges.txt and files of settings: name → content."""
    folder.mkdir(parents=True)
    names = [*before, *(bytes_to_string(token) for token, _ in plain.get_mergeable_ranks()), *after]
    merges = [" ".join(map(bytes_to_string, pair)) for pair in plain.merges]
    (folder / "vocab.json").write_text(json.dumps({name: id for id, name in enumerate(names)}), encoding="utf-8")
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]), encoding="utf-8")
    for name, content in settings.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def decoder(*names):
    """Return `added_tokens_decoder` with ids from 600; special tokens look like <|…|>."""
    return {str(600 + n): {"content": name, **FLAGS, "special": name[1] == "|"} for n, name in enumerate(names)}


GPT2_FILES = {
    "a class": {"tokenizer_config": {"tokenizer_class": "GPT2Tokenizer", "model_max_length": 512}},
    "a type of model": {"config": {"model_type": "gpt2"}},
    "around the text": {
        "tokenizer_config": {
            "tokenizer_class": "GPT2TokenizerFast",
            "add_bos_token": True,
            "bos_token": {"__type": "AddedToken", "content": END, **FLAGS, "normalized": True},
            "pad_token": "<pad>",
        }
    },
    "runs of spaces": {
        "tokenizer_config": {"tokenizer_class": "CodeGenTokenizer", "bos_token": END},
        "added_tokens": {"  ": 601, "   ": 602, "\t\t": 603},
    },
    "Qwen": {
        "tokenizer_config": {
            "tokenizer_class": "Qwen2Tokenizer",
            "added_tokens_decoder": decoder(END, START, "<think>"),
            "additional_special_tokens": [START],
            "bos_token": None,
            "eos_token": START,
        }
    },
    "Qwen, with older files": {
        "tokenizer_config": {"tokenizer_class": "Qwen2Tokenizer"},
        "added_tokens": {END: 600, START: 601, "<x>": 602},
        "special_tokens_map": {"eos_token": START, "additional_special_tokens": ["<|y|>"]},
    },
    "Qwen by its model": {"config": {"model_type": "qwen2"}},
    "RoBERTa": {
        "tokenizer_config": {
            "tokenizer_class": "RobertaTokenizer",
            "mask_token": {"__type": "AddedToken", "content": "<mask>", **FLAGS, "lstrip": True},
        }
    },
}


@pytest.fixture(scope="module", params=GPT2_FILES)
def both(request, plain, tmp_path_factory):
    """A tokenizer from vocab.json and merges.txt, and the same in transformers."""
    around = {"before": ["<s>", "<pad>", "</s>", "<unk>"], "after": ["<mask>"]} if request.param == "RoBERTa" else {}
    around = around or {"after": () if "Qwen" in request.param else (END,)}
    folder = write(tmp_path_factory.mktemp("gpt2") / "base", plain, **around, **GPT2_FILES[request.param])
    return BPETokenizer.from_pretrained(folder), AutoTokenizer.from_pretrained(folder), folder


PIECES = st.lists(
    st.sampled_from([END, START, "<think>", "<x>", "<|y|>", "<pad>", "<mask>", "</s>", " ", "  ", "\t", "a", "É", "e\u0301"])
)


@given(text=texts | PIECES.map("".join))
def test_vocab_and_merges_give_the_ids_of_transformers(both, text):
    ours, theirs, _ = both
    assert ours.encode(text, allowed_special="all", add_special_tokens=True) == theirs(text)["input_ids"]


def test_vocab_and_merges_give_the_roles_of_transformers(both):
    ours, theirs, folder = both
    assert ours.get_vocab() == theirs.get_vocab()
    assert ours.roles == {role: token for role, token in theirs.special_tokens_map.items() if isinstance(token, str)}
    assert SGPETokenizerFast.from_pretrained(folder).get_vocab() == theirs.get_vocab()


def test_an_extended_folder_is_a_tokenizer_json(both, sample, tmp_path):
    ours, theirs, folder = both
    corpus, out = tmp_path / "si.txt", tmp_path / "out"
    corpus.write_text(sample["si"], encoding="utf-8")
    hf_sgpe("extend", folder, corpus, "--script", "sinhala", "--new-tokens", "100", "--out", out)
    extended = AutoTokenizer.from_pretrained(out)
    for line in sample["en"].splitlines()[:50]:
        assert extended(line)["input_ids"] == theirs(line)["input_ids"]
    line = sample["si"].splitlines()[0]
    assert len(extended.encode(line)) < len(theirs.encode(line))
    assert extended.special_tokens_map.items() >= ours.roles.items()
    assert not (out / "merges.txt").exists()


def tekken_of(plain, *, special=None, number=4):
    """Return the content of a tekken.json, with some tokens more than the size of its vocabulary."""
    tokens = [token for token, _ in plain.get_mergeable_ranks()] + [b"never used", b"nor this"]
    return {
        "config": {
            "pattern": SPLIT_PATTERNS["tekken"],
            "num_vocab_tokens": len(tokens),
            "default_vocab_size": len(plain) + number,
            "default_num_special_tokens": number,
            "version": "v3" if special is None else "v13",
        },
        "vocab": [
            {"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
            for rank, token in enumerate(tokens)
        ],
        **({} if special is None else {"special_tokens": special}),
    }


SPECIAL = [{"rank": n, "token_str": text, "is_control": True} for n, text in enumerate(["<unk>", "<s>", "</s>"])]


@pytest.fixture(scope="module")
def mistral(plain, tmp_path_factory):
    folder = tmp_path_factory.mktemp("mistral")
    (folder / "tekken.json").write_text(json.dumps(tekken_of(plain, special=SPECIAL)), encoding="utf-8")
    return folder


def test_pairs_in_the_template_of_roberta(plain, tmp_path):
    """Without settings, the mask token takes the white space before it, as in transformers 4 and in RoBERTa's own file."""
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    folder = write(tmp_path / "base", plain, before=special, after=["<mask>"], config={"model_type": "roberta"})
    theirs, ours = AutoTokenizer.from_pretrained(folder), SGPETokenizerFast.from_pretrained(folder)
    assert ours("one", "two")["input_ids"] == theirs("one", "two")["input_ids"]
    assert ours("a <mask>", add_special_tokens=False)["input_ids"] == ours.convert_tokens_to_ids(["a", "<mask>"])


@given(text=texts)
def test_tekken_gives_the_ids_of_mistral_common(mistral, plain, text):
    """Tekkenizer adds the number of special tokens to the ids of such an encoding, and recognises none in text."""
    encoding = tiktoken.Encoding("x", pat_str=SPLIT_PATTERNS["tekken"], mergeable_ranks=plain.vocab, special_tokens={})
    expected = [1, *(id + 4 for id in encoding.encode_ordinary(text))]
    assert loaded(mistral).encode(text, add_special_tokens=True) == expected


def loaded(folder, known={}):  # noqa: B006 - a cache
    if folder not in known:
        known[folder] = BPETokenizer.from_pretrained(folder)
    return known[folder]


def test_the_special_tokens_of_tekken(mistral, plain, tmp_path):
    tokenizer = BPETokenizer.from_pretrained(mistral)
    assert tokenizer.special_tokens == {"<unk>": 0, "<s>": 1, "</s>": 2, "<SPECIAL_3>": 3}
    assert tokenizer.roles == {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    (tmp_path / "tekken_240718.json").write_text(json.dumps(tekken_of(plain, number=24)), encoding="utf-8")
    older = BPETokenizer.from_pretrained(tmp_path / "tekken_240718.json")
    assert [*older.special_tokens][9:] == [
        *("[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]"),
        *("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]", *(f"<SPECIAL_{n}>" for n in range(20, 24))),
    ]


def test_every_command_reads_tekken(mistral, sample, tmp_path):
    corpus, out = tmp_path / "si.txt", tmp_path / "out"
    corpus.write_text(sample["si"], encoding="utf-8")
    hf_sgpe("info", mistral)
    hf_sgpe("evaluate", mistral, corpus)
    hf_sgpe("export", mistral / "tekken.json", "--out", tmp_path / "exported")
    hf_sgpe("extend", mistral, corpus, "--script", "sinhala", "--new-tokens", "100", "--out", out)
    line = sample["en"].splitlines()[0]
    expected = BPETokenizer.from_pretrained(mistral).encode(line, add_special_tokens=True)
    for folder in (out, tmp_path / "exported"):
        assert AutoTokenizer.from_pretrained(folder)(line)["input_ids"] == expected
    assert AutoTokenizer.from_pretrained(out).eos_token == "</s>"


def test_a_repository_with_tekken(mistral, here):
    here.add("me/mistral", {"tekken.json": (mistral / "tekken.json").read_bytes(), "params.json": b"{}"})
    assert BPETokenizer.from_pretrained("me/mistral").vocab == BPETokenizer.from_pretrained(mistral).vocab
    assert SGPETokenizerFast.from_pretrained("me/mistral").bos_token == "<s>"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"config": {}}, "damaged or not a tekken.json (KeyError: 'default_num_special_tokens')"),
        ({"special_tokens": SPECIAL[1:]}, "damaged or not a tekken.json (ValueError: its special tokens"),
        ({"vocab": []}, "the vocabulary lacks the byte 0x20"),
        ({"vocab": [{"token_bytes": "YQ=="}] * 2}, "damaged: a token occurs twice"),
    ],
)
def test_a_damaged_tekken_is_refused(plain, changes, message, tmp_path):
    path = tmp_path / "tekken.json"
    path.write_text(json.dumps({**tekken_of(plain, special=SPECIAL), **changes}), encoding="utf-8")
    with pytest.raises(SGPEError) as raised:
        loading.load(tmp_path)
    assert str(raised.value).startswith(f"{path}: {message}")


def ranks_in(path, plain):
    lines = [b"%s %d\n" % (base64.b64encode(token), id) for token, id in plain.get_mergeable_ranks()]
    path.write_bytes(b"".join(lines))


def test_qwen_1_has_its_special_tokens_and_pattern(plain, tmp_path):
    ranks_in(tmp_path / "qwen.tiktoken", plain)
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "QWenTokenizer", "model_max_length": 8192})
    )
    tokenizer = BPETokenizer.from_pretrained(tmp_path)
    assert [tokenizer.special_tokens[name] for name in (END, START, "<|extra_0|>", "<|extra_204|>")] == [600, 601, 603, 807]
    assert (tokenizer.splitting.pattern, tokenizer.normalization) == ("qwen2", "nfc")
    assert (tokenizer.eos_token, tokenizer.model_max_length) == (END, 8192)
    assert len(TokenizerFolder.read(tmp_path).content["added_tokens"]) == 208


@pytest.mark.parametrize("name", ["my.tiktoken", "tokenizer.model"])
def test_ranks_need_a_pattern(name, plain, tmp_path, monkeypatch):
    """Llama 3's own folder has a file of ranks under the name that SentencePiece's file has elsewhere."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base").mkdir()
    ranks_in(tmp_path / "base" / name, plain)
    pattern = "llama3" if name == "tokenizer.model" else "cl100k"
    done = hf_sgpe("info", "base", code=2)
    assert done.stderr == (
        f"error: base/{name}: the file has neither a split pattern nor special tokens: name them with "
        f"hf-sgpe export base/{name} --pattern {pattern} (or its own) --special-token TEXT=ID --out base-hf\n"
    )
    hf_sgpe("export", f"base/{name}", "--pattern", pattern, "--special-token", "<|end|>=600", "--out", "base-hf")
    tokenizer = BPETokenizer.from_pretrained("base-hf")
    assert (tokenizer.vocab, tokenizer.special_tokens) == (plain.vocab, {"<|end|>": 600})


@pytest.mark.parametrize("settings", [{}, {"tokenizer_config": {"tokenizer_class": "LlamaTokenizer", "eos_token": "</s>"}}])
def test_a_model_of_sentencepiece(settings, sample, here, tmp_path):
    models = pytest.importorskip("support.sentencepiece_models")
    model = models.trained(sample["en"].splitlines())
    files = {f"{name}.json": json.dumps(content).encode() for name, content in settings.items()}
    here.add("me/llama", {"tokenizer.model": model, **files})
    tokenizer = BPETokenizer.from_pretrained("me/llama")
    own = models.processor(model)
    for line in (*sample["en"].splitlines()[:20], " two  spaces ", "ක😀"):
        assert tokenizer.encode(line) == own.encode(line)
    assert tokenizer.roles["eos_token"] == "</s>"
    (tmp_path / "tokenizer.model").write_bytes(model)
    assert TokenizerFolder.read(tmp_path).content["model"]["byte_fallback"]
    (tmp_path / "tokenizer.model").write_bytes(b"\n\x0e\n\x05")
    with pytest.raises(SGPEError, match=r"tokenizer\.model: damaged"):
        loading.load(tmp_path)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, "has no split pattern"),
        (
            {"tokenizer_config": {"tokenizer_class": "CLIPTokenizer"}},
            "is of the class CLIPTokenizer, whose split pattern is not known",
        ),
    ],
)
def test_merges_without_a_known_class_need_a_pattern(plain, settings, reason, tmp_path):
    folder = write(tmp_path / "base", plain, **settings)
    with pytest.raises(SGPEError) as raised:
        loading.load(folder)
    line = f"hf-sgpe export {folder}/merges.txt --pattern NAME --out {folder}-hf"
    assert str(raised.value) == f"{folder}/merges.txt: {reason}: name it with {line}"
    hf_sgpe("export", folder / "merges.txt", "--pattern", "gpt2", "--out", tmp_path / "out")
    assert BPETokenizer.from_pretrained(tmp_path / "out").merges == plain.merges


@pytest.mark.parametrize(
    "settings",
    [
        {"tokenizer_config": {"tokenizer_class": "GPT2Tokenizer", "added_tokens_decoder": 5}},
        {"tokenizer_config": {"tokenizer_class": "GPT2Tokenizer", "added_tokens_decoder": {"600": "a"}}},
        {"tokenizer_config": {"tokenizer_class": "GPT2Tokenizer", "added_tokens_decoder": {"x": {"content": "a"}}}},
        {"tokenizer_config": {"tokenizer_class": "GPT2Tokenizer", "extra_special_tokens": 5}},
        {"tokenizer_config": {"tokenizer_class": "GPT2Tokenizer"}, "added_tokens": {"a": 1e999}},
        {"tokenizer_config": {"tokenizer_class": "GPT2Tokenizer"}, "added_tokens": {"a": None}},
    ],
)
def test_damaged_settings_of_merges_are_one_line(plain, settings, tmp_path):
    folder = write(tmp_path / "base", plain, **settings)
    with pytest.raises(SGPEError, match=r"merges\.txt: .*damaged") as raised:
        loading.load(folder)
    assert "\n" not in str(raised.value)


def test_roles_and_switches_of_a_wrong_type_are_left_out(plain, tmp_path):
    settings = {"tokenizer_class": "GPT2Tokenizer", "bos_token": True, "add_eos_token": {"content": END}}
    folder = write(tmp_path / "base", plain, tokenizer_config={**settings, "added_tokens_decoder": decoder(END)})
    tokenizer = SGPETokenizerFast.from_pretrained(folder)
    assert (tokenizer.bos_token, tokenizer.eos_token) == (None, END)


def test_a_space_before_the_text_is_refused_and_measured(plain, sample, tmp_path):
    settings = {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": True}
    folder = write(tmp_path / "base", plain, after=[END], tokenizer_config=settings)
    with pytest.raises(SGPEError, match="adds a space before the text"):
        loading.load(folder)
    (tmp_path / "en.txt").write_text(sample["en"][:2000], encoding="utf-8")
    hf_sgpe("evaluate", folder, tmp_path / "en.txt")


def test_a_tokenizer_json_comes_first(plain, saved, tokenizer, tmp_path):
    folder = write(tmp_path / "base", plain)
    shutil.copy(saved / "tokenizer.json", folder)
    assert loading.load(folder).vocab == tokenizer.vocab


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tekken_240718.json", "tekken_240911.json"])
def test_the_ids_of_mistrals_own_files(name):
    (path,) = files_of_wheel("mistral-common==1.13.1", f"mistral_common/data/{name}")
    content = json.loads(path.read_text(encoding="utf-8"))
    ranks = {base64.b64decode(entry["token_bytes"]): entry["rank"] for entry in content["vocab"][: 131_072 - 1000]}
    encoding = tiktoken.Encoding("x", pat_str=content["config"]["pattern"], mergeable_ranks=ranks, special_tokens={})
    tokenizer = BPETokenizer.from_pretrained(path)
    assert len(tokenizer) == 131_072
    for language in HELD_OUT:
        for line in held_out(language):
            assert tokenizer.encode(line) == [id + 1000 for id in encoding.encode_ordinary(line)]


def test_no_code_of_a_folder_is_run(plain, tmp_path, monkeypatch):
    """transformers would ask on the terminal whether to run it."""
    plain.save(tmp_path)
    (tmp_path / "own.py").write_text("raise SystemExit('run')", encoding="utf-8")
    settings = {"tokenizer_class": "OwnTokenizer", "auto_map": {"AutoTokenizer": ["own.OwnTokenizer", None]}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    questions = []
    monkeypatch.setattr("builtins.input", lambda question="": questions.append(question) or "y")
    assert TokenizerFolder.read(tmp_path).data.vocab == plain.vocab
    assert not questions
