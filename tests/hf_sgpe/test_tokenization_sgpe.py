import json
import pickle
import sys

import pytest
from hypothesis import given
from support.ecosystems import ask
from support.small_tokenizers import BYTES, with_parts
from support.texts import texts

from hf_sgpe import BPETokenizer, SGPEError, SGPETokenizerFast, Splitting, TrainingConfig, WordCounts, train_from_counts
from hf_sgpe.formats import tokenizer_json

TEXTS = [
    "ශ්‍රී ලංකාව ඉන්ද්‍රිය, ප්‍රජාතන්ත්‍රවාදය!",
    "हिन्दी क्षत्रिय राष्ट्र",
    "ஸ்ரீ தமிழ்",
    "It's  a <|endoftext|> test.\n\nx",
    "ක\u0dd9\u0dcf e\u0301 😀👩‍👩‍👧",
    "",
    " ",
]


@pytest.fixture(scope="module")
def fast(tokenizer):
    return SGPETokenizerFast.from_bpe(tokenizer)


def train(sample, vocab_size, **options):
    config = TrainingConfig(vocab_size, "bpe", **options)
    return SGPETokenizerFast.from_bpe(train_from_counts(WordCounts.from_texts([sample["en"]], config), config))


@given(text=texts)
def test_ids_are_those_of_the_bpe_tokenizer(fast, tokenizer, text):
    assert fast(text)["input_ids"] == tokenizer.encode(text, allowed_special="all")
    assert fast.decode(fast(text)["input_ids"]) == tokenizer.decode(tokenizer.encode(text))


def test_plain_auto_tokenizer_without_this_package_gives_the_same(fast, tokenizer, saved, tmp_path):
    fast.save_pretrained(tmp_path / "out")
    expected = []
    for text in TEXTS:
        encoded = fast(text, return_offsets_mapping=True)
        ids = tokenizer.encode(text, allowed_special="all")
        assert encoded["input_ids"] == ids
        expected.append([ids, [list(span) for span in encoded["offset_mapping"]], tokenizer.decode(ids)])
    folders = (tmp_path / "out", saved)  # written by transformers, and by BPETokenizer alone
    questions = [{"ask": what, "folder": folder, "texts": TEXTS} for folder in folders for what in ("encode", "use")]
    answers = iter(ask(sys.executable, *questions))
    for rows, used in zip(answers, answers, strict=True):
        assert rows == expected
        assert used["keys"] == ["attention_mask", "input_ids"]
        assert used["roles"] == dict.fromkeys(("bos_token", "eos_token", "pad_token"), "<|endoftext|>")


def test_trusted_remote_code_gives_this_class(fast, saved, tmp_path, monkeypatch):
    from transformers import AutoTokenizer

    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path))
    tokenizer_json.save(fast.to_bpe().data, tmp_path / "out", auto_class=True)
    assert type(AutoTokenizer.from_pretrained(saved, trust_remote_code=True)) is not SGPETokenizerFast
    trusted = AutoTokenizer.from_pretrained(tmp_path / "out", trust_remote_code=True)
    assert type(trusted) is SGPETokenizerFast
    # Transformers marks a class that came so, and would copy its source when it is saved.
    trusted.save_pretrained(tmp_path / "again")
    fast.save_pretrained(tmp_path / "saved")
    code = tmp_path / "out" / "tokenization_sgpe.py"
    assert (tmp_path / "again" / code.name).read_bytes() == code.read_bytes()
    assert (tmp_path / "again" / "tokenizer.json").read_bytes() == (tmp_path / "saved" / "tokenizer.json").read_bytes()


def test_saved_under_its_own_name_it_comes_to_those_who_imported_it(fast, tmp_path):
    from transformers import AutoTokenizer

    assert type(AutoTokenizer.from_pretrained(_saved(fast, tmp_path / "portable"))) is not SGPETokenizerFast
    folder = _saved(fast, tmp_path / "own", portable=False)
    ours = AutoTokenizer.from_pretrained(folder)
    assert type(ours) is SGPETokenizerFast
    assert sorted(file.name for file in folder.iterdir()) == ["tokenizer.json", "tokenizer_config.json"]
    for model_type in ("llama", "qwen2"):
        (folder / "config.json").write_text(json.dumps({"model_type": model_type}), encoding="utf-8")
        assert (type(AutoTokenizer.from_pretrained(folder)) is SGPETokenizerFast) == (model_type == "llama")
    (folder / "config.json").unlink()
    save = {"ask": "save", "folder": folder, "to": tmp_path / "theirs"}
    rows, (name, *_) = ask(sys.executable, {"ask": "encode", "folder": folder, "texts": TEXTS}, save)
    assert name == "TokenizersBackend"
    assert [row[0] for row in rows] == [fast(text)["input_ids"] for text in TEXTS]
    # It is an option of a save, not of the tokenizer.
    again = _saved(ours, tmp_path / "again")
    assert type(AutoTokenizer.from_pretrained(again)) is not SGPETokenizerFast
    assert not (again / "tokenization_sgpe.py").exists()


