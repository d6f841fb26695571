import pytest

torch = pytest.importorskip("torch", reason="language models need PyTorch: pip install torch accelerate")
pytest.importorskip("accelerate", reason="language models need accelerate: pip install torch accelerate")

from hf_sgpe import SGPEError  # noqa: E402
from hf_sgpe.corpora.validation_part import is_for_validation  # noqa: E402
from hf_sgpe.learning.finetuning_options import TextOptions  # noqa: E402
from trainers import tokenize_corpus  # noqa: E402
from trainers.language_models.language_model import pack  # noqa: E402
from trainers.language_models.training_rows import check_corpus, read_rows  # noqa: E402


@pytest.fixture(scope="module")
def folder(lm_tokenizer, sample, tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    lm_tokenizer.save_pretrained(folder / "tokenizer")
    for language in ("si", "en"):
        lines = [line for line in sample[language].splitlines()[:60] if line]
        (folder / f"{language}.txt").write_text("\n\n".join(lines), encoding="utf-8")
    tokenize_corpus(folder / "si.txt", folder / "tokenizer", folder / "tokens", lines=True)
    return folder


def lines_of(folder, language):
    return [line for line in (folder / f"{language}.txt").read_text(encoding="utf-8").splitlines() if line]


def read(folder, tokenizer, *names, keep=(), **options):
    corpus, kept = ([str(folder / name) for name in some] for some in (names, keep))
    given = TextOptions(corpus=corpus, keep=kept, length=16, **options)
    given.check_text()
    check_corpus(given)
    return read_rows(given, tokenizer, str(folder / "tokenizer"))


def listed(rows):
    return [list(map(int, row)) for row in rows]


def test_each_line_can_be_a_text(folder, lm_tokenizer):
    lines = lines_of(folder, "si")
    found = read(folder, lm_tokenizer, "si.txt", lines=True)
    assert listed(found.rows) == list(pack(lines, lm_tokenizer, 16))
    assert found.texts == len(lines)
    whole = read(folder, lm_tokenizer, "si.txt")
    assert listed(whole.rows) == list(pack([(folder / "si.txt").read_text(encoding="utf-8")], lm_tokenizer, 16))
    assert (whole.texts, whole.validation) == (1, [])


def test_rows_of_a_folder_of_tokens_are_those_of_its_text(folder, lm_tokenizer):
    found, text = read(folder, lm_tokenizer, "tokens"), read(folder, lm_tokenizer, "si.txt", lines=True)
    assert listed(found.rows)[: len(text.rows)] == listed(text.rows)
    assert len(found.rows) - len(text.rows) in (0, 1)  # the end of the last text
    assert found.texts == text.texts


def test_the_validation_part_is_not_in_the_rows(folder, lm_tokenizer):
    found = read(folder, lm_tokenizer, "si.txt", lines=True, validation_share=0.2)
    chosen = [line for line in lines_of(folder, "si") if is_for_validation(line, 0.2)]
    assert found.validation == chosen
    assert listed(found.rows) == list(
        pack([line for line in lines_of(folder, "si") if line not in chosen], lm_tokenizer, 16)
    )
    out = folder / "parts"
    tokenize_corpus(folder / "si.txt", folder / "tokenizer", out, lines=True, validation_share=0.2)
    of_tokens = read(folder, lm_tokenizer, "parts")
    assert of_tokens.validation == chosen
    assert listed(of_tokens.rows)[: len(found.rows)] == listed(found.rows)


def test_text_to_keep_follows_in_its_share(folder, lm_tokenizer):
    for names in (["si.txt"], ["tokens"], ["tokens", "si.txt"]):
        alone = read(folder, lm_tokenizer, *names)
        for keep in ("en.txt", "tokens"):
            found = read(folder, lm_tokenizer, *names, keep=[keep], keep_share=0.1)
            assert found.kept == round(len(alone.rows) / 9)
            assert listed(found.rows)[: len(alone.rows)] == listed(alone.rows)
            others = listed(read(folder, lm_tokenizer, keep).rows)
            assert listed(found.rows)[len(alone.rows) :] == others[: found.kept]
            assert found.digest != alone.digest


def test_a_small_share_of_text_to_keep_is_at_least_one_row(folder, lm_tokenizer):
    assert read(folder, lm_tokenizer, "si.txt", keep=["en.txt"], keep_share=1e-9).kept == 1


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        ([], {}, "no text to train on"),
        (["si.txt"], {"validation_share": 2}, "--validation-share .* 2"),
        (["si.txt"], {"validation_share": 1e-9}, "too few texts"),
        (["tokens"], {"validation_share": 0.1}, "--validation-share"),
        (["si.txt"], {"keep_share": 0.3}, "--keep-share needs --keep FILE"),
        (["nowhere.txt"], {}, "nowhere.txt: no such file"),
    ],
)
def test_bad_input_ends_in_one_line(folder, lm_tokenizer, names, options, message):
    with pytest.raises(SGPEError, match=message):
        read(folder, lm_tokenizer, *names, **options)


def test_tokens_of_another_tokenizer_are_refused(folder, lm_tokenizer, tokenizer_folders):
    given = TextOptions(corpus=[str(folder / "tokens")], length=16)
    with pytest.raises(SGPEError, match="has the ids of another tokenizer"):
        read_rows(given, lm_tokenizer, str(tokenizer_folders / "old"))
