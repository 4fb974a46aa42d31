"""What the last conformance run says of each operator of PyTorch: `aot-package ops --table`.

`operators.json` beside this module is made from the run's result files by `tools/operators.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class Cell:
    """Samples of PyTorch's that are packaged and right, of how many."""

    right: int
    tried: int

    def __str__(self) -> str:
        """`12/14`; "-" where nothing was tried."""
        return f"{self.right}/{self.tried}" if self.tried else "-"


@dataclass(frozen=True)
class OperatorRow:
    """An operator in a type: one cell for each column."""

    operator: str
    dtype: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Refusal:
    """Why samples are not packaged: how many, of which operators, in which column."""

    column: str
    reason: str
    samples: int
    operators: tuple[str, ...]


@dataclass(frozen=True)
class Coverage:
    """The table and its reasons. `columns`: what was tried, with titles."""

    columns: Mapping[str, str]
    rows: tuple[OperatorRow, ...]
    refusals: tuple[Refusal, ...]

    def totals(self) -> Iterator[tuple[str, tuple[Cell, ...]]]:
        """Each type with its sums."""
        for dtype in dict.fromkeys(row.dtype for row in self.rows):
            own = [row.cells for row in self.rows if row.dtype == dtype]
            yield (
                dtype,
                tuple(
                    Cell(sum(c.right for c in column), sum(c.tried for c in column))
                    for column in zip(*own, strict=True)
                ),
            )

    def to_json(self) -> dict[str, Any]:
        """As kept in `operators.json`."""
        operators: dict[str, dict[str, Any]] = {}
        for row in self.rows:
            cells = {
                column: [cell.right, cell.tried]
                for column, cell in zip(self.columns, row.cells, strict=True)
                if cell.tried
            }
            operators.setdefault(row.operator, {})[row.dtype] = cells
        refusals = [
            {
                "column": r.column,
                "reason": r.reason,
                "samples": r.samples,
                "operators": list(r.operators),
            }
            for r in self.refusals
        ]
        return {"columns": dict(self.columns), "operators": operators, "refusals": refusals}


def from_json(kept: Mapping[str, Any]) -> Coverage:
    """The inverse of `Coverage.to_json`."""
    columns: dict[str, str] = dict(kept["columns"])
    rows = [
        OperatorRow(name, dtype, tuple(Cell(*cells.get(column, (0, 0))) for column in columns))
        for name, of_dtype in kept["operators"].items()
        for dtype, cells in of_dtype.items()
    ]
    refusals = [
        Refusal(r["column"], r["reason"], r["samples"], tuple(r["operators"]))
        for r in kept["refusals"]
    ]
    return Coverage(columns, tuple(rows), tuple(refusals))


def coverage() -> Coverage:
    """The kept table."""
    text = resources.files("aot.report").joinpath("operators.json").read_text(encoding="utf-8")
    return from_json(json.loads(text))


def coverage_text(table: Coverage) -> str:
    """The table for a terminal: sums, every operator and type, then what is refused and why."""
    head = ("operator", "type", *table.columns.values())
    lines = [("all", dtype, *map(str, cells)) for dtype, cells in table.totals()]
    lines += [(row.operator, row.dtype, *map(str, row.cells)) for row in table.rows]
    widths = [max(map(len, column)) for column in zip(head, *lines, strict=True)]
    text = [
        "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip()
        for line in (head, *lines)
    ]
    text.append("\nrefused")
    text += [f"{r.samples:6}  {r.column}  {r.reason}" for r in table.refusals]
    return "\n".join(text)
