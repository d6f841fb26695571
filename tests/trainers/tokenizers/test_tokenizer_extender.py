import json
from dataclasses import replace

import pytest
from support.extended import save_extended
from support.sentencepiece_like import content
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from hf_sgpe import BPETokenizer, SGPEError, SGPETokenizerFast
from hf_sgpe.formats.tokenizer_folder import TokenizerFolder
from hf_sgpe.formats.tokenizer_json import to_dict
from trainers import ExtensionConfig, TokenizerExtender, WordCounts
from trainers.tokenizers.tokenizer_extender import cost_of

pytestmark = pytest.mark.kernels

ENGLISH = "It's “low”, lower—lowest… <think>12 34</think> newest  <|im_end|> "
SI = ExtensionConfig(["sinhala"], new_tokens=400)


@pytest.fixture(scope="module")
def base(sample, tmp_path_factory):
    """A model's folder as Qwen's is made: NFC, another class, added tokens beside the vocabulary, two chat templates."""
    folder = tmp_path_factory.mktemp("base") / "qwen"
    folder.mkdir()
    text = [sample["en"], ENGLISH, "है।"] if "en" in sample else [ENGLISH * 40, "है।"]
    tokenizer = BPETokenizer.train_from_iterator(text, 400, pattern="qwen2", normalization="nfc")
    content = to_dict(tokenizer)
    after = len(content["model"]["vocab"])
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    names = {"<|endoftext|>": True, "<|im_start|>": True, "<|im_end|>": True, "<think>": False, "</think>": False}
    content["added_tokens"] = [
        {"id": id, "content": name, **flags, "special": names[name]} for id, name in enumerate(names, after)
    ]
    settings = {
        "tokenizer_class": "Qwen2Tokenizer",
        "add_prefix_space": False,
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "unk_token": None,
        "model_max_length": 1024,
        "errors": "replace",
    }
    files = {
        "tokenizer.json": json.dumps(content),
        "tokenizer_config.json": json.dumps(settings),
        "chat_template.jinja": "{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}",
        "additional_chat_templates/tools.jinja": "{{ messages[0]['content'] }}<|im_end|>",
        "generation_config.json": json.dumps({"eos_token_id": [after + 2, after]}),
        "config.json": json.dumps({"model_type": "qwen2", "vocab_size": after + 16}),
        "vocab.json": "{}",
        "merges.txt": "",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def corpus(sample, tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "si.txt"
    path.write_text(sample["si"], encoding="utf-8", newline="")
    return path


def test_a_folder_keeps_all_that_it_had(base, corpus, sample, tmp_path):
    extender, folder = TokenizerExtender(SI), TokenizerFolder.read(base)
    out = tmp_path / "out"
    save_extended(folder, extender.learn(folder, extender.count(folder, files=corpus)), out)
    names = ["additional_chat_templates", "chat_template.jinja", "generation_config.json"]
    names += ["tokenization_sgpe.py", "tokenizer.json", "tokenizer_config.json"]
    assert sorted(file.name for file in out.iterdir()) == names
    for name in (*names[1:3], "additional_chat_templates/tools.jinja"):
        assert (out / name).read_text() == (base / name).read_text()

    before = Tokenizer.from_file(str(base / "tokenizer.json"))
    for beside in (False, True):
        if beside:  # what a model's folder has
            (out / "config.json").write_text((base / "config.json").read_text())
        new = AutoTokenizer.from_pretrained(out)
        assert new(ENGLISH)["input_ids"] == before.encode(ENGLISH).ids
        assert all(new.convert_tokens_to_ids(token) == before.token_to_id(token) for token in ("<think>", "<|im_end|>"))
        assert (new.eos_token, new.pad_token, new.bos_token) == ("<|im_end|>", "<|endoftext|>", None)
        assert new.model_max_length == 1024
        assert sorted(new.chat_template) == ["default", "tools"]
        text = sample["si"][:2000]
        ids = new(text)["input_ids"]
        assert ids == BPETokenizer.from_pretrained(out).encode(text)
        assert 3 * len(ids) < len(before.encode(text).ids)
        assert new.decode(ids) == text
        assert new.backend_tokenizer.post_processor is not None
    ids = set(new.get_vocab().values())
    assert ids == set(range(len(ids)))

    (note,) = BPETokenizer.from_pretrained(out).metadata["extensions"]
    assert (note["base"], note["scripts"], note["new_tokens"]) == ("qwen", ["sinhala"], 400)
    again = TokenizerExtender(ExtensionConfig(["tamil"], new_tokens=50)).extend(out, text=sample["ta"])
    assert [one["base"] for one in again.to_bpe().metadata["extensions"]] == ["qwen", "out"]
    assert again(text)["input_ids"] == new(text)["input_ids"]


def test_the_same_from_every_kind_of_corpus_and_base(base, corpus, sample, tmp_path):
    extender = TokenizerExtender(SI)
    expected = extender.extend(base, files=[corpus])
    assert isinstance(expected, SGPETokenizerFast)
    vocab, merges = expected.get_vocab(), expected.to_bpe().merges
    extender.count(base, files=corpus).save(tmp_path / "counts.parquet")
    (tmp_path / "other").mkdir()
    assert isinstance(extender.count(base, counts=[tmp_path / "counts.parquet"]), WordCounts)
    for one in (
        extender.extend(base / "tokenizer.json", iterator=iter(sample["si"].splitlines(keepends=True))),
        extender.extend(str(base), text=sample["si"]),
        extender.extend(TokenizerFolder.read(base), counts=[tmp_path / "counts.parquet"]),
        extender.extend(AutoTokenizer.from_pretrained(base), files=str(corpus)),
        extender.extend(BPETokenizer.from_pretrained(base), files=str(corpus)),
    ):
        assert one.get_vocab() == vocab
        assert one.to_bpe().merges == merges
    expected.save_pretrained(tmp_path / "saved")
    assert AutoTokenizer.from_pretrained(tmp_path / "saved").get_vocab() == vocab
    with pytest.raises(SGPEError, match="exactly one source"):
        extender.extend(base, files=[corpus], text="x")


def test_a_tokenizer_in_memory_is_named_by_its_metadata(corpus):
    tokenizer = BPETokenizer.train_from_iterator([ENGLISH * 40], 300)
    for name in ("", "me/base"):
        data = replace(tokenizer.data, metadata={"name": name} if name else {}, chat_template="{{ messages }}")
        new = TokenizerExtender(SI).extend(BPETokenizer.of(data), files=corpus)
        assert [one["base"] for one in new.to_bpe().metadata["extensions"]] == [name]
        assert new.chat_template == "{{ messages }}"
        assert new.encode(ENGLISH) == tokenizer.encode(ENGLISH)


def test_settings_that_only_the_class_gives_stay(corpus, sample, tmp_path):
    """GPT-2's repository: the class says which token ends a text, and what a model is given; no file does."""
    tokenizer = BPETokenizer.train_from_iterator([sample["en"]], 400, pattern="gpt2", special_tokens=["<|endoftext|>"])
    content = json.dumps(to_dict(tokenizer))
    for name, settings, config in (
        ("named", {"tokenizer_class": "GPT2Tokenizer", "model_max_length": 64}, None),
        ("by model", {"model_max_length": 64}, {"model_type": "gpt2", "vocab_size": 400}),
        ("alone", {"tokenizer_class": "PreTrainedTokenizerFast"}, None),
    ):
        base, out = tmp_path / name, tmp_path / f"{name} extended"
        base.mkdir()
        (base / "tokenizer.json").write_text(content)
        (base / "tokenizer_config.json").write_text(json.dumps(settings))
        if config:
            (base / "config.json").write_text(json.dumps(config))
        extender = TokenizerExtender(SI)
        save_extended(TokenizerFolder.read(base), extender.learn(base, extender.count(base, files=corpus)), out)
        before, after = AutoTokenizer.from_pretrained(base), AutoTokenizer.from_pretrained(out)
        assert after.special_tokens_map == before.special_tokens_map
        assert after.model_input_names == before.model_input_names
        assert (after.eos_token == "<|endoftext|>") == (name != "alone")
        assert after("Hello").keys() == before("Hello").keys()
        assert after.model_max_length == before.model_max_length


def test_a_repository_on_the_hub_is_extended_with_all_its_files(here, base, corpus, tmp_path):
    files = {path.relative_to(base).as_posix(): path.read_bytes() for path in base.rglob("*") if path.is_file()}
    here.add("me/base", files)
    folder = TokenizerFolder.read("me/base")
    assert folder.rows == TokenizerFolder.read(base).rows
    extender = TokenizerExtender(SI)
    extension = extender.learn(folder, extender.count(folder, files=corpus))
    save_extended(folder, extension, tmp_path / "out")
    for name in ("additional_chat_templates/tools.jinja", "chat_template.jinja", "generation_config.json"):
        assert (tmp_path / "out" / name).read_bytes() == files[name]
    assert TokenizerFolder.read(tmp_path / "out").data.metadata["extensions"][0]["base"] == "me/base"
    here.add("me/plain", {name: files[name] for name in ("tokenizer.json", "tokenizer_config.json")})
    assert TokenizerFolder.read("me/plain").files == {}
    with pytest.raises(SGPEError, match="me/nothing"):
        TokenizerFolder.read("me/nothing")


def test_ids_that_the_model_has_rows_for_are_given_first(base, corpus, tmp_path):
    config = ExtensionConfig(["sinhala"], new_tokens=300, reuse_ids=True)
    rows = json.loads((base / "config.json").read_text())["vocab_size"]
    new = TokenizerExtender(config).extend(base, files=corpus)
    ids = sorted(new.get_vocab().values())
    assert ids == list(range(len(ids)))
    assert rows < len(ids)
    (tmp_path / "tokenizer.json").write_text((base / "tokenizer.json").read_text())
    with pytest.raises(SGPEError, match=r"no config\.json"):
        TokenizerExtender(config).extend(tmp_path, files=corpus)


def test_a_base_that_cannot_be_extended_says_why(base, tmp_path):
    content = json.loads((base / "tokenizer.json").read_text())
    content["model"]["type"] = "Unigram"
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(SGPEError, match="its model is Unigram, not BPE") as caught:
        TokenizerFolder.read(tmp_path)
    assert "\n" not in str(caught.value)
    with pytest.raises(SGPEError, match=r"the folder holds no tokenizer\.json"):
        TokenizerFolder.read(base / "additional_chat_templates")
    (tmp_path / "x.tiktoken").write_text("")
    with pytest.raises(SGPEError, match="split pattern nor special tokens"):
        TokenizerFolder.read(tmp_path / "x.tiktoken")


def test_tokens_per_word_mean_the_same_with_both_splits(base, corpus, sample):
    folder = TokenizerFolder.read(base)
    words = [f" {word}" for word in sample["si"].split() if any("\u0d80" <= character <= "\u0dff" for character in word)]
    costs = []
    for own_split in (True, False):
        extender = TokenizerExtender(ExtensionConfig(["sinhala"], new_tokens=400, own_split=own_split))
        extension = extender.learn(folder, extender.count(folder, files=corpus))
        cost = cost_of(extension, ["sinhala"], sample["si"].splitlines())
        tokens = sum(map(len, BPETokenizer.of(extension.tokenizer).encode_batch(words)))
        assert cost.unit == "word"
        assert cost.after == pytest.approx(tokens / len(words))
        costs.append(cost)
        assert cost_of(extension, ["sinhala"], []) == ("piece", *extension.tokens_per_piece, None)
    assert costs[0].before == costs[1].before
    # The base's split cuts each word into more pieces than it has tokens with a split of its own.
    assert costs[1].after > costs[0].after
    assert extension.tokens_per_piece[1] < costs[1].after / 2


def test_tokens_are_counted_per_character_where_words_have_no_spaces(base):
    folder = TokenizerFolder.read(base)
    text = "ภาษาไทย เท ที่ทะเล " * 20
    extender = TokenizerExtender(ExtensionConfig(["thai"], new_tokens=60))
    extension = extender.learn(folder, extender.count(folder, text=text))
    cost = cost_of(extension, ["thai"], [text, "only words"])
    words = [f" {word}" for word in text.split()]
    tokens = sum(map(len, BPETokenizer.of(extension.tokenizer).encode_batch(words)))
    assert cost.unit == "character"
    assert cost.after == pytest.approx(tokens / len("".join(text.split())))


def test_reserved_tokens_give_up_their_ids(tmp_path, corpus):
    reserved = {f"<unused{number}>": False for number in range(140)}
    folder = tmp_path / "base"
    folder.mkdir()
    made = content(["the low lower lowest"], 40, added={**reserved, "<image>": True})
    vocab = made["model"]["vocab"]
    (folder / "tokenizer.json").write_text(json.dumps(made), encoding="utf-8")
    (folder / "config.json").write_text(json.dumps({"vocab_size": len(vocab), "image_token_id": vocab["<unused7>"]}))
    decoder = {str(id): {"content": text} for text, id in vocab.items() if text.startswith("<unused")}
    (folder / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": decoder}))
    extender = TokenizerExtender(ExtensionConfig(["sinhala"], new_tokens=100, reuse_reserved=True))
    base = TokenizerFolder.read(folder)
    extension = extender.learn(base, extender.count(base, files=corpus))
    save_extended(base, extension, tmp_path / "new")
    new = TokenizerFolder.read(tmp_path / "new")
    ids = {new.data.vocab[token] for token in new.data.vocab.keys() - base.data.vocab.keys()}
    assert ids <= {vocab[text] for text in reserved} - {vocab["<unused7>"]}
    assert len(new.data.added_tokens) == 140 - len(ids) == len(new.settings["added_tokens_decoder"])
    tokenizer = BPETokenizer.of(new.data)
    assert tokenizer.decode(tokenizer.encode("<unused0> <unused7> ලංකාව")) == "<unused0> <unused7> ලංකාව"
    assert vocab["<unused7>"] in tokenizer.encode("<unused7>")
    with pytest.raises(SGPEError, match="leave out reuse_reserved"):
        (folder / "tokenizer.json").write_text(json.dumps(content(["the low"], 4)))
        TokenizerExtender(ExtensionConfig(["sinhala"], reuse_reserved=True)).extend(folder, files=corpus)


def test_ids_that_the_models_configuration_names_stay_free(tmp_path, corpus):
    made = content(["the low lower lowest"], 40)
    last = len(made["model"]["vocab"])
    (tmp_path / "tokenizer.json").write_text(json.dumps(made), encoding="utf-8")
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": last, "vision": {"image_token_index": last + 3}}))
    new = TokenizerExtender(ExtensionConfig(["sinhala"], new_tokens=100)).extend(tmp_path, files=corpus)
    ids = set(new.get_vocab().values())
    assert last + 3 not in ids
    assert {last, last + 2, last + 4} <= ids


def test_a_folder_with_sentencepieces_file_gets_one_with_the_same_ids(tmp_path, corpus, sample):
    sentencepiece = pytest.importorskip("sentencepiece")
    (tmp_path / "lines.txt").write_text("\n".join([sample["si"][:2000], sample["en"][:20_000]]), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "lines.txt"),
        model_prefix=str(tmp_path / "tokenizer"),
        model_type="bpe",
        vocab_size=600,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
    )
    base = TokenizerFolder.read(tmp_path)
    extender = TokenizerExtender(ExtensionConfig(["sinhala"], new_tokens=200))
    save_extended(base, extender.learn(base, extender.count(base, files=corpus)), tmp_path / "new")
    processor = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "new" / "tokenizer.model"))
    tokenizer = BPETokenizer.from_pretrained(tmp_path / "new")
    for text in [*sample["si"].splitlines()[:50], *sample["en"].splitlines()[:20], "  ක 😀\u200d", ""]:
        assert processor.encode(text) == tokenizer.encode(text)
