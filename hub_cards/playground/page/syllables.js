// Text → written syllables: LinguisTrie of hf_sgpe/splitting/syllables.py, with the same tables.

export class LinguisTrie {
    // scripts: [{name, isSpaced, classes: {C: [[first, last], …], …}, grammar, ends}], and the classes of characters that every script shares
    constructor(scripts, shared) {
        const inEvery = classesOf(shared);
        this.scriptOf = new Map();
        for (const script of scripts) {
            const classes = classesOf(script.classes);
            const classOf = (point) => classes.get(point) ?? inEvery.get(point);
            const table = { name: script.name, isSpaced: script.isSpaced, grammar: script.grammar, classOf, ends: script.ends && new Set(script.ends) };
            for (const point of classes.keys()) this.scriptOf.set(point, table);
        }
    }

    // [start, stop] of each syllable of a text in code points. Text between syllables belongs to no script.
    *syllables(points) {
        for (let start = 0; start < points.length; ) {
            const script = this.scriptOf.get(points[start]);
            const stop = script ? walk(script, points, start) : start + 1;
            if (script) yield [start, stop];
            start = stop;
        }
    }
}

// The end of the longest walk through the grammar from `start` that ends in a final state; at least one character on.
function walk({ grammar, classOf, ends }, points, start) {
    let state = grammar.start[classOf(points[start])];
    let [place, end] = [start + 1, start + 1];
    while (state && place < points.length) {
        state = grammar[state][classOf(points[place])];
        place += 1;
        if (state && (!ends || ends.has(state))) end = place;
    }
    return end;
}

// Code point → class.
function classesOf(ranges) {
    const classes = new Map();
    for (const [letter, runs] of Object.entries(ranges)) {
        for (const [first, last] of runs) for (let point = first; point <= last; point++) classes.set(point, letter);
    }
    return classes;
}
