import json
import re

import pytest
from hypothesis import given
from support.browser import CHROMIUM, ask_page
from support.ecosystems import NODE, needs_node
from support.hub import contents
from support.texts import texts
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from hf_sgpe import BPETokenizer, SGPEError, SGPETokenizerFast
from hub_cards import tokens_html, write_playground
from hub_cards.playground.playground_site import playground_files

in_a_browser = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
TELLING = [
    "ශ්‍රී ලංකාව ඉන්ද්‍රිය, ප්‍රජාතන්ත්‍රවාදය!\nन्यायालय स्त्री\r\n தமிழ் వాడుక",
    'It\'s  a <b>"test"</b> &amp; 12345\t\u00a0x \u200d ක\u0dd9\u0dcf e\u0301 \u0301 a\ufeffb',
    "👩‍👩‍👧 مرحبا שלום 中文 ไทย 𑄌𑄋𑄴𑄟𑄳𑄦",
    "\u0dca ් ක්‍ ක්\u200c",
    "",
    " ",
]
READ = """
import { cellsHtml, inCells, reader } from "./cells.js";
import { LinguisTrie } from "./syllables.js";
const page = new DOMParser().parseFromString(await (await fetch("index.html")).text(), "text/html");
const { tokenizers, scripts, shared } = JSON.parse(page.querySelector("#playground").textContent);
const trie = new LinguisTrie(scripts, shared);
const texts = await (await fetch("texts.json")).json();
const answers = [];
for (const { name, file } of tokenizers) {
    const read = reader(await (await fetch(file)).json());
    answers.push([name, texts.map((text) => {
        const shown = read(text);
        const { cells, counts } = inCells(shown, trie);
        return { text: shown.text, ids: shown.tokens.map(({ id }) => id), html: cellsHtml(cells), counts };
    })]);
}
answer(answers);
"""
# The page in windows of several widths, after somebody typed.
TYPE = """
const TEXT = "ශ්‍රී ලංකාව مرحبا بالعالم <|endoftext|>";
const answers = [];
for (const width of [320, 390, 1280]) {
    const frame = document.createElement("iframe");
    frame.style = `width:${width}px;height:1200px;border:0;display:block`;
    frame.src = "index.html#" + encodeURIComponent("first words");
    document.body.replaceChildren(frame); // alone, since a browser draws nothing that is far below
    await new Promise((resolve) => (frame.onload = resolve));
    const [page, root] = [frame.contentDocument, frame.contentDocument.documentElement];
    const drawn = () => new Promise((resolve) => setTimeout(resolve, 100));
    const input = page.querySelector("textarea");
    const shown = () => [...page.querySelectorAll("article")].map((card) =>
        ["h2", ".ids", ".state"].map((part) => card.querySelector(part).textContent));
    for (let tries = 0; tries < 100 && shown().some((card) => card[2]); tries++) await drawn();
    const type = (text) => {
        input.value = text;
        input.dispatchEvent(new Event("input"));
        return drawn();
    };
    const linked = [input.value, shown()];
    page.querySelector("#with-ids").click();
    await type(TEXT);
    const outside = [...page.body.querySelectorAll("*")].filter((one) => one.getClientRects().length
        && one.getBoundingClientRect().right > root.clientWidth + 0.5).map((one) => one.outerHTML.slice(0, 80));
    const colours = frame.contentWindow.getComputedStyle(page.body);
    const tokens = page.querySelector(".sgpe-tokens");
    answers.push({ width, linked, typed: shown(), outside, scrolled: root.scrollWidth,
        link: decodeURIComponent(frame.contentWindow.location.hash.slice(1)),
        idsShown: page.querySelector(".ids").getClientRects().length > 0,
        light: [colours.color, colours.backgroundColor].map((colour) => parseInt(colour.match(/\\d+/)[0])),
        height: tokens.getBoundingClientRect().height, images: page.querySelectorAll("[src^=http],link[href]").length });
    await type("😀".repeat(900) + "x".repeat(201));
    answers.at(-1).longLink = frame.contentWindow.location.hash;
    await type("word ".repeat(3000));
    await new Promise((resolve) => setTimeout(resolve, 500));
    answers.at(-1).long = [page.querySelector("dd").textContent, page.querySelector(".state").textContent,
        tokens.querySelectorAll("[data-tip]").length];
    await type("ភាសាខ្មែរ តើ");
    answers.at(-1).unspaced = page.querySelectorAll("dt")[1].textContent;
    await type("שלום עולם");
    const first = tokens.querySelector("[data-tip]").getBoundingClientRect();
    answers.at(-1).startsAtTheRight = first.right > width / 2;
}
answer(answers);
"""


@pytest.fixture(scope="module")
def cutting(sample):
    return BPETokenizer.train_from_iterator(sample.values(), 500, pattern="gpt2", special_tokens=["<|endoftext|>"])


