import unicodedata

import pytest
from support.corpora import held_out
from tokenizers import Tokenizer, models, pre_tokenizers

from hf_sgpe import BPETokenizer, SGPEError
from hf_sgpe.corpora.held_out import HeldOut
from hf_sgpe.evaluation.comparison import _bytes_per_token, _frequent_words, _with_first_merges, texts_of
from hf_sgpe.evaluation.languages import language, language_in_name
from hf_sgpe.evaluation.measurable import load
from hf_sgpe.splitting.scripts.script_registry import every_script
from hub_cards import compare, evaluate


@pytest.fixture(scope="module")
def plain():
    return BPETokenizer.train_from_iterator(["the quick brown fox"], 270)


def test_everything_is_as_measured_alone(tokenizer, plain, sample):
    texts = {code: sample[code].splitlines()[:40] for code in ("si", "en")}
    found = compare(tokenizer, texts, name="mine", baselines={"plain": plain})
    assert (found.name, found.baselines) == ("mine", ["plain"])
    for code, lines in texts.items():
        assert found.evaluations[code] == {"mine": evaluate(tokenizer, lines), "plain": evaluate(plain, lines)}
        assert list(found.compression[code]) == [1000, 2000, tokenizer.vocab_size]
        for size, value in found.compression[code].items():
            assert value == _bytes_per_token(_with_first_merges(tokenizer, size), lines)
    counts = {code: row["mine"].tokens for code, row in found.evaluations.items()}
    assert found.measure("parity", "si", "mine") == counts["si"] / counts["en"]
    assert found.measure("parity", "en", "mine") == 1
    assert found.gini("mine") == pytest.approx(abs(counts["si"] - counts["en"]) / (2 * sum(counts.values())))


def test_words_are_shown_as_they_are_in_running_text(tokenizer, plain, sample):
    found = compare(tokenizer, {"si": sample["si"].splitlines()}, name="mine", baselines={"plain": plain})
    assert found.words["si"]
    for word in found.words["si"]:
        tokens = [tokenizer.token_bytes(id).decode() for id in tokenizer.encode(f" {word.text}")]
        assert word.tokens["mine"] == [tokens[0].removeprefix(" ") or "␣", *tokens[1:]]
        assert word.tokens["plain"] == ["␣"] + [None] * len(word.text.encode())


def test_a_tokenizer_that_the_library_runs_is_a_baseline(tokenizer, tmp_path):
    foreign = Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1, "##b": 2}, unk_token="[UNK]"))
    foreign.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    foreign.save(str(tmp_path / "tokenizer.json"))
    found = compare(tokenizer, {"en": ["ab abbbbbbb"]}, baselines={"words": load(tmp_path)})
    assert found.evaluations["en"]["words"].tokens == 10
    assert found.words["en"][0].tokens["words"] == ["a", *"bbbbbbb"]


def test_a_language_without_spaces_has_no_words(tokenizer):
    found = compare(tokenizer, {"zh": ["你好世界"], "en": ["hello world"]})
    assert found.measure("tokens_per_word", "zh", found.name) is None
    assert found.words["zh"] == []
    assert found.measure("tokens_per_character", "zh", found.name) == 3
    assert found.measure("tokens_per_character", "en", found.name) is None
    # A text whose script has no spaces, in a language that has: Javanese is written in Latin letters otherwise.
    javanese = compare(tokenizer, {"jv": ["ꦱꦸꦒꦼꦁ ꦫꦮꦸꦃ"]})
    assert not javanese.spaced("jv") and javanese.measure("tokens_per_word", "jv", javanese.name) is None


@pytest.mark.parametrize("code", ["th", "km", "bo", "my", "lo", "dz", "zh", "ja"])
def test_nothing_is_counted_per_word_in_real_text_without_spaces(tokenizer, code):
    found = compare(tokenizer, {code: held_out(code, 20)})
    evaluation = found.evaluations[code][found.name]
    assert not language(code).spaced and not evaluation.has_spaces()
    assert evaluation.tokens_per_word is evaluation.single_token_words is evaluation.changed_tokens is None
    assert found.measure("tokens_per_character", code, found.name) == evaluation.tokens / evaluation.characters


def test_frequent_words_have_conjuncts_in_a_script_that_has_them():
    lines = ["ක්‍රි ක්‍රි කා කා කා ශ්‍රී example example example"]
    assert _frequent_words(lines, 2) == ["ක්‍රි", "ශ්‍රී"]
    assert _frequent_words(["an example of ශ්‍රී in English examples"]) == ["example", "English", "examples"]


