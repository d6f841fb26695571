import numpy as np
import pytest

from hf_sgpe import SGPETokenizerFast, TrainingConfig, WordCounts, train_from_counts
from hf_sgpe.generation import TextGenerator
from trainers import tokenize_corpus
from trainers.language_models.language_model import pack, text_start
from trainers.token_files import token_shards

TEXTS = ["hello world", "hello ශ්‍රී ලංකාව", "x"]
SETTINGS = {
    "none": ({}, ["<eos>"]),
    "BOS": ({"add_bos_token": True}, ["<eos>", "<bos>"]),
    "EOS": ({"add_eos_token": True}, ["<eos>"]),
    "both": ({"add_bos_token": True, "add_eos_token": True}, ["<eos>", "<bos>"]),
    "one token for both": ({"eos_token": "<bos>", "add_bos_token": True, "add_eos_token": True}, ["<bos>"]),
    "BOS alone": ({"special_tokens": [], "eos_token": None, "add_bos_token": True}, ["<bos>"]),
    "[CLS] and [SEP]": ({"recipe": "sgpe"}, ["<eos>"]),
}
every_setting = pytest.mark.parametrize(("options", "start"), SETTINGS.values(), ids=SETTINGS)


def trained(**options):
    config = TrainingConfig(vocab_size=300, **{"bos_token": "<bos>", "eos_token": "<eos>", **options})
    return train_from_counts(WordCounts.from_texts(TEXTS * 3, config), config)


@every_setting
def test_rows_for_training_have_it_once(options, start):
    tokenizer = trained(**options)
    before = [tokenizer.special_tokens[name] for name in start]
    expected = [id for text in TEXTS for id in (*before, *tokenizer.encode(text))]
    fast = SGPETokenizerFast.from_bpe(tokenizer)
    assert text_start(fast) == before
    assert [id for row in pack(TEXTS, fast, 1) for id in row] == expected
    parts = [iter([text[:6], text[6:]]) for text in TEXTS]  # a text that is too large for one string
    assert [id for row in pack(parts, fast, 1) for id in row].count(before[-1]) == len(TEXTS)


@every_setting
def test_tokens_on_disk_have_it_once(options, start, tmp_path, monkeypatch):
    tokenizer = trained(**options)
    (tmp_path / "a.jsonl").write_text("".join(f'{{"text": "{text}"}}\n' for text in TEXTS), encoding="utf-8")
    long = "hello world\n" * 400
    (tmp_path / "b.txt").write_text(long, encoding="utf-8")
    end, *begin = [tokenizer.special_tokens[name] for name in start]
    expected = [id for text in [*TEXTS, long] for id in (*begin, *tokenizer.encode(text), end)]
    how = {"end_token": start[0], "shard_tokens": 20, "workers": 1}
    for batch in (1, 100, 1 << 20):
        monkeypatch.setattr(token_shards, "_BATCH_CHARACTERS", batch)
        out = tmp_path / f"out-{batch}"
        done = tokenize_corpus(sorted(tmp_path.glob("[ab].*")), tokenizer, out, **how)
        ids = np.concatenate([np.fromfile(file, "<u2") for file in sorted(out.glob("*.bin"))])
        assert ids.tolist() == expected
        assert (done.documents, done.tokens) == (4, len(expected))


@pytest.mark.parametrize(
    ("options", "before"),
    [
        ({}, []),
        ({"add_eos_token": True}, []),
        ({"add_bos_token": True, "add_eos_token": True}, ["<bos>"]),
        ({"recipe": "sgpe"}, ["[CLS]"]),
    ],
)
def test_a_prompt_has_what_comes_before_a_text_and_nothing_behind_it(options, before):
    tokenizer = trained(**options)
    generator = TextGenerator.__new__(TextGenerator)  # without a model
    generator.tokenizer = tokenizer
    assert generator.encode("hello") == [*map(tokenizer.special_tokens.get, before), *tokenizer.encode("hello")]


@every_setting
def test_a_score_is_of_the_text_alone_behind_it(options, start):
    torch = pytest.importorskip("torch", reason="language models need PyTorch: pip install torch")
    from transformers import LlamaForCausalLM

    from trainers.language_models.language_model import small_llama
    from trainers.language_models.scoring import score_texts
    from trainers.model_rows.token_tables import embedding_rows

    tokenizer = trained(**options)
    fast = SGPETokenizerFast.from_bpe(tokenizer)
    torch.manual_seed(0)
    model = LlamaForCausalLM(small_llama(embedding_rows(fast), layers=1, width=16, heads=2, length=64)).eval()
    text = tokenizer.encode(TEXTS[0])
    ids = torch.tensor([[*map(tokenizer.special_tokens.get, start), *text]])
    with torch.inference_mode():
        logits = model(ids).logits[0, len(start) - 1 : -1]
    bits = torch.nn.functional.cross_entropy(logits, torch.tensor(text), reduction="sum").item() / np.log(2)
    score = score_texts(model, fast, [TEXTS[0]])
    assert (score.tokens, score.bits) == (len(text), pytest.approx(bits, rel=1e-4))
