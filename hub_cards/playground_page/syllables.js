// Text → written syllables: LinguisTrie of hf_sgpe/splitting/syllables.py, with the same tables.

export class LinguisTrie {
    // scripts: [{name, classes: {C: [[first, last], …], …}, orphans: [[first, last], …], grammar, ends}]
    constructor(scripts) {
        this.scriptOf = new Map();
        for (const script of scripts) {
            const classes = new Map();
            for (const [letter, ranges] of Object.entries(script.classes)) {
                for (const point of each(ranges)) classes.set(point, letter);
            }
            const table = { name: script.name, grammar: script.grammar, classes, ends: script.ends && new Set(script.ends) };
            for (const [point, letter] of classes) if (letter !== "J") this.scriptOf.set(point, table);
            for (const point of each(script.orphans)) this.scriptOf.set(point, table);
        }
    }

    // [start, stop] of each syllable of a text, which is given as code points. What is between them belongs to no script.
    *syllables(points) {
        for (let start = 0; start < points.length; ) {
            const script = this.scriptOf.get(points[start]);
            const stop = script ? walk(script, points, start) : start + 1;
            if (script) yield [start, stop];
            start = stop;
        }
    }
}

// Where the longest walk through the grammar from `start` ends, in a state where one may end; at least one character on.
function walk({ grammar, classes, ends }, points, start) {
    let state = grammar.start[classes.get(points[start])];
    let [place, end] = [start + 1, start + 1];
    while (state && place < points.length) {
        state = grammar[state][classes.get(points[place])];
        place += 1;
        if (state && (!ends || ends.has(state))) end = place;
    }
    return end;
}

function* each(ranges) {
    for (const [first, last] of ranges) for (let point = first; point <= last; point++) yield point;
}
