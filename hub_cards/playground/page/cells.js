// Text → tokens → HTML: hub_cards/token_views/token_cells.py and token_view.py, for a tokenizer in the browser.
import { Tokenizer } from "./tokenizers.min.js";

const COLOURS = 4;
const INVISIBLE =
    /\s|\p{Cc}|^(?=\p{M})\p{sc=Zinh}|[\u00AD\u200B\u200E\u200F\u202A-\u202E\u2060-\u2069\uFEFF]|^[\u200C\u200D]|[\u200C\u200D]$/gu;
const MARKS = { "\t": "→", "\n": "⏎", "\r": "␍", "\x7f": "␡", "\xa0": "⍽", "\u200c": "ZWNJ", "\u200d": "ZWJ" };
const RIGHT_TO_LEFT = /[\u0590-\u08FF\uFB1D-\uFDFF\uFE70-\uFEFC\u{10800}-\u{10FFF}\u{1E800}-\u{1EFFF}]/u;
const IDEOGRAPHS = /[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Bopo}]/u;
const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });
const utf8 = new TextEncoder();
const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const lenient = new TextDecoder("utf-8", { ignoreBOM: true });
const number = new Intl.NumberFormat("en-US");

// ---------------------------------------------------------------- text → tokens

// A reader of texts with the tokenizer of a tokenizer.json: text → {text, tokens: [{id, name, rank, hex, start, stop}]}, with
// the text in its normal form, and places in code points.
export function reader(file) {
    const tokenizer = new Tokenizer(file, {});
    const added = new Map(file.added_tokens.map((token) => [token.content, token]));
    const byteLevel = decoders(file.decoder).some((decoder) => decoder.type === "ByteLevel");
    const prefix = file.model.continuing_subword_prefix ?? "";
    const ranks = new Map();
    (file.model.merges ?? []).forEach((merge, rank) => {
        const [left, right] = Array.isArray(merge) ? merge : merge.split(" ");
        ranks.set(left + (prefix && right.startsWith(prefix) ? right.slice(prefix.length) : right), rank);
    });
    const bytesOf = (name) => {
        if (added.has(name)) return utf8.encode(name);
        if (byteLevel) return Uint8Array.from(name, (character) => ALPHABET.get(character));
        const byte = /^<0x([0-9A-F]{2})>$/.exec(name);
        if (byte) return Uint8Array.of(parseInt(byte[1], 16));
        return utf8.encode(name.replace(/▁/g, " ").replace(/^##/, ""));
    };

    return (given) => {
        const text = given.toWellFormed();
        const { ids, tokens: names } = tokenizer.encode(text, { add_special_tokens: false });
        const parts = names.map(bytesOf);
        // Byte-level tokens contain the text; other tokens are searched for in the normalized text.
        const normal = tokenizer.normalizer ? tokenizer.normalizer(text) : text;
        const content = byteLevel ? joined(parts) : utf8.encode(normal.replace(/▁/g, " "));
        let [place, reached] = [0, 0]; // in bytes, and in characters begun
        const tokens = names.map((name, index) => {
            const [from, to] = byteLevel ? [place, place + parts[index].length] : found(content, place, parts[index]);
            const start = reached + begun(content, place, from) - (from < to && continues(content[from]));
            reached += begun(content, place, to);
            place = to;
            return { id: ids[index], name, rank: ranks.get(name), hex: hex(parts[index]), start, stop: reached };
        });
        return { text: lenient.decode(content), tokens };
    };
}

function decoders(decoder) {
    return decoder?.type === "Sequence" ? decoder.decoders.flatMap(decoders) : decoder ? [decoder] : [];
}

// The letters for bytes in a byte-level vocabulary, as in GPT-2.
const ALPHABET = new Map();
for (let byte = 0, next = 256; byte < 256; byte++) {
    const isShown = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    ALPHABET.set(String.fromCodePoint(isShown ? byte : next++), byte);
}

function joined(parts) {
    const whole = new Uint8Array(parts.reduce((total, part) => total + part.length, 0));
    let place = 0;
    for (const part of parts) {
        whole.set(part, place);
        place += part.length;
    }
    return whole;
}

// The range of a token's bytes in the text: at a place, after white space from there, or without a space that the tokenizer
// added before them. An empty range if they are not found.
function found(content, place, part) {
    const stands = (from, bytes) => bytes.every((byte, index) => content[from + index] === byte);
    let later = place;
    while (content[later] === 0x20 || (content[later] >= 0x09 && content[later] <= 0x0d)) later += 1;
    for (const [from, bytes] of [[place, part], [later, part], [later, part[0] === 0x20 ? part.subarray(1) : part]]) {
        if (bytes.length && stands(from, bytes)) return [from, from + bytes.length];
    }
    return [place, place];
}

function begun(content, from, to) {
    let characters = 0;
    for (let place = from; place < to; place++) characters += !continues(content[place]);
    return characters;
}

const continues = (byte) => (byte & 0xc0) === 0x80;

function hex(bytes) {
    try {
        strict.decode(bytes);
        return "";
    } catch {
        return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    }
}

// ---------------------------------------------------------------- tokens → cells

// Cells and counts. A cell is a token, several tokens that share characters, or characters without a token.
export function inCells({ text, tokens }, trie) {
    const characters = [...text];
    const syllables = [...trie.syllables(characters.map((character) => character.codePointAt(0)))];
    // Ends of tokens in half characters: even between two characters, odd inside one.
    const ends = tokens.map(({ stop }, index) => 2 * stop - ((tokens[index + 1]?.start ?? stop) < stop ? 1 : 0));
    const syllableAt = new Map();
    let [end, cut] = [0, 0];
    for (const [start, stop] of syllables) {
        while (end < ends.length && ends[end] <= 2 * start) end += 1;
        const isCut = end < ends.length && ends[end] < 2 * stop;
        cut += isCut;
        const run = { start, stop, isCut };
        for (let place = start; place < stop; place++) syllableAt.set(place, run);
    }
    const joints = clusterStarts(text, characters.length);
    for (const [place, run] of syllableAt) if (run.isCut && place > run.start) joints.delete(place);
    const cells = [...groups(characters.length, tokens, syllableAt)].map(([start, stop, group]) => ({
        tokens: group,
        text: characters.slice(start, stop).join(""),
        runs: [...runs(characters, start, stop, syllableAt)],
        cuts: group.map((token) => cutBy(token, characters, syllableAt)),
        isShared: group.length > 1 || (group.length === 1 && start === stop),
        isTorn: !joints.has(start) || !joints.has(stop),
    }));
    // In scripts without spaces between words, tokens are counted per character.
    const isUnspaced = (one) => trie.scriptOf.get(one.codePointAt(0))?.isSpaced === false || IDEOGRAPHS.test(one);
    const hasSpaces = 2 * characters.filter(isUnspaced).length <= characters.length;
    const words = text.split(/[\s\u001c-\u001f\u0085\u1361]+/u).filter(Boolean).length;
    const per = hasSpaces ? { name: "word", units: words } : { name: "character", units: characters.length };
    return { cells, counts: { tokens: tokens.length, per, syllables: syllables.length, cut } };
}

function clusterStarts(text, length) {
    const starts = new Set([0, length]);
    let place = 0;
    for (const { segment } of graphemes.segment(text)) {
        starts.add(place);
        place += [...segment].length;
    }
    return starts;
}

function* groups(length, tokens, syllableAt) {
    let [stop, place] = [0, 0];
    while (place < tokens.length) {
        let start = Math.max(stop, tokens[place].start);
        const run = syllableAt.get(start);
        if (run && !run.isCut) start = Math.max(stop, run.start);
        if (start > stop) yield [stop, start, []];
        const first = place;
        stop = Math.max(start, tokens[place].stop);
        place += 1;
        while (place < tokens.length && tokens[place].start < stop) {
            stop = Math.max(stop, tokens[place].stop);
            place += 1;
        }
        yield [start, stop, tokens.slice(first, place)];
    }
    if (stop < length) yield [stop, length, []];
}

// The parts of a cell: each is one syllable, or text between syllables, with isCut undefined.
function* runs(characters, start, stop, syllableAt) {
    while (start < stop) {
        const run = syllableAt.get(start);
        let end = run ? Math.min(run.stop, stop) : start + 1;
        while (!run && end < stop && !syllableAt.has(end)) end += 1;
        yield { text: characters.slice(start, end).join(""), isCut: run?.isCut };
        start = end;
    }
}

function cutBy(token, characters, syllableAt) {
    const touched = new Set([token.start, token.stop - 1].map((place) => syllableAt.get(place)));
    return [...touched].filter((run) => run?.isCut).map((run) => characters.slice(run.start, run.stop).join(""));
}

// ---------------------------------------------------------------- cells → HTML

export function cellsHtml(cells) {
    let numbers = 0;
    const tokenHtml = (token, cuts, kind, content) => {
        const rank = token.rank === undefined ? "" : ` · rank ${number.format(token.rank)}`;
        const lines = [token.name, `id ${number.format(token.id)}${rank}`];
        if (token.hex) lines.push(`bytes ${token.hex}`);
        for (const syllable of cuts) {
            const shown = [...syllable];
            lines.push(`cuts ${shown.slice(0, 40).join("")}${shown.length > 40 ? "…" : ""}`);
        }
        return `<span class="sgpe-${numbers++ % COLOURS}"${kind} data-tip="${escape(lines.join("\n"))}">${content}</span>`;
    };
    return cells
        .map(({ tokens, text, runs, cuts, isShared, isTorn }) => {
            const content = runs.map(runHtml).join("");
            if (isShared) {
                const parts = tokens.map((token, index) =>
                    tokenHtml(token, cuts[index], ` data-part="${escape(token.hex || token.name)}"`, ""),
                );
                return asBox("sgpe-shared", `<span>${content}</span><span>${parts.join("")}</span>`, text);
            }
            if (!tokens.length) return content;
            const shown = tokenHtml(tokens[0], cuts[0], "", content);
            return isTorn ? asBox("sgpe-torn", shown, text) : shown;
        })
        .join("");
}

function asBox(kind, content, text) {
    const box = `<span class="${kind}">${content}</span>`;
    // The bidirectional algorithm treats a box as an object without a direction, whatever its text.
    return RIGHT_TO_LEFT.test(text) ? `<span class="sgpe-rtl">${box}</span>` : box;
}

function runHtml({ text, isCut }) {
    if (isCut === false) return `<span class="sgpe-syllable">${escape(text)}</span>`;
    let [content, place] = ["", 0];
    for (const { 0: character, index } of text.matchAll(INVISIBLE)) {
        content += escape(text.slice(place, index)) + mark(character);
        place = index + character.length;
    }
    content += escape(text.slice(place));
    return isCut ? `<span class="sgpe-cut">${content}</span>` : content;
}

function mark(character) {
    if (character === " ") return '<span class="sgpe-space"> </span>';
    if (/\p{M}/u.test(character)) return `<span class="sgpe-accent">${character}</span>`;
    const point = character.codePointAt(0);
    const picture = point < 0x20 ? String.fromCodePoint(0x2400 + point) : point.toString(16).toUpperCase().padStart(4, "0");
    const kind = /[\u200c\u200d]/.test(character) ? "joiner" : "invisible";
    return `<span class="sgpe-${kind}" data-mark="${MARKS[character] ?? picture}">${escape(character)}</span>`;
}

const ESCAPES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;", "\0": "␀", "\r": "&#13;" };

export function escape(text) {
    return text.replace(/[&<>"'\0\r]/g, (character) => ESCAPES[character]);
}