def _saved(fast, folder, **options):
    fast.save_pretrained(folder, **options)
    return folder


def test_offsets_cover_the_text_with_its_spaces(sample):
    plain = SGPETokenizerFast.from_bpe(BPETokenizer.train_from_iterator([sample["si"]], 1500, pattern="bloom"))
    encoded = plain("ලංකාව is\n é", return_offsets_mapping=True)
    assert encoded["offset_mapping"][-2:] == [(9, 11), (10, 11)] or encoded["offset_mapping"][-1] == (10, 11)
    spaced = SGPETokenizerFast.from_bpe(BPETokenizer.train_from_iterator(["a b"] * 9, 257))
    assert spaced("a b b", return_offsets_mapping=True)["offset_mapping"] == [(0, 1), (1, 3), (3, 5)]


def test_a_save_by_a_stranger_keeps_how_it_was_trained(fast, tokenizer, tmp_path):
    fast.save_pretrained(tmp_path / "ours")
    ask(sys.executable, {"ask": "save", "folder": tmp_path / "ours", "to": tmp_path / "theirs"})
    back = SGPETokenizerFast.from_pretrained(tmp_path / "theirs")
    assert back.to_bpe().metadata == json.loads(json.dumps(tokenizer.metadata))
    assert [back(text)["input_ids"] for text in TEXTS] == [fast(text)["input_ids"] for text in TEXTS]


