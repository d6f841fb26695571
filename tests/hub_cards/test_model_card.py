import contextlib
import copy
import io
import json
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import pytest
from huggingface_hub import ModelCard
from support.data import DATA, needs_data
from transformers import AutoTokenizer

from hf_sgpe import BPETokenizer, SGPEError, SGPETokenizerFast, Splitting, TrainingConfig, WordCounts, train_from_counts
from hf_sgpe.formats import tokenizer_json
from hub_cards import compare, evaluate, write_card
from hub_cards.comparison import texts_of
from hub_cards.facts import Facts
from hub_cards.model_card import check_card
from hub_cards.results import MEASURES
from hub_cards.seal import CARD_MARK, is_generated
from hub_cards.tables import Tables
from trainers import ExtensionConfig, TokenizerExtender

PICTURES = ["pictures/compression.svg", "pictures/token_lengths.svg", "pictures/tokens_per_word.svg"]
CODES = ("en", "si", "ta", "hi")


@pytest.fixture(scope="module")
def texts(sample):
    return {code: [line for line in sample[code].splitlines() if line.strip()][:60] for code in CODES}


@pytest.fixture(scope="module")
def plain(sample):
    config = TrainingConfig(vocab_size=2000, recipe="bpe")
    return train_from_counts(WordCounts.from_texts([sample["en"]], config), config)


@pytest.fixture(scope="module")
def found(tokenizer, plain, texts):
    return compare(tokenizer, texts, name="tok", baselines={"pla|in<&>": plain})


def test_an_extended_tokenizer_says_what_it_was_extended_from(plain, sample, tmp_path):
    plain.save(tmp_path / "base")
    config = ExtensionConfig(["sinhala"], new_tokens=400)
    TokenizerExtender(config).extend(tmp_path / "base", text=sample["si"]).save_pretrained(tmp_path / "out")
    extended = BPETokenizer.from_pretrained(tmp_path / "out")
    facts = Facts(extended)
    assert "It is `base`, extended: every old token has its old id." in facts.summary
    assert ("Extended", "from `base` by 400 tokens for Sinhala") in facts.table()
    (paragraph,) = facts.making()
    assert "was given 400 tokens for Sinhala" in paragraph
    assert "give it some by `hf-sgpe transplant`" in list(facts.limits("x"))[-1]
    evaluations = compare(extended, {"si": sample["si"].splitlines()[:40]}, baselines={"before": plain})
    assert write_card(tmp_path / "out", extended, evaluations=evaluations)
    vocab = {token: id for token, id in plain.vocab.items() if token != b"\x13"}
    assert "all but 1 of the 256 bytes" in dict(Facts(BPETokenizer(vocab, plain.merges)).table())["Vocabulary"]


