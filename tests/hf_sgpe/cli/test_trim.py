import filecmp
import json
import re
import shutil

import pytest
from support import sentencepiece_like
from support.command import hf_sgpe
from support.other_scripts import TEXT as OTHER
from tokenizers import Tokenizer

from hf_sgpe import BPETokenizer
from trainers import trim


@pytest.fixture(scope="module")
def texts(sample):
    return {"en.txt": sample["en"][:20_000], "si.txt": sample["si"][:60_000], "ru.txt": OTHER}


@pytest.fixture(scope="module")
def bases(texts, tmp_path_factory):
    """A folder with texts and two tokenizers, byte-level and in SentencePiece's manner."""
    folder = tmp_path_factory.mktemp("bases")
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    both = [texts["en.txt"], OTHER]
    BPETokenizer.train_from_iterator(both, 900, pattern="gpt2", special_tokens=["<|end|>"]).save(folder / "bytes")
    (folder / "characters").mkdir()
    content = sentencepiece_like.content([texts["en.txt"][:4000], OTHER], 500, added={"<end>": True})
    id = content["model"]["vocab"]["<s>"]
    content["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [id], "tokens": ["<s>"]}},
    }
    # Its special tokens are the last ones, as those of Llama 3.
    vocab = content["model"]["vocab"]
    last = sorted(vocab, key=lambda name: (name in ("<unk>", "<s>", "</s>", "<end>"), vocab[name]))
    content["model"]["vocab"] = {name: id for id, name in enumerate(last)}
    for token in content["added_tokens"]:
        token["id"] = content["model"]["vocab"][token["content"]]
    content["post_processor"]["special_tokens"]["<s>"]["ids"] = [content["model"]["vocab"]["<s>"]]
    content["added_tokens"].sort(key=lambda token: token["id"])
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}
    settings["added_tokens_decoder"] = {str(token["id"]): {"content": token["content"]} for token in content["added_tokens"]}
    ends = [content["model"]["vocab"][name] for name in ("</s>", "<end>")]
    for name, value in {
        "tokenizer.json": content,
        "tokenizer_config.json": settings,
        "generation_config.json": {"eos_token_id": ends, "temperature": 0.5},
    }.items():
        (folder / "characters" / name).write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return folder


@pytest.mark.parametrize("ids", ["keep", "compact"])
def test_the_command_and_the_function_write_the_same_files(bases, tmp_path, ids):
    options = ("--drop-script", "ru", "--unused-in", bases / "en.txt", "--ids", ids)
    hf_sgpe("trim", bases / "characters", *options, "--out", tmp_path / "command")
    result = trim(bases / "characters", tmp_path / "python", drop_script=["ru"], unused_in=[bases / "en.txt"], ids=ids)
    names = sorted(file.name for file in (tmp_path / "command").iterdir())
    assert filecmp.cmpfiles(tmp_path / "command", tmp_path / "python", names, shallow=False) == (names, [], [])
    assert ("ids.json" in names) == (ids == "compact") == (result.rows[1] < result.rows[0])
    assert result.trimming.unused > 0


@pytest.mark.one_in(3)
@pytest.mark.parametrize("ids", ["keep", "compact"])
@pytest.mark.parametrize("name", ["bytes", "characters"])
def test_trim_drops_the_tokens_of_scripts(bases, texts, tmp_path, name, ids):
    base, out = bases / name, tmp_path / "out"
    options = ("--drop-script", "ru,han", "--ids", ids, "--out", out, "--eval", bases / "en.txt", "--eval", bases / "ru.txt")
    done = hf_sgpe("trim", base, *options)
    said = re.match(r".*out: ([\d,]+) of the ([\d,]+) tokens of .*, without .*\d+ of cyrillic\b", done.stdout)
    before, after = (BPETokenizer.from_pretrained(folder) for folder in (base, out))
    assert [int(number.replace(",", "")) for number in said.groups()] == [len(after), len(before)]
    assert "Text without a character of these scripts keeps its tokens." in done.stdout
    lines = [line for line in texts["en.txt"].splitlines() if line.strip()]
    assert re.search(rf"en\.txt +{len(lines)} +{len(lines)} +0 +0 +0$", done.stdout, re.MULTILINE)
    facts = json.loads(hf_sgpe("trim", base, *options, "--overwrite", "--json").stdout)
    assert facts["tokens"] == {"before": len(before), "after": len(after)}
    assert sum(facts["dropped"].values()) == len(before) - len(after)
    russian = facts["eval"][str(bases / "ru.txt")]
    assert russian["other_lines"] == russian["decoded_lines"] == 36
    assert russian["other_tokens_after"] > 1.5 * russian["other_tokens_before"]

    moved = {id: id for id in before.data.bytes_by_id()}
    assert (out / "ids.json").exists() == (ids == "compact")
    if ids == "compact":
        runs = json.loads((out / "ids.json").read_text())["runs"]
        moved = {old: old - first + new for first, last, new in runs for old in range(first, last + 1)}
        assert sorted(moved.values()) == list(range(len(after)))
    special = [text for text, id in before.data.added_ids.items()]
    library = Tokenizer.from_file(str(out / "tokenizer.json"))
    for text in (*lines, *special, OTHER, "😀 x"):
        assert library.encode(text).ids == after.encode(text, add_special_tokens=True, allowed_special="all")
        if text != OTHER:
            old = before.encode(text, add_special_tokens=True, allowed_special="all")
            assert after.encode(text, add_special_tokens=True, allowed_special="all") == [moved[id] for id in old]
    assert after.decode(after.encode(OTHER)) == before.decode(before.encode(OTHER))
    if name == "characters":
        written = json.loads((out / "generation_config.json").read_text())
        old = json.loads((base / "generation_config.json").read_text())
        assert written == {**old, "eos_token_id": [moved[id] for id in old["eos_token_id"]]}
        decoder = json.loads((out / "tokenizer_config.json").read_text())["added_tokens_decoder"]
        assert {token["content"]: int(id) for id, token in decoder.items()} == after.data.added_ids


