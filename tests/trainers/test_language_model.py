import json
import lzma
import math
import shutil
from functools import partial
from itertools import chain, count, islice

import pytest
from support.hub import running

from hf_sgpe import SGPEError, SGPETokenizerFast
from hf_sgpe.generation import TextGenerator
from trainers import TokenizerTrainer, TrainingConfig

torch = pytest.importorskip("torch", reason="language models need PyTorch: pip install torch accelerate")
pytest.importorskip("accelerate", reason="language models need accelerate: pip install torch accelerate")

from support.models import permuted, train_llama  # noqa: E402
from transformers import (  # noqa: E402
    AutoModelForCausalLM,
    AutoTokenizer,
    BartConfig,
    BartForConditionalGeneration,
    DataCollatorForLanguageModeling,
    DataCollatorForSeq2Seq,
    DataCollatorWithPadding,
    GPT2Config,
    GPTJConfig,
    GPTJForCausalLM,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from trainers.language_model import (  # noqa: E402
    collate,
    pack,
    read_documents,
    small_llama,
)
from trainers.loading import load_model, load_tokenizer  # noqa: E402
from trainers.scoring import bits_per_byte  # noqa: E402
from trainers.token_tables import embedding_rows, fit_embeddings  # noqa: E402
from trainers.training_runs import check_settings, checkpoint_to_resume, keep_settings, require_pytorch, train  # noqa: E402

TEXTS = ["ශ්‍රී ලංකාව, and the sea", "", "one two three", "க்ஷ \ud800", "<|pad|>x"]


@pytest.fixture(scope="module")
def tokenizer(sample):
    config = TrainingConfig(700, "bpe", special_tokens=("<|endoftext|>", "<|pad|>"))
    return TokenizerTrainer(config).train(iterator=[sample["si"][:20_000], sample["en"][:20_000]])


def make_model(tokenizer, *, seed=1, **options):
    torch.manual_seed(seed)
    config = small_llama(embedding_rows(tokenizer), layers=2, width=16, heads=2, length=64)
    for name, value in {"initializer_range": 0.5, **options}.items():  # so that predictions differ
        setattr(config, name, value)
    return LlamaForCausalLM(config).eval()


def joined(tokenizer, texts):
    rows = tokenizer([text.replace("\ud800", "\ufffd") for text in texts], add_special_tokens=False)["input_ids"]
    return [id for row in rows for id in [tokenizer.eos_token_id, *row]]


@pytest.mark.parametrize("length", [1, 4, 7])
def test_packed_rows_are_the_texts_one_after_another(tokenizer, length):
    expected = joined(tokenizer, TEXTS)
    rows = list(pack(TEXTS, tokenizer, length))
    assert {len(row) for row in rows} == {length}
    assert list(chain(*rows)) == expected[: len(rows) * length]
    assert len(expected) - len(rows) * length < length
    assert tokenizer.pad_token_id in expected  # written in the text, it counts as such


def test_a_text_in_parts_is_packed_as_one(tokenizer, monkeypatch, sample):
    parts = sample["si"][:3000].split(" ")
    parts = [parts[0], *(f" {part}" for part in parts[1:])]
    whole = list(pack(["".join(parts), "end"], tokenizer, 8))
    assert list(pack([iter(parts), "end"], tokenizer, 8)) == whole
    monkeypatch.setattr("trainers.language_model._BATCH_CHARACTERS", 10)
    assert list(pack([iter(parts), "end"], tokenizer, 8)) == whole


def test_packing_reads_no_more_than_it_needs(tokenizer):
    endless = (f"text number {number} " * 1000 for number in count())
    assert len(list(islice(pack(endless, tokenizer, 16), 500))) == 500


def test_a_text_file_is_one_text_and_json_lines_are_many(tokenizer, tmp_path, sample):
    (tmp_path / "a.txt").write_text(sample["si"], encoding="utf-8")
    (tmp_path / "b.TXT.xz").write_bytes(lzma.compress(b"one\ntwo"))
    (tmp_path / "c.txt.jsonl").write_text('{"body": "three"}\n{"body": "four"}\n', encoding="utf-8")
    files = sorted(tmp_path.iterdir())
    texts = [text if isinstance(text, str) else "".join(text) for text in read_documents(files, text_field="body")]
    assert texts == [sample["si"], "one\ntwo", "three", "four"]


def test_packing_needs_a_token_between_texts(sample):
    bare = TokenizerTrainer(TrainingConfig(300, "bpe", special_tokens=())).train(text=sample["en"][:5000])
    with pytest.raises(SGPEError, match="no eos token"):
        next(pack(["x"], bare, 4))
    only_bos = TokenizerTrainer(TrainingConfig(300, "bpe", special_tokens=("<s>",))).train(text=sample["en"][:5000])
    assert next(pack(["xy"], only_bos, 2))[0] == only_bos.bos_token_id
    with pytest.raises(SGPEError, match="at least 1"):
        next(pack(["x"], only_bos, 0))


def slow_bits(model, tokenizer, texts, length):
    """Token by token, each from the context that `bits_per_byte` says it has."""
    stride = max(length // 2, 1)
    ids, own = [], []
    for text in texts:
        row = tokenizer(text, add_special_tokens=False)["input_ids"]
        ids += [tokenizer.eos_token_id, *row]
        own += [False] + [True] * len(row)
    bits = 0.0
    for place in range(1, len(ids)):
        start = 0
        while place - start > length:
            start += stride
        assert place - start >= min(stride, place)
        if own[place]:
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([ids[start:place]])).logits[0, -1].double()
            bits -= math.log2(logits.softmax(-1)[ids[place]])
    return bits / sum(len(text.encode()) for text in texts)


@pytest.mark.parametrize("length", [None, 1, 2, 5, 8, 40])
def test_bits_per_byte_are_those_of_scoring_token_by_token(tokenizer, sample, length, monkeypatch):
    model = make_model(tokenizer).train()
    texts = [*sample["si"][:150].split("\n"), "", sample["en"][:60]]
    assert len(joined(tokenizer, texts)) > 64
    monkeypatch.setattr("trainers.scoring._MEASURED_TOKENS", 50)
    found = bits_per_byte(model, tokenizer, texts, length=length)
    assert found == pytest.approx(slow_bits(model, tokenizer, texts, length or 64), rel=1e-5)
    assert model.training


def test_bits_per_byte_of_a_model_that_knows_nothing(tokenizer):
    model = make_model(tokenizer)
    torch.nn.init.zeros_(model.get_output_embeddings().weight)
    text = "ශ්‍රී ලංකාව"
    tokens = len(tokenizer(text)["input_ids"])
    expected = tokens * math.log2(model.config.vocab_size) / len(text.encode())
    assert bits_per_byte(model, tokenizer, [text]) == pytest.approx(expected, rel=1e-5)
    assert bits_per_byte(model, tokenizer, [text] * 100) == pytest.approx(expected, rel=1e-5)
    with pytest.raises(SGPEError, match="no text"):
        bits_per_byte(model, tokenizer, ["", ""])


@pytest.fixture(scope="module")
def other(sample):
    """A tokenizer trained on other text, with a split and roles of its own."""
    config = TrainingConfig(900, "hybrid", ("sinhala",), special_tokens=("<|pad|>", "</s>"))
    return TokenizerTrainer(config).train(iterator=[sample["si"][10_000:], sample["en"][10_000:]])


def logits(model, ids):
    """For the same ids with any model; an encoder–decoder reads them, and is made to say them."""
    with torch.no_grad():
        return model(input_ids=ids, **({"labels": ids} if model.config.is_encoder_decoder else {})).logits


def models_of(kind, rows, pad):
    """Small models that differ in what they have for each id."""
    torch.manual_seed(1)
    small = {"vocab_size": rows, "pad_token_id": pad, "bos_token_id": None, "eos_token_id": None, "initializer_range": 0.3}
    if kind in ("tied", "untied"):
        config = small_llama(rows, layers=1, width=16, heads=2, length=64)
        config.update(small | {"tie_word_embeddings": kind == "tied"})
        return LlamaForCausalLM(config).eval()
    if kind == "biased output":
        model = GPTJForCausalLM(GPTJConfig(**small, n_embd=16, n_layer=1, n_head=2, rotary_dim=4, tie_word_embeddings=False))
        torch.nn.init.normal_(model.lm_head.bias)
        return model.eval()
    if kind == "T5":
        sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
        return T5ForConditionalGeneration(T5Config(**small | sizes, decoder_start_token_id=pad)).eval()
    sizes = dict.fromkeys(("d_model", "encoder_ffn_dim", "decoder_ffn_dim"), 16) | {"max_position_embeddings": 64}
    sizes |= dict.fromkeys(("encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads"), 1)
    forced = {"decoder_start_token_id": pad, "forced_eos_token_id": pad}
    model = BartForConditionalGeneration(BartConfig(**small | sizes | forced, init_std=0.3, scale_embedding=True))
    model.final_logits_bias.normal_()
    return model.eval()


KINDS = ["tied", "untied", "biased output", "T5", "BART"]


@pytest.mark.parametrize("kind", KINDS)
def test_with_ids_shuffled_a_model_says_the_same(kind, tokenizer, sample):
    shuffled = permuted(tokenizer)
    new_id = torch.tensor([shuffled.get_vocab()[token] for token in tokenizer.convert_ids_to_tokens(range(len(tokenizer)))])
    model = models_of(kind, 704, tokenizer.pad_token_id)
    ids = torch.tensor([tokenizer(sample["en"][:100])["input_ids"]])
    before = logits(model, ids)[..., : len(tokenizer)]
    assert str(fit_embeddings(model, shuffled, tokenizer)) == "700 rows kept, 4 spare"
    assert torch.tensor([shuffled(sample["en"][:100])["input_ids"]]).equal(new_id[ids])
    assert torch.allclose(logits(model, new_id[ids])[..., new_id], before, atol=1e-5)
    for module in model.modules():
        if getattr(module, "weight", None) is model.get_input_embeddings().weight and hasattr(module, "padding_idx"):
            assert module.padding_idx in (None, shuffled.pad_token_id)
    for name in ("decoder_start_token_id", "forced_eos_token_id"):
        for config in (model.config, model.generation_config):
            assert getattr(config, name, None) in (None, shuffled.pad_token_id)
    assert not model.config.is_encoder_decoder or model.config.decoder_start_token_id == shuffled.pad_token_id


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_is_fitted_to_a_tokenizer(kind, tokenizer, other):
    model = models_of(kind, 720, tokenizer.pad_token_id)
    model.generation_config.eos_token_id = [tokenizer.eos_token_id, tokenizer.pad_token_id]
    model.generation_config.suppress_tokens = [tokenizer.pad_token_id]
    before = {name: table.clone() for name, table in model.state_dict().items()}
    row_map = fit_embeddings(model, other, tokenizer, multiple=48)
    assert len(other) == 900
    assert 256 < len(row_map.kept) < 900
    assert model.config.vocab_size == len(model.get_input_embeddings().weight) == 912
    assert (model.get_output_embeddings().weight is model.get_input_embeddings().weight) == (kind in ("tied", "T5", "BART"))
    followed = {name for name, table in model.state_dict().items() if table.shape != before[name].shape}
    for name, table in model.state_dict().items():
        if name not in followed:
            assert torch.equal(table, before[name])
            continue
        old, new = (rows[0] if name == "final_logits_bias" else rows for rows in (before[name], table))
        assert len(new) == 912
        for id, old_id in row_map.kept.items():
            assert torch.equal(new[id], old[old_id])
        for id, pieces in row_map.pieces.items():
            assert torch.allclose(new[id], old[list(pieces)].mean(0), atol=1e-5)
        assert torch.allclose(new[900:], old[:700].mean(0).expand_as(new[900:]), atol=1e-5)
    extra = {"biased output": {"lm_head.bias"}, "BART": {"final_logits_bias"}}
    assert followed >= extra.get(kind, set())
    assert row_map.kept[other.eos_token_id] == tokenizer.eos_token_id
    for config in (model.config, model.generation_config):
        assert (config.bos_token_id, config.pad_token_id) == (None, other.pad_token_id)
    assert model.generation_config.eos_token_id == [other.eos_token_id, other.pad_token_id]
    assert model.generation_config.suppress_tokens == [other.pad_token_id]
    ids = torch.tensor([[0, other.pad_token_id]])
    assert torch.isfinite(model(input_ids=ids, labels=ids).loss)
    with pytest.raises(SGPEError, match="multiple of 1 to 4,096"):
        fit_embeddings(model, tokenizer, other, multiple=0)


@pytest.mark.parametrize("kind", KINDS)
def test_with_the_same_tokenizer_nothing_changes(kind, tokenizer):
    model = models_of(kind, 709, tokenizer.pad_token_id)  # with spare rows of its own
    before = {name: table.clone() for name, table in model.state_dict().items()}
    assert fit_embeddings(model, SGPETokenizerFast.from_bpe(tokenizer.to_bpe()), tokenizer).changes_nothing
    for name, table in model.state_dict().items():
        assert table.numpy().tobytes() == before[name].numpy().tobytes()
    assert model.config.vocab_size == 709
    assert model.config.eos_token_id == model.config.bos_token_id == tokenizer.eos_token_id


@pytest.mark.parametrize("rows", [699, 2000])
def test_rows_of_another_tokenizer_are_refused(rows, tokenizer, other):
    model = models_of("tied", rows, None)
    with pytest.raises(SGPEError, match=rf"^the model has {rows:,} rows for tokens, and its own tokenizer 700 ids"):
        fit_embeddings(model, other, tokenizer)
    assert len(model.get_input_embeddings().weight) == rows


def test_what_a_model_knows_survives_another_tokenizer(tokenizer, other, sample, tmp_path):
    texts, held_out = sample["en"][:16_000].splitlines(), sample["en"][16_000:].splitlines()
    shape = {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    train_llama(tmp_path, tokenizer.to_bpe(), texts, steps=150, **shape, **heads)

    def bits(new, *, by_id=False):
        model = AutoModelForCausalLM.from_pretrained(tmp_path)
        if by_id:
            model.resize_token_embeddings(embedding_rows(new, multiple=1))
        else:
            fit_embeddings(model, new, tokenizer, multiple=1)
        return bits_per_byte(model, new, held_out)

    own = bits(tokenizer)
    assert bits(permuted(tokenizer)) == pytest.approx(own, rel=1e-6)
    assert bits(permuted(tokenizer), by_id=True) > own + 0.5
    assert own < bits(other) < (own + bits(other, by_id=True)) / 2


def test_ids_with_gaps_have_rows_all_the_same(tokenizer):
    gapped = SGPETokenizerFast.from_bpe(tokenizer.to_bpe())
    gapped.get_vocab = lambda: {"a": 0, "b": 1000}
    assert embedding_rows(gapped) == 1024
    assert embedding_rows(gapped, multiple=1) == 1001


def test_collators_pad_and_hide_padding_from_the_loss(tokenizer):
    rows = [tokenizer(text) for text in ("one two", "one two three four five")]
    longest = len(rows[1]["input_ids"])
    padded = DataCollatorWithPadding(tokenizer, pad_to_multiple_of=8)(rows)
    assert padded["input_ids"].shape[1] % 8 == 0
    assert padded["attention_mask"].sum(1).tolist() == [len(row["input_ids"]) for row in rows]

    batch = DataCollatorForLanguageModeling(tokenizer, mlm=False)(rows)
    assert batch["input_ids"].shape[1] == longest
    assert torch.equal(batch["labels"] == -100, batch["input_ids"] == tokenizer.pad_token_id)
    assert tokenizer.decode(batch["input_ids"][0], skip_special_tokens=True) == "one two"
    model = make_model(tokenizer)
    with torch.no_grad():
        whole = float(model(**batch).loss)
        sums = []
        for row in rows:
            ids = torch.tensor([row["input_ids"]])
            sums.append(float(model(input_ids=ids, labels=ids).loss) * (ids.shape[1] - 1))
    assert whole == pytest.approx(sum(sums) / sum(len(row["input_ids"]) - 1 for row in rows), rel=1e-4)

    pairs = [{"input_ids": row["input_ids"], "labels": row["input_ids"][:2]} for row in rows]
    batch = DataCollatorForSeq2Seq(tokenizer, pad_to_multiple_of=8)(pairs)
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


@pytest.fixture(scope="module")
def rows(tokenizer, sample):
    return list(pack([sample["en"][:8000]], tokenizer, 16))


def fit(tokenizer, rows, out, *, seed=1, collator=None, **options):
    model = make_model(tokenizer, seed=seed, initializer_range=0.02, attention_dropout=0.2)
    collator = collator or collate
    settings = {"steps": 8, "batch_size": 2, "learning_rate": 1e-2, "seed": 3, "save_every": 3}
    train(model, tokenizer, rows, collator, out=out, **settings | options)
    return model


@pytest.fixture(scope="module")
def trained(tokenizer, rows, tmp_path_factory):
    out = tmp_path_factory.mktemp("trained") / "model"
    return fit(tokenizer, rows, out), out


def test_training_writes_what_the_auto_classes_load(trained, tokenizer, rows):
    model, out = trained
    loaded = AutoModelForCausalLM.from_pretrained(out)
    for name, weights in loaded.state_dict().items():
        assert torch.equal(weights, model.state_dict()[name])
    theirs = AutoTokenizer.from_pretrained(out)
    assert theirs("ශ්‍රී one")["input_ids"] == tokenizer("ශ්‍රී one")["input_ids"]
    assert loaded.config.use_cache
    prompt = theirs("one", return_tensors="pt")
    generated = loaded.generate(**prompt, max_new_tokens=3, do_sample=False)
    assert theirs.decode(generated[0]).startswith("one")


def test_training_lowers_the_loss(tokenizer, rows, tmp_path):
    model = fit(tokenizer, rows[:8], tmp_path / "model", steps=40, save_every=40).eval()
    untrained = make_model(tokenizer, initializer_range=0.02)
    batch = torch.tensor(rows[:8])
    with torch.no_grad():
        assert model(input_ids=batch, labels=batch).loss < untrained(input_ids=batch, labels=batch).loss - 0.5


def test_resumed_training_ends_in_the_same_weights(trained, tokenizer, rows, tmp_path):
    model, out = trained
    assert checkpoint_to_resume(out, resume=True) == out / "checkpoint-8"
    broken_off = tmp_path / "model"
    shutil.copytree(out / "checkpoint-6", broken_off / "checkpoint-6")
    shutil.copytree(out / "checkpoint-8", broken_off / "checkpoint-7")
    (broken_off / "checkpoint-7" / "trainer_state.json").unlink()  # killed while this was written
    assert checkpoint_to_resume(broken_off, resume=True) == broken_off / "checkpoint-6"
    with pytest.raises(SGPEError, match="holds checkpoints"):
        fit(tokenizer, rows, broken_off, seed=2)
    resumed = fit(tokenizer, rows, broken_off, seed=2, resume=True)
    for name, weights in resumed.state_dict().items():
        assert torch.equal(weights, model.state_dict()[name]), name
    assert (broken_off / "model.safetensors").read_bytes() == (out / "model.safetensors").read_bytes()


def test_going_on_from_the_end_trains_no_further(trained, tokenizer, rows, tmp_path):
    model, out = trained
    again = tmp_path / "again"
    shutil.copytree(out, again)
    for _ in range(2):
        resumed = fit(tokenizer, rows, again, seed=2, resume=True)
        assert (again / "model.safetensors").read_bytes() == (out / "model.safetensors").read_bytes()
        for name, weights in resumed.state_dict().items():
            assert torch.equal(weights, model.state_dict()[name]), name
    assert sorted(path.name for path in again.iterdir()) == sorted(path.name for path in out.iterdir())


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.pt", "scheduler.pt", "trainer_state.json"])
def test_damaged_checkpoints_are_passed_over(trained, tmp_path, name):
    broken = tmp_path / "model"
    for step in (6, 8):
        shutil.copytree(trained[1] / f"checkpoint-{step}", broken / f"checkpoint-{step}")
    file = broken / "checkpoint-8" / name
    if file.suffix != ".json":
        file.write_bytes(file.read_bytes()[:100])
        assert checkpoint_to_resume(broken, resume=True) == broken / "checkpoint-6"
    file.unlink()
    assert checkpoint_to_resume(broken, resume=True) == broken / "checkpoint-6"
    shutil.rmtree(broken / "checkpoint-6")
    assert checkpoint_to_resume(broken, resume=True) is None


def test_the_result_is_pushed_to_a_repository_made_before_training(tokenizer, rows, tmp_path, monkeypatch):
    with running(tmp_path / "home") as hub:
        hub.patch(monkeypatch)
        monkeypatch.setattr("transformers.utils.hub._hf_api", None, raising=False)  # it remembers the address
        hub.fail("POST /api/repos/create", status=403, times=1)
        with pytest.raises(SGPEError, match=r"^me/lm: the token does not allow it \(.*\)$"):
            fit(tokenizer, rows, tmp_path / "refused", push="me/lm")
        assert not (tmp_path / "refused").exists()

        out = tmp_path / "pushed"
        model = fit(tokenizer, rows, out, push="me/lm", private=True)
        assert (out / "checkpoint-8").exists()
        assert hub.repositories["me/lm"].private
        files = hub.repositories["me/lm"].at().files
        models = {"config.json", "generation_config.json", "model.safetensors"}
        tokenizers = {"tokenizer.json", "tokenizer_config.json", "tokenization_sgpe.py"}
        assert set(files) == {".gitattributes", "README.md", *models, *tokenizers}
        card = files["README.md"].decode()
        assert 'model = AutoModelForCausalLM.from_pretrained("me/lm")' in card
        assert "pipeline_tag: text-generation" in card.split("---")[1]
        loaded = AutoModelForCausalLM.from_pretrained("me/lm")
        assert torch.equal(loaded.get_input_embeddings().weight, model.get_input_embeddings().weight)
        assert AutoTokenizer.from_pretrained("me/lm")("one")["input_ids"] == tokenizer("one")["input_ids"]
        with TextGenerator.load("me/lm@main", "transformers") as generator:
            assert generator.engine.vocab_size == model.config.vocab_size
            assert generator.tokenizer.encode("one") == tokenizer("one")["input_ids"]


def test_training_that_fails_before_a_checkpoint_leaves_nothing(tokenizer, rows, tmp_path):
    def broken(examples):
        raise ValueError("no batch of these")

    with pytest.raises(ValueError, match="no batch"):
        fit(tokenizer, rows, tmp_path / "model", collator=broken)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("options", [{"steps": 0}, {"batch_size": 0}, {"save_every": 0}, {"learning_rate": 0.0}])
def test_numbers_that_make_no_training_are_refused(tokenizer, rows, tmp_path, options):
    with pytest.raises(SGPEError, match=next(iter(options))):
        fit(tokenizer, rows, tmp_path / "model", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("options", [{"layers": 0}, {"width": 30}, {"heads": 0}, {"length": 0}])
def test_models_that_cannot_be_are_refused(options):
    with pytest.raises(SGPEError, match=next(iter(options))):
        small_llama(100, **{"layers": 1, "width": 16, "heads": 2, "length": 8} | options)


def test_tokenizers_load_from_folder_file_and_what_transformers_knows(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path / "saved")
    for name in ("saved", "saved/tokenizer.json"):
        loaded = load_tokenizer(str(tmp_path / name))
        assert isinstance(loaded, SGPETokenizerFast)
        assert loaded("ශ්‍රී ලංකාව")["input_ids"] == tokenizer("ශ්‍රී ලංකාව")["input_ids"]

    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"<unk>": 0, "</s>": 1, "one": 2, "two": 3}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words, eos_token="</s>").save_pretrained(tmp_path / "words")
    other = load_tokenizer(str(tmp_path / "words"))
    assert list(pack(["one two", "two"], other, 5)) == [[1, 2, 3, 1, 3]]
    with pytest.raises(SGPEError, match="give its folder"):
        load_tokenizer(str(tmp_path / "words" / "tokenizer.json"))


def test_what_cannot_be_loaded_is_named_in_one_line(tmp_path):
    GPT2Config().save_pretrained(tmp_path / "model")  # beside which transformers makes one up
    with pytest.raises(SGPEError, match=r"model: the folder holds no tokenizer$"):
        load_tokenizer(str(tmp_path / "model"))
    empty = str(tmp_path / "empty")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SGPEError, match=r"the folder holds no tokenizer$") as raised:
        load_tokenizer(empty)
    assert str(raised.value).startswith(empty)
    with pytest.raises(SGPEError, match=r"cannot load a model from it \(.*\)$"):
        load_model(AutoModelForCausalLM, empty)
    for name in ("nobody/nothing", "no such name"):
        for load in (load_tokenizer, partial(load_model, AutoModelForCausalLM)):
            with pytest.raises(SGPEError, match=f"^{name}: no such file or folder, and "):
                load(name)


def test_what_is_not_installed_is_named_with_the_command_that_installs_it(monkeypatch):
    require_pytorch()
    monkeypatch.setattr("trainers.training_runs.find_spec", lambda name: None if name == "accelerate" else name)
    with pytest.raises(SGPEError, match=r"needs accelerate: pip install torch accelerate "):
        require_pytorch()


def test_results_are_not_gone_on_with_under_other_settings(tmp_path):
    check_settings(tmp_path / "new", {"steps": 5, "files": [("a", 1)]})
    keep_settings(tmp_path / "new", {"steps": 5, "files": [("a", 1)]})
    check_settings(tmp_path / "new", {"steps": 5, "files": [("a", 1)]})
    with pytest.raises(SGPEError, match=r"other settings \(steps\)"):
        check_settings(tmp_path / "new", {"steps": 6, "files": [("a", 1)]})
    assert json.loads((tmp_path / "new" / "settings.json").read_text())["steps"] == 5
    (tmp_path / "new" / "settings.json").write_text("{")
    with pytest.raises(SGPEError, match="damaged"):
        check_settings(tmp_path / "new", {})
