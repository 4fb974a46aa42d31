"""Makes docs/operators.md, and the table that `aot-package ops --table` prints.

    python -m tools.operators

Both come from the result files of the OpInfo sweep (tests/conformance/opinfo/sweep.py).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from aot.report.operators import Cell, Coverage, OperatorRow, Refusal

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "operators.md"
KEPT = ROOT / "aot" / "report" / "operators.json"
COLUMNS = {"cpu": "CPU", "gpu": "GPU"}
FILES = {
    "cpu": "opinfo_cpu_x86_64_v3.json",
    "gpu": "opinfo_triton.json",
}
"""Column -> its title, and its result file in benchmarks/results."""

MOST_NAMED = 6
"""Operators that are named beside a reason."""

_HEAD = """# Operators

Each operator of PyTorch's OpInfo database, in every type that eager has it in, with PyTorch's own
samples: how many are packaged and give the right result (against float64; integers exactly), of how
many that were tried: on CPUs all samples of float32, bfloat16, int64 and bool, and samples of the
other types that a seed has chosen. Types of which all samples are right share a line.
CPU: packages, run. GPU: the generated Triton kernels in Triton's interpreter. Sizes are static.
Random operators are compared in type and shape. Sparse tensors are not counted (they are refused
when a package is built). Of what has several right results, such as `eigh` and `svd`, what those
share is compared: the products of factors, remainders, sums. Calls that eager refuses (OpInfo's
error inputs) are refused too: `python -m tests.conformance.opinfo.sweep --errors`.

This page is made by `python -m tools.operators` from benchmarks/results/opinfo_*.json, which
`make conformance` writes. `aot-package ops --table` prints the same. An operator that is not listed
was not tried since the files were last made.
"""

Results = Mapping[str, Mapping[str, Mapping[str, Any]]]


def read_results() -> dict[str, Results]:
    """Column -> operator -> type -> counts."""
    folder = ROOT / "benchmarks" / "results"
    return {
        column: json.loads((folder / name).read_text(encoding="utf-8"))["operators"]
        for column, name in FILES.items()
        if (folder / name).is_file()
    }


def make_coverage(results: Mapping[str, Results]) -> Coverage:
    """The table of all result files."""
    names = sorted({(op, d) for r in results.values() for op, of in r.items() for d in of})
    rows = [
        OperatorRow(
            op, dtype, tuple(_cell(results.get(c, {}).get(op, {}).get(dtype, {})) for c in COLUMNS)
        )
        for op, dtype in names
    ]
    kept = tuple(row for row in rows if any(cell.tried for cell in row.cells))
    return Coverage(COLUMNS, kept, tuple(_refusals(results)))


def _cell(entry: Mapping[str, Any]) -> Cell:
    right = int(entry.get("ok", 0))
    bad = sum(len(entry.get(kind, {})) for kind in ("wrong", "crash"))
    return Cell(right, right + bad + sum(entry.get("refused", {}).values()))


def _refusals(results: Mapping[str, Results]) -> Iterator[Refusal]:
    for column, table in results.items():
        found: dict[str, dict[str, int]] = {}
        for op, of_op in table.items():
            for entry in of_op.values():
                for reason, count in entry.get("refused", {}).items():
                    per_op = found.setdefault(reason, {})
                    per_op[op] = per_op.get(op, 0) + count
        for reason, per_op in sorted(found.items(), key=lambda r: (-sum(r[1].values()), r[0])):
            yield Refusal(column, reason, sum(per_op.values()), tuple(sorted(per_op)))


def markdown(table: Coverage) -> str:
    """The page."""
    lines = [_HEAD, "## Sums", *_heading("type")]
    for dtype, cells in table.totals():
        shares = (
            f"{100 * c.right / c.tried:.1f} % of {c.tried}" if c.tried else "-" for c in cells
        )
        lines.append(f"| {dtype} | " + " | ".join(shares) + " |")
    lines += ["", "## What is refused, and why", "| samples | where | reason | operators |"]
    lines.append("|---|---|---|---|")
    for r in table.refusals:
        named = ", ".join(r.operators[:MOST_NAMED]) + (
            " …" if len(r.operators) > MOST_NAMED else ""
        )
        reason = r.reason.replace("|", "\\|")
        lines.append(f"| {r.samples} | {COLUMNS[r.column]} | {reason} | {named} |")
    lines += ["", "## Every operator", *_heading("operator | type")]
    for operator, dtypes, cells in _joined(table.rows):
        lines.append(f"| {operator} | {dtypes} | " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def _joined(rows: Sequence[OperatorRow]) -> Iterator[tuple[str, str, tuple[Cell, ...]]]:
    """The rows; those of an operator whose samples are all right are one, in alphabetical order."""
    for operator, own in groupby(rows, lambda row: row.operator):
        right: list[OperatorRow] = []
        others: list[OperatorRow] = []
        for row in own:
            (right if all(c.right == c.tried for c in row.cells) else others).append(row)
        if right:
            names = ", ".join(row.dtype for row in right)
            columns = zip(*(row.cells for row in right), strict=True)
            yield operator, names, tuple(_summed(column) for column in columns)
        yield from ((operator, row.dtype, row.cells) for row in others)


def _summed(cells: Sequence[Cell]) -> Cell:
    return Cell(sum(c.right for c in cells), sum(c.tried for c in cells))


def _heading(first: str) -> Sequence[str]:
    titles = f"| {first} | " + " | ".join(COLUMNS.values()) + " |"
    return [titles, "|---" * (titles.count("|") - 1) + "|"]


def json_text(table: Coverage) -> str:
    """`operators.json`: one line for each operator, so that differences can be read."""
    kept = table.to_json()
    rows = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in kept["operators"].items())
    columns = json.dumps(kept["columns"])
    reasons = ",\n".join(f"  {json.dumps(r)}" for r in kept["refusals"])
    head = f'{{\n "columns": {columns},\n "operators": {{\n{rows}\n }},\n'
    return f'{head} "refusals": [\n{reasons}\n ]\n}}\n'


def main() -> int:
    """Writes the page and the table."""
    table = make_coverage(read_results())
    PAGE.write_text(markdown(table), encoding="utf-8")
    KEPT.write_text(json_text(table), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
