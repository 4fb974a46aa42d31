"""What a run found, as rows of a file of numbers, and the page that shows them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.works.workloads import WORKLOADS

HEAD = """# Whole workloads beside eager PyTorch

Written by `make works` (benchmarks/works). Each network is packaged in its real size, checked
against float64 (an error of at most three times eager's own), and timed in turn with eager.
Aim: at most eager's time everywhere.
"""

TITLES = {"cpu": "CPU", "cuda": "GPU"}


@dataclass(frozen=True)
class Times:
    """Median seconds of a call by side ("ours", "eager"); `threads` 0: on a GPU."""

    threads: int
    seconds: Mapping[str, float]

    @property
    def ratio(self) -> float:
        """Ours over eager."""
        return self.seconds["ours"] / self.seconds["eager"]


@dataclass(frozen=True)
class Row:
    """One workload on one device; `wrong` says what is, if anything."""

    name: str
    wrong: str
    kernels: int = 0
    packaging: float = 0.0
    times: Sequence[Times] = ()

    def line(self) -> str:
        """For the terminal."""
        ratios = " ".join(f"{t.threads or 'GPU'}: {t.ratio:.2f}" for t in self.times)
        return f"{self.name:20s} {ratios} {self.wrong}"


@dataclass(frozen=True)
class Length:
    """What packaging an LSTM of so many steps took: seconds, and what processors worked."""

    steps: int
    dynamic: bool
    kernels: int
    seconds: float
    worked: float

    def line(self) -> str:
        """For the page."""
        steps = f"{self.steps}, dynamic" if self.dynamic else str(self.steps)
        return f"| {steps} | {self.kernels} | {self.seconds:.1f} s | {self.worked:.1f} s |"


def read_rows(path: Path) -> list[Row]:
    """The rows of an earlier run; none if there was none."""
    if not path.exists():
        return []
    found = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return [_row(row) for row in found]


def _row(found: Mapping[str, Any]) -> Row:
    times = tuple(Times(**t) for t in found["times"])
    return Row(**{**found, "times": times})


def write_rows(path: Path, about: str, rows: Iterable[Row]) -> None:
    """Writes everything that was measured."""
    found = {"about": about, "rows": [asdict(row) for row in rows]}
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def write_page(folder: Path) -> None:
    """Writes `works.md`, of what the folder has of each device."""
    parts = [HEAD]
    for device, title in TITLES.items():
        path = folder / f"works_{device}.json"
        if path.exists():
            about = json.loads(path.read_text(encoding="utf-8"))["about"]
            parts.append(f"## {title}\n\n{about}\n\n{table(read_rows(path))}")
    lengths = folder / "works_lengths.json"
    if lengths.exists():
        found = json.loads(lengths.read_text(encoding="utf-8"))
        parts.append(_lengths(found["about"], [Length(**row) for row in found["rows"]]))
    (folder / "works.md").write_text("\n".join(parts), encoding="utf-8")


def _lengths(about: str, rows: Iterable[Length]) -> str:
    lines = [
        "## Packaging an LSTM, by its length",
        "",
        "For one CPU level, by `python -m benchmarks.works.lengths`; the last column is the time "
        "that processors worked.",
        "Aim: below 5 s at any length.",
        "",
        *([about, ""] if about else []),
        "| steps | kernels | packaged in | worked |",
        "|---|---|---|---|",
        *(row.line() for row in rows),
    ]
    return "\n".join(lines) + "\n"


def table(rows: Iterable[Row]) -> str:
    """A line for each row and setting, in the order of the table of workloads."""
    named = {row.name: row for row in rows}
    lines = [
        "| workload | what | kernels | packaged in | threads | ours | eager | ours / eager | |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for workload in WORKLOADS:
        if workload.name in named:
            lines += _lines(named[workload.name], workload.size)
    return "\n".join(lines) + "\n"


def _lines(row: Row, size: str) -> list[str]:
    wrong = row.wrong.replace("|", "/")
    if not row.times:
        return [f"| {row.name} | {size} | – | – | – | – | – | – | {wrong} |"]
    about = f"{row.name} | {size} | {row.kernels} | {row.packaging:.1f} s"
    return [
        f"| {about if not k else ' | | | '} | {t.threads or '–'} | {_time(t.seconds['ours'])} | "
        f"{_time(t.seconds['eager'])} | {_ratio(t.ratio)} | {wrong} |"
        for k, t in enumerate(row.times)
    ]


def _ratio(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else "–"


def _time(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"
