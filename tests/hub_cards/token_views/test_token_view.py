import json
import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st
from support.command import hf_sgpe
from support.texts import texts
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import AddedToken, AutoTokenizer

from hf_sgpe import BPETokenizer, LinguisTrie, SGPEError, SGPETokenizerFast
from hf_sgpe.splitting.normalization import prepare
from hf_sgpe.splitting.scripts.script_registry import SCRIPTS
from hub_cards import TokenView, evaluate, load_measurable, tokens_html
from hub_cards.token_views.token_cells import reader

TEXT = "ශ්‍රී ලංකාව, स्त्री AM 👩‍👩‍👧 (ක්‍රි)\n"


class Element:
    """An element as a browser would have it: its own tag and attributes, and elements and strings in order."""

    def __init__(self, tag, attributes=()):
        self.tag, self.attributes, self.children = tag, dict(attributes), []

    def find(self, name):
        """All elements below of a tag, of a class with its dot, or with an attribute in brackets."""
        for child in self.children:
            if isinstance(child, Element):
                classes = [f".{one}" for one in child.attributes.get("class", "").split()]
                if name in (child.tag, *classes, *(f"[{one}]" for one in child.attributes)):
                    yield child
                yield from child.find(name)

    @property
    def text(self):
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    @property
    def tip(self):
        return self.attributes["data-tip"].split("\n")

    @property
    def id(self):
        return int(re.match(r"id ([\d,]+)", self.tip[-1] if len(self.tip) == 1 else self.tip[1]).group(1).replace(",", ""))