@pytest.fixture(scope="module")
def site(tokenizer, cutting, tmp_path_factory):
    folder = tmp_path_factory.mktemp("playground") / "site"
    write_playground(folder, {"<mine>": tokenizer, "cutting": SGPETokenizerFast.from_bpe(cutting)})
    return folder


# The regex package joins the next consonant to a cluster with such a virama, as Unicode and browsers do not.
VIRAMA_OF_ANOTHER_SCRIPT = re.compile(r"(?=.*\u094d)(?=.*[\u0d80-\u0dff\u0b80-\u0bff])", re.DOTALL)


def bare(html):
    """Return a view without its marks for torn clusters."""
    return html.replace('<span class="sgpe-torn">', "").replace("</span>", "")


@in_a_browser
def test_the_browser_shows_what_python_shows(site, tokenizer, cutting):
    drawn = [*TELLING]

    @given(texts)
    def draw(text):
        drawn.append(text.encode(errors="replace").decode())  # no page holds half a character

    draw()
    (site / "texts.json").write_text(json.dumps(drawn), encoding="utf-8", newline="\n")
    answers, asked = ask_page(site, READ)
    assert [name for name, _ in answers] == ["<mine>", "cutting"]
    for (_, shown), ours in zip(answers, (tokenizer, cutting), strict=True):
        theirs = SGPETokenizerFast.from_bpe(ours)
        compared = 0
        for text, one in zip(drawn, shown, strict=True):
            assert one["ids"] == theirs(text, add_special_tokens=False)["input_ids"], text
            if one["ids"] == ours.encode(text):  # but for special tokens, which a view shows as the text that they are
                whole = '<span class="sgpe-tokens" role="img" aria-label="'
                html = tokens_html(text, ours)
                same = bare if VIRAMA_OF_ANOTHER_SCRIPT.search(text) else str
                assert html.startswith(whole) and same(html).endswith(same(f'">{one["html"]}</span>')), text
                compared += 1
        assert compared > len(drawn) / 2
    assert {path.partition("?")[0] for path in asked} <= {
        f"/{file}" for file in [*playground_files(site), "asked.html", "texts.json", "favicon.ico"]
    }


@in_a_browser
@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_the_page_follows_what_is_typed_on_any_screen(site, cutting, scheme):
    answers, _ = ask_page(site, TYPE, f"--blink-settings=preferredColorScheme={int(scheme == 'light')}")
    for answer in answers:
        assert answer["linked"][0] == "first words"
        assert answer["unspaced"] == "tokens per character"
        assert answer["typed"] != answer["linked"][1]
        assert answer["link"].startswith("ශ්‍රී")
        (_, ids, _) = answer["typed"][1]
        fast = SGPETokenizerFast.from_bpe(cutting)
        assert ids == " ".join(map(str, fast("ශ්‍රී ලංකාව مرحبا بالعالم <|endoftext|>")["input_ids"]))
        assert [card[2] for card in answer["typed"]] == ["", ""]
        assert (answer["outside"], answer["scrolled"], answer["images"]) == ([], answer["width"], 0)
        assert answer["idsShown"] and answer["height"] > 20
        ink, paper = answer["light"]
        assert (ink < paper) == (scheme == "light")
        assert answer["startsAtTheRight"]
        assert answer["longLink"] == ""  # it would be too long for one
        counted, state, drawn = answer["long"]
        assert (state, drawn) == ("Only the beginning is shown; the counts are for the whole text.", 2000)
        assert int(counted.replace(",", "")) > 3000


@in_a_browser
def test_other_kinds_of_tokenizers_are_shown_where_their_tokens_stand(tmp_path):
    words = {"<unk>": 0, "▁Hello": 1, "▁w": 2, "ö": 3, "r": 4, "ld": 5, "<0xE0>": 6, "<0xB6>": 7, "<0x9A>": 8, "▁": 9}
    unigram = Tokenizer(models.Unigram([(word, -1.0) for word in words], 0, True))
    unigram.pre_tokenizer = pre_tokenizers.Metaspace()
    unigram.decoder = decoders.Metaspace()
    pieces = Tokenizer(models.WordPiece({"[UNK]": 0, "hel": 1, "##lo": 2, "wor": 3, "##ld": 4}, unk_token="[UNK]"))
    pieces.normalizer = normalizers.Lowercase()
    pieces.pre_tokenizer = pre_tokenizers.Whitespace()
    write_playground(tmp_path / "site", {"unigram": unigram, "wordpiece": pieces})
    (tmp_path / "site" / "texts.json").write_text(json.dumps(["Hello wörld", "Hello World"]), newline="\n")
    ((_, unigrams), (_, wordpieces)), _ = ask_page(tmp_path / "site", READ)
    assert unigrams[0]["ids"] == unigram.encode("Hello wörld").ids
    assert wordpieces[1]["ids"] == pieces.encode("Hello World").ids
    assert wordpieces[1]["text"] == "hello world"  # as its normalizer has it
    assert unigrams[0]["text"] == "Hello wörld"
    assert unigrams[0]["html"].count("data-tip") == 5
    assert "data-part" not in wordpieces[1]["html"]


