"""What a run found, as rows, and the page that shows them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.growth.fit import exponent
from benchmarks.growth.reasons import REASONS
from benchmarks.processes import Event

FLOOR = 50e-6
"""Seconds below which a time is that of a call, not of its work."""

STEEPER = 0.1
"""An exponent above eager's by more is one too many."""

SLOWER = 1.5
"""A ratio above it is one too many."""

STEEP, LEADING = " ▲", " △"
"""Marks of an exponent above eager's: of a row that has to be explained, and of one that leads."""

AIMS = {"cpu": 0.5, "cuda": 0.8}
"""Geomean of the ratios at the largest sizes."""


@dataclass
class Row:
    """A family's times so far: seconds by size for each side, and what else there is to say."""

    name: str
    seconds: dict[str, dict[int, float]] = field(default_factory=lambda: {"ours": {}, "eager": {}})
    notes: list[str] = field(default_factory=list)

    def take(self, event: Event) -> None:
        """Adds what a process tells; a later time of the same size is the better one."""
        if event.what in self.seconds:
            self.seconds[event.what][event.n] = event.seconds
        elif event.text:
            self.notes.append(f"{event.text} at {event.n}")

    @property
    def largest(self) -> int | None:
        """The largest size that both sides have a time of."""
        return max(set(self.seconds["ours"]) & set(self.seconds["eager"]), default=None)

    @property
    def ratio(self) -> float | None:
        """Ours over eager at that size."""
        n = self.largest
        return None if n is None else self.seconds["ours"][n] / self.seconds["eager"][n]

    def exponent(self, who: str) -> float | None:
        """That of a side's times, those at the floor left out."""
        return exponent([(n, s) for n, s in sorted(self.seconds[who].items()) if s > FLOOR])

    @property
    def ratios(self) -> list[float]:
        """Ours over eager at each size that both reached, the largest last."""
        both = sorted(set(self.seconds["ours"]) & set(self.seconds["eager"]))
        return [self.seconds["ours"][n] / self.seconds["eager"][n] for n in both]

    @property
    def steeper(self) -> bool:
        """Whether our time grows faster than eager's."""
        ours, eager = self.exponent("ours"), self.exponent("eager")
        return ours is not None and ours > max(eager or 0.0, 0.0) + STEEPER

    @property
    def leads(self) -> bool:
        """Whether ours is below eager at every size, and at one more step like the last one."""
        ratios = self.ratios
        if len(ratios) < 2 or max(ratios) >= 1.0:
            return False
        return ratios[-1] ** 2 / ratios[-2] < 1.0

    @property
    def is_exception(self) -> bool:
        """Whether the row is beyond a limit, so that there has to be a reason."""
        slower = self.ratio is not None and self.ratio > SLOWER
        return slower or (self.steeper and not self.leads)

    def to_json(self) -> dict[str, Any]:
        """Everything that was measured."""
        return {
            "name": self.name,
            "seconds": {
                who: {str(n): s for n, s in at.items()} for who, at in self.seconds.items()
            },
            "exponents": {who: self.exponent(who) for who in self.seconds},
            "ratio": self.ratio,
            "notes": self.notes,
        }


def row_from_json(found: dict[str, Any]) -> Row:
    """The row that `to_json` made it of."""
    seconds = {who: {int(n): s for n, s in at.items()} for who, at in found["seconds"].items()}
    return Row(found["name"], seconds, list(found["notes"]))


def page(rows: Iterable[Row], device: str, head: str) -> str:
    """A section of `benchmarks/results/growth.md`: what it adds up to, then a line a family."""
    ordered = sorted(rows, key=lambda row: (-(row.ratio or math.inf), row.name))
    lines = [
        "| family | n | ours | eager | exponent | of eager | ours / eager | |",
        "|---|---|---|---|---|---|---|---|",
        *(_line(row, REASONS[device]) for row in ordered),
    ]
    return f"{head}\n\n{summary(ordered, device)}\n\n" + "\n".join(lines) + "\n"


def summary(rows: Sequence[Row], device: str) -> str:
    """Geomean, how many are beyond the limits, and how many of these have no reason."""
    ratios = [row.ratio for row in rows if row.ratio is not None]
    if not ratios:
        return "Nothing was timed."
    mean = math.exp(sum(math.log(r) for r in ratios) / len(ratios))
    steep = [row for row in rows if row.steeper]
    leading = sum(row.leads for row in steep)
    beyond = [row for row in rows if row.is_exception]
    unexplained = sum(row.name not in REASONS[device] for row in beyond)
    return (
        f"{len(rows)} families, {len(ratios)} timed. At the largest sizes: geomean of ours / eager "
        f"{mean:.2f} (aim: {AIMS[device]}), {sum(r > SLOWER for r in ratios)} above {SLOWER} "
        f"(aim: none). {len(steep)} with an exponent above eager's by more than {STEEPER}: "
        f"{leading} of them △, {len(steep) - leading} ▲ (aim: none). Of the {len(beyond)} ▲ or "
        f"above {SLOWER}, **{unexplained} without a reason** (aim: none)."
    )


def _line(row: Row, reasons: Mapping[str, str]) -> str:
    sizes = sorted(set(row.seconds["ours"]) | set(row.seconds["eager"]))
    at = row.largest
    ours, eager = (_time(row.seconds[who].get(at or -1)) for who in ("ours", "eager"))
    ratio = "–" if row.ratio is None else f"{row.ratio:.2f}"
    steep = (LEADING if row.leads else STEEP) if row.steeper else ""
    span = f"{_size(sizes[0])} to {_size(at or sizes[-1])}" if sizes else "–"
    own, other = (_number(row.exponent(who)) for who in ("ours", "eager"))
    reason = [reasons.get(row.name, "**no reason yet**")] if row.is_exception else []
    note = "; ".join([*reason, *row.notes]).replace("|", "/")
    return f"| {row.name} | {span} | {ours} | {eager} | {own}{steep} | {other} | {ratio} | {note} |"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _size(n: int) -> str:
    power = round(math.log2(n))
    return f"2^{power}" if n == 1 << power and power > 9 else str(n)


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"
