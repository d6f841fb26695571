"""Print a table of the parts that scripts/test.sh ran: minutes, tests that passed, failed and were skipped, and why.

Usage: python tests/tools/report.py FOLDER

FOLDER holds ``parts``, with a line "NAME STATUS SECONDS" for each part, the reports of pytest as NAME.*.xml, and in
NAME.skipped the reason why a part did not run. The exit code is 1 if a part failed. Needs Python alone.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

SKIPPED = 77
"""Exit code of a part that cannot run here."""


@dataclass
class Part:
    """A part, and the outcomes of its tests."""

    name: str
    status: int
    seconds: int
    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def result(self) -> str:
        return {0: "passed", SKIPPED: "skipped"}.get(self.status, "FAILED")


def read(folder: Path) -> list[Part]:
    """Read the parts of a run."""
    parts = []
    for line in (folder / "parts").read_text(encoding="utf-8").splitlines():
        name, status, seconds = line.split()
        part = Part(name, int(status), int(seconds))
        for path in sorted(folder.glob(f"{name}.*.xml")):
            for case in ElementTree.parse(path).iter("testcase"):
                kinds = {child.tag for child in case}
                outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
                part.outcomes[outcome] += 1
                if outcome == "skipped":
                    part.reasons[case.find("skipped").get("message", "")] += 1  # type: ignore[union-attr]
        reason = folder / f"{name}.skipped"
        if reason.exists():
            part.reasons[reason.read_text(encoding="utf-8").strip()] += 1
        parts.append(part)
    return parts


def table(parts: list[Part]) -> str:
    """Return the table, and a line for each reason to skip tests."""
    lines = [f"\n{'part':<12} {'minutes':>7} {'passed':>7} {'failed':>7} {'skipped':>7}"]
    for part in parts:
        counts = " ".join(f"{part.outcomes[kind]:>7,}" for kind in ("passed", "failed", "skipped"))
        lines.append(f"{part.name:<12} {part.seconds / 60:>7.1f} {counts}  {part.result}")
    lines.append(f"{'all':<12} {sum(part.seconds for part in parts) / 60:>7.1f}")
    for part in parts:
        lines += [f"{part.name}: {number:,} skipped: {reason}" for reason, number in part.reasons.most_common()]
    return "\n".join(lines)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found = read(Path(sys.argv[1]))
    print(table(found))
    sys.exit(any(part.status not in (0, SKIPPED) for part in found))
