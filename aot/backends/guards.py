"""Which operands of a selection are worth a branch: most vectors want one side of it only.

A selection evaluates both sides on all lanes. Where a side is dear (a series, the way far from the
origin) it is written behind a test that some lane wants it: neighbours in memory are often alike,
and where they are not, both sides are evaluated as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from aot.ir.dtypes import BOOL
from aot.ir.hints import op_weight
from aot.ir.scalar import Node, postorder

WORTH = 64
"""The price of a side, additions, from which on it is guarded: several times what a branch costs
that was foreseen wrongly, so that mixed vectors lose little."""

MOST_NESTED = 8
"""Guards within each other. A chain of selections, such as one of hundreds of parts side by side,
is dear as a whole from everywhere in it; more tests gain nothing, and text nests only so deep."""

_OUTSIDE = frozenset("const index load check_index reduce".split())
"""What is evaluated before the test: it is cheap, or has an effect, or is a reduction's."""


@dataclass(frozen=True)
class Guard:
    """How a selection is written.

    Attributes:
        sides: Of its operands 1 and 2, those behind a test.
        before: What is evaluated ahead of the test: all that the sides share with others.
        behind: What is evaluated where the test says so.
    """

    sides: tuple[int, ...]
    before: tuple[Node, ...]
    behind: frozenset[Node]


def find_guards(roots: Iterable[Node]) -> dict[Node, Guard]:
    """The selections below `roots` that have a dear side, which nothing else wants."""
    ends = list(roots)
    order = postorder(ends)
    if sum(op_weight(n) for n in order) < WORTH:
        return {}
    users: dict[Node, set[Node | None]] = {n: set() for n in order}
    for node in order:
        for arg in node.args:
            users[arg].add(node)
    for end in ends:
        users[end].add(None)
    found = {}
    for node in order:
        if node.op == "where" and node.dtype != BOOL:
            guard = _guard(node, order, users)
            if guard is not None:
                found[node] = guard
    return _outer_levels(found, order)


def _outer_levels(found: dict[Node, Guard], order: Sequence[Node]) -> dict[Node, Guard]:
    """The guards of the outermost `MOST_NESTED` levels."""
    level = dict.fromkeys(order, 1)
    kept = {}
    for node in reversed(order):
        guard = found.get(node)
        if guard is not None and level[node] <= MOST_NESTED:
            kept[node] = guard
            for inside in guard.behind:
                level[inside] = max(level[inside], level[node] + 1)
    return {node: kept[node] for node in found if node in kept}


def _guard(node: Node, order: Sequence[Node], users: dict[Node, set[Node | None]]) -> Guard | None:
    condition, *values = node.args
    sides, inside = [], set()
    for k, value in enumerate(values, 1):
        # Values in place of a constant are there for single points, poles for example.
        if values[2 - k].op == "const" or values[0] is values[1] or value is condition:
            continue
        own = _only_for(node, value, order, users)
        if sum(op_weight(n) for n in own) >= WORTH:
            sides.append(k)
            inside |= own
    if not sides:
        return None
    needed = [condition, *(v for k, v in enumerate(values, 1) if k not in sides)]
    needed += [a for n in order if n in inside for a in n.args if a not in inside]
    return Guard(tuple(sides), tuple(dict.fromkeys(needed)), frozenset(inside))


def _only_for(
    node: Node, value: Node, order: Sequence[Node], users: dict[Node, set[Node | None]]
) -> set[Node]:
    """What is evaluated for that operand of `node` alone."""
    own: set[Node] = set()
    for n in reversed(order):
        if n.op in _OUTSIDE:
            continue
        if (n is value and users[n] == {node}) or (n is not value and users[n] and users[n] <= own):
            own.add(n)
    return own
