import contextlib
import io
import json
import re

import pytest
from huggingface_hub import ModelCard
from support import corpora
from support.cards import check_html, tables
from support.small_tokenizers import with_parts
from transformers import AutoTokenizer

from hf_sgpe import BPETokenizer, SGPEError, SGPETokenizerFast, Splitting, TrainingConfig, WordCounts, train_from_counts
from hf_sgpe.evaluation.results import MEASURES
from hf_sgpe.formats import tokenizer_json
from hub_cards import compare, evaluate, write_card
from hub_cards.cards.seal import CARD_MARK
from hub_cards.cards.tables import Tables


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


def test_numbers_are_those_of_an_evaluation(readme, tokenizer, plain, held_out):
    names = {"English": "en", "Sinhala සිංහල": "si", "Tamil தமிழ்": "ta", "Hindi हिन्दी": "hi"}
    measures = {measure.title: measure for measure in MEASURES}
    evaluations = {
        "tok": {code: evaluate(tokenizer, lines) for code, lines in held_out.items()},
        r"pla\|in\<\&\>": {code: evaluate(plain, lines) for code, lines in held_out.items()},
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
    gini = compare(tokenizer, held_out, name="tok").gini("tok")
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


def test_python_in_the_card_runs_and_prints_what_the_card_says(readme, card_folder):
    blocks = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            # tokenizers takes a folder for none of its own, and would ask the Hub.
            local = block.replace('Tokenizer.from_pretrained("me/tok")', 'Tokenizer.from_file("me/tok/tokenizer.json")')
            exec((local if "tokenizers import" in block else block).replace("me/tok", str(card_folder)), {})
        expected = re.findall(r"^print.*  # (.*)$", block, re.MULTILINE)
        assert printed.getvalue().splitlines() == expected


def test_rows_of_a_table_have_the_same_number_of_cells(readme):
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
    (table,) = [table for table in tables(readme) if table[0][0].startswith("script of the first letter")]
    assert sum(int(row[1].replace(",", "")) for row in table[2:]) == len(tokenizer.vocab)


def test_a_card_for_languages_without_spaces_counts_per_character(tokenizer, plain, tmp_path):
    lines = {code: corpora.held_out(code, 20) for code in ("th", "bo", "ko")}
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
        "of the grapheme clusters are cut, in Korean",
    ]


def test_limits_are_computed(tokenizer, held_out, tmp_path):
    lines = {**held_out, "zh": ["你好世界"] * 60}
    found = compare(tokenizer, lines)
    write_card(tmp_path, tokenizer, evaluations=found, languages=["si", "hi"])
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "It is not for Chinese (100.0 %)" in text
    assert "Measured, although the tokenizer was not made for them: English, Tamil and Chinese." in text
    assert "Chinese: written without spaces between words" in text
    assert re.search(r"\| Chinese 中文 \| – \| 3.000 \|", text)
    assert re.search(r"\| English \| \d\.\d\d \| – \|", text)
    assert {"tokens_per_character", "cut_cluster_share"} <= {
        result.metric_type for result in ModelCard(text).data.eval_results if result.dataset_config == "zh"
    }
    assert ModelCard(text).data.language == ["si", "hi"]
    write_card(tmp_path, tokenizer, evaluations=found)
    assert ModelCard.load(tmp_path / "README.md").data.language == ["en", "si", "ta", "hi"]


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
    assert "The tokenizer does not record how it was trained." in text
    assert "`` `x`\\|<s> `` with id 256" in text
    assert "the pattern `gpt2`, then the pattern `\\s+\\|\\S+`" in text

    config = TrainingConfig(vocab_size=400, recipe="sgpe")
    sgpe = train_from_counts(WordCounts.from_texts(["ශ්‍රී ලංකාව"], config), config)
    sgpe = with_parts(sgpe, chat_template="{{ messages }}\n```")
    write_card(tmp_path / "sgpe", sgpe)
    text = (tmp_path / "sgpe" / "README.md").read_text(encoding="utf-8")
    assert "| Around each text | `[CLS]` the text `[SEP]` |" in text
    assert str(sgpe.encode("ශ්‍රී ලංකාව", add_special_tokens=True)) in text
    assert "````jinja\n{{ messages }}\n```\n````" in text
    for name in ("other", "sgpe"):
        check_html((tmp_path / name / "index.html").read_text(encoding="utf-8"))


def test_a_tokenizer_cannot_write_into_its_card(tmp_path):
    vocab = {bytes([byte]): byte for byte in range(256)}
    forged = "a\r\n\r\n<img src=x>`\u202e"
    note = {"base": forged, "scripts": [forged, "sinhala"], "new_tokens": 5}
    sha = {"word_counts": forged}
    tokenizer = BPETokenizer(vocab, [], special_tokens={forged: 256}, metadata={"extensions": [note], **sha})
    tokenizer = with_parts(tokenizer, chat_template="\x1b]0;x\x07 {{ messages[0].content }} \x9b\u202e")
    write_card(tmp_path, tokenizer, name="user/name")
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert not set("\r\x1b\x07\x9b\u202e") & set(text + page)
    assert [line for line in text.splitlines() if line.startswith("<img")] == []
    assert re.sub("``.*?``", "", text).count("<img") == 0
    assert "<img src=x>" not in page
    assert "SHA-256" not in text
    check_html(page)


@pytest.mark.parametrize(
    "note",
    [
        {"training": {"recipe": "hybrid", "scripts": ["sinhala"], "letter_coverage": "x"}},
        {"extensions": [{"new_tokens": "x"}]},
        {"trimmed": [{}]},
        {"trimmed": 5},
    ],
)
def test_a_damaged_note_is_named(note, tmp_path):
    tokenizer = BPETokenizer({bytes([byte]): byte for byte in range(256)}, [], metadata=note)
    with pytest.raises(SGPEError, match="note about its training"):
        write_card(tmp_path, tokenizer)
    assert [*tmp_path.iterdir()] == []


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


def test_retraining_with_transformers_cuts_syllables_as_the_card_warns(saved, sample):
    lines = sample["si"].splitlines()
    new = [
        loader.from_pretrained(saved).train_new_from_iterator(lines, 2000) for loader in (AutoTokenizer, SGPETokenizerFast)
    ]
    plain, ours = (
        evaluate(BPETokenizer.of(tokenizer_json.from_transformers(tokenizer)), lines).cut_syllable_share for tokenizer in new
    )
    assert ours < plain
