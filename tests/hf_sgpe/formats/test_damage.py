import copy
import itertools
import json

import pytest
from support.cases import some
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from hf_sgpe import BPETokenizer, SGPEError, SGPETokenizerFast, TrainingConfig, WordCounts, train_from_counts

DELETED = object()
DEEP = json.loads("[" * 200 + "]" * 200)
VALUES = (
    DELETED,
    None,
    True,
    5,
    -1,
    10**30,
    2**40,
    1.5,
    float("nan"),
    "",
    "x",
    "\ud800",
    [],
    ["x"],
    [None],
    {},
    {"x": 5},
    DEEP,
)
WHOLE = {
    "is empty": lambda content: b"",
    "is cut off": lambda content: content[: len(content) // 2],
    "is not UTF-8": lambda content: content.replace(b'"', b'"\xe9', 1),
    "is UTF-16": lambda content: content.decode().encode("utf-16"),
    "has a BOM": lambda content: b"\xef\xbb\xbf" + content,
    "nests too deep": lambda content: b"[" * 100_000 + b"]" * 100_000,
    "holds a huge number": lambda content: b'{"x": ' + b"1" * 5000 + b"}",
}
TOKENIZER, CONFIG, TEMPLATE = "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"


def trained(**options):
    config = TrainingConfig(vocab_size=280, **options)
    texts = ["one two three one two threefold"] * 9
    return train_from_counts(WordCounts.from_texts(texts, config), config)


def files_of(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    tokenizer = trained(recipe="bpe", chat_template="chatml", pad_token="<|pad|>", model_max_length=64)
    SGPETokenizerFast.from_bpe(tokenizer).save_pretrained(folder)
    return files_of(folder)


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """One with all parts that a tokenizer.json can have."""
    folder = tmp_path_factory.mktemp("full")
    fast = SGPETokenizerFast.from_bpe(trained(recipe="sgpe", normalization="nfc"))
    fast("a", "b", return_offsets_mapping=True, truncation=True, padding="max_length", max_length=9, stride=2)
    fast.save_pretrained(folder)
    return files_of(folder)


@pytest.fixture(scope="module")
def strange(tmp_path_factory):
    """One that only transformers can follow."""
    folder = tmp_path_factory.mktemp("strange")
    pieces = [(letter, -3.0) for letter in sorted(set("one two threefold <|im_end|>"))]
    backend = Tokenizer(models.Unigram([("<unk>", 0.0), ("one", -2.0), ("▁", -1.0), *pieces], unk_id=0))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    backend.add_special_tokens(["<s>", "</s>"])
    backend.post_processor = processors.BertProcessing(*((token, backend.token_to_id(token)) for token in ("</s>", "<s>")))
    SGPETokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>").save_pretrained(folder)
    return files_of(folder)


@pytest.fixture
def older(plain):
    """With files that transformers still reads, if no longer writes."""
    flags = dict.fromkeys(("lstrip", "rstrip", "normalized", "single_word"), False)
    roles = {"eos_token": {"content": "<|im_end|>", **flags}, "pad_token": "<|pad|>"}
    more = {"special_tokens_map.json": {**roles, "additional_special_tokens": ["<|im_start|>"]}}
    more |= {"added_tokens.json": {"<|pad|>": 273}, "config.json": {"model_type": "llama", "vocab_size": 280}}
    return {**plain, **{name: json.dumps(content).encode() for name, content in more.items()}}


def places(content, place=()):
    """Where there is a value, to the bottom; of many of a kind the first few."""
    yield place
    if isinstance(content, (dict, list)):
        keys = list(content) if isinstance(content, dict) else range(len(content))
        for key in keys[: 3 if len(keys) > 30 or isinstance(content, list) else None]:
            yield from places(content[key], (*place, key))


def changed(content, place, value):
    if not place:
        return None if value is DELETED else value
    content = copy.deepcopy(content)
    inner = content
    for key in place[:-1]:
        inner = inner[key]
    if value is DELETED:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return content


def damages(content):
    """What was done to a file of JSON, and what it holds then."""
    for what, damage in WHOLE.items():
        yield what, damage(content)
    parsed = json.loads(content)
    for place, value in some([*itertools.product(places(parsed), VALUES)]):
        what = f"{place} = {'deleted' if value is DELETED else str(value)[:20]}"
        yield what, json.dumps(changed(parsed, place, value)).encode()


def use(tokenizer):
    """What must work with a tokenizer that loads."""
    ids = tokenizer(["one two", "threefold <|im_end|>"])["input_ids"]
    assert isinstance(tokenizer.decode(ids[1]), str)
    if tokenizer.pad_token_id is not None:
        tokenizer(["one two", "one"], padding=True)
    if tokenizer.model_max_length is not None:
        tokenizer(["one two", "one"], truncation=True)
    if isinstance(tokenizer, SGPETokenizerFast):
        tokenizer("one", "two", return_offsets_mapping=True)


def complaint(kind, folder):
    """What is wrong with how a class takes a folder; nothing if it works, or ends in one line that names a file."""
    try:
        tokenizer = kind.from_pretrained(folder)
    except (SGPEError, OSError) as error:
        named = any(f"/{name}" in str(error) for name in files_of(folder))
        return None if named and "\n" not in str(error) else f"ends in {error!r}"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"raises {error!r}"
    try:
        use(tokenizer)
    except Exception as error:
        return f"loads, but then raises {error!r}"
    return None


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", [SGPETokenizerFast, BPETokenizer])
@pytest.mark.parametrize(
    ("base", "name", "left_out"),
    [
        ("plain", TOKENIZER, ()),
        ("plain", CONFIG, ()),
        ("full", TOKENIZER, ()),
        ("full", CONFIG, ()),
        ("older", "special_tokens_map.json", ()),
        ("older", "added_tokens.json", ()),
        ("older", "config.json", ()),
        ("older", "config.json", (CONFIG, "special_tokens_map.json", "added_tokens.json")),
        ("strange", TOKENIZER, ()),
    ],
)
def test_a_damaged_file_is_named_or_does_no_harm(kind, base, name, left_out, request, tmp_path):
    files = request.getfixturevalue(base)
    for other, content in files.items():
        if other not in left_out:
            (tmp_path / other).write_bytes(content)
    complaints = []
    for what, content in damages(files[name]):
        (tmp_path / name).write_bytes(content)
        if trouble := complaint(kind, tmp_path):
            complaints.append(f"{what}: {trouble}")
    assert not complaints, "\n".join(complaints)


def put(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def test_a_tokenizer_that_only_transformers_can_follow_loads(strange, tmp_path):
    loaded = SGPETokenizerFast.from_pretrained(put(tmp_path, strange))
    assert loaded.convert_ids_to_tokens(loaded("one")["input_ids"]) == ["<s>", "▁", "one", "</s>"]


@pytest.mark.parametrize("kind", [SGPETokenizerFast, BPETokenizer])
def test_a_chat_template_that_is_not_utf8_is_named(plain, tmp_path, kind):
    with pytest.raises(SGPEError, match=rf"{TEMPLATE}: not UTF-8"):
        kind.from_pretrained(put(tmp_path, {**plain, TEMPLATE: b"caf\xe9"}))


def test_one_of_several_chat_templates_is_named(plain, tmp_path):
    name = "additional_chat_templates/rag.jinja"
    assert SGPETokenizerFast.from_pretrained(put(tmp_path, {**plain, name: b"{{ messages }}"})).chat_template["rag"]
    with pytest.raises(SGPEError, match=rf"{name}: not UTF-8"):
        SGPETokenizerFast.from_pretrained(put(tmp_path, {name: b"caf\xe9"}))


def test_one_of_several_damaged_files_is_named(plain, tmp_path):
    put(tmp_path, {**plain, CONFIG: b"[]", "special_tokens_map.json": b"{", TEMPLATE: b"\xe9"})
    with pytest.raises(SGPEError, match=rf"{CONFIG}: not a JSON object"):
        SGPETokenizerFast.from_pretrained(tmp_path)


def test_damaged_files_that_are_not_read_do_no_harm(plain, tmp_path):
    put(tmp_path, {**plain, "config.json": b"{", "vocab.json": b"\xe9", "merges.txt": b""})
    use(SGPETokenizerFast.from_pretrained(tmp_path))


def test_an_argument_is_not_taken_for_damage(plain, tmp_path):
    with pytest.raises(TypeError, match="pad_token"):
        SGPETokenizerFast.from_pretrained(put(tmp_path, plain), pad_token=5)
    with pytest.raises(SGPEError, match=r"model_max_length .* 'x'"):
        SGPETokenizerFast.from_pretrained(tmp_path, model_max_length="x")


def test_missing_tokenizers_of_transformers_are_named(plain, tmp_path):
    put(tmp_path / "sub", plain)
    assert len(SGPETokenizerFast.from_pretrained(tmp_path, subfolder="sub")) == len(
        SGPETokenizerFast.from_pretrained(tmp_path / "sub")
    )
    for name, options, message in (
        (tmp_path, {}, "the folder holds no tokenizer.json"),
        (tmp_path, {"subfolder": "none"}, "none: the folder holds no tokenizer.json"),
        (tmp_path / "none", {}, "none: no such file or folder, and not the name of a Hub repository"),
        ("me/none", {}, r"me/none: no such file or folder, and the Hub is switched off"),
        ("me/none", {"local_files_only": True}, "me/none cannot be loaded from the cache"),
        ("", {}, "the name of the tokenizer is empty"),
    ):
        with pytest.raises(SGPEError, match=f"^.*{message}.*$"):
            SGPETokenizerFast.from_pretrained(name, **options)


def test_a_folder_in_place_of_a_file_is_an_os_error(plain, tmp_path):
    put(tmp_path, plain)
    (tmp_path / TOKENIZER).unlink()
    (tmp_path / TOKENIZER).mkdir()
    for kind in (SGPETokenizerFast, BPETokenizer):
        with pytest.raises(OSError, match=TOKENIZER):
            kind.from_pretrained(tmp_path)


def test_a_damaged_repository_is_named(here, plain):
    here.add("me/sound", plain)
    assert SGPETokenizerFast.from_pretrained("me/sound").pad_token == "<|pad|>"
    parsed = json.loads(plain[TOKENIZER])
    for name, damage, message in (
        (TOKENIZER, b"{", rf"{TOKENIZER}: not valid JSON"),
        (TOKENIZER, json.dumps(changed(parsed, ("model", "merges"), None)).encode(), rf"{TOKENIZER}: damaged"),
        (CONFIG, b"[]", rf"{CONFIG}: not a JSON object"),
        (CONFIG, b'{"eos_token": 5}', rf"{CONFIG}: damaged \(TypeError: Special token eos_token"),
        (TEMPLATE, b"\xe9", rf"{TEMPLATE}: not UTF-8"),
    ):
        for folder in ("", "sub/"):
            repo = f"me/{len(here.repositories)}"
            here.add(repo, {f"{folder}{file}": content for file, content in {**plain, name: damage}.items()})
            with pytest.raises(SGPEError, match=f"^.*{message}.*$"):
                SGPETokenizerFast.from_pretrained(repo, subfolder=folder.rstrip("/"))


def test_a_repository_that_is_not_there_is_named(here, plain):
    here.add("me/sound", plain)
    SGPETokenizerFast.from_pretrained("me/sound")
    for name, options, message in (
        ("me/none", {}, "me/none: no such file or folder, and no such repository on the Hub"),
        ("me/sound", {"subfolder": "none"}, r"me/sound: the repository holds no none/tokenizer\.json"),
        ("me/sound", {"revision": "v9"}, "me/sound@v9: .* no such revision"),
    ):
        with pytest.raises(SGPEError, match=f"^{message}.*$"):
            SGPETokenizerFast.from_pretrained(name, **options)
