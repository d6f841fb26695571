"""Masked models and encoder–decoders: measured as token by token, and adapted to a language."""

import json
import math

import pytest

torch = pytest.importorskip("torch", reason="language models need PyTorch: pip install torch accelerate")
pytest.importorskip("accelerate", reason="language models need accelerate: pip install torch accelerate")
import transformers  # noqa: E402
from hypothesis import given, strategies as st  # noqa: E402
from support.command import hf_sgpe  # noqa: E402
from support.other_scripts import TEXT  # noqa: E402
from support.piece_tokenizers import KINDS, piece_folder  # noqa: E402
from support.translation_models import translation_folder  # noqa: E402

from hf_sgpe import SGPEError  # noqa: E402
from hf_sgpe.weights.model_loading import load_tokenizer, load_translating_tokenizer  # noqa: E402
from trainers.language_models.masked_objective import MaskedObjective  # noqa: E402
from trainers.language_models.pair_objective import _Noise, chrf, encode_pairs  # noqa: E402
from trainers.language_models.scoring import score_texts  # noqa: E402
from trainers.model_rows.token_tables import layers_of  # noqa: E402

LAYERS = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}


@pytest.fixture(scope="module")
def masked(sample, tmp_path_factory):
    """Folders of small masked models, keyed by the kind of their tokenizers."""
    folders = {}
    for kind in KINDS:
        lines = [*sample["en"].splitlines(), *TEXT.splitlines()]
        folder = piece_folder(kind, lines, tmp_path_factory.mktemp("masked") / kind, own_class=False)
        name, padding = ("XLMRoberta", 1) if kind == "Unigram" else ("Bert", 0)
        config = getattr(transformers, f"{name}Config")(
            **LAYERS,
            vocab_size=len(load_tokenizer(str(folder))),
            max_position_embeddings=140,
            pad_token_id=padding,
            initializer_range=0.3,  # so that predictions differ
        )
        torch.manual_seed(1)
        getattr(transformers, f"{name}ForMaskedLM")(config).save_pretrained(folder)
        folders[kind] = folder
    return folders


@pytest.fixture(scope="module")
def translator(sample, tmp_path_factory):
    lines = [*sample["en"].splitlines(), *sample["hi"].splitlines()]
    return translation_folder(lines, tmp_path_factory.mktemp("translator") / "base")


@pytest.mark.parametrize("kind", KINDS)
def test_a_masked_model_is_measured_word_by_word_from_left_to_right(kind, masked):
    tokenizer = load_tokenizer(str(masked[kind]))
    model = transformers.AutoModelForMaskedLM.from_pretrained(masked[kind]).eval()
    text = "the words of a sentence\n\nunquestionably බ short\n"
    first, last = tokenizer("")["input_ids"]
    nats = unknown = size = 0
    for line in text.split("\n"):
        encoding = tokenizer(line, add_special_tokens=False, return_offsets_mapping=True)
        ids, spans = encoding["input_ids"], encoding["offset_mapping"]
        size += len(line.encode())
        words = [len(line[:end].split()) for _, end in spans]
        for place, id in enumerate(ids):
            if id == tokenizer.unk_token_id:
                unknown += len(line[slice(*spans[place])].encode())
                continue
            hidden = [
                tokenizer.mask_token_id if at >= place and words[at] == words[place] else one for at, one in enumerate(ids)
            ]
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([[first, *hidden, last]])).logits[0, place + 1].double()
            nats -= math.log(logits.softmax(-1)[id])
    assert unknown
    score = score_texts(model, tokenizer, [text])
    assert score.bytes == size
    assert score.bits == pytest.approx(nats / math.log(2) + 8 * unknown, rel=1e-5)
    assert score.cache_bytes is None


def test_training_masks_some_tokens_of_whole_rows(masked, sample):
    tokenizer, objective = load_tokenizer(str(masked["WordPiece"])), MaskedObjective()
    rows = list(objective.examples([sample["en"][:4000]], tokenizer, 32))
    assert {len(row) for row in rows} == {32}
    assert {(row[0], row[-1]) for row in rows} == {(tokenizer.cls_token_id, tokenizer.sep_token_id)}
    batch = objective.collator(None, tokenizer)(rows)
    chosen = batch["labels"] != -100
    assert 0.1 < chosen.double().mean() < 0.2
    original = torch.tensor(rows)
    assert (batch["input_ids"] == original)[~chosen].all()
    assert (batch["labels"] == original)[chosen].all()


@given(st.text(st.sampled_from("ab  කා්\u200d"), min_size=1, max_size=80).filter(str.strip))
def test_the_spans_that_a_text_loses_are_in_its_target(text):
    noise = _Noise([f"<extra_id_{number}>" for number in range(100)], range(100), None)
    [pair] = noise.pairs_in(text)
    restored = pair.source
    for number, span in enumerate(pair.target.split("<extra_id_")[1:]):
        restored = restored.replace(f"<extra_id_{number}>", span.partition(">")[2], 1)
    assert "".join(restored.split()) == "".join(text.split())
    assert "".join(pair.restored.split()) == "".join(
        "".join(part.partition(">")[2] for part in pair.target.split("<")).split()
    )
    assert noise.pairs_in(text) == [pair]
    [masked] = _Noise([], [], "<mask>").pairs_in(text)
    assert masked.target == masked.restored
    assert "<mask>" in masked.source


