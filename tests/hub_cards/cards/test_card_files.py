import re
import shutil

import pytest
from support.cards import PICTURES
from support.command import hf_sgpe

from hf_sgpe import SGPEError
from hf_sgpe.evaluation.comparison import texts_of
from hub_cards import compare, write_card
from hub_cards.cards.seal import is_generated
from hub_cards.cards.tokenizer_card import check_card


def test_the_same_input_gives_the_same_bytes(card_folder, tokenizer, found, tmp_path):
    options = {"name": "me/tok", "license": "apache-2.0", "datasets": ["me/news"], "tags": ["mine"]}
    for path in write_card(tmp_path, tokenizer, evaluations=found, **options):
        assert (tmp_path / path).read_bytes() == (card_folder / path).read_bytes(), path


def test_a_readme_by_hand_stays(tokenizer, tmp_path):
    (tmp_path / "README.md").write_text("# mine\n", encoding="utf-8")
    with pytest.raises(SGPEError, match=r"by hand.* --overwrite"):
        write_card(tmp_path, tokenizer)
    assert [file.name for file in tmp_path.iterdir()] == ["README.md"]
    write_card(tmp_path, tokenizer, replace=True)
    check_card(tmp_path, tokenizer, measured=False)
    write_card(tmp_path, tokenizer)


def test_changes_to_a_generated_card_stay(card_folder, tokenizer, plain, found, tmp_path):
    card = shutil.copytree(card_folder, tmp_path / "tok") / "README.md"
    text = card.read_text(encoding="utf-8")
    assert is_generated(text)
    assert card.read_bytes() != card.write_bytes(text.replace("\n", "\r\n").encode())  # as git may check it out
    write_card(tmp_path / "tok", tokenizer, evaluations=found)
    card.write_text(text.replace("## Limits", "## Limits\n\nNot for poems."), encoding="utf-8")
    with pytest.raises(SGPEError, match=r"by hand.* --overwrite"):
        write_card(tmp_path / "tok", tokenizer, evaluations=found)
    assert "Not for poems." in card.read_text(encoding="utf-8")
    write_card(tmp_path / "tok", tokenizer, evaluations=found, replace=True)
    with pytest.raises(SGPEError, match=r"measurements .* --eval"):
        write_card(tmp_path / "tok", tokenizer)
    write_card(tmp_path / "tok", plain)  # the numbers were another's


def test_an_obstacle_leaves_no_half_written_card(tokenizer, found, tmp_path):
    (tmp_path / "pictures").write_text("mine")
    with pytest.raises(OSError, match="pictures"):
        write_card(tmp_path, tokenizer, evaluations=found)
    (tmp_path / "pictures").unlink()
    (tmp_path / "index.html").mkdir()
    with pytest.raises(OSError, match=r"index\.html is a folder"):
        write_card(tmp_path, tokenizer, evaluations=found)
    assert not (tmp_path / "README.md").exists()


def test_a_text_of_one_word_makes_no_long_page(tokenizer):
    found = compare(tokenizer, {"si": ["ක්ෂ" * 20_000 + " ශ්‍රී ශ්‍රී"]})
    assert [word.text for word in found.words["si"]] == ["ශ්‍රී"]


def test_on_the_command_line(saved, tokenizer, held_out, tmp_path):
    for code in ("si", "en"):
        (tmp_path / f"news_{code}.txt").write_text("\n\n".join(held_out[code]), encoding="utf-8")
    tokenizer.save(tmp_path / "tok")
    files = ["--eval", tmp_path / "news_si.txt", "--eval", f"en={tmp_path / 'news_en.txt'}"]
    done = hf_sgpe("card", tmp_path / "tok", *files, "--baseline", f"same={saved}", "--name", "me/tok", "--license", "mit")
    assert done.stderr == ""
    assert done.stdout == f"{tmp_path / 'tok'}: README.md, index.html, {', '.join(PICTURES)}\n"
    found = compare(tokenizer, texts_of([str(tmp_path / "*.txt")]), name="tok", baselines={"same": tokenizer})
    # The order of files is that of the command.
    found.evaluations = {code: found.evaluations[code] for code in ("si", "en")}
    write_card(tmp_path / "expected", tokenizer, name="me/tok", evaluations=found, license="mit")
    expected = (tmp_path / "expected" / "README.md").read_text(encoding="utf-8")
    assert (tmp_path / "tok" / "README.md").read_text(encoding="utf-8") == expected
    assert "(`news_si.txt`, `news_en.txt`)" in expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("tok --eval held-out.txt", r"held-out\.txt: .* language code"),
        ("tok --eval en.txt --baseline =tok", r"--baseline '=tok'"),
        ("tok --eval en.txt --baseline tok", "two tokenizers are called tok"),
        ("tok --eval en.txt --baseline a=tok --baseline a=tok", "two tokenizers are called a"),
        ("tok --eval en.txt --baseline tok=tok", "two tokenizers are called tok"),
        ("tok --eval empty_si.txt", r"empty_si\.txt: .* no text"),
        ("tok --baseline a=tok", "--baseline .* --eval"),
        ("tok/tokenizer.json", "--out"),
        ("tok --out by-hand", r"by-hand/README\.md was written by hand"),
        ("tok --license MIT", "'MIT' .* licence"),
        ("tok --language Sinhala!", "'Sinhala!'"),
        ("tok --eval sinhala=en.txt", "'sinhala'"),
        ("tok --name a/b/c", "a/b/c"),
        ("nothing --out new", "no such file or folder"),
    ],
)
def test_bad_input_ends_in_one_line(saved, tmp_path, arguments, message):
    shutil.copytree(saved, tmp_path / "tok")
    (tmp_path / "by-hand").mkdir()
    (tmp_path / "by-hand" / "README.md").write_text("# mine\n", encoding="utf-8")
    for name, text in (("en.txt", "some text\n"), ("held-out.txt", "some text\n"), ("empty_si.txt", "\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    before = sorted(tmp_path.rglob("*"))
    done = hf_sgpe("card", *arguments.split(), cwd=tmp_path, code=2)
    assert done.stdout == ""
    assert re.fullmatch(rf"error: .*{message}.*\n", done.stderr)
    assert sorted(tmp_path.rglob("*")) == before