def test_saving_again_changes_nothing(fast, tmp_path):
    files = fast.save_pretrained(tmp_path / "a")
    again = SGPETokenizerFast.from_pretrained(tmp_path / "a")
    assert type(again) is SGPETokenizerFast
    again.save_pretrained(tmp_path / "b")
    SGPETokenizerFast.from_pretrained(tmp_path / "b").save_pretrained(tmp_path / "c")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert str(tmp_path / "a" / name) in files
        assert (tmp_path / "b" / name).read_bytes() == (tmp_path / "c" / name).read_bytes()
    names = ["tokenizer.json", "tokenizer_config.json"]
    assert sorted(file.name for file in (tmp_path / "b").iterdir()) == names
    assert sorted(files) == [str(tmp_path / "a" / name) for name in names]
    config = json.loads((tmp_path / "b" / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert config == json.loads((tmp_path / "a" / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert config["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert config["clean_up_tokenization_spaces"] is False
    assert config["model_input_names"] == ["input_ids", "attention_mask"]
    assert not {"is_local", "local_files_only", "backend"} & set(config)


def test_saved_by_either_class_the_tokenizer_is_the_same(fast, saved, tmp_path):
    fast.save_pretrained(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        ours, theirs = (json.loads((folder / name).read_text(encoding="utf-8")) for folder in (saved, tmp_path))
        assert {key: theirs.get(key) for key in ours} == ours
    assert ours["clean_up_tokenization_spaces"] is False
    assert ours["model_input_names"] == ["input_ids", "attention_mask"]


def test_a_tokenizer_in_a_subfolder_of_a_model(saved, tmp_path):
    (tmp_path / "tokenizer").symlink_to(saved)
    assert len(SGPETokenizerFast.from_pretrained(tmp_path, subfolder="tokenizer")) == 4000


@pytest.mark.parametrize(
    ("options", "roles"),
    [
        ({}, ["<|endoftext|>"] * 3),
        ({"special_tokens": ()}, [None] * 3),
        ({"special_tokens": ("<s>", "</s>")}, ["<s>", "</s>", "</s>"]),
        ({"special_tokens": ("<|endoftext|>", "<|pad|>")}, ["<|endoftext|>", "<|endoftext|>", "<|pad|>"]),
        ({"pad_token": "<|x|>"}, ["<|endoftext|>", "<|endoftext|>", "<|x|>"]),
        ({"special_tokens": (), "eos_token": "<|x|>"}, [None, "<|x|>", "<|x|>"]),
        ({"bos_token": "<|x|>", "eos_token": "<|y|>"}, ["<|x|>", "<|y|>", "<|endoftext|>"]),
        ({"chat_template": "chatml"}, ["<|endoftext|>", "<|im_end|>", "<|endoftext|>"]),
        ({"chat_template": "chatml", "special_tokens": ()}, [None, "<|im_end|>", "<|im_end|>"]),
        ({"chat_template": "chatml", "eos_token": "<|endoftext|>"}, ["<|endoftext|>"] * 3),
        ({"chat_template": "llama3"}, ["<|begin_of_text|>", "<|eot_id|>", "<|endoftext|>"]),
        ({"chat_template": "llama3", "special_tokens": ()}, ["<|begin_of_text|>", "<|eot_id|>", "<|end_of_text|>"]),
        ({"chat_template": "alpaca"}, ["<|endoftext|>"] * 3),
        ({"chat_template": "{{ messages }}"}, ["<|endoftext|>"] * 3),
    ],
)
def test_special_tokens_play_the_parts_that_fine_tuning_needs(sample, tmp_path, options, roles):
    trained = train(sample, 400, model_max_length=4, **options)
    assert len(trained) == 400
    BPETokenizer.save(trained.to_bpe(), tmp_path / "plain")
    trained.save_pretrained(tmp_path / "fast")
    for tokenizer in (
        trained,
        trained.to_bpe(),
        pickle.loads(pickle.dumps(trained.to_bpe())),
        *(kind.from_pretrained(tmp_path / name) for kind in (SGPETokenizerFast, BPETokenizer) for name in ("plain", "fast")),
    ):
        assert [tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token] == roles
        assert tokenizer.model_max_length == 4
        if tokenizer.pad_token:
            rows = tokenizer(["one", "one two three four five six"], truncation=True, padding=True)["input_ids"]
            assert list(map(len, rows)) == [4, 4]
            assert rows[0][-1] == tokenizer.pad_token_id


def test_training_a_new_one_uses_our_trainer(fast, tokenizer, sample):
    batches = [[line] for line in sample["si"].splitlines()]
    new = fast.train_new_from_iterator(batches, 1500, length=len(batches))
    assert type(new) is SGPETokenizerFast
    assert len(new) == 1500
    config = TrainingConfig.from_dict({**tokenizer.metadata["training"], "vocab_size": 1500})
    expected = train_from_counts(WordCounts.from_texts(sample["si"].splitlines(), config), config)
    assert new.to_bpe().get_vocab() == expected.get_vocab()
    assert new.eos_token == "<|endoftext|>"
    assert new.backend_tokenizer.normalizer is not None


def test_new_and_renamed_special_tokens(fast, sample):
    new = fast.train_new_from_iterator(
        sample["en"].splitlines(), 1200, new_special_tokens=["<|pad|>"], special_tokens_map={"<|endoftext|>": "</s>"}
    )
    assert new.eos_token == "</s>"
    assert new.get_added_vocab() == {"</s>": 1198, "<|pad|>": 1199}
    assert new.encode("</s>") == [1198]


def test_roles_and_length_are_kept_in_a_new_one(sample):
    chat = train(sample, 800, pad_token="<|pad|>", eos_token="<|end|>", chat_template="chatml", model_max_length=99)
    new = chat.train_new_from_iterator([sample["en"]], 700, special_tokens_map={"<|end|>": "<|stop|>"})
    assert (new.bos_token, new.eos_token, new.pad_token) == ("<|endoftext|>", "<|stop|>", "<|pad|>")
    assert new.chat_template == chat.chat_template
    assert new.model_max_length == 99
    assert (len(new), len(new.get_added_vocab())) == (700, 5)
    training = new.to_bpe().metadata["training"]
    assert (training["eos_token"], training["pad_token"], training["model_max_length"]) == ("<|stop|>", "<|pad|>", 99)
    # Set afterwards they are kept, too, and what is asked for goes before.
    new.pad_token = "<|endoftext|>"
    other = new.train_new_from_iterator([sample["en"]], 700, model_max_length=5, eos_token="<|im_end|>")
    assert (other.eos_token, other.pad_token, other.model_max_length) == ("<|im_end|>", "<|endoftext|>", 5)


def test_a_new_one_with_another_chat_template_ends_its_turns(fast, sample):
    new = fast.train_new_from_iterator([sample["en"]], 700, chat_template="chatml")
    assert (new.bos_token, new.eos_token, new.pad_token) == ("<|endoftext|>", "<|im_end|>", "<|endoftext|>")
    again = new.train_new_from_iterator([sample["en"]], 700, chat_template="llama3")
    assert (again.bos_token, again.eos_token, again.pad_token) == ("<|begin_of_text|>", "<|eot_id|>", "<|endoftext|>")
    assert "<|eot_id|>" in again.chat_template


def test_the_older_have_no_roles_and_no_length_to_be_trained_with(fast, saved, sample, tmp_path):
    older = json.loads((saved / "tokenizer_config.json").read_text(encoding="utf-8"))
    for name in ("bos_token", "eos_token", "pad_token", "model_max_length"):
        del older["sgpe"]["training"][name]
    del older["pad_token"]
    (tmp_path / "tokenizer.json").write_bytes((saved / "tokenizer.json").read_bytes())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(older), encoding="utf-8")
    loaded = SGPETokenizerFast.from_pretrained(tmp_path)
    assert (loaded.eos_token, loaded.pad_token) == ("<|endoftext|>", None)
    assert BPETokenizer.from_pretrained(tmp_path).pad_token is None
    assert loaded.get_vocab() == fast.get_vocab()
    assert loaded.train_new_from_iterator([sample["en"]], 600).eos_token == "<|endoftext|>"


def test_a_renamed_template_stays_a_template(sample):
    config = TrainingConfig(vocab_size=1800, recipe="sgpe")
    sgpe = SGPETokenizerFast.from_bpe(train_from_counts(WordCounts.from_texts([sample["si"]], config), config))
    new = sgpe.train_new_from_iterator([sample["si"]], 1800, special_tokens_map={"[CLS]": "<cls>"})
    assert new.cls_token == "<cls>"
    assert new.convert_ids_to_tokens(new("ක")["input_ids"])[::2] == ["<cls>", "[SEP]"]
    pair = new("ක", "හ", return_token_type_ids=True)
    assert pair["token_type_ids"] == [0, 0, 0, 1, 1]


def test_a_tokenizer_without_metadata_trains_a_new_one_with_its_pattern(sample):
    plain = BPETokenizer.train_from_iterator([sample["en"]], 500, pattern="gpt2")
    new = SGPETokenizerFast.from_bpe(with_parts(plain, metadata={})).train_new_from_iterator([sample["en"]], 600)
    assert len(new) == 600
    assert new.to_bpe().pre_tokenizer.patterns == plain.pre_tokenizer.patterns


def test_training_with_an_unknown_argument_is_named(fast):
    with pytest.raises(SGPEError, match="not a single string"):
        fast.train_new_from_iterator("one text", 500)
    with pytest.raises(SGPEError, match="has no argument min_freq"):
        fast.train_new_from_iterator(["x"], 500, min_freq=3)


def test_damaged_and_missing_files_are_named(saved, tmp_path):
    with pytest.raises(SGPEError, match=r"holds no tokenizer\.json"):
        SGPETokenizerFast.from_pretrained(tmp_path)
    content = json.loads((saved / "tokenizer.json").read_text(encoding="utf-8"))
    content["model"]["merges"].append(["q", "zzzzzzzzz"])
    twice = json.loads((saved / "tokenizer.json").read_text(encoding="utf-8"))
    twice["model"]["vocab"]["!"] = twice["model"]["vocab"]["#"]
    for damage in ("{", json.dumps(content), "{}", json.dumps(twice)):
        (tmp_path / "tokenizer.json").write_text(damage, encoding="utf-8")
        (tmp_path / "tokenizer_config.json").write_bytes((saved / "tokenizer_config.json").read_bytes())
        with pytest.raises(SGPEError, match=r"tokenizer\.json|damaged: the ids of its tokens"):
            SGPETokenizerFast.from_pretrained(tmp_path)


def test_a_failed_save_leaves_nothing(fast, tmp_path, monkeypatch):
    monkeypatch.setattr(SGPETokenizerFast, "_save_pretrained", lambda *args, **kwargs: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fast.save_pretrained(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_tokenizer_whose_ids_have_gaps_is_saved_and_loaded(tmp_path):
    BPETokenizer(BYTES, [], special_tokens={"<|end|>": 300}, splitting=Splitting("bpe", pattern="gpt2")).save(tmp_path)
    loaded = SGPETokenizerFast.from_pretrained(tmp_path)
    assert loaded("a<|end|>")["input_ids"] == [97, 300]


@pytest.mark.parametrize("around", [{}, {"bos_token": "<s>", "add_bos_token": True}])
def test_a_stride_without_room_for_new_tokens_is_an_error(around):
    plain = BPETokenizer.train_from_iterator(["low lower"], 258, special_tokens=["<s>"])
    tokenizer = SGPETokenizerFast.from_bpe(plain, **around)
    length = 8 - len(around) // 2
    for options in ({}, {"return_overflowing_tokens": True}):
        assert tokenizer("ab", truncation=True, max_length=8, stride=length, **options)["input_ids"]
        with pytest.raises(ValueError, match="stride=7 must be smaller than max_length"):
            tokenizer("abcdefghij", "klmnop", truncation=True, max_length=8, stride=7, **options)
        for stride in (length + 1, length):
            with pytest.raises(ValueError, match="stride"):
                tokenizer("abcdefghijklmnop", truncation=True, max_length=8, stride=stride, **options)
        assert len(tokenizer.backend_tokenizer.encode("abcdefghijklmnop").ids) >= 16
        assert tokenizer("abcdefghijklmnop", truncation=True, max_length=8, stride=length - 1, **options)["input_ids"]
