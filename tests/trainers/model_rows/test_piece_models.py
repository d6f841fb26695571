"""Models with Unigram, WordPiece, and BPE with an unknown token: transplanted, they give the same results for other text."""

import json
import shutil

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")
import transformers  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from support.command import hf_sgpe  # noqa: E402
from support.other_scripts import TEXT  # noqa: E402
from support.piece_tokenizers import KINDS, piece_folder  # noqa: E402
from support.sentencepiece_models import trained  # noqa: E402
from support.translation_models import translation_folder  # noqa: E402
from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForSeq2SeqLM, AutoTokenizer  # noqa: E402

from hf_sgpe.formats.piece_folder import PieceFolder  # noqa: E402
from hf_sgpe.weights.model_loading import load_tokenizer  # noqa: E402
from trainers import extend, trim  # noqa: E402
from trainers.model_rows.distillation import Distillation, choose_snippets  # noqa: E402
from trainers.model_rows.embedding_rows import map_rows  # noqa: E402
from trainers.model_rows.token_tables import extended_ids  # noqa: E402
from trainers.model_rows.transplanting import transplant  # noqa: E402

LAYERS = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


def masked_model(kind, folder):
    """Save a masked language model for the tokenizer in a folder, with some rows to spare."""
    size = PieceFolder.read(folder).vocab_size
    name = "XLMRoberta" if kind == "Unigram" else "Bert"
    config = getattr(transformers, f"{name}Config")(
        **LAYERS,
        vocab_size=size + 3,
        max_position_embeddings=80,
        pad_token_id=1 if kind == "Unigram" else 0,
        initializer_range=0.3,  # so that states depend on the words around a token
    )
    torch.manual_seed(1)
    getattr(transformers, f"{name}ForMaskedLM")(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def bases(sample, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bases")
    lines = [*sample["en"].splitlines(), *TEXT.splitlines()]
    return {
        kind: masked_model(kind, piece_folder(kind, lines, folder / kind, own_class=kind == "WordPiece")) for kind in KINDS
    }


@pytest.fixture(scope="module")
def extended(bases, sinhala_file, tmp_path_factory):
    """Folders with the extended tokenizers, and with the models that use them."""
    folder = tmp_path_factory.mktemp("extended")
    for kind in KINDS:
        extend(bases[kind], sinhala_file, folder / kind, script=["si"], new_tokens=600)
        hf_sgpe("transplant", bases[kind], "--tokenizer", folder / kind, "--out", folder / f"{kind}-model")
    return folder


def same_results(kind, before, after, lines):
    """Check that two models give the same hidden states for lines, bit for bit, and the same logits of old ids."""
    old, new = kind.from_pretrained(before).eval(), kind.from_pretrained(after).eval()
    ids_before, ids_after = AutoTokenizer.from_pretrained(before), AutoTokenizer.from_pretrained(after)
    size = len(ids_before)
    for line in lines:
        inputs = ids_before(line, return_tensors="pt", truncation=True, max_length=60)
        assert ids_after(line, truncation=True, max_length=60)["input_ids"] == inputs["input_ids"][0].tolist()
        with torch.no_grad():
            more = {"decoder_input_ids": inputs["input_ids"]} if new.config.is_encoder_decoder else {}
            ours, theirs = (model(**inputs, **more, output_hidden_states=True) for model in (old, new))
        name = "decoder_hidden_states" if more else "hidden_states"
        assert torch.equal(getattr(ours, name)[-1], getattr(theirs, name)[-1])
        # A product with a wider matrix may be rounded otherwise.
        assert torch.allclose(ours[0][..., :size], theirs[0][..., :size], rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_masked_model_gives_the_same_results_for_other_text(kind, bases, extended, sample):
    lines = [*sample["en"].splitlines()[:10], *TEXT.splitlines()[:9]]
    same_results(AutoModelForMaskedLM, bases[kind], extended / f"{kind}-model", lines)


@pytest.mark.parametrize("kind", KINDS)
def test_the_folder_of_the_model_names_the_class_and_the_task(kind, extended):
    folder = extended / f"{kind}-model"
    settings = [json.loads((extended / name / "tokenizer_config.json").read_text()) for name in (kind, folder.name)]
    assert settings[0]["tokenizer_class"] == settings[1]["tokenizer_class"]
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "pipeline_tag: fill-mask" in card
    assert f"{'XLMRoberta' if kind == 'Unigram' else 'Bert'}ForMaskedLM.from_pretrained" in card
    if kind == "WordPiece":
        lines = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
        assert {piece: id for id, piece in enumerate(lines)} == PieceFolder.read(folder).vocab


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_row_starts_from_the_pieces_that_the_old_tokenizer_knows(kind, bases, tmp_path):
    """The row starts from the known pieces. If all pieces are unknown, the row starts from the mean of the table."""
    base = PieceFolder.read(bases[kind])
    word, part, strange = base.piece_of(" theක"), base.piece_of("theක"), base.piece_of("කක")
    base.with_pieces(dict.fromkeys((word, part, strange), -12.0), {}).write(tmp_path)
    old, new = (AutoTokenizer.from_pretrained(folder) for folder in (bases[kind], tmp_path))
    found = map_rows(new, old, rows=1000)
    ids = new.get_vocab()
    names = old.convert_ids_to_tokens
    assert found.keeps_ids
    assert found.pieces[ids[strange]] == []
    text = "".join(names(found.pieces[ids[word]])).replace("##", "").replace("\u2581", "")
    assert text == "the"
    inside = names(found.pieces[ids[part]])
    assert "".join(inside).replace("##", "").replace("\u2581", "") == "the"
    assert old.unk_token_id not in [*found.pieces[ids[word]], *found.pieces[ids[part]]]


def test_a_sentence_transformers_folder_stays_whole(bases, extended, tmp_path):
    base, out = tmp_path / "base", tmp_path / "out"
    shutil.copytree(bases["WordPiece"], base)
    modules = [{"idx": 0, "name": "0", "path": ""}, {"idx": 1, "name": "1", "path": "1_Pooling"}]
    (base / "modules.json").write_text(json.dumps(modules))
    (base / "1_Pooling").mkdir()
    (base / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    (base / "onnx").mkdir()  # the old model in another format
    hf_sgpe("transplant", base, "--tokenizer", extended / "WordPiece", "--out", out)
    assert json.loads((out / "1_Pooling" / "config.json").read_text()) == {"pooling_mode_mean_tokens": True}
    assert json.loads((out / "modules.json").read_text()) == modules
    assert not (out / "onnx").exists()
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "library_name: sentence-transformers" in card
    assert "pipeline_tag: sentence-similarity" in card
    assert "SentenceTransformer(" in card
    same_results(AutoModel, base, out, ["the words of a sentence"])
    grown = AutoTokenizer.from_pretrained(out)
    assert grown("ක්‍රි")["input_ids"] != AutoTokenizer.from_pretrained(base)("ක්‍රි")["input_ids"]
    (base / "modules.json").write_text('["x"]')
    refused = hf_sgpe("transplant", base, "--tokenizer", extended / "WordPiece", "--out", tmp_path / "no", code=2)
    assert "modules.json is damaged" in refused.stderr


def test_models_are_refused_before_a_training_that_they_cannot_have(bases, sinhala_file, tmp_path):
    base, encoder = bases["Unigram"], tmp_path / "encoder"
    codes = ("--source-language", "eng_Latn", "--target-language", "sin_Sinh")
    shutil.copytree(base, encoder)
    transformers.XLMRobertaModel.from_pretrained(base).save_pretrained(encoder)
    reasons = {
        ("finetune", sinhala_file, "--model", base): "only causal language models",
        ("adapt", encoder, sinhala_file, "--script", "si"): "this model is of class XLMRobertaModel",
        ("adapt", base, sinhala_file, "--length", 60, *codes): "has no language codes",
        ("adapt", base, sinhala_file, "--source-language", "hin_Deva"): "give both --source-language and --target-language",
    }
    for command, reason in reasons.items():
        refused = hf_sgpe(*command, "--out", tmp_path / "out", code=2)
        assert reason in refused.stderr
        assert not (tmp_path / "out").exists()


def test_a_translation_model_with_an_unknown_token_is_transplanted(sample, sinhala_file, tmp_path):
    """NLLB merges characters and has an unknown token, but no tokens for bytes."""
    base, grown, out = tmp_path / "base", tmp_path / "grown", tmp_path / "out"
    base.mkdir()
    lines = [*sample["en"].splitlines(), *TEXT.splitlines()]
    model = trained(lines, vocab_size=500, byte_fallback=False, pad_id=3, add_dummy_prefix=True)
    (base / "tokenizer.model").write_bytes(model)
    roles = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    (base / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **roles}))
    hf_sgpe("export", base, "--out", tmp_path / "json")
    shutil.copyfile(tmp_path / "json" / "tokenizer.json", base / "tokenizer.json")
    (base / "tokenizer.model").unlink()
    old = AutoTokenizer.from_pretrained(base)
    sizes = dict.fromkeys(("encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads"), 1)
    config = transformers.M2M100Config(
        vocab_size=len(old), d_model=16, encoder_ffn_dim=16, decoder_ffn_dim=16, max_position_embeddings=64, **sizes
    )
    torch.manual_seed(1)
    transformers.M2M100ForConditionalGeneration(config).save_pretrained(base)
    extend(base, sinhala_file, grown, script=["si"], new_tokens=500)
    done = transplant(base, grown, out)
    assert len(done.row_map.new) == 500
    assert done.row_map.keeps_ids
    same_results(AutoModelForSeq2SeqLM, base, out, lines[:10])


@pytest.mark.parametrize("kind", KINDS)
def test_new_rows_of_an_encoder_without_a_head_are_distilled(kind, sinhala_file, tmp_path):
    """The state at the end of a new token comes nearer to the state at the end of its old pieces."""
    encoder = getattr(transformers, "XLMRobertaModel" if kind == "Unigram" else "BertModel")
    text = sinhala_file.read_text(encoding="utf-8")
    base = masked_model(kind, piece_folder(kind, [text], tmp_path / "base", own_class=False))
    encoder.from_pretrained(base).save_pretrained(base)
    extend(base, sinhala_file, tmp_path / "grown", script=["si"], new_tokens=600)
    old, new = (load_tokenizer(str(folder)) for folder in (base, tmp_path / "grown"))
    snippets = choose_snippets(new, old, extended_ids(new), text.splitlines(), Distillation())

    def states(folder, tokenizer, ids, places):
        first, last = tokenizer("")["input_ids"]
        with torch.no_grad():
            every = encoder.from_pretrained(folder).eval()(input_ids=torch.tensor([[first, *ids, last]])).last_hidden_state
        return every[0, [1 + place for place in places]]

    distances = {}
    for init in ("mean", "distil"):
        out = tmp_path / init
        more = ("--text", sinhala_file) if init == "distil" else ()
        hf_sgpe("transplant", base, "--tokenizer", tmp_path / "grown", "--init", init, *more, "--out", out)
        both = ((states(base, old, one.old, one.old_ends), states(out, new, one.new, one.new_ends)) for one in snippets[:30])
        distances[init] = sum((before - after).square().sum().item() for before, after in both)
    assert distances["distil"] < distances["mean"]


def test_the_whole_folder_of_a_model_is_pushed(bases, extended, tmp_path, here):
    folder = tmp_path / "model"
    shutil.copytree(extended / "WordPiece-model", folder)
    (folder / "modules.json").write_text(json.dumps([{"path": ""}, {"path": "1_Pooling"}]))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text("{}")
    (folder / "1_Pooling" / "notes.txt").write_text("")
    pushed = json.loads(hf_sgpe("push", folder, "me/model", "--json").stdout)
    names = {file["path"] for file in pushed["files"]}
    assert {"vocab.txt", "modules.json", "1_Pooling/config.json", "README.md", "model.safetensors"} <= names
    assert "1_Pooling/notes.txt" not in names
    other = hf_sgpe("push", bases["Unigram"], "me/base", "--json")
    assert "tokenizer.json" in {file["path"] for file in json.loads(other.stdout)["files"]}


@pytest.fixture(scope="module")
def nllb(sample, tmp_path_factory):
    """A translation model with NLLB's class of tokenizers, which has language codes and an unknown token."""
    base = tmp_path_factory.mktemp("nllb") / "base"
    lines = [*sample["en"].splitlines(), *sample["hi"].splitlines()]
    return translation_folder(lines, base)


def test_the_class_of_a_translation_model_keeps_its_languages(nllb, sample, sinhala_file, tmp_path):
    base, grown, out, lines = nllb, tmp_path / "grown", tmp_path / "out", sample["en"].splitlines()
    old = AutoTokenizer.from_pretrained(base)
    done = hf_sgpe("extend", base, sinhala_file, "--script", "si", "--new-tokens", 500, "--out", grown)
    assert "AutoTokenizer loads the tokenizer as NllbTokenizer, with the same ids" in done.stdout
    hf_sgpe("transplant", base, "--tokenizer", grown, "--out", out)
    assert "pipeline_tag: translation" in (out / "README.md").read_text(encoding="utf-8")
    # Transformers 5.5 takes no class from the settings in the folder of a model of this type.
    assert type(AutoTokenizer.from_pretrained(out)) is type(AutoTokenizer.from_pretrained(base))
    settings = json.loads((out / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert (settings["tokenizer_class"], settings["src_lang"]) == ("NllbTokenizer", "eng_Latn")
    new = AutoTokenizer.from_pretrained(grown, src_lang="hin_Deva", tgt_lang="sin_Sinh")
    base_tokenizer = transformers.NllbTokenizer.from_pretrained(base, src_lang="hin_Deva")
    assert type(new).__name__ == "NllbTokenizer"
    assert new.src_lang == "hin_Deva"
    assert new(lines[0])["input_ids"] == base_tokenizer(lines[0])["input_ids"]
    assert new(lines[0])["input_ids"][0] == old.convert_tokens_to_ids("hin_Deva")
    assert new.convert_tokens_to_ids("sin_Sinh") == old.convert_tokens_to_ids("sin_Sinh")
    assert new("ලංකාව")["input_ids"] != old("ලංකාව")["input_ids"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_is_trimmed_to_a_size_gives_the_same_results_for_text_that_keeps_its_tokens(
    kind, bases, tmp_path, sample
):
    (tmp_path / "en.txt").write_text(sample["en"], encoding="utf-8")
    small = trim(bases[kind], tmp_path / "small", tokens=350, needed_for=[tmp_path / "en.txt"])
    done = transplant(bases[kind], tmp_path / "small", tmp_path / "out")
    ids = small.trimming.ids
    assert done.row_map.kept == {new: old for old, new in ids.items()}
    assert (done.row_map.rows, done.row_map.new) == (350, [])
    config = json.loads((tmp_path / "out" / "config.json").read_text(encoding="utf-8"))
    assert (config["vocab_size"], config["pad_token_id"]) == (350, 1 if kind == "Unigram" else 0)
    old, new = (AutoModelForMaskedLM.from_pretrained(folder).eval() for folder in (bases[kind], tmp_path / "out"))
    before, after = (AutoTokenizer.from_pretrained(folder) for folder in (bases[kind], tmp_path / "out"))
    same = 0
    for line in (*sample["en"].splitlines()[:40], f"a {before.mask_token} e", "..."):
        given, moved = (one(line, truncation=True, max_length=60)["input_ids"] for one in (before, after))
        if [ids.get(id) for id in given] == moved:
            same += 1
            with torch.no_grad():
                ours, theirs = (
                    model(torch.tensor([row]), output_hidden_states=True) for model, row in ((old, given), (new, moved))
                )
            assert torch.equal(ours.hidden_states[-1], theirs.hidden_states[-1])
            assert torch.allclose(ours.logits[..., [*ids]], theirs.logits, rtol=0, atol=1e-5)
    assert same >= 3
    assert after.mask_token_id == ids[before.mask_token_id]


def test_a_translation_model_is_trimmed_to_a_size(nllb, sample, tmp_path):
    (tmp_path / "en.txt").write_text(sample["en"], encoding="utf-8")
    small, out = tmp_path / "small", tmp_path / "out"
    size = len(AutoTokenizer.from_pretrained(nllb)) - 60
    done = hf_sgpe("trim", nllb, "--tokens", size, "--for", tmp_path / "en.txt", "--ids", "compact", "--out", small)
    assert "AutoTokenizer loads the tokenizer as NllbTokenizer, with the same ids" in done.stdout
    transplant(nllb, small, out)
    old, new = (transformers.NllbTokenizer.from_pretrained(folder, src_lang="hin_Deva") for folder in (nllb, out))
    assert len(new) == size
    runs = json.loads((small / "ids.json").read_text())["runs"]
    ids = {old: old - first + new for first, last, new in runs for old in range(first, last + 1)}
    before, after = (AutoModelForSeq2SeqLM.from_pretrained(folder) for folder in (nllb, out))
    assert torch.equal(after.get_input_embeddings().weight, before.get_input_embeddings().weight[[*ids]])
    assert new.convert_tokens_to_ids("sin_Sinh") == ids[old.convert_tokens_to_ids("sin_Sinh")]
    lines = [line for line in sample["en"].splitlines() if all(id in ids for id in old(line)["input_ids"])]
    assert len(lines) > 10
    for line in lines:
        assert new(line)["input_ids"] == [ids[id] for id in old(line)["input_ids"]]
    characters = {token for token in old.get_vocab() if len(token) == 1}
    assert characters <= new.get_vocab().keys()


@pytest.mark.parametrize("with_text", [False, True])
def test_a_new_language_code_starts_like_another(nllb, sinhala_file, tmp_path, with_text):
    text = [sinhala_file, "--script", "si", "--new-tokens", 200] if with_text else []
    pairs = {"tyv_Cyrl": "rus_Cyrl", "sah_Cyrl": "kaz_Cyrl"}
    codes = [part for code, like in pairs.items() for part in ("--add-language-code", code, "--like", like)]
    done = hf_sgpe("extend", nllb, *text, *codes, "--out", tmp_path / "grown")
    assert "New language codes: tyv_Cyrl (like rus_Cyrl), sah_Cyrl (like kaz_Cyrl)." in done.stdout
    assert "AutoTokenizer loads the tokenizer as NllbTokenizer, with the same ids" in done.stdout
    how = ["--init", "weighted"] if with_text else []
    hf_sgpe("transplant", nllb, "--tokenizer", tmp_path / "grown", *how, "--out", tmp_path / "out")
    old = transformers.NllbTokenizer.from_pretrained(nllb, src_lang="hin_Deva", tgt_lang="rus_Cyrl")
    AutoTokenizer.from_pretrained(tmp_path / "grown").save_pretrained(tmp_path / "again")
    first = max(old.get_vocab().values()) + 1
    for name in ("grown", "again"):
        new = AutoTokenizer.from_pretrained(tmp_path / name, src_lang="hin_Deva", tgt_lang="tyv_Cyrl")
        assert new.convert_tokens_to_ids(["tyv_Cyrl", "sah_Cyrl"]) == [first, first + 1]
        before, after = (one("hello", text_target="yes") for one in (old, new))
        assert after["input_ids"] == before["input_ids"]
        assert after["labels"] == [first, *before["labels"][1:]]
        assert new.decode(after["labels"], skip_special_tokens=True) == "yes"
        assert set(old.all_special_tokens) | {"tyv_Cyrl", "sah_Cyrl"} == set(new.all_special_tokens)
    assert extended_ids(new) == [*range(first, first + 2 + 200 * with_text)]
    before, after = (load_file(folder / "model.safetensors") for folder in (nllb, tmp_path / "out"))
    for name, like in pairs.items():
        rows = [after["model.shared.weight"][new.convert_tokens_to_ids(name)]]
        rows += [before["model.shared.weight"][old.convert_tokens_to_ids(like)]]
        assert torch.equal(*(row.view(torch.int16) for row in rows))


def test_a_new_language_code_works_in_a_unigram_tokenizer(bases, tmp_path):
    grown = tmp_path / "grown"
    hf_sgpe("extend", bases["Unigram"], "--add-language-code", "tyv_XX", "--like", "<mask>", "--out", grown)
    transplant(bases["Unigram"], grown, tmp_path / "out")
    old, new = AutoTokenizer.from_pretrained(bases["Unigram"]), AutoTokenizer.from_pretrained(tmp_path / "out")
    assert new("one tyv_XXtwo", add_special_tokens=False)["input_ids"] == [
        *old("one ", add_special_tokens=False)["input_ids"],
        len(old),
        *old("two", add_special_tokens=False)["input_ids"],
    ]
    before, after = (AutoModelForMaskedLM.from_pretrained(folder) for folder in (bases["Unigram"], tmp_path / "out"))
    for kind in ("get_input_embeddings", "get_output_embeddings"):
        old_rows, new_rows = (getattr(model, kind)().weight for model in (before, after))
        assert torch.equal(new_rows[len(old)], old_rows[old.mask_token_id])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--add-language-code", "hin_Deva", "--like", "rus_Cyrl"], "already has the token hin_Deva: leave out"),
        (["--add-language-code", "tyv_Cyrl", "--like", "hello"], "has no special token hello: with --like, name one of"),
        (["--add-language-code", "tyv_Cyrl"], "--add-language-code (tyv_Cyrl) and --like (none): give one --like for each"),
        (["--like", "rus_Cyrl"], "--add-language-code (none) and --like (rus_Cyrl): give one --like for each"),
    ],
)
def test_a_wrong_language_code_is_refused(nllb, tmp_path, options, message):
    done = hf_sgpe("extend", nllb, *options, "--out", tmp_path / "out", code=2)
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()