class Parser(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open = [Element("document")]

    def handle_starttag(self, tag, attributes):
        self.open[-1].children.append(Element(tag, attributes))
        if tag not in ("br", "meta"):
            self.open.append(self.open[-1].children[-1])

    def handle_endtag(self, tag):
        assert self.open.pop().tag == tag

    def handle_data(self, data):
        self.open[-1].children.append(data)


def parse(html):
    parser = Parser()
    parser.feed(html)
    parser.close()
    assert len(parser.open) == 1
    return parser.open[0]


def rows(view, number=0):
    """What a view shows of its text: for each tokenizer the elements of its row, column by column."""
    figure = list(parse(view._repr_html_()).find("figure"))[number]
    return list(zip(*(column.find(".sgpe-row") for column in figure.find(".sgpe-column")), strict=True))


def counts(view):
    """The numbers of a view's table: for each tokenizer tokens, words, tokens per word, cut syllables and cut letters."""
    return [[cell.text for cell in row.find("td")] for row in parse(view._repr_html_()).find("tr") if list(row.find("td"))]


@pytest.fixture(scope="module")
def only_bytes():
    return BPETokenizer.train_from_iterator(["a"], 256)


@pytest.fixture(scope="module")
def cutting(sample):
    """A tokenizer that cuts syllables, and characters, too."""
    return BPETokenizer.train_from_iterator(sample.values(), 500, pattern="gpt2")


@given(text=texts)
def test_the_shown_text_is_the_normalized_text(text, tokenizer, cutting):
    for shown, normalization in ((tokenizer, "nfc"), (cutting, "none")):
        assert parse(tokens_html(text, shown)).text == prepare(text, normalization).replace("\0", "␀")


@given(text=texts | st.text(max_size=20))
def test_each_token_has_its_id_rank_and_vocabulary_string(text, tokenizer, cutting):
    for shown in (tokenizer, cutting):
        tokens = list(parse(tokens_html(text, shown)).find("[data-tip]"))
        assert [token.id for token in tokens] == shown.encode(text)
        for token in tokens:
            named = token.tip[0].replace("␀", "\0")
            assert named == shown.convert_ids_to_tokens(token.id)
            rank = re.search(r" · rank ([\d,]+)$", token.tip[1])
            content = shown.token_bytes(token.id)
            assert (rank is None) == (len(content) == 1)
            if rank:
                left, right = shown.merges[int(rank.group(1).replace(",", ""))]
                assert left + right == content


@given(text=texts)
def test_cut_syllables_are_those_that_evaluate_counts(text, tokenizer, cutting, only_bytes):
    text = prepare(text, "nfc")
    names = {"hybrid": tokenizer, "cutting": cutting, "bytes": only_bytes}
    for shown, row in zip(names.values(), counts(TokenView(text, names)), strict=True):
        expected = evaluate(shown, [text])
        assert row[:2] == [str(expected.tokens), str(expected.words)]
        assert row[3:] == [
            f"{cut} of {whole}" if whole else "–"
            for cut, whole in ((expected.cut_syllables, expected.syllables), (expected.cut_letters, expected.letters))
        ]
        whole = list(parse(tokens_html(text, shown)).find(".sgpe-syllable"))
        assert len(whole) == expected.syllables - expected.cut_syllables


@given(text=texts)
def test_a_whole_syllable_is_one_unbroken_run(text, tokenizer, cutting):
    trie = LinguisTrie(SCRIPTS, whole_clusters=True)
    for shown in (tokenizer, cutting):
        root = parse(tokens_html(text, shown))
        for syllable in root.find(".sgpe-syllable"):
            assert syllable.children == [syllable.text]
            assert trie.tokenize(syllable.text) == [syllable.text]
        pieces = "".join(piece.text for piece in root.find(".sgpe-cut"))
        syllables = [unit for unit in trie.tokenize(root.text) if trie.script_of(unit)]
        for syllable in root.find(".sgpe-syllable"):
            syllables.remove(syllable.text)
        assert sorted(pieces) == sorted("".join(syllables))


def test_cut_pieces_stand_apart_and_tell_of_the_syllable(only_bytes):
    tokenizer = BPETokenizer(
        {**only_bytes.vocab, "ක".encode()[:2]: 256, "ක".encode(): 257, "ා".encode()[:2]: 258, "ා".encode(): 259},
        [(b"\xe0", b"\xb6"), (b"\xe0\xb6", b"\x9a"), (b"\xe0", b"\xb7"), (b"\xe0\xb7", b"\x8f")],
    )
    pieces = list(parse(tokens_html("කා ක", tokenizer)).find(".sgpe-torn"))
    assert [piece.text for piece in pieces] == ["ක", "ා"]
    assert [token.tip[2] for piece in pieces for token in piece.find("[data-tip]")] == ["cuts කා", "cuts කා"]
    assert [piece.text for piece in parse(tokens_html("කා ක", tokenizer)).find(".sgpe-syllable")] == ["ක"]
    # Between two letters of a syllable, too, where each is a sign of its own.
    assert [piece.text for piece in parse(tokens_html("ක්ක", tokenizer)).find(".sgpe-torn")][-1] == "ක"


def test_a_character_of_several_tokens_stands_once_over_its_bytes(only_bytes):
    (character,) = parse(tokens_html("aක", only_bytes)).find(".sgpe-shared")
    assert character.text == "ක"
    assert [part.attributes["data-part"] for part in character.find("[data-part]")] == ["e0", "b6", "9a"]
    assert [part.tip[2:] for part in character.find("[data-part]")] == [[f"bytes {b}", "cuts ක"] for b in ("e0", "b6", "9a")]
    assert [part.id for part in character.find("[data-part]")] == [0xE0, 0xB6, 0x9A]


def test_boxes_have_the_direction_of_their_text(only_bytes):
    words = parse(tokens_html("aשé", only_bytes))
    assert [box.text for box in words.find(".sgpe-rtl")] == ["ש"]
    assert [box.text for box in words.find(".sgpe-shared")] == ["ש", "é"]


def test_rows_with_bytes_have_room_for_them(only_bytes, tokenizer):
    (one, two) = rows(TokenView("කා a", {"bytes": only_bytes, "whole": tokenizer}))
    assert ["sgpe-high" in column.attributes["class"] for column in one + two] == [True, True, False, False]


def test_tokens_inside_an_accented_letter_or_an_emoji_do_not_join(cutting):
    for text in ("e\u0301", "👩\u200d👩"):
        root = parse(tokens_html(text, cutting))
        assert list(root.find(".sgpe-torn")) + list(root.find(".sgpe-shared"))


def test_neighbours_differ_in_colour(cutting):
    colours = [token.attributes["class"] for token in parse(tokens_html(TEXT * 3, cutting)).find("[data-tip]")]
    assert all(left != right for left, right in pairwise(colours))


def test_invisible_characters_are_marked(only_bytes):
    root = parse(tokens_html("\t\xa0\r\n\0\u200d\u2028 ", only_bytes))
    marks = [mark.attributes["data-mark"] for mark in root.find("[data-mark]")]
    assert marks == ["→", "⍽", "␍", "⏎", "␀", "ZWJ", "2028"]
    assert [space.text for space in root.find(".sgpe-space")] == [" "]


def test_a_carriage_return_survives_the_reading_of_a_page(tokenizer):
    html = TokenView("a\r\n", {"mine": tokenizer})._repr_html_()
    assert "\r" not in html
    assert html.count("&#13;") == 2


def test_accents_without_a_letter_get_a_base_and_joiners_inside_a_sign_no_mark(cutting, tokenizer):
    (accent,) = parse(tokens_html("e\u0301", cutting)).find(".sgpe-accent")
    assert accent.text == "\u0301"
    assert not list(parse(tokens_html("é", cutting)).find(".sgpe-accent"))
    assert not list(parse(tokens_html("ශ්\u200dරී", tokenizer)).find("[data-mark]"))
    model = models.WordLevel({"👩\u200d👩": 0, "[UNK]": 1}, unk_token="[UNK]")
    assert not list(parse(tokens_html("👩\u200d👩", Tokenizer(model))).find("[data-mark]"))


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "\" onclick='x' &amp; &lt;", "</span></style><b>", "\ud800é\udfff"]
)
def test_text_and_names_stay_text(text, tokenizer):
    view = parse(TokenView(text, {text: tokenizer, "other": tokenizer}).to_html())
    assert {element.tag for element in view.find("[data-tip]")} == {"span"}
    assert not list(view.find("script")) and not list(view.find("b")) and not list(view.find("[onclick]"))
    assert next(view.find("tbody")).text.count(prepare(text, "none")) == 1
    assert next(view.find(".sgpe-source")).text == prepare(text, "none")


