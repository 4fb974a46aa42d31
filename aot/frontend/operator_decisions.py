"""What operators decide on sizes when they are traced, in the way of the example.

A dimension is squeezed or stays, a position counts from the front or from the end, and what is read
is there. torch decides so for sizes of at least 2, and tells nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram

from aot.frontend.places import SourcePaths
from aot.frontend.size_decisions import SizeDecision, comparison_of

TracedSize = Any
"""An int, or torch's."""

_untyped: Any = torch
"""torch, for functions of it that have no types."""


def decisions_of(program: ExportedProgram, places: SourcePaths) -> tuple[SizeDecision, ...]:
    """The decisions of all operators of a program on dynamic sizes."""
    found: dict[SizeDecision, None] = {}
    for node in program.graph.nodes:
        given = [a.meta.get("val") if isinstance(a, torch.fx.Node) else a for a in node.args]
        if not given or not isinstance(given[0], torch.Tensor) or not given[0].dim():
            continue
        operator = str(node.target)
        place = places.origin(node.meta.get("stack_trace"), operator).place or operator
        for left, sign, right in _conditions(operator, given, node.meta.get("val")):
            if any(isinstance(side, torch.SymInt) for side in (left, right)):
                comparison = comparison_of(left, sign, right)
                found.setdefault(SizeDecision(comparison, answer=True, place=place))
    return tuple(found)


def _conditions(
    operator: str, given: Sequence[Any], result: Any
) -> Iterator[tuple[TracedSize, str, TracedSize]]:
    x = given[0]
    if operator.startswith("aten.squeeze."):
        listed = given[1] if len(given) > 1 else range(x.dim())
        for axis in [listed] if isinstance(listed, int) else listed:
            yield x.shape[axis], "!=", 1
    elif operator.startswith("aten.select.") and len(given) == 3:
        size = x.shape[given[1]]
        yield from _signs(given[2])
        first = given[2] + size if _is_negative(given[2]) else given[2]
        yield first, ">=", 0
        yield first, "<", size
    elif operator.startswith("aten.slice.") and isinstance(result, torch.Tensor):
        axis, start = (*given[1:3], 0, 0)[:2] if len(given) > 1 else (0, 0)
        step = given[4] if len(given) > 4 else 1
        yield from _slice(x.shape[axis], result.shape[axis], 0 if start is None else start, step)


def _slice(
    size: TracedSize, length: TracedSize, start: TracedSize, step: int
) -> Iterator[tuple[TracedSize, str, TracedSize]]:
    yield from _signs(start)
    first = start + size if _is_negative(start) else start
    if _is_negative(first):  # in front of all that there is, as a window that is not full yet
        yield first, "<=", 0
        first = 0
    else:
        yield first, ">=", 0
    yield length, ">=", 0
    # Nothing is read where the length is 0: then the left side is the last one of the right.
    yield (length - 1) * step + 1, "<=", _untyped.sym_max(size - first, 1 - step)


def _signs(position: TracedSize) -> Iterator[tuple[TracedSize, str, TracedSize]]:
    if isinstance(position, torch.SymInt):
        yield position, "<" if _is_negative(position) else ">=", 0


def _is_negative(position: TracedSize) -> bool:
    hint = position.node.hint if isinstance(position, torch.SymInt) else position
    return hint is not None and int(hint) < 0