def test_names_and_texts_cannot_break_the_page(tokenizer, tmp_path):
    nasty = "</script><script>alert(1)</script>\"&'"
    write_playground(tmp_path, {nasty: tokenizer}, title=nasty, text=nasty)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert page.count("</script>") == 3
    data = page.split('id="playground">')[1].split("</script>")[0]
    assert json.loads(data)["tokenizers"] == [{"name": nasty, "file": "tokenizer-1.json"}]
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\ntitle: ") and "sdk: static" in card


def test_a_playground_is_replaced_and_anything_else_is_not(tokenizer, tmp_path):
    first = write_playground(tmp_path / "site", {"a": tokenizer, "b": tokenizer})
    second = write_playground(tmp_path / "site", {"c": tokenizer})
    assert {*first} - {*second} == {"tokenizer-2.json"}
    assert sorted(path.name for path in (tmp_path / "site").iterdir()) == second == playground_files(tmp_path / "site")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "index.html").write_text("my page")
    with pytest.raises(SGPEError, match="no playground"):
        write_playground(tmp_path / "mine", {"a": tokenizer})
    with pytest.raises(SGPEError, match="give at least one"):
        write_playground(tmp_path / "none", {})
    with pytest.raises(SGPEError, match=r"holds no tokenizer\.json"):
        write_playground(tmp_path / "none", {"a": tokenizer, "b": tmp_path})
    (tmp_path / "damaged.json").write_text('{"model": {}}')
    with pytest.raises(SGPEError, match=r"damaged\.json"):
        write_playground(tmp_path / "none", {"a": tmp_path / "damaged.json"})
    with pytest.raises(TypeError, match="expected a tokenizer"):
        write_playground(tmp_path / "none", {"a": 1})
    assert not (tmp_path / "none").exists()


@needs_node
def test_the_library_on_the_page_is_the_published_one():
    from importlib.resources import files

    published = NODE / "node_modules" / "@huggingface" / "tokenizers"
    ours = files("hub_cards.playground").joinpath("page")
    assert ours.joinpath("tokenizers.min.js").read_bytes() == (published / "dist" / "tokenizers.min.mjs").read_bytes()
    assert ours.joinpath("tokenizers.LICENSE.txt").read_bytes() == (published / "LICENSE").read_bytes()


def test_a_playground_goes_along_as_a_static_space(hub, saved, tokenizer, tmp_path):
    site = tmp_path / "site"
    write_playground(site, {"mine": tokenizer, "other": tokenizer})
    dry = hub.hf_sgpe("push", saved, "me/tok", "--playground", site, "--dry-run")
    assert dry.stdout.endswith(f"Space me/tok: nothing was sent of 9 files of {site}\n")
    assert hub.repositories == {}
    done = hub.hf_sgpe("push", saved, "me/tok", "--playground", site)
    assert done.stdout.endswith(f"{hub.address}/spaces/me/tok: pushed 9 files of {site}\n"), done.stderr
    space = hub.repositories["spaces/me/tok"]
    assert hub.files("spaces/me/tok") == contents(site)
    assert b"sdk: static" in space.at().files["README.md"]
    (site / "notes.txt").write_text("not for others")
    write_playground(site, {"mine": tokenizer})
    assert hub.hf_sgpe("push", saved, "me/tok", "--playground", site).returncode == 0
    assert "tokenizer-2.json" not in space.at().files
    assert "notes.txt" not in space.at().files


def test_a_space_with_something_else_and_a_folder_without_a_playground_are_left_alone(hub, saved, tokenizer, tmp_path):
    write_playground(tmp_path / "site", {"mine": tokenizer})
    hub.add("spaces/me/tok", {"index.html": b"my page"})
    done = hub.hf_sgpe("push", saved, "me/tok", "--playground", tmp_path / "site")
    assert done.returncode == 2
    assert done.stderr == "error: Space me/tok has a page that is not a playground: give another name\n"
    assert hub.repositories["spaces/me/tok"].at().files == {"index.html": b"my page"}
    (tmp_path / "empty").mkdir()
    done = hub.hf_sgpe("push", saved, "me/new", "--playground", tmp_path / "empty")
    assert done.stderr == f"error: {tmp_path / 'empty'} has no playground: write one with hf-sgpe playground\n"
    assert "me/new" not in hub.repositories