def test_pairs_are_measured_on_the_text_of_their_targets(translator):
    tokenizer = load_translating_tokenizer(str(translator), "eng_Latn", "hin_Deva")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(translator).eval()
    pairs = [("the first sentence", "पहला वाक्य"), ("a word", "एक शब्द a ෴")]
    rows = encode_pairs(pairs, tokenizer, 64)
    ends = [tokenizer.convert_tokens_to_ids(code) for code in ("eng_Latn", "hin_Deva")]
    assert [[row["input_ids"][0], row["labels"][0]] for row in rows] == [ends, ends]
    nats = 0.0
    for row in rows:
        labels = torch.tensor([row["labels"]])
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([row["input_ids"]]), labels=labels).logits[0].double()
        text = [place for place, id in enumerate(row["labels"]) if id not in tokenizer.all_special_ids]
        nats -= sum(math.log(logits[place].softmax(-1)[row["labels"][place]]) for place in text)
    score = score_texts(model, tokenizer, ["\n".join("\t".join(pair) for pair in pairs)])
    assert score.bytes == sum(len(target.encode()) for _, target in pairs)
    unknown = len("෴".encode())
    assert score.bits == pytest.approx(nats / math.log(2) + 8 * unknown, rel=1e-5)
    for line in ("\ta target", "a source\t", "a\tb\tc"):
        with pytest.raises(SGPEError, match="is no pair"):
            score_texts(model, tokenizer, [line])
    assert 0 <= chrf(model, tokenizer, ["a\tb\nc"]) <= 100
    assert chrf(model, tokenizer, ["no pairs"]) is None


def test_the_ends_of_an_encoder_decoder_are_in_both_parts():
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_heads": 2, "num_layers": 2, "num_decoder_layers": 3}
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(vocab_size=20, **sizes))
    assert list(layers_of(model)) == [*model.encoder.block, *model.decoder.block]


def adapted(base, *more):
    options = ("--new-tokens", 600, "--budget", 3000, "--length", 48, "--batch-size", 4, "--script", "si")
    return hf_sgpe("adapt", base, *more, *options)


def test_a_masked_model_is_adapted(masked, sinhala_file, tmp_path):
    out = tmp_path / "out"
    adapted(masked["Unigram"], sinhala_file, "--lines", "--out", out, "--eval-minutes", 0.02)
    model = transformers.AutoModelForMaskedLM.from_pretrained(out / "model")
    assert len(model.get_input_embeddings().weight) == len(transformers.AutoTokenizer.from_pretrained(out / "model"))
    first, *_, last = (json.loads(line) for line in (out / "model" / "language_progress.jsonl").read_text().splitlines())
    bits = [point["languages"]["validation"]["bits_per_byte"] for point in (first, last)]
    assert bits[1] < bits[0]
    assert "their rows started from: mean" in (out / "report.md").read_text(encoding="utf-8")


def test_a_translation_model_is_adapted_on_pairs(translator, sinhala_file, sample, tmp_path):
    lines = zip(sample["en"].splitlines()[:150], sinhala_file.read_text(encoding="utf-8").splitlines(), strict=False)
    pairs = [f"{english[:60]}\t{sinhala[:60]}" for english, sinhala in lines if english.strip() and sinhala.strip()]
    (tmp_path / "train.txt").write_text("\n".join(pairs[:-5]), encoding="utf-8")
    (tmp_path / "held-out.txt").write_text("\n".join(pairs[-5:]), encoding="utf-8")
    out = tmp_path / "out"
    codes = ("--source-language", "eng_Latn", "--target-language", "sin_Sinh")
    refused = hf_sgpe("adapt", translator, tmp_path / "train.txt", "--script", "si", "--out", out, code=2)
    assert "has language codes: name those of the text" in refused.stderr
    adapted(translator, tmp_path / "train.txt", *codes, "--eval", f"si={tmp_path / 'held-out.txt'}", "--out", out)
    report = (out / "report.md").read_text(encoding="utf-8")
    assert "- si: chrF++ of translations: " in report
    tokenizer = load_translating_tokenizer(str(out / "model"), "eng_Latn", "sin_Sinh")
    assert tokenizer(text_target="ලංකාව")["input_ids"][0] == tokenizer.convert_tokens_to_ids("sin_Sinh")
    transformers.AutoModelForSeq2SeqLM.from_pretrained(out / "model")


def test_pairs_are_fine_tuned_with_language_codes(translator, tmp_path):
    (tmp_path / "pairs.tsv").write_text("one\tएक\ntwo\tदो\nthree\tतीन\n", encoding="utf-8")
    options = ["--model", translator, "--steps", 1, "--held-out", 1, "--length", 16]
    codes = ["--source-language", "eng_Latn", "--target-language", "hin_Deva"]
    hf_sgpe("finetune-seq2seq", tmp_path / "pairs.tsv", *options, *codes, "--out", tmp_path / "out")
    settings = json.loads((tmp_path / "out" / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert (settings["src_lang"], settings["tgt_lang"]) == ("eng_Latn", "hin_Deva")
    refused = hf_sgpe("finetune-seq2seq", tmp_path / "pairs.tsv", *options, *codes[:2], "--out", tmp_path / "no", code=2)
    assert "give both --source-language and --target-language" in refused.stderr
