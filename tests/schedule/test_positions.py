"""Searches in two steps: the nest that finds the best part, and the position that follows."""

from __future__ import annotations

import pytest

from aot.ir.dtypes import FLOAT32, INT64
from aot.ir.nests import Axis, LoopNest, Store
from aot.ir.origin import Origin
from aot.ir.scalar import load, reduce_
from aot.schedule.positions import best_part, extreme, position
from aot.symbolic import integer, var
from tests.schedule.steps import text

ROW, PART, PLACE = (Axis(var(n), integer(s)) for n, s in (("i0", 3), ("p", 4), ("r0", 8)))


@pytest.mark.parametrize("kind", ["max", "min"])
def test_the_first_part_with_the_extreme_has_the_position(kind: str) -> None:
    at = (ROW.symbol, PART.symbol * 8 + PLACE.symbol)
    search = reduce_(f"arg{kind}", load("x", FLOAT32, at))
    assert extreme(search) is reduce_(kind, search.args[0])
    own = (PART.symbol, ROW.symbol)
    values, places = Store("values", own, extreme(search)), Store("places", own, search)
    found = Store("found", (ROW.symbol,), search)
    nest = LoopNest("n", (ROW,), (PART, PLACE), (found,), Origin("", ""))
    best, part = best_part(nest, search, values, "best", PART)
    assert text(best) == f"n_best = nest(i0<3 | p<4) {{ best[i0] = arg{kind}(values[p, i0]) }}"
    where = position(nest, places, part, (PLACE,))
    assert where.dtype == INT64
    result = LoopNest("n", (ROW,), (), (Store("found", (ROW.symbol,), where),), nest.origin)
    assert "found[i0] = (v0 * 8) + places[v0, i0]" in text(result)
    assert "best[i0]" in text(result)