def test_a_page_needs_nothing_from_elsewhere(tokenizer):
    page = TokenView(TEXT, {"mine": tokenizer}).to_html()
    assert page.startswith("<!DOCTYPE html>\n")
    assert not re.search(r"<script|<link|<img|src=|href=|url\(|@import|https?:", page)
    # No rule reaches elements that are not the view's own.
    (style,) = parse(TokenView(TEXT, {"mine": tokenizer})._repr_html_()).find("style")
    rules = re.sub(r"/\*.*?\*/", "", style.text, flags=re.DOTALL)
    selectors = [before.strip() for before in re.findall(r"([^{};]+)\{", rules)]
    assert ".sgpe-tokens [data-part]" in selectors
    assert [selector for selector in selectors if ".sgpe-" not in selector and not selector.startswith("@")] == []


def test_size_grows_linearly_with_the_text(cutting):
    for text in (TEXT, "ක්\u200d", "\u200d", "a\u0301", "ම"):
        small, large = (len(tokens_html(text * times, cutting)) for times in (100, 1000))
        assert large < 11 * small


@given(text=texts)
def test_every_row_of_several_tokenizers_shows_the_text(text, tokenizer, cutting):
    # Texts in different normal forms have their words under each other all the same.
    shown = rows(TokenView(text, {"one": tokenizer, "two": cutting}))
    for row, name, normalization in zip(shown, ("one", "two"), ("nfc", "none"), strict=True):
        assert "".join(column.text for column in row) == prepare(text, normalization).replace("\0", "␀")
        assert {column.attributes["data-name"] for column in row} == {name}  # wherever lines wrap


