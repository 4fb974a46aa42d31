"""What a sweep found, as rows, and the page that shows them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.processes import Event
from benchmarks.shapes.cases import FAMILIES

SIDES = ("ours", "eager", "compile")
"""Who is timed; the last one is torch.compile, where that is asked for."""

FLOORS = {"cpu": 30e-6, "cuda": 60e-6}
"""Seconds of eager below which a time is that of a call, not of its work."""

AIMS = {"cpu": 0.7, "cuda": 0.9}
"""Geomean of a family."""

SLOWER = 1.15
"""A ratio above it is one too many."""

WORST = 12
"""So many of a family are listed, and all that are slower than eager by more."""


@dataclass
class Row:
    """A case's seconds and errors so far, by side, and what else there is to say."""

    index: int
    family: str
    text: str
    seconds: dict[str, float] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    wrong: str = ""
    notes: list[str] = field(default_factory=list)

    def take(self, event: Event) -> None:
        """Adds what a process tells; of several times of a side, the least counts."""
        who, _, what = event.what.partition(" ")
        if event.what == "wrong":
            self.wrong = event.text
        elif what == "error":
            self.errors[who] = event.seconds
        elif who in SIDES:
            self.seconds[who] = min(event.seconds, self.seconds.get(who, math.inf))
        elif event.text:
            self.notes.append(event.text)

    @property
    def ratio(self) -> float | None:
        """Ours over eager."""
        ours, eager = (self.seconds.get(who) for who in ("ours", "eager"))
        return None if ours is None or eager is None else ours / eager

    @property
    def of_compile(self) -> float | None:
        """Ours over torch.compile."""
        ours, compiled = (self.seconds.get(who) for who in ("ours", "compile"))
        return None if ours is None or compiled is None else ours / compiled

    def counts(self, device: str) -> bool:
        """Whether it has a ratio of work, not of calls."""
        return self.ratio is not None and self.seconds["eager"] > FLOORS[device]

    def line(self) -> str:
        """For the terminal."""
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        said = "; ".join([*([f"WRONG: {self.wrong}"] if self.wrong else []), *self.notes])
        times = " ".join(_time(self.seconds[who]) for who in SIDES if who in self.seconds)
        return f"{self.index:4d} {ratio:>6s} {times:19s} {self.text} {said}".rstrip()

    def to_json(self) -> dict[str, Any]:
        """Everything that was measured."""
        return {**vars(self), "ratio": self.ratio}


def row_from_json(found: Mapping[str, Any]) -> Row:
    """The row that `to_json` made it of."""
    return Row(**{key: value for key, value in found.items() if key != "ratio"})


def summary(rows: Sequence[Row], device: str) -> str:
    """A line a family: geomean, how many are slower, how many are wrong."""
    lines = [
        f"| family | cases | counted | geomean (aim: {AIMS[device]}) | slower than eager | "
        f"above {SLOWER} (aim: none) | outside the error rule (aim: none) | failed |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for family in (*FAMILIES, "all"):
        mine = [row for row in rows if family in (row.family, "all")]
        ratios = [row.ratio or 0.0 for row in mine if row.counts(device)]
        lines.append(
            f"| {family} | {len(mine)} | {len(ratios)} | {_mean(ratios):.2f} "
            f"| {sum(r > 1 for r in ratios)} | {sum(r > SLOWER for r in ratios)} "
            f"| {sum(bool(row.wrong) for row in mine)} | {sum(row.ratio is None for row in mine)} |"
        )
    return "\n".join(lines) + "\n"


def _mean(ratios: Sequence[float]) -> float:
    """The geometric one; NaN of none."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def beside_compile(rows: Sequence[Row], device: str) -> str:
    """A line a family of those that torch.compile was timed of; "" where there are none."""
    lines = [
        "| family | cases | torch.compile / eager | ours / torch.compile | ours is slower "
        f"| by more than {SLOWER} |",
        "|---|---|---|---|---|---|",
    ]
    for family in (*FAMILIES, "all"):
        mine = [row for row in rows if family in (row.family, "all") and row.counts(device)]
        ours = [row.of_compile for row in mine if row.of_compile]
        eager = [row.ratio or 0.0 for row in mine if row.of_compile]
        if ours:
            lines.append(
                f"| {family} | {len(ours)} | {_mean(eager) / _mean(ours):.2f} | {_mean(ours):.2f} "
                f"| {sum(r > 1 for r in ours)} | {sum(r > SLOWER for r in ours)} |"
            )
    return "\n".join(lines) + "\n" if len(lines) > 2 else ""


def page(rows: Sequence[Row], device: str, head: str) -> str:
    """A section of `benchmarks/results/shapes.md`: what it adds up to, the worst, the wrong."""
    parts = [head, summary(rows, device)]
    compiled = beside_compile(rows, device)
    if compiled:
        parts.append(compiled)
    for family in FAMILIES:
        mine = [row for row in rows if row.family == family and row.counts(device)]
        mine.sort(key=lambda row: -(row.ratio or 0.0))
        shown = [row for k, row in enumerate(mine) if k < WORST or (row.ratio or 0.0) > SLOWER]
        if shown:
            parts.append(f"### The slowest beside eager: {family}\n\n{_listed(shown)}")
    bad = [row for row in rows if row.wrong or row.notes]
    if bad:
        parts.append(f"### Outside the error rule, or failed\n\n{_listed(bad)}")
    return "\n".join(parts)


def _listed(rows: Sequence[Row]) -> str:
    lines = [
        "| place | case | ours | eager | ours / eager | error | of eager | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        ratio = "–" if row.ratio is None else f"{row.ratio:.2f}"
        times = " | ".join(_time(row.seconds.get(who)) for who in ("ours", "eager"))
        errors = " | ".join(
            f"{row.errors[who]:.1e}" if who in row.errors else "–" for who in ("ours", "eager")
        )
        said = "; ".join(filter(None, [row.wrong, *row.notes])).replace("|", "/")
        lines.append(f"| {row.index} | {row.text} | {times} | {ratio} | {errors} | {said} |")
    return "\n".join(lines) + "\n"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"
