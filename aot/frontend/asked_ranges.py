"""The sizes that the user asked for, held against what the model needs of them.

torch.export refuses a range where it cannot prove a condition of the model for all of it, and it
proves little: not that n // 2 <= n, nor that x[::2] has rows. Such ranges are given to it as hints,
for which it says its conditions, and these are tried here at every size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from aot.errors import DynamicShapeError
from aot.frontend.open_dims import TRACED
from aot.frontend.sizes import holds, labels_of, ranges_of
from aot.ir.tensors import Dim, SizeRelation
from aot.symbolic import Symbol, dim, evaluate

Range = tuple[int, int]
"""Least and greatest size, both of them allowed."""

_MOST = 2**22
"""Sizes, or combinations of sizes, at which a relation is tried."""

_HOLDS = {"<": np.less, "<=": np.less_equal, "==": np.equal}

_ADVICE = (
    "Give the named dimensions the range that the model allows, Dim(…, min=…, max=…), or multiples "
    "of one, 4 * Dim(…)."
)


def check_bounds(
    asked: Mapping[str, Range], bounds: Mapping[str, tuple[int, int | None]], dims: Iterable[Dim]
) -> None:
    """Holds the ranges that torch found against those that were asked for.

    Args:
        asked: Symbols whose range the user gave.
        bounds: torch's ranges; a least size of `TRACED` is none of the model's.
        dims: What the user calls the symbols.

    Raises:
        DynamicShapeError: The model allows fewer sizes.
    """
    labels = labels_of(dims)
    for name, (low, high) in asked.items():
        least, most = bounds.get(name, (0, None))
        label = labels.get(dim(name), name)
        if most is not None and most < high:
            raise _narrower(f"{label} = {high}", f"the model needs {label} <= {most}")
        if least > max(low, TRACED):
            raise _narrower(f"{label} = {low}", f"the model needs {label} >= {least}")


def check_relations(
    relations: Iterable[SizeRelation], dims: Sequence[Dim], asked: Mapping[str, Range]
) -> tuple[SizeRelation, ...]:
    """The relations but those that hold at all sizes that were asked for.

    One over sizes whose range the user left open stays, and one with too many sizes to try: a run
    checks them.

    Raises:
        DynamicShapeError: A relation does not hold at sizes that were asked for.
    """
    labels, known = labels_of(dims), ranges_of(dims)
    kept: list[SizeRelation] = []
    for r in relations:
        if holds(r, known):
            continue
        symbols = sorted(map(str, r.left.free_symbols | r.right.free_symbols))
        ranges = [asked[name] for name in symbols if name in asked]
        if len(ranges) < len(symbols) or prod(b - a + 1 for a, b in ranges) > _MOST:
            kept.append(r)
            continue
        broken = _first_broken(r, symbols, ranges)
        if broken is not None:
            sizes = ", ".join(f"{labels[dim(name)]} = {n}" for name, n in broken.items())
            raise _narrower(sizes, r.message)
    return tuple(kept)


def check_example(
    relations: Iterable[SizeRelation], dims: Sequence[Dim], sizes: Mapping[Symbol, int]
) -> None:
    """Holds the example's own sizes, 0 or 1 of which tracing replaces, against the relations.

    Args:
        relations: Of the model.
        dims: What the user calls the symbols.
        sizes: Symbols, with the example's sizes; what is not among them is not looked at.

    Raises:
        DynamicShapeError: The model does something else at the example's sizes.
    """
    for r in relations:
        symbols = r.left.free_symbols | r.right.free_symbols
        if not symbols <= sizes.keys():
            continue
        if is_met(r, sizes):
            continue
        labels = labels_of(dims)
        given = ", ".join(f"{labels[s]} = {sizes[s]}" for s in sorted(symbols, key=str))
        raise DynamicShapeError(
            f"the example has {given}, where the model does something else: {r.message}",
            advice="Give a larger example, of at least 2 elements along dynamic dimensions and "
            "in what the model computes of them; make a dimension static that always has this "
            "size.",
        )


def is_met(relation: SizeRelation, sizes: Mapping[Symbol, int]) -> bool:
    """Whether a relation holds at these sizes, which are all of its own."""
    sides = evaluate(relation.left, sizes), evaluate(relation.right, sizes)
    return bool(_HOLDS[relation.relation](*sides))


def _first_broken(
    r: SizeRelation, symbols: Sequence[str], ranges: Sequence[Range]
) -> dict[str, int] | None:
    """The least sizes at which a relation does not hold; None where it holds at all."""
    grids = np.meshgrid(
        *(np.arange(a, b + 1, dtype=np.int64) for a, b in ranges), indexing="ij", sparse=True
    )
    values: dict[Any, Any] = {dim(name): grid for name, grid in zip(symbols, grids, strict=True)}
    holds = _HOLDS[r.relation](evaluate(r.left, values), evaluate(r.right, values))
    if np.all(holds):
        return None
    shape = [b - a + 1 for a, b in ranges]
    at = np.unravel_index(int(np.argmin(np.broadcast_to(holds, shape))), shape)
    return {name: int(low) + int(k) for name, (low, _), k in zip(symbols, ranges, at, strict=True)}


def _narrower(sizes: str, reason: str) -> DynamicShapeError:
    return DynamicShapeError(
        f"the model does not allow {sizes}, which the dynamic shapes include: {reason}",
        advice=_ADVICE,
    )