def test_words_stand_under_each_other(tokenizer, cutting):
    one, two = rows(TokenView("ශ්‍රී ලංකාව is here\nand there", {"one": tokenizer, "two": cutting}))
    assert [column.text for column in one] == ["ශ්‍රී", " ලංකාව", " is", " here\n", "and", " there"]
    assert [column.text for column in two] == ["ශ්‍රී", " ලංකාව", " is", " here\n", "and", " there"]
    assert {token.tip[-1] for column in two for token in column.find("[data-tip]")} == {"two"}
    (alone,) = rows(TokenView("a b", {"one": tokenizer}))
    assert [column.text for column in alone] == ["a", " b"]
    assert next(alone[0].find("[data-tip]")).tip[1:] == [f"id {tokenizer.encode('a')[0]}"]


def test_no_column_ends_inside_a_token():
    spaced = Tokenizer(models.WordLevel({"a b": 0, "[UNK]": 1}, unk_token="[UNK]"))
    words = Tokenizer(models.WordLevel({"a": 0, "b": 1, "[UNK]": 2}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    one, two = rows(TokenView("a b", {"": spaced, " ": words}))
    assert [column.text for column in one] == ["a b"]
    assert len(list(one[0].find("[data-tip]"))) == 1
    assert len(list(two[0].find("[data-tip]"))) == 2


def test_words_that_run_from_right_to_left_stay_in_one_column(tokenizer):
    (row,) = rows(TokenView("مرحبا بالعالم\nsecond line", {"one": tokenizer}))
    assert [column.text for column in row] == ["مرحبا بالعالم\n", "second line"]


def test_several_texts_have_a_figure_each(tokenizer):
    view = TokenView(["one", "", "two"], {"mine": tokenizer})
    assert [source.text for source in parse(view.to_html()).find(".sgpe-source")] == ["one", "", "two"]
    assert counts(view)[1] == ["0", "0", "–", "–", "–"]
    assert repr(view) == "TokenView(3 texts, tokenizers: mine)"


def test_readers_of_screens_get_the_plain_text(tokenizer):
    view = parse(TokenView(TEXT, {"mine": tokenizer}).to_html())
    for shown in view.find(".sgpe-tokens"):
        assert shown.attributes["aria-hidden"] == "true"
    (alone,) = parse(tokens_html(TEXT, tokenizer)).find(".sgpe-tokens")
    assert alone.attributes["aria-label"] == TEXT


def test_every_way_to_name_a_tokenizer_shows_the_same(tokenizer, saved):
    expected = tokens_html(TEXT, tokenizer)
    fast = SGPETokenizerFast.from_bpe(tokenizer)
    for same in (saved, str(saved / "tokenizer.json"), fast, AutoTokenizer.from_pretrained(saved), fast.backend_tokenizer):
        assert tokens_html(TEXT, same) == expected


def test_special_tokens_in_the_text_stay_text(tokenizer, foreign):
    text = "<|endoftext|>[UNK]"
    # WordPiece has words and punctuation; the others know none of the pairs of letters, and put a space before the text.
    numbers = [len(tokenizer.encode(text)), 8, *[len(f" {text}")] * 3]
    for shown, number in zip((tokenizer, *foreign.values()), numbers, strict=True):
        root = parse(tokens_html(text, shown))
        assert root.text == text
        assert len(list(root.find("[data-tip]"))) == number


@pytest.fixture(scope="module")
def foreign():
    """Tokenizers that are no byte-level BPE."""
    pieces = {
        piece: id for id, piece in enumerate(["[UNK]", "ක", "##්", "##ර", "##\u200d", "a", "##b", "[", "]", "U", "##N"])
    }
    word_piece = Tokenizer(models.WordPiece(pieces, unk_token="[UNK]"))
    word_piece.normalizer = normalizers.NFKC()
    word_piece.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    parts = [f"<0x{byte:02X}>" for byte in range(256)]
    scores = [("[UNK]", 0.0), *((part, -9.0) for part in parts), ("▁", -2.0), ("ක", -1.0), ("▁කා", -1.0)]
    unigram = Tokenizer(models.Unigram(scores, 0, byte_fallback=True))
    unigram.pre_tokenizer = pre_tokenizers.Metaspace()
    vocab = {piece: id for id, piece in enumerate(["[UNK]", *parts, "▁", "a", "b", "ab", "▁ab", "ක"])}
    sentences = Tokenizer(models.BPE(vocab, [("a", "b"), ("▁", "ab")], byte_fallback=True, unk_token="[UNK]"))
    sentences.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    byte_level = Tokenizer(models.BPE({c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, []))
    byte_level.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    byte_level.decoder = decoders.ByteLevel()
    made = {"WordPiece": word_piece, "Unigram": unigram, "SentencePiece BPE": sentences, "byte-level": byte_level}
    for tokenizer in made.values():
        tokenizer.add_special_tokens(["[UNK]", "<|endoftext|>"])
    return made


@given(text=texts)
def test_foreign_tokenizers_show_their_ids_and_the_text(text, foreign):
    for shown in foreign.values():
        root = parse(tokens_html(text, shown))
        assert root.text == text.replace("\0", "␀")
        shown.encode_special_tokens = True
        assert [token.id for token in root.find("[data-tip]")] == shown.encode(text, add_special_tokens=False).ids


@given(text=texts)
def test_foreign_tokenizers_cut_what_evaluate_counts(text, foreign, measured):
    text = prepare(text, "nfc")
    for name, row in zip(foreign, counts(TokenView(text, foreign)), strict=True):
        expected = evaluate(measured[name], [text])
        assert row[3:] == [
            f"{cut} of {whole}" if whole else "–"
            for cut, whole in ((expected.cut_syllables, expected.syllables), (expected.cut_letters, expected.letters))
        ]


@pytest.fixture(scope="module")
def measured(foreign, tmp_path_factory):
    folder = tmp_path_factory.mktemp("foreign")
    for name, tokenizer in foreign.items():
        tokenizer.save(str(folder / f"{name}.json"))
    return {name: load_measurable(folder / f"{name}.json") for name in foreign}


def test_bytes_and_ranks_of_foreign_tokenizers(foreign):
    (character,) = parse(tokens_html("é", foreign["SentencePiece BPE"])).find(".sgpe-shared")
    assert [part.attributes["data-part"] for part in character.find("[data-part]")] == ["▁", "c3", "a9"]
    (token,) = parse(tokens_html("ab", foreign["SentencePiece BPE"])).find("[data-tip]")
    assert token.tip == ["▁ab", "id 261 · rank 1"]
    (character,) = parse(tokens_html("é", foreign["byte-level"])).find(".sgpe-shared")
    assert [part.attributes["data-part"] for part in character.find("[data-part]")] == ["Ġ", "c3", "a9"]
    assert [token.tip[0] for token in parse(tokens_html("ab  ක", foreign["WordPiece"])).find("[data-tip]")] == [
        "a",
        "##b",
        "ක",
    ]


def test_added_tokens_are_shown_as_texts_of_their_own():
    merges = [(b"\xe2", b"\x82"), (b"\xe2\x82", b"\xac")]
    vocab = {bytes([byte]): byte for byte in range(256)} | {b"\xe2\x82": 256, "€".encode(): 257}
    ours = BPETokenizer(vocab, merges, added_tokens={"€": 258, "Fuß": 259})
    plain = SGPETokenizerFast.from_bpe(BPETokenizer(vocab, merges))
    plain.add_tokens([AddedToken("€"), AddedToken("Fuß", lstrip=True)])  # which BPETokenizer does not follow
    for tokenizer in (ours, plain):
        _, tokens = reader(tokenizer)("a€Fuß")
        assert [(token.id, token.name, token.rank, token.hex) for token in tokens[1:]] == [
            (258, "€", None, ""),
            (259, "Fuß", None, ""),
        ]


def test_characters_that_a_tokenizer_drops_leave_whole_syllables_whole():
    dropping = Tokenizer(models.WordPiece({"[UNK]": 0, "්රි": 1, "ක": 2}, unk_token="[UNK]"))
    dropping.normalizer = normalizers.Replace("ක", "")
    root = parse(tokens_html("ක්‍රි".replace("\u200d", ""), dropping))
    assert [syllable.text for syllable in root.find(".sgpe-syllable")] == ["ක්රි"]


def test_bad_arguments_are_named(tokenizer, tmp_path):
    with pytest.raises(SGPEError, match="no tokenizer to show: give at least one"):
        TokenView("x", {})
    with pytest.raises(SGPEError, match="no text to show"):
        TokenView([], {"mine": tokenizer})
    with pytest.raises(SGPEError, match="no such file or folder"):
        TokenView("x", {"mine": tmp_path / "nowhere"})
    with pytest.raises(TypeError, match="texts must be strings, not int"):
        TokenView([5], {"mine": tokenizer})
    with pytest.raises(TypeError, match="not int"):
        tokens_html("x", 5)
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"type": "Nonsense"}}))
    with pytest.raises(SGPEError, match=r"tokenizer\.json is damaged"):
        tokens_html("x", tmp_path)


