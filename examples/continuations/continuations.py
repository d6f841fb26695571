"""Questions for continuations.yaml: which of four ends belongs to the beginning of a line?"""

import random

LEAST = 40
"""Number of characters of the shortest line that is used."""


def questions(lines):
    """Return a data set of questions. The three wrong ends of a line are the ends of other lines."""
    from datasets import Dataset

    different = dict.fromkeys(line.strip() for line in lines["text"])
    halves = [_halves(line) for line in different if len(line) >= LEAST]
    if len(halves) < 4:
        raise SystemExit(f"held-out.txt: give at least four different lines of at least {LEAST} characters")
    draw = random.Random(1)
    made = []
    for number, (beginning, end) in enumerate(halves):
        others = draw.sample([other for other, _ in enumerate(halves) if other != number], 3)
        ends = [end, *(halves[other][1] for other in others)]
        draw.shuffle(ends)
        made.append({"beginning": beginning, "ends": ends, "answer": ends.index(end)})
    return Dataset.from_list(made)


def _halves(line):
    """Cut a line at the space that is nearest to its middle; without a space, in the middle. The space is in neither part,
    because lm_eval puts one between them.
    """
    middle = len(line) // 2
    spaces = [place for place, letter in enumerate(line) if letter == " "]
    cut = min(spaces, key=lambda place: abs(place - middle), default=middle)
    return line[:cut], line[cut:].strip()