@pytest.mark.one_in(3)
@pytest.mark.parametrize("scripts", [(), ("--drop-script", "cyrillic")], ids=len)
@pytest.mark.parametrize("name", ["bytes", "characters"])
def test_trim_drops_the_tokens_that_a_corpus_does_not_need(bases, texts, tmp_path, name, scripts):
    base, out, corpus = bases / name, tmp_path / "out", tmp_path / "corpus"
    corpus.mkdir()
    lines = texts["en.txt"].splitlines()
    half = "\n".join([*lines[: len(lines) // 2], *OTHER.splitlines()])
    (corpus / "a.txt").write_text(half, encoding="utf-8", newline="\n")
    (tmp_path / "rest.txt").write_text("\n".join(lines[len(lines) // 2 :]), encoding="utf-8", newline="\n")
    options = (*scripts, "--unused-in", corpus, "--ids", "compact", "--out", out, "--eval", tmp_path / "rest.txt")
    done = hf_sgpe("trim", base, *options)
    assert re.search(r"without .*\d that the corpus does not need\. The others have the ids 0 to", done.stdout)
    assert re.search(
        r"The text of .*corpus.* keeps its tokens \([\d,]+ compared\)\. Other text may get smaller", done.stdout
    )
    facts = json.loads(hf_sgpe("trim", base, *options, "--overwrite", "--json").stdout)
    [result] = facts["eval"].values()
    assert f" {result['same_lines']} " in done.stdout
    assert f"{1 - result['same_lines'] / result['kept_lines']:.2%}" in done.stdout
    assert 0 < result["same_lines"] < result["kept_lines"] == result["decoded_lines"]
    before, after = (BPETokenizer.from_pretrained(folder) for folder in (base, out))
    assert facts["unused"]["tokens"] == len(before) - len(after) - sum(facts["dropped"].values())
    runs = json.loads((out / "ids.json").read_text())["runs"]
    moved = {old: old - first + new for first, last, new in runs for old in range(first, last + 1)}
    kept = half if not scripts else "\n".join(lines[: len(lines) // 2])
    old = before.encode(kept)
    assert after.encode(kept) == [moved[id] for id in old]
    assert facts["unused"]["compared"] >= len(old) - 1
    shown = json.loads(hf_sgpe("info", out, "--json").stdout)
    assert shown["unused tokens removed"] == facts["unused"]["tokens"]
    assert shown.get("without the scripts", []) == list(scripts[1:])
    library = Tokenizer.from_file(str(out / "tokenizer.json"))
    for text in (half, texts["si.txt"][:500], *texts["en.txt"].splitlines()[-20:]):
        assert after.decode(after.encode(text)) == before.decode(before.encode(text))
        assert library.encode(text).ids == after.encode(text, add_special_tokens=True)


def test_trim_by_word_counts(bases, texts, tmp_path):
    base = bases / "bytes"
    counts, unnamed = tmp_path / "en.parquet", tmp_path / "counts"
    hf_sgpe("count", bases / "en.txt", "--recipe", "bpe", "--pattern", "gpt2", "--out", counts)
    unnamed.write_bytes(counts.read_bytes())
    for name, source in {"by-counts": unnamed, "by-text": bases / "en.txt"}.items():
        hf_sgpe("trim", base, "--unused-in", source, "--out", tmp_path / name)
    one, other = (BPETokenizer.from_pretrained(tmp_path / name) for name in ("by-counts", "by-text"))
    assert one.vocab == other.vocab
    assert one.encode(texts["en.txt"]) == BPETokenizer.from_pretrained(base).encode(texts["en.txt"])
    health = [hf_sgpe("evaluate", "--vocabulary", base, file, "--json").stdout for file in (counts, unnamed)]
    assert health[0].replace(str(counts), str(unnamed)) == health[1]


@pytest.mark.parametrize("scripts", [(), ("--drop-script", "cyrillic")], ids=len)
@pytest.mark.parametrize("name", ["bytes", "characters"])
def test_trim_to_a_number_of_tokens(bases, texts, tmp_path, name, scripts):
    base, out, corpus = bases / name, tmp_path / "out", f"{bases / 'en.txt'},{bases / 'ru.txt'}"
    (tmp_path / "si.txt").write_text(texts["si.txt"][:2000], encoding="utf-8", newline="\n")
    options = (*scripts, "--tokens", 600, "--for", corpus, "--ids", "compact", "--out", out)
    done = hf_sgpe("trim", base, *options)
    before, after = (BPETokenizer.from_pretrained(folder) for folder in (base, out))
    assert len(after) == 600
    assert set(after.data.ids) == set(range(600))
    lines = [line for text in (texts["en.txt"], OTHER) for line in text.splitlines() if line.strip()]
    runs = json.loads((out / "ids.json").read_text())["runs"]
    moved = {old: old - first + new for first, last, new in runs for old in range(first, last + 1)}
    same = 0
    for line in lines:
        old, new = before.encode(line), after.encode(line)
        assert after.decode(new) == line
        if all(id in moved for id in old):
            same += 1
            assert new == [moved[id] for id in old]
    assert 0 < same < len(lines)
    if not scripts:
        assert f": {same:,} of {len(lines):,} compared lines keep their tokens; tokens per word" in done.stdout.replace(
            ". ", ": "
        )
    facts = json.loads(hf_sgpe("trim", base, *options, "--overwrite", "--json", "--eval", tmp_path / "si.txt").stdout)
    assert [size["tokens"] for size in facts["sizes"]][:1] == [len(before)]
    assert 600 in [size["tokens"] for size in facts["sizes"]]
    costs = [size["tokens_per_word"] for size in facts["sizes"]]
    assert costs == sorted(costs)
    [evaluated] = facts["eval"].values()
    assert evaluated["decoded_lines"] == evaluated["kept_lines"] + evaluated["other_lines"]
    shown = json.loads(hf_sgpe("info", out, "--json").stdout)
    assert shown["unused tokens removed"] == facts["unused"]["tokens"]


def test_a_number_of_tokens_by_word_counts(bases, tmp_path):
    counts = tmp_path / "en.parquet"
    hf_sgpe("count", bases / "en.txt", "--recipe", "bpe", "--pattern", "gpt2", "--out", counts)
    done = hf_sgpe("trim", bases / "bytes", "--tokens", 400, "--for", counts, "--out", tmp_path / "out")
    assert "keep their tokens" not in done.stdout
    assert "tokens per" not in done.stdout
    done = hf_sgpe(
        *("trim", bases / "bytes", "--tokens", 400, "--for", counts, "--eval", bases / "en.txt"), "--out", tmp_path / "2"
    )
    assert re.search(r"^ *400 +[\d.]+ +[\d.]+%$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("name", ["bytes", "characters"])
def test_a_language_at_the_same_size(bases, texts, tmp_path, name):
    base, small, out, at_once = bases / name, tmp_path / "small", tmp_path / "out", tmp_path / "at-once"
    hf_sgpe("trim", base, "--drop-script", "cyrillic,han", "--out", small)
    old, trimmed = (BPETokenizer.from_pretrained(folder) for folder in (base, small))
    number = len(old) - len(trimmed)
    learn = (bases / "si.txt", "--script", "si", "--new-tokens", number)
    hf_sgpe("extend", small, *learn, "--reuse-ids", "--out", out)
    done = hf_sgpe("extend", base, *learn, "--replace-script", "cyrillic,han", "--out", at_once)
    assert re.search(rf": {number} tokens more than .*{name} without {number} tokens of cyrillic, han, \d+ of", done.stdout)
    new, same = (BPETokenizer.from_pretrained(folder) for folder in (out, at_once))
    assert new.data.vocab == same.data.vocab
    assert new.data.merges == same.data.merges
    assert len(new) == len(old)
    assert set(new.data.bytes_by_id()) == set(old.data.bytes_by_id())
    for text in (texts["en.txt"], "<|end|> <end>"):
        assert new.encode(text, allowed_special="all") == old.encode(text, allowed_special="all")
    assert len(new.encode(texts["si.txt"])) < 0.6 * len(old.encode(texts["si.txt"]))
    assert new.decode(new.encode(OTHER)) == OTHER


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "--keep-script, text with --unused-in, or a number of tokens with --tokens and text with --for"),
        ("--tokens 500", "give the number of tokens with --tokens and text with --for, or only text with --unused-in"),
        ("--for empty.txt", "give the number of tokens with --tokens and text with --for"),
        ("--tokens 500 --for blank.txt --unused-in blank.txt", "or only text with --unused-in"),
        ("--tokens 500 --for blank.txt", "--for blank.txt: there is no text"),
        ("--tokens 500 --for blank.txt,nowhere.txt", "nowhere.txt"),
        ("--tokens 900 --for ru.txt", "all 900 tokens would stay: give a smaller number with --tokens"),
        (
            "--tokens 256 --for ru.txt",
            "257 tokens always stay (special tokens, bytes or single characters): give --tokens 257 or",
        ),
        ("--tokens x --for ru.txt", "--tokens"),
        ("--unused-in empty.txt", "--unused-in empty.txt: there is no text"),
        ("--drop-script cyrillic --eval empty.txt", "there is no text to compare"),
        ("--unused-in blank.txt", "--unused-in blank.txt: there is no text"),
        ("--unused-in nowhere.txt", "nowhere.txt"),
        ("--drop-script han --keep-script latin", "--drop-script, or"),
        ("--drop-script thai", "no tokens of thai"),
        ("--drop-script hann", "unknown script 'hann'"),
        ("--drop-script han --ids none", "--ids none: choose from keep, compact"),
        ("--drop-script han --out bytes", "--out bytes is the tokenizer"),
    ],
)
def test_bad_input_is_one_line(workplace, bases, refuses, arguments, message):
    (workplace / "bytes").symlink_to(bases / "bytes")
    (workplace / "blank.txt").write_text("\n \n\n")
    (workplace / "ru.txt").symlink_to(bases / "ru.txt")
    refuses(f"trim bytes {arguments} {'' if '--out' in arguments else '--out new'}", re.escape(message))


@pytest.mark.parametrize(
    ("name", "ids", "message"),
    [
        ("tokenizer.model", "compact", "this file of another tokenizer would be loaded with the new one: remove this file"),
        ("ids.json", "keep", "this file has the ids of another tokenizer: remove this file"),
    ],
)
def test_files_of_an_earlier_tokenizer_are_not_mixed_with_the_new_one(bases, tmp_path, name, ids, message):
    command = ("trim", bases / "bytes", "--drop-script", "cyrillic", "--out", tmp_path / "out", "--ids", ids)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("earlier")
    done = hf_sgpe(*command, "--overwrite", code=2)
    assert f"{name}: {message}, or choose another folder" in done.stderr
    assert [file.name for file in (tmp_path / "out").iterdir()] == [name]
    (tmp_path / "out" / name).unlink()
    hf_sgpe(*command, "--overwrite")


def test_an_id_of_the_model_without_a_token_cannot_move(bases, tmp_path):
    base = tmp_path / "base"
    base.mkdir()
    for file in (bases / "bytes").iterdir():
        (base / file.name).write_bytes(file.read_bytes())
    config = {"vocab_size": 1024, "hidden_size": 32, "tie_word_embeddings": False, "image_token_id": 1000}
    (base / "config.json").write_text(json.dumps(config))
    options = ("--drop-script", "cyrillic", "--out", tmp_path / "out")
    done = hf_sgpe("trim", base, *options, "--ids", "compact", code=2)
    assert "base: config.json names the id 1000, but this id has no token: use --ids keep" in done.stderr
    facts = json.loads(hf_sgpe("trim", base, *options, "--json").stdout)
    assert facts["rows"] == {"before": 1024, "after": 1024}
    hf_sgpe("extend", tmp_path / "out", bases / "si.txt", "--new-tokens", 400, "--reuse-ids", "--out", tmp_path / "si")
    ids = BPETokenizer.from_pretrained(tmp_path / "si").data.vocab.values()
    assert 1000 not in ids
    assert 901 in ids
    (base / "config.json").write_text(json.dumps(config | {"image_token_id": 5}))
    facts = json.loads(hf_sgpe("trim", base, *options, "--ids", "compact", "--overwrite", "--json").stdout)
    assert facts["parameters_saved"] == 64 * (1024 - facts["tokens"]["after"])


@pytest.mark.parametrize("generation", ["{", "[]", '{"forced_decoder_ids": [5]}', '{"bad_words_ids": [null]}'])
def test_a_damaged_generation_config_is_one_line(bases, tmp_path, generation):
    shutil.copytree(bases / "characters", tmp_path / "base")
    (tmp_path / "base" / "generation_config.json").write_text(generation)
    options = ("--drop-script", "ru", "--ids", "compact", "--out", tmp_path / "out")
    done = hf_sgpe("trim", tmp_path / "base", *options, code=2)
    assert re.fullmatch(r"error: .*base: generation_config\.json: .*\n", done.stderr)
    assert not (tmp_path / "out").exists()