def test_nothing_to_compare_is_named(tokenizer, tmp_path):
    with pytest.raises(SGPEError, match="at least one language"):
        compare(tokenizer, {})
    with pytest.raises(SGPEError, match="two tokenizers are called mine"):
        compare(tokenizer, {"en": ["a"]}, name="mine", baselines={"mine": tokenizer})
    (tmp_path / "x_en.txt").write_text("\n \n", encoding="utf-8")
    with pytest.raises(SGPEError, match=r"x_en\.txt: there is no text"):
        compare(tokenizer, texts_of([str(tmp_path)]))


def test_files_are_sorted_by_language(tmp_path):
    for name in ("ntrex_si.txt", "flores_si.txt", "en.txt"):
        (tmp_path / name).write_text(f"{name}\n\nend\n", encoding="utf-8")
    (tmp_path / "held-out.txt").write_text("x\n", encoding="utf-8")
    texts = texts_of([str(tmp_path / "*_si.txt"), f"en={tmp_path / 'held-out.txt'}", str(tmp_path / "en.txt")])
    assert texts == {
        "si": HeldOut((tmp_path / "flores_si.txt", tmp_path / "ntrex_si.txt")),
        "en": HeldOut((tmp_path / "held-out.txt", tmp_path / "en.txt")),
    }
    assert [*texts["si"]] == [*texts["si"]] == ["flores_si.txt", "end", "ntrex_si.txt", "end"]
    with pytest.raises(SGPEError, match=r"held-out\.txt: .* language code"):
        texts_of([str(tmp_path / "held-out.txt")])


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("ntrex_si.txt", "si"),
        ("SI.TXT", "si"),
        ("eval/te.jsonl.gz", "te"),
        ("flores_dev_si_en.txt", "en"),
        ("sin_Sinh.devtest", "si"),
        ("newstest2019-ref.tam.txt", "ta"),
        ("swh_Latn.devtest", "sw"),
        ("newstest2019-ref.kin.txt", "rw"),
        ("corpus.tok.txt", None),
        ("txt", None),
        ("news.txt", None),
        ("a-si-b.txt", None),
    ],
)
def test_languages_in_names_of_files(name, code):
    assert language_in_name(name) == code


def test_languages_are_known_by_code_or_go_by_it():
    assert language("pa") == ("pa", "Punjabi", "ਪੰਜਾਬੀ", True)
    assert language("si-LK").english == "Sinhala"
    assert language("si-LK").code == "si-LK"
    assert language("ben").code == "bn"
    assert str(language("xx")) == "xx"
    assert not language("ja").spaced


def test_languages_of_all_scripts_have_names_in_their_own_letters():
    scripts = {
        "tibetan": "bo dz",
        "myanmar": "my shn mnw ksw",
        "khmer": "km",
        "lao": "lo",
        "thai": "th",
        "tai-tham": "nod",
        "chakma": "ccp",
        "ethiopic": "am ti",
        "georgian": "ka",
        "armenian": "hy",
        "hebrew": "he yi",
        "arabic": "ar",
        "syriac": "syr",
        "thaana": "dv",
        "nko": "nqo",
        "hangul": "ko",
        "han": "ja zh yue",
        "ol-chiki": "sat",
        "cherokee": "chr",
        "canadian-aboriginal": "iu",
        "tifinagh": "zgh",
        "cyrillic": "cv",
        "latin": "jv su",
    }
    for name, code in ((name, code) for name, codes in scripts.items() for code in codes.split()):
        known, letters = language(code), every_script()[name].letters_and_marks()
        assert known.english != code and not letters.isdisjoint(known.native), code
        assert language_in_name(f"ntrex_{code}.txt") == code
        assert known.native == unicodedata.normalize("NFC", known.native)
        if name != "latin":
            assert all(character in letters or not character.isalpha() for character in known.native), code


def test_which_languages_have_spaces_between_words():
    for code in [
        "bo",
        "dz",
        "my",
        "shn",
        "mnw",
        "km",
        "lo",
        "th",
        "nod",
        "zh",
        "yue",
        "ja",
        "ii",
        "zh-Hant",
        "ja-JP",
        "ban-Bali",
    ]:
        assert not language(code).spaced, code
    for code in [
        "am",
        "ka",
        "hy",
        "he",
        "yi",
        "ko",
        "sat",
        "dv",
        "si",
        "jv",
        "su",
        "ar",
        "zh-Latn",
        "ko-KR",
        "sa-Deva",
        "en-GB",
    ]:
        assert language(code).spaced, code
