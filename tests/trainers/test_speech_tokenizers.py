"""Speech models, whose last ids are times."""

import json

import numpy as np
import pytest
from support.command import hf_sgpe

from hf_sgpe import BPETokenizer
from hf_sgpe.formats.tokenizer_folder import TokenizerFolder
from hub_cards.cards.card_of_model import write_model_card
from trainers import extend
from trainers.model_rows.token_tables import extended_ids
from trainers.model_rows.transplanting import transplant

pytest.importorskip("torch")
import torch
import transformers
from transformers import AutoModelForSpeechSeq2Seq, AutoProcessor, AutoTokenizer
from transformers.models.whisper.tokenization_whisper import LANGUAGES

NEW = 300


@pytest.fixture(scope="module")
def whisper(sample, tmp_path_factory):
    """A small random Whisper model that knows Hindi, with its special tokens and times after the last ordinary token."""
    folder = tmp_path_factory.mktemp("whisper")
    data = BPETokenizer.train_from_iterator([sample["en"], sample["hi"]], 1200, pattern="gpt2").data
    vocab = {data.spelling.string_of(token): id for token, id in data.vocab.items()}
    merges = [(data.spelling.string_of(left), data.spelling.string_of(right)) for left, right in data.merges]
    tasks = ["translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps"]
    names = ["startoftranscript", *LANGUAGES, *tasks]
    tokenizer = transformers.WhisperTokenizer(
        vocab=vocab, merges=merges, pad_token="<|endoftext|>", extra_special_tokens=[f"<|{name}|>" for name in names]
    )
    times = [f"<|{number / 50:.2f}|>" for number in range(1501)]
    tokenizer.add_tokens([transformers.AddedToken(time, normalized=False, special=False) for time in times])
    ids = {name: tokenizer.convert_tokens_to_ids(f"<|{name}|>") for name in ("endoftext", *names)}
    end = ids["endoftext"]
    parts = ("encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads")
    sizes = {**dict.fromkeys(parts, 1), "vocab_size": len(tokenizer), "d_model": 16}
    roles = {"bos_token_id": end, "eos_token_id": end, "decoder_start_token_id": ids["startoftranscript"]}
    unwanted = {"begin_suppress_tokens": [5, end]}
    config = transformers.WhisperConfig(
        encoder_ffn_dim=16, decoder_ffn_dim=16, **sizes, **roles, **unwanted, pad_token_id=700
    )
    torch.manual_seed(0)
    model = transformers.WhisperForConditionalGeneration(config)
    with torch.no_grad():
        for weights in model.parameters():
            weights *= 8  # so that the text is no single word
    model.generation_config = transformers.GenerationConfig(
        **(roles | unwanted),
        pad_token_id=end,
        no_timestamps_token_id=ids["notimestamps"],
        prev_sot_token_id=ids["startofprev"],
        is_multilingual=True,
        lang_to_id={f"<|{name}|>": ids[name] for name in LANGUAGES},
        task_to_id={name: ids[name] for name in ("translate", "transcribe")},
        suppress_tokens=[1, ids["nospeech"]],
        alignment_heads=[[0, 0]],
        max_length=12,
    )
    model.save_pretrained(folder)
    transformers.WhisperProcessor(transformers.WhisperFeatureExtractor(), tokenizer).save_pretrained(folder)
    (folder / "normalizer.json").write_text("{}")
    (folder / "added_tokens.json").write_text(json.dumps({"<|endoftext|>": end}))
    return folder


@pytest.fixture(scope="module")
def grown(whisper, sinhala_file, tmp_path_factory):
    """The folder of the extended tokenizer, that of the transplanted model, and the output of ``hf-sgpe extend``."""
    tokenizer, model = (tmp_path_factory.mktemp(name) for name in ("tokenizer", "model"))
    done = hf_sgpe("extend", whisper, sinhala_file, "--script", "si", "--new-tokens", NEW, "--out", tokenizer)
    hf_sgpe("transplant", whisper, "--tokenizer", tokenizer, "--out", model)
    return tokenizer, model, done.stdout


def first_moved(whisper):
    return AutoTokenizer.from_pretrained(whisper).convert_tokens_to_ids("<|endoftext|>")


def test_new_tokens_come_before_the_special_tokens(whisper, grown):
    old, new = (AutoTokenizer.from_pretrained(folder) for folder in (whisper, grown[1]))
    first = first_moved(whisper)
    moved = {token: id if id < first else id + NEW for token, id in old.get_vocab().items()}
    assert moved.items() <= new.get_vocab().items()
    assert extended_ids(new) == [*range(first, first + NEW)]
    assert sorted(set(new.get_vocab().values()) - set(moved.values())) == extended_ids(new)
    assert f"The ids of the special tokens are {NEW} higher" in grown[2]
    assert len(new("ශ්‍රී ලංකාව")["input_ids"]) < len(old("ශ්‍රී ලංකාව")["input_ids"])


