"""Places of true elements: nests and parts give what the template means."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from aot.ir.dtypes import BOOL, FLOAT32, INT64, DType
from aot.ir.loops import LoopGraph
from aot.ir.nests import LoopNest
from aot.ir.templates import Scan, TruePlaces, TruePlacesSupport
from aot.ir.templates.base import Parts
from aot.lowering.builder import GraphBuilder, Tensor, identity_view
from aot.passes.expand_templates import expand_templates
from aot.passes.split_templates import split_templates
from aot.symbolic import integer
from tests.schedule.graphs import BARE, BATCH, S0, Size, interpret, make_graph, replace
from tests.settings import seeded

PARTED = replace(
    BARE,
    templates=(TruePlacesSupport(TruePlaces, parts=Parts(longest=4, least=4, room=1)),),
    units=1 << 20,
)


def places(shape: tuple[Size, ...], wanted: int, dtype: DType = FLOAT32) -> LoopGraph:
    def body(builder: GraphBuilder, x: Tensor) -> list[Tensor]:
        size = (integer(wanted), integer(len(shape)))
        return [builder.template(partial(TruePlaces, x=identity_view(x)), size, INT64)]

    return make_graph(body, {"x": shape}, {}, (BATCH,), {"x": dtype})


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(seeded()).integers(-1, 2, shape)


@pytest.mark.parametrize("change", ("nests", "parts"))
@pytest.mark.parametrize("dtype", [FLOAT32, INT64, BOOL], ids=str)
def test_what_takes_its_place_gives_the_same(change: str, dtype: DType) -> None:
    for size in (1, 3, 7):
        x = values(size, 5).astype(dtype.numpy)
        graph = places((S0, 5), np.count_nonzero(x), dtype)
        changed = split_templates(graph, PARTED) if change == "parts" else graph
        changed = expand_templates(changed, BARE) if change == "nests" else changed
        assert changed is not graph
        (expected,) = interpret(graph, {"x": x}, {}, {"s0": size})
        (found,) = interpret(changed, {"x": x}, {}, {"s0": size})
        np.testing.assert_array_equal(expected, np.argwhere(x))
        np.testing.assert_array_equal(found, expected)


def test_parts_are_counted_scanned_and_walked() -> None:
    graph = split_templates(places((8, 5), 3), PARTED)
    count, running, call = graph.ops
    assert isinstance(count, LoopNest) and isinstance(running, Scan)
    assert isinstance(call, TruePlaces) and call.part == 4 and call.before is not None
    assert split_templates(graph, PARTED) is graph


def test_few_elements_are_one_units() -> None:
    graph = places((2, 2), 3)
    assert split_templates(graph, PARTED) is graph


def test_work_is_the_elements() -> None:
    (call,) = places((8, 5), 3).ops
    assert isinstance(call, TruePlaces) and call.flops() == 40
