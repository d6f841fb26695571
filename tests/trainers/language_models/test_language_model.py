import lzma
from itertools import chain, count, islice

import pytest

torch = pytest.importorskip("torch", reason="language models need PyTorch: pip install torch accelerate")
pytest.importorskip("accelerate", reason="language models need accelerate: pip install torch accelerate")

from support.small_models import make_llama  # noqa: E402
from transformers import (  # noqa: E402
    DataCollatorForLanguageModeling,
    DataCollatorForSeq2Seq,
    DataCollatorWithPadding,
)

from hf_sgpe import SGPEError  # noqa: E402
from hf_sgpe.corpora.text_files import read_model_texts  # noqa: E402
from trainers import TokenizerTrainer, TrainingConfig  # noqa: E402
from trainers.language_models.language_model import collate, pack, small_llama  # noqa: E402

TEXTS = ["ශ්‍රී ලංකාව, and the sea", "", "one two three", "க்ஷ \ud800", "<|pad|>x"]


def joined(tokenizer, texts):
    rows = tokenizer([text.replace("\ud800", "\ufffd") for text in texts], add_special_tokens=False)["input_ids"]
    return [id for row in rows for id in [tokenizer.eos_token_id, *row]]


@pytest.mark.parametrize("length", [1, 4, 7])
def test_packed_rows_are_the_texts_one_after_another(lm_tokenizer, length):
    expected = joined(lm_tokenizer, TEXTS)
    rows = list(pack(TEXTS, lm_tokenizer, length))
    assert {len(row) for row in rows} == {length}
    assert list(chain(*rows)) == expected[: len(rows) * length]
    assert len(expected) - len(rows) * length < length
    assert lm_tokenizer.pad_token_id in expected  # written in the text, it counts as such


def test_a_text_in_parts_is_packed_as_one(lm_tokenizer, monkeypatch, sample):
    parts = sample["si"][:3000].split(" ")
    parts = [parts[0], *(f" {part}" for part in parts[1:])]
    whole = list(pack(["".join(parts), "end"], lm_tokenizer, 8))
    assert list(pack([iter(parts), "end"], lm_tokenizer, 8)) == whole
    monkeypatch.setattr("trainers.language_models.language_model._BATCH_CHARACTERS", 10)
    assert list(pack([iter(parts), "end"], lm_tokenizer, 8)) == whole


def test_packing_reads_no_more_than_it_needs(lm_tokenizer):
    endless = (f"text number {number} " * 1000 for number in count())
    assert len(list(islice(pack(endless, lm_tokenizer, 16), 500))) == 500


def test_a_text_file_is_one_text_and_json_lines_are_many(tmp_path, sample):
    (tmp_path / "a.txt").write_text(sample["si"], encoding="utf-8")
    (tmp_path / "b.TXT.xz").write_bytes(lzma.compress(b"one\ntwo"))
    (tmp_path / "c.txt.jsonl").write_text('{"body": "three"}\n{"body": "four"}\n', encoding="utf-8")
    files = sorted(tmp_path.iterdir())
    texts = [text if isinstance(text, str) else "".join(text) for text in read_model_texts(files, text_field="body")]
    assert texts == [sample["si"], "one\ntwo", "three", "four"]


def test_packing_needs_a_token_between_texts(sample):
    bare = TokenizerTrainer(TrainingConfig(300, "bpe", special_tokens=())).train(text=sample["en"][:5000])
    with pytest.raises(SGPEError, match="no eos token"):
        next(pack(["x"], bare, 4))
    only_bos = TokenizerTrainer(TrainingConfig(300, "bpe", special_tokens=("<s>",))).train(text=sample["en"][:5000])
    assert next(pack(["xy"], only_bos, 2))[0] == only_bos.bos_token_id
    with pytest.raises(SGPEError, match="at least 1"):
        next(pack(["x"], only_bos, 0))


def test_collators_pad_and_hide_padding_from_the_loss(lm_tokenizer):
    rows = [lm_tokenizer(text) for text in ("one two", "one two three four five")]
    longest = len(rows[1]["input_ids"])
    padded = DataCollatorWithPadding(lm_tokenizer, pad_to_multiple_of=8)(rows)
    assert padded["input_ids"].shape[1] % 8 == 0
    assert padded["attention_mask"].sum(1).tolist() == [len(row["input_ids"]) for row in rows]

    batch = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)(rows)
    assert batch["input_ids"].shape[1] == longest
    assert torch.equal(batch["labels"] == -100, batch["input_ids"] == lm_tokenizer.pad_token_id)
    assert lm_tokenizer.decode(batch["input_ids"][0], skip_special_tokens=True) == "one two"
    model = make_llama(lm_tokenizer)
    with torch.no_grad():
        whole = float(model(**batch).loss)
        sums = []
        for row in rows:
            ids = torch.tensor([row["input_ids"]])
            sums.append(float(model(input_ids=ids, labels=ids).loss) * (ids.shape[1] - 1))
    assert whole == pytest.approx(sum(sums) / sum(len(row["input_ids"]) - 1 for row in rows), rel=1e-4)

    pairs = [{"input_ids": row["input_ids"], "labels": row["input_ids"][:2]} for row in rows]
    batch = DataCollatorForSeq2Seq(lm_tokenizer, pad_to_multiple_of=8)(pairs)
    assert batch["labels"].shape == (2, 8)
    assert (batch["labels"] != -100).sum().item() == 4


def test_the_token_that_ends_texts_is_learned_though_it_pads(sample):
    config = TrainingConfig(600, "bpe")
    tokenizer = TokenizerTrainer(config).train(iterator=[sample["en"][:20_000]])
    assert tokenizer.pad_token_id == tokenizer.eos_token_id == 599
    batch = collate(list(islice(pack(["one two three", "four five"] * 9, tokenizer, 8), 4)))
    assert 599 in batch["labels"]
    assert torch.equal(batch["labels"], batch["input_ids"])
    # A collator that pads rows hides it, unless it goes by lengths; a token of its own for padding hides nothing.
    texts = [f"{text}{tokenizer.eos_token}" for text in ("one", "one two three")]
    assert 599 not in DataCollatorForLanguageModeling(tokenizer, mlm=False)([tokenizer(text) for text in texts])["labels"]


@pytest.mark.parametrize("options", [{"layers": 0}, {"width": 30}, {"heads": 0}, {"length": 0}])
def test_models_that_cannot_be_are_refused(options):
    with pytest.raises(SGPEError, match=next(iter(options))):
        small_llama(100, **{"layers": 1, "width": 16, "heads": 2, "length": 8} | options)
