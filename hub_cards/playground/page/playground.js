// The page: typed text as tokens of each tokenizer. Tokenizers are read once; the text is tokenized at each change.
import { cellsHtml, escape, inCells, reader } from "./cells.js";
import { LinguisTrie } from "./syllables.js";

// More would be slow to draw and too long to read; all tokens are counted.
const [MOST_TOKENS, MOST_CHARACTERS, LINKED, LONG] = [2000, 6000, 2000, 5000];
const number = new Intl.NumberFormat("en-US");
const { tokenizers, scripts, shared } = JSON.parse(document.querySelector("#playground").textContent);
const input = document.querySelector("textarea");
const trie = new LinguisTrie(scripts, shared);

const cards = tokenizers.map(({ name, file }) => {
    const card = document.querySelector("#card").content.firstElementChild.cloneNode(true);
    card.querySelector("h2").textContent = name;
    document.querySelector("#cards").append(card);
    const state = { card, read: null };
    load(file).then(
        (read) => {
            state.read = read;
            show(state);
        },
        (error) => {
            card.querySelector(".state").textContent = `This tokenizer cannot be shown here: ${error.message}`;
        },
    );
    return state;
});

async function load(file) {
    const answer = await fetch(file);
    if (!answer.ok) throw new Error(`${file}: ${answer.status} ${answer.statusText}`);
    return reader(await answer.json());
}

function show({ card, read }) {
    if (!read) return;
    const shown = read(input.value);
    const { cells, counts } = inCells(shown, trie);
    const drawn = beginning(cells);
    const isWhole = drawn.length === cells.length;
    const { name: unit, units } = counts.per;
    const perUnit = units ? (counts.tokens / units).toFixed(2) : "–";
    const cuts = counts.syllables ? `${number.format(counts.cut)} of ${number.format(counts.syllables)}` : "–";
    const facts = { tokens: number.format(counts.tokens), [`tokens per ${unit}`]: perUnit, "cut syllables": cuts };
    card.querySelector("dl").innerHTML = Object.entries(facts)
        .map(([name, value]) => `<div><dt>${name}</dt><dd>${escape(value)}</dd></div>`)
        .join("");
    card.querySelector(".sgpe-tokens").innerHTML = cellsHtml(drawn);
    card.querySelector(".ids").textContent = shown.tokens.map(({ id }) => id).join(" ");
    card.querySelector(".state").textContent = isWhole ? "" : "Only the beginning is shown; the counts are for the whole text.";
}

function beginning(cells) {
    let [tokens, characters, place] = [0, 0, 0];
    while (place < cells.length && tokens < MOST_TOKENS && characters < MOST_CHARACTERS) {
        tokens += cells[place].tokens.length;
        characters += cells[place].text.length;
        place += 1;
    }
    return cells.slice(0, place);
}

let waiting = 0;
function changed() {
    clearTimeout(waiting); // only the last of several quick changes counts
    const pause = input.value.length > LONG ? 300 : 0; // keeps typing in a long text fast
    waiting = setTimeout(() => {
        cards.forEach(show);
        fit();
    }, pause);
    // A link to the text, unless the text is too long for a link.
    const link = input.value.length > LINKED ? "" : encodeURIComponent(input.value.toWellFormed());
    history.replaceState(null, "", link ? `#${link}` : location.pathname + location.search);
}

// The input is as high as its text, up to half of the window.
function fit() {
    input.style.height = "auto";
    input.style.height = `${Math.min(input.scrollHeight + 2, innerHeight / 2)}px`;
}

function fromLink() {
    try {
        if (location.hash.length > 1) input.value = decodeURIComponent(location.hash.slice(1));
    } catch {
        // The link is incomplete: the page keeps its text.
    }
    cards.forEach(show);
    fit();
}

input.addEventListener("input", changed);
addEventListener("hashchange", fromLink);
for (const button of document.querySelectorAll("[data-text]")) {
    button.addEventListener("click", () => {
        input.value = button.dataset.text;
        input.focus();
        changed();
    });
}
const switched = document.querySelector("#with-ids");
switched.addEventListener("change", () => document.body.classList.toggle("with-ids", switched.checked));
fromLink();
