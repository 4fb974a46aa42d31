"""Loops within the vector loop: what does not depend on them is computed once for all their points.

Interpolation at places that a tensor names computes positions and weights from the places, and all
channels share them: with the channels within the vector loop over places, they are computed once
for each vector of places, not once more for each channel.
"""

from __future__ import annotations

from collections.abc import Sequence

from aot.ir.hints import Hints, op_weight
from aot.ir.machine import Machine
from aot.ir.nests import Axis, LoopNest
from aot.ir.scalar import Access, Node, named_symbols, postorder
from aot.symbolic import Symbol


def axis_within(
    hints: Hints,
    machine: Machine,
    nests: Sequence[LoopNest],
    vector: Axis,
    candidates: Sequence[Axis],
) -> Axis | None:
    """The axis that is best within the loop over `vector`; None where none is worth it.

    What is stored lies apart from turn to turn then, which costs little beside what is saved.
    """
    if not candidates:
        return None
    roots = [root for nest in nests for root in nest.roots]
    named = _dependence(roots)
    prices = {n: _price(machine, named, n, vector) for n in named}
    total = sum(prices.values())
    best, least = None, min(total / machine.within_gain, total - machine.within_saved)
    for axis in candidates:
        shared = sum(
            price
            for n, price in prices.items()
            if vector.symbol in named[n] and axis.symbol not in named[n]
        )
        price = total - shared + shared / max(1, hints.value(axis.extent))
        if price < least:
            best, least = axis, price
    return best


def _dependence(roots: Sequence[Node]) -> dict[Node, frozenset[Symbol]]:
    """What each node's value depends on: loop variables and sizes."""
    found: dict[Node, frozenset[Symbol]] = {}
    for node in postorder(roots):
        found[node] = named_symbols(node).union(*(found[a] for a in node.args))
    return found


def _price(
    machine: Machine, named: dict[Node, frozenset[Symbol]], node: Node, vector: Axis
) -> float:
    """Of a vector of the node's values."""
    scattered = isinstance(node.attr, Access) and any(
        vector.symbol in named[a] for a in node.args[: len(node.attr.binds)]
    )
    return machine.scattered_price if scattered else float(op_weight(node))