def test_the_command_line_writes_a_page(saved, tmp_path):
    (tmp_path / "page.html").write_text("an older one")
    done = hf_sgpe(
        "encode",
        "-t",
        saved,
        "-t",
        saved / "tokenizer.json",
        "--html",
        "page.html",
        "--overwrite",
        "ශ්‍රී",
        "ලංකාව",
        cwd=tmp_path,
    )
    assert done.stderr == ""
    assert done.stdout == f"page.html: 2 texts as tokens of {saved}, {saved / 'tokenizer.json'}\n"
    names = {str(saved): saved, str(saved / "tokenizer.json"): saved}
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == TokenView(["ශ්‍රී", "ලංකාව"], names).to_html()
    hf_sgpe("encode", "-t", saved, "--html", "page.html", "--overwrite", stdin="one\ntwo\n", cwd=tmp_path)
    page = parse((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert [source.text for source in page.find(".sgpe-source")] == ["one\ntwo"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--html page.html -t nowhere x", "nowhere: no such file or folder"),
        ("--html . -t tok x", r"\. is a folder: give a file to write to"),
        ("--html page.html -t tok --special all x", "--html .* --special"),
        ("-t tok -t tok x", "--html"),
    ],
)
def test_the_command_line_names_what_is_wrong_and_leaves_nothing(arguments, message, saved, tmp_path):
    (tmp_path / "tok").symlink_to(saved)
    done = hf_sgpe("encode", *arguments.split(), cwd=tmp_path, code=2)
    assert re.fullmatch(f"error: .*{message}.*\n", done.stderr)
    assert [file.name for file in tmp_path.iterdir()] == ["tok"]


def test_one_tokenizer_needs_no_name(tokenizer, saved):
    assert "<b>" not in TokenView("ක", tokenizer)._repr_html_()
    assert repr(TokenView("ක", tokenizer)) == "TokenView(1 text, tokenizers: tokenizer)"
    assert str(saved) in repr(TokenView("ක", saved))
    with pytest.raises(TypeError, match="dictionary"):
        TokenView("ක", [tokenizer])
    with pytest.raises(TypeError, match="not bytes"):
        TokenView(b"a", tokenizer)
    with pytest.raises(TypeError, match="expected a tokenizer"):
        TokenView("a", 5)