@pytest.fixture(scope="module")
def folder(tokenizer, found, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cards") / "tok"
    tokenizer.save(folder)
    written = write_card(
        folder,
        tokenizer,
        name="me/tok",
        evaluations=found,
        license="apache-2.0",
        datasets=["me/news:2024.si"],  # the Hub's metadata has no place for configurations
        tags=["mine"],
    )
    assert written == ["README.md", "index.html", *PICTURES]
    return folder


@pytest.fixture(scope="module")
def readme(folder):
    return (folder / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(folder):
    return (folder / "index.html").read_text(encoding="utf-8")


def tables(markdown):
    """The tables of a Markdown text, each a list of rows of cells."""
    found = re.findall(r"(?:^\|.*\|\n)+", markdown, re.MULTILINE)
    rows = [[re.split(r"(?<!\\)\|", line)[1:-1] for line in table.splitlines()] for table in found]
    return [[[cell.strip() for cell in row] for row in table] for table in rows]


# ---------------------------------------------------------------- README.md


def test_metadata_is_what_the_hub_reads(readme, found):
    card = ModelCard(readme)
    assert readme.split("\n---\n", 1)[1].startswith(CARD_MARK)
    data = card.data
    assert (data.library_name, data.license, data.datasets) == ("transformers", "apache-2.0", ["me/news"])
    assert data.pipeline_tag is None
    assert {"tokenizer", "bpe", "hf_sgpe", "syllable", "sinhala", "mine"} <= set(data.tags)
    assert data.model_name == "tok"
    for result in data.eval_results:
        value = found.measure(result.metric_type, result.dataset_config, "tok")
        assert result.metric_value == round(value, 6)
    named = {(result.dataset_config, result.metric_type) for result in data.eval_results}
    assert ("si", "cut_syllable_share") in named
    assert ("en", "cut_syllable_share") not in named


def test_numbers_are_those_of_an_evaluation(readme, tokenizer, plain, texts):
    names = {"English": "en", "Sinhala සිංහල": "si", "Tamil தமிழ்": "ta", "Hindi हिन्दी": "hi"}
    measures = {measure.title: measure for measure in MEASURES}
    evaluations = {
        "tok": {code: evaluate(tokenizer, lines) for code, lines in texts.items()},
        r"pla\|in\<\&\>": {code: evaluate(plain, lines) for code, lines in texts.items()},
    }
    whole = [table for table in tables(readme) if "bytes per token" in table[0]]
    assert len(whole) == 2
    for (head, _, *rows), by_language in zip(whole, evaluations.values(), strict=True):
        assert [row[0] for row in rows] == list(names)
        for language, *cells in rows:
            result = by_language[names[language]]
            for title, cell in zip(head[1:], cells, strict=True):
                measure = measures[title]
                value = result.tokens / by_language["en"].tokens if measure.key == "parity" else getattr(result, measure.key)
                assert cell == measure.show(value)
    beside = [table for table in tables(readme) if table[0] == ["language", *evaluations]]
    assert len(beside) == 5
    gini = compare(tokenizer, texts, name="tok").gini("tok")
    assert beside[0].pop()[:2] == ["*Gini of the cost*", f"{gini:.3f}"]
    for place, row in enumerate(beside[0][2:]):
        shown = [f"{by_language[names[row[0]]].tokens_per_word:.2f}" for by_language in evaluations.values()]
        assert [cell.strip("*") for cell in row[1:]] == shown, place
        best = [cell for cell in row[1:] if cell.startswith("**")]
        assert best == [f"**{min(shown, key=float)}**"]


def test_shares_carry_their_unit(readme):
    (head, _, *rows), *_ = [table for table in tables(readme) if "bytes per token" in table[0]]
    units = {measure.title: measure.form for measure in MEASURES}
    for row in rows:
        for title, cell in zip(head[1:], row[1:], strict=True):
            assert cell == "–" or cell.endswith(" %") == (units[title] == "%")


def test_python_in_the_card_runs_and_prints_what_the_card_says(readme, folder):
    blocks = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            # tokenizers takes a folder for none of its own, and would ask the Hub.
            local = block.replace('Tokenizer.from_pretrained("me/tok")', 'Tokenizer.from_file("me/tok/tokenizer.json")')
            exec((local if "tokenizers import" in block else block).replace("me/tok", str(folder)), {})
        expected = re.findall(r"^print.*  # (.*)$", block, re.MULTILINE)
        assert printed.getvalue().splitlines() == expected


def test_tables_are_whole(readme):
    for table in tables(readme):
        assert len({len(row) for row in table}) == 1, table[0]
        assert all(set(cell) <= set("-:") for cell in table[1])


def test_words_are_shown_with_their_tokens(readme, found):
    (table,) = [table for table in tables(readme) if table[0][:2] == ["", "word"]]
    rows = {row[1]: row[2:] for row in table[2:]}
    for words in found.words.values():
        for word in words:
            assert rows[word.text][0] == " ".join(f"`{token}`" for token in word.tokens["tok"])
    sinhala = found.words["si"][0]
    assert re.search(r"`◌×\d+`", rows[sinhala.text][1])


def test_the_card_says_how_it_was_made(readme, tokenizer):
    assert tokenizer.metadata["word_counts"] in readme
    (block,) = re.findall(r"```json\n(.*?)```", readme, re.DOTALL)
    assert json.loads(block) == json.loads(json.dumps(tokenizer.metadata["training"]))
    assert "`<\\|endoftext\\|>` with id" in readme
    assert "letters and syllables that save as much as a learned token (cut cost 2)" in readme
    (table,) = [table for table in tables(readme) if table[0][0].startswith("its tokens")]
    assert sum(int(row[1].replace(",", "")) for row in table[2:]) == len(tokenizer.vocab)


@needs_data
def test_a_card_for_languages_without_spaces_counts_per_character(tokenizer, plain, tmp_path):
    folder = DATA / "eval"
    lines = {
        code: (folder / f"ntrex_{code}.txt").read_text(encoding="utf-8").splitlines()[:20] for code in ("th", "bo", "ko")
    }
    found = compare(tokenizer, lines, name="tok", baselines={"plain": plain})
    write_card(tmp_path, tokenizer, evaluations=found, languages=["th", "bo", "ko"])
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    (beside,) = re.findall(r"\*\*Tokens per character\*\*: .*\n\n((?:\|.*\n)+)", text)
    assert [row.split(" |")[0] for row in beside.splitlines()[2:]] == ["| Thai ไทย", "| Tibetan བོད་སྐད་"]
    assert "Thai and Tibetan: written without spaces between words, so nothing is counted per word" in text
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "<span>tokens per character, where words have no spaces between them</span>" in page
    assert "<span>tokens per word, in the" in page or "<span>tokens per word, by language</span>" in page
    only = Tables(compare(tokenizer, {"ko": lines["ko"]}), ("ko",))
    assert [what for _, what in only.tiles()] == [
        "tokens per word, in Korean",
        "of what is read as one character is cut, in Korean",
    ]


def test_limits_are_computed(tokenizer, texts, tmp_path):
    lines = {**texts, "zh": ["你好世界"] * 60}
    write_card(tmp_path, tokenizer, evaluations=compare(tokenizer, lines), languages=["si", "hi"])
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "It is not for Chinese (100.0 %)" in text
    assert "Measured, but not among the languages it is for: English, Tamil and Chinese." in text
    assert "Chinese: written without spaces between words" in text
    assert re.search(r"\| Chinese 中文 \| – \| 3.000 \|", text)
    assert re.search(r"\| English \| \d\.\d\d \| – \|", text)
    assert {"tokens_per_character", "cut_cluster_share"} <= {
        result.metric_type for result in ModelCard(text).data.eval_results if result.dataset_config == "zh"
    }
    assert ModelCard(text).data.language == ["si", "hi"]
    write_card(tmp_path, tokenizer, evaluations=compare(tokenizer, lines))
    assert ModelCard.load(tmp_path / "README.md").data.language == ["en", "si", "ta", "hi"]


# ---------------------------------------------------------------- without an evaluation, and other tokenizers


def test_without_text_the_card_has_what_the_tokenizer_tells(tokenizer, tmp_path):
    assert write_card(tmp_path / "new", tokenizer) == ["README.md", "index.html"]
    text = (tmp_path / "new" / "README.md").read_text(encoding="utf-8")
    assert ModelCard(text).data.eval_results is None
    assert 'from_pretrained("new")' in text
    assert "not been measured" in text
    assert ".svg" not in text


def test_pictures_of_an_earlier_card_go(tokenizer, found, tmp_path):
    write_card(tmp_path, tokenizer, evaluations=found)
    (tmp_path / "pictures" / "mine.svg").touch()
    write_card(tmp_path, tokenizer, replace=True)
    assert [file.name for file in (tmp_path / "pictures").iterdir()] == ["mine.svg"]


def test_a_tokenizer_of_others_and_one_with_a_template(tmp_path):
    vocab = {bytes([byte]): byte for byte in range(256)}
    other = BPETokenizer(
        vocab, [], special_tokens={"`x`|<s>": 256}, splitting=Splitting("bpe", pattern=("gpt2", r"\s+|\S+"))
    )
    write_card(tmp_path / "other", other)
    text = (tmp_path / "other" / "README.md").read_text(encoding="utf-8")
    assert "It does not say how it was trained." in text
    assert "`` `x`\\|<s> `` with id 256" in text
    assert "the pattern `gpt2`, then the pattern `\\s+\\|\\S+`" in text

    config = TrainingConfig(vocab_size=400, recipe="sgpe")
    sgpe = train_from_counts(WordCounts.from_texts(["ශ්‍රී ලංකාව"], config), config)
    sgpe.chat_template = "{{ messages }}\n```"
    write_card(tmp_path / "sgpe", sgpe)
    text = (tmp_path / "sgpe" / "README.md").read_text(encoding="utf-8")
    assert "| Around each text | `[CLS]` the text `[SEP]` |" in text
    assert str(sgpe.encode("ශ්‍රී ලංකාව", add_special_tokens=True)) in text
    assert "````jinja\n{{ messages }}\n```\n````" in text
    for name in ("other", "sgpe"):
        check_html((tmp_path / name / "index.html").read_text(encoding="utf-8"))


def test_a_tokenizer_by_the_trainer_of_the_document(tmp_path, sample):
    from trainers import SGPETrainer

    (tmp_path / "si.txt").write_text(sample["si"], encoding="utf-8")
    SGPETrainer(vocab_size=400, prune_freq=20, progress=False).train(tmp_path / "si.txt", tmp_path / "out")
    write_card(tmp_path / "out", BPETokenizer.from_pretrained(tmp_path / "out"))
    text = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "| Tokens of their own | letters and syllables that occur 20 times or more |" in text
    assert re.search(r"have the SHA-256 `[0-9a-f]{64}`", text)


def test_the_card_warns_of_training_anew_without_syllables(readme, plain, tmp_path):
    limits = readme.split("## Limits")[1]
    assert '`SGPETokenizerFast.from_pretrained("me/tok").train_new_from_iterator`' in limits
    assert "hf-sgpe train" in limits
    write_card(tmp_path, plain)
    assert "train_new_from_iterator" not in (tmp_path / "README.md").read_text(encoding="utf-8")


def test_what_the_card_warns_of_is_so(saved, sample):
    lines = sample["si"].splitlines()
    new = [
        loader.from_pretrained(saved).train_new_from_iterator(lines, 2000) for loader in (AutoTokenizer, SGPETokenizerFast)
    ]
    plain, ours = (
        evaluate(BPETokenizer.of(tokenizer_json.from_transformers(tokenizer)), lines).cut_syllable_share for tokenizer in new
    )
    assert ours < plain


def test_parts_of_special_tokens_and_lengths_are_told(tokenizer):
    def facts(tokenizer):
        return dict(Facts(tokenizer).table())

    assert facts(tokenizer)["Parts of special tokens"] == (
        "`bos_token` `<|endoftext|>`; `eos_token` `<|endoftext|>`; `pad_token` `<|endoftext|>`; `unk_token` none"
    )
    assert "Longest input" not in facts(tokenizer)
    config = TrainingConfig(vocab_size=300, recipe="bpe", chat_template="chatml", special_tokens=["<s>", "[MASK]"])
    chatty = train_from_counts(WordCounts.from_texts(["a"], config), config)
    chatty.roles = {"bos_token": "<s>", "mask_token": "[MASK]", "eos_token": "<|im_end|>"}
    assert facts(chatty)["Parts of special tokens"] == (
        "`bos_token` `<s>`; `eos_token` `<|im_end|>`; `pad_token` none; `unk_token` none; `mask_token` `[MASK]`; "
        "end of a turn in chats `<|im_end|>`"
    )
    chatty.chat_template = "{{ messages }}"
    assert facts(chatty)["Parts of special tokens"].endswith("end of a turn in chats no special token")
    chatty.special_tokens, chatty.roles, chatty.chat_template = {}, {}, None
    assert "Parts of special tokens" not in facts(chatty)
    chatty.model_max_length = 8192
    assert facts(chatty)["Longest input"] == "8,192 tokens (`model_max_length`)"


# ---------------------------------------------------------------- the page


class Checker(HTMLParser):
    """Makes sure that elements are closed in order and that nothing from elsewhere is asked for."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.text = [], [], ""

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        assert len(values) == len(attributes), (tag, attributes)
        assert tag not in ("script", "link", "img", "iframe", "object"), tag
        for name in ("src", "href", "xlink:href", "data", "srcset"):
            assert values.get(name, "#").startswith("#"), values
        self.ids += [values["id"]] if "id" in values else []
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        assert self.open.pop() == tag

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def check_html(page):
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    assert len(set(checker.ids)) == len(checker.ids)
    assert not re.search(r"@import|url\((?!#)", page)
    return checker.text


def test_the_page_is_well_formed_and_needs_nothing_else(page):
    text = check_html(page)
    assert "සිංහල" in text
    assert "pla|in<&>" in text


def test_the_page_has_the_same_numbers_and_words(page, readme, found):
    text = check_html(page)
    for table in tables(readme):
        for row in table[2:]:
            for cell in row:
                if re.fullmatch(r"[*]*[\d.,]+( %)?[*]*", cell):
                    assert cell.strip("*") in text
    for limit in re.findall(r"^- ([^*].*)$", readme.split("## Limits")[1], re.MULTILINE):
        assert limit.replace("`", "") in text
    for words in found.words.values():
        for word in words:
            assert f">{word.text}</td>" in page


def test_pictures_hold_their_names_as_text(folder):
    for path in PICTURES:
        root = ElementTree.parse(folder / path).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
    for path in (PICTURES[0], PICTURES[2]):
        assert "සිංහල" in "".join(ElementTree.parse(folder / path).getroot().itertext())


def test_the_same_input_gives_the_same_bytes(folder, tokenizer, found, tmp_path):
    options = {"name": "me/tok", "license": "apache-2.0", "datasets": ["me/news"], "tags": ["mine"]}
    for path in write_card(tmp_path, tokenizer, evaluations=found, **options):
        assert (tmp_path / path).read_bytes() == (folder / path).read_bytes(), path


# ---------------------------------------------------------------- what somebody wrote, and the command line


def test_a_readme_by_hand_stays(tokenizer, tmp_path):
    (tmp_path / "README.md").write_text("# mine\n", encoding="utf-8")
    with pytest.raises(SGPEError, match=r"README\.md: written by hand.* --overwrite"):
        write_card(tmp_path, tokenizer)
    assert [file.name for file in tmp_path.iterdir()] == ["README.md"]
    write_card(tmp_path, tokenizer, replace=True)
    check_card(tmp_path, tokenizer, measured=False)
    write_card(tmp_path, tokenizer)


def test_changes_to_a_generated_card_stay(folder, tokenizer, plain, found, tmp_path):
    card = shutil.copytree(folder, tmp_path / "tok") / "README.md"
    text = card.read_text(encoding="utf-8")
    assert is_generated(text)
    assert card.read_bytes() != card.write_bytes(text.replace("\n", "\r\n").encode())  # as git may check it out
    write_card(tmp_path / "tok", tokenizer, evaluations=found)
    card.write_text(text.replace("## Limits", "## Limits\n\nNot for poems."), encoding="utf-8")
    with pytest.raises(SGPEError, match=r"README\.md: changed by hand.* --overwrite"):
        write_card(tmp_path / "tok", tokenizer, evaluations=found)
    assert "Not for poems." in card.read_text(encoding="utf-8")
    write_card(tmp_path / "tok", tokenizer, evaluations=found, replace=True)
    with pytest.raises(SGPEError, match=r"README\.md: holds measurements that would be lost.* --eval"):
        write_card(tmp_path / "tok", tokenizer)
    write_card(tmp_path / "tok", plain)  # the numbers were another's


def test_what_stands_in_the_way_leaves_nothing_half_written(tokenizer, found, tmp_path):
    (tmp_path / "pictures").write_text("mine")
    with pytest.raises(OSError, match="pictures"):
        write_card(tmp_path, tokenizer, evaluations=found)
    (tmp_path / "pictures").unlink()
    (tmp_path / "index.html").mkdir()
    with pytest.raises(OSError, match=r"index\.html is a folder"):
        write_card(tmp_path, tokenizer, evaluations=found)
    assert not (tmp_path / "README.md").exists()


def test_a_text_of_one_word_makes_no_long_page(tokenizer, tmp_path):
    found = compare(tokenizer, {"si": ["ක්ෂ" * 20_000 + " ශ්‍රී ශ්‍රී"]})
    assert [word.text for word in found.words["si"]] == ["ශ්‍රී"]


def card(*arguments, **options):
    command = [sys.executable, "-m", "hf_sgpe", "card", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, **options)


def test_on_the_command_line(saved, tokenizer, texts, tmp_path):
    for code in ("si", "en"):
        (tmp_path / f"news_{code}.txt").write_text("\n\n".join(texts[code]), encoding="utf-8")
    tokenizer.save(tmp_path / "tok")
    files = ["--eval", tmp_path / "news_si.txt", "--eval", f"en={tmp_path / 'news_en.txt'}"]
    done = card(tmp_path / "tok", *files, "--baseline", f"same={saved}", "--name", "me/tok", "--license", "mit")
    assert (done.returncode, done.stderr) == (0, "")
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
        ("tok --eval held-out.txt", r"held-out\.txt: its name does not tell the language: write si="),
        ("tok --eval en.txt --baseline =tok", r"--baseline '=tok': write TOKENIZER or NAME=TOKENIZER"),
        ("tok --eval en.txt --baseline tok", "two tokenizers are called tok"),
        ("tok --eval en.txt --baseline a=tok --baseline a=tok", "two tokenizers are called a"),
        ("tok --eval en.txt --baseline tok=tok", "two tokenizers are called tok"),
        ("tok --eval empty_si.txt", r"empty_si\.txt: holds no text to measure"),
        ("tok --baseline a=tok", "--baseline needs text to measure on: give --eval"),
        ("tok/tokenizer.json", "no folder to write a card to: give one by --out"),
        ("tok --out by-hand", r"by-hand/README\.md: written by hand"),
        ("tok --license MIT", "'MIT': not a licence as the Hub names them: apache-2.0, mit"),
        ("tok --language Sinhala!", "'Sinhala!': not a language code: write si"),
        ("tok --eval sinhala=en.txt", "'sinhala': not a language code: write si"),
        ("tok --name a/b/c", "a/b/c: not a name of a Hub repository: write user/name"),
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
    done = card(*arguments.split(), cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert re.fullmatch(rf"error: .*{message}.*\n", done.stderr)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"cut_cost": 0.5}, "save as much as a learned token (cut cost 0.5)"),
        (
            {"cut_cost": 1, "letter_coverage": 0.99},
            "(cut cost 1), and the most frequent letters that make up 99 %",
        ),
        (
            {"letter_coverage": 0.99},
            "letters that make up 99 % of a script's running letters, and the most",
        ),
        ({"min_unit_frequency": 3}, "letters and syllables that occur 3 times or more"),
    ],
)
def test_the_card_says_which_units_have_a_token(options, text, sample):
    config = TrainingConfig(vocab_size=1500, scripts=("sinhala",), **options)
    tokenizer = train_from_counts(WordCounts.from_texts([sample["si"]], config), config)
    assert text in dict(Facts(tokenizer).table())["Tokens of their own"]


def test_the_card_says_how_it_was_balanced(tokenizer):
    measured = {"before": {"tokens": 1000, "gini": 0.08}, "after": {"tokens": 1004, "gini": 0.02}}
    balanced = copy.copy(tokenizer)
    balanced.metadata = {**tokenizer.metadata, "balance": {"by": "merges", **measured}}
    said = dict(Facts(balanced).table())["Balanced"]
    assert said == "by merges: the Gini of what its languages pay went from 0.080 to 0.020, for +0.4% tokens"
    assert "Balanced" not in dict(Facts(tokenizer).table())
    assert "in the language that had the most tokens" in Facts(balanced).making()[0]
    assert "in the language that had the most tokens" not in Facts(tokenizer).making()[0]
