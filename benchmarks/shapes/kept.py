"""The rows that a run has kept: read again, and written with those that were timed again."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.shapes.table import Row, row_from_json


@dataclass(frozen=True)
class Kept:
    """A file of results: of which seed, what it says of itself, and its rows by their places."""

    seed: int
    about: str
    rows: tuple[Row, ...]

    def above(self, ratio: float, device: str) -> list[Row]:
        """Rows to time again, the slowest first: slower by more, wrong, or without a time."""
        again = [
            row
            for row in self.rows
            if row.wrong or row.ratio is None or (row.counts(device) and row.ratio > ratio)
        ]
        return sorted(again, key=lambda row: -(row.ratio or 0.0))

    def with_rows(self, rows: Sequence[Row], note: str) -> Kept:
        """With these in the place of those before, and a sentence that says which."""
        found = {row.index: row for row in (*self.rows, *rows)}
        places = ", ".join(str(row.index) for row in sorted(rows, key=lambda row: row.index))
        about = f"{self.about}. Again{f', {note}' if note else ''}: {places}"
        return replace(self, about=about, rows=tuple(found[place] for place in sorted(found)))

    def write(self, path: Path) -> None:
        """The file that `read_kept` reads."""
        found = {"seed": self.seed, "about": self.about, "rows": [r.to_json() for r in self.rows]}
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def read_kept(path: Path) -> Kept:
    """What a file of results has; older ones name their seed in what they say of themselves."""
    found = json.loads(path.read_text(encoding="utf-8"))
    seed = found.get("seed") or re.findall(r"^Seed (\d+)", found["about"])[0]
    return Kept(int(seed), found["about"], tuple(row_from_json(row) for row in found["rows"]))