def test_the_configurations_name_the_moved_ids(whisper, grown):
    first = first_moved(whisper)

    def moved(value):
        if isinstance(value, dict):
            return {name: moved(id) for name, id in value.items()}
        if isinstance(value, list):
            return [moved(id) for id in value]
        return value + NEW if type(value) is int and value >= first else value

    for name in ("config.json", "generation_config.json"):
        old, new = (json.loads((folder / name).read_text(encoding="utf-8")) for folder in (whisper, grown[1]))
        lengths = {field: value for field, value in old.items() if field.startswith("max_")}
        assert new == {**moved(old), **lengths}
        assert new["begin_suppress_tokens"] == [5, first + NEW]
    # This is the model's own padding, not that of the tokenizer.
    assert AutoModelForSpeechSeq2Seq.from_pretrained(grown[1]).config.pad_token_id == 700
    names = {file.name for file in grown[1].iterdir()}
    assert {"processor_config.json", "normalizer.json"} <= names
    assert "added_tokens.json" not in names


def test_the_model_writes_the_same_text_as_before(whisper, grown):
    sound = np.random.default_rng(0).normal(size=16_000).astype("float32")
    first = first_moved(whisper)
    results = []
    for folder in (whisper, grown[1]):
        model, processor = AutoModelForSpeechSeq2Seq.from_pretrained(folder), AutoProcessor.from_pretrained(folder)
        features = processor(sound, sampling_rate=16_000, return_tensors="pt").input_features
        for how in ({"language": "hi", "task": "translate"}, {"language": "si", "return_timestamps": True}):
            ids = model.generate(features, **how)[0].tolist()
            results.append((ids, processor.decode(ids), processor.decode(ids, decode_with_timestamps=True)))
    before, after = results[:2], results[2:]
    assert len(set(before[0][0])) > 2
    assert [[id if id < first else id + NEW for id in ids] for ids, *_ in before] == [ids for ids, *_ in after]
    assert [texts for _, *texts in before] == [texts for _, *texts in after]


def test_the_class_of_whisper_is_kept_with_its_times_and_languages(whisper, grown):
    assert "AutoTokenizer loads the tokenizer as WhisperTokenizer, with the same ids" in grown[2]
    assert "--own-split keeps them whole, but without the class of Whisper" in grown[2]
    tokenizer = AutoProcessor.from_pretrained(grown[1]).tokenizer
    assert type(tokenizer).__name__ == "WhisperTokenizer"
    tokenizer.set_prefix_tokens(language="hindi", task="transcribe", predict_timestamps=True)
    text = "<|0.00|> hello<|0.40|>"
    ids = tokenizer(text)["input_ids"]
    assert tokenizer.decode(ids[:3]) == "<|startoftranscript|><|hi|><|transcribe|>"
    assert tokenizer.decode(ids[3:-1], decode_with_timestamps=True) == text
    offsets = tokenizer.decode(ids, output_offsets=True)["offsets"]
    assert offsets == [{"text": " hello", "timestamp": (0.0, 0.4)}]


def test_the_card_names_the_task(grown):
    for _ in range(2):
        card = (grown[1] / "README.md").read_text(encoding="utf-8")
        assert "pipeline_tag: automatic-speech-recognition" in card
        assert "AutoModelForSpeechSeq2Seq.from_pretrained" in card
        write_model_card(str(grown[1]), replace=True)


def test_a_new_split_costs_the_class(whisper, sinhala_file, tmp_path):
    arguments = ["extend", whisper, sinhala_file, "--script", "si", "--new-tokens", NEW, "--out", tmp_path / "out"]
    done = hf_sgpe(*arguments, "--own-split")
    assert "PreTrainedTokenizerFast, because WhisperTokenizer gives other ids" in done.stdout


def test_the_ids_of_another_script_are_used_first(whisper, sinhala_file, tmp_path):
    before = TokenizerFolder.read(whisper).data
    freed = before.vocab_size - TokenizerFolder.read(whisper).trimmed(["devanagari"])[0].data.vocab_size
    assert freed > 150
    options = {"script": ["si"], "replace_script": ["devanagari"]}
    done = extend(whisper, sinhala_file, tmp_path / "few", **options, new_tokens=150)
    data = TokenizerFolder.read(tmp_path / "few").data
    assert (done.extension.new_tokens, done.moved_by) == (150, 0)
    assert data.special_tokens == before.special_tokens
    done = extend(whisper, sinhala_file, tmp_path / "many", **options, new_tokens=freed + 50)
    data = TokenizerFolder.read(tmp_path / "many").data
    assert done.moved_by == 50
    assert data.special_tokens == {text: id + 50 for text, id in before.special_tokens.items()}
    assert max(data.vocab.values()) == data.special_tokens["<|endoftext|>"] - 1
    row_map = transplant(whisper, tmp_path / "many", tmp_path / "model").row_map
    assert len(row_map.new) == freed + 50
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    assert sorted(extended_ids(tokenizer)) == row_map.new
    assert AutoModelForSpeechSeq2Seq.from_pretrained(tmp_path / "model").config.pad_token_id == 700


def test_no_language_code_is_added_after_the_times(whisper, tmp_path):
    codes = ["--add-language-code", "<|tyv|>", "--like", "<|hi|>"]
    done = hf_sgpe("extend", whisper, *codes, "--out", tmp_path / "out", code=2)
    assert "is Whisper's, which reads ids after its languages as times" in done.stderr
