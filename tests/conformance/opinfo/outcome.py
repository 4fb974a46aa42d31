"""What became of a case, and counts of that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

OK, REFUSED, WRONG, CRASH, OUT = "ok", "refused", "wrong", "crash", "out"
"""Packaged and right; refused when the package is built; a wrong result; our process died, hung or
raised what is no error for users; of a foreign type, so that it does not count."""


@dataclass(frozen=True)
class Outcome:
    """What became of one case. `reason`: why it is not ok; `label`: the case in words."""

    op: str
    dtype: str
    number: int
    kind: str
    reason: str = ""
    label: str = ""


Table = dict[str, dict[str, dict[str, Any]]]
"""Operator -> type -> {"ok": n, "refused": {reason: n}, "wrong": {label: reason}, "crash": …}."""


def tabulate(outcomes: Iterable[Outcome]) -> Table:
    """Counts, with reasons for what is refused and names of the cases that are wrong."""
    table: Table = {}
    for outcome in outcomes:
        entry = table.setdefault(outcome.op, {}).setdefault(outcome.dtype, {OK: 0})
        if outcome.kind == OK:
            entry[OK] += 1
        elif outcome.kind in (REFUSED, OUT):
            reasons = entry.setdefault(outcome.kind, {})
            reasons[outcome.reason] = reasons.get(outcome.reason, 0) + 1
        else:
            entry.setdefault(outcome.kind, {})[outcome.label] = outcome.reason
    return {
        op: {dtype: entry for dtype, entry in sorted(of_op.items())}
        for op, of_op in sorted(table.items())
    }


def count(entry: Mapping[str, Any], kind: str) -> int:
    """How many cases of a table's entry ended so."""
    found = entry.get(kind, 0)
    if isinstance(found, int):
        return found
    return sum(found.values()) if kind in (REFUSED, OUT) else len(found)


def totals(table: Table) -> dict[str, Counter[str]]:
    """Type -> kind -> cases."""
    sums: dict[str, Counter[str]] = {}
    for of_op in table.values():
        for dtype, entry in of_op.items():
            counter = sums.setdefault(dtype, Counter())
            for kind in (OK, REFUSED, WRONG, CRASH, OUT):
                counter[kind] += count(entry, kind)
    return sums
