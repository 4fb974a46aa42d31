"""Bags: what they mean and cost, as nests, and in parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from aot.ir.dtypes import FLOAT32, INT32, INT64, DType
from aot.ir.loops import LoopGraph
from aot.ir.machine import Machine
from aot.ir.nests import LoopNest
from aot.ir.origin import NO_ORIGIN
from aot.ir.templates import BagParts, Bags, BagsSupport
from aot.ir.tensors import Dim
from aot.ir.verify import verify_loops
from aot.lowering.builder import GraphBuilder, Tensor, identity_view
from aot.passes.expand_templates import expand_templates
from aot.passes.split_templates import split_templates
from aot.symbolic import dim
from tests.ir.templates.views import view
from tests.schedule.graphs import BARE, DEVICE, interpret, make_graph
from tests.settings import seeded

BEGINS, ENDS = np.array([0, 3, 3, 9]), np.array([3, 3, 9, 12])
SHAPES = {"x": (5, 4), "begins": (4,), "ends": (4,), "rows": (12,), "weights": (12,)}
POINTS = Dim("s0", 0, 99999, 4000, (0, 0, 3, 0), "points")


def bags(combine: str, *given: str, skipped: int | None = None) -> Callable[..., Sequence[Tensor]]:
    """The call of the operands x, begins, ends and those given."""

    def body(builder: GraphBuilder, *tensors: Tensor) -> Sequence[Tensor]:
        x, begins, ends, *more = tensors
        call = partial(
            Bags,
            x=identity_view(x),
            begins=identity_view(begins),
            ends=identity_view(ends),
            combine=combine,
            skipped=skipped,
            **{name: identity_view(t) for name, t in zip(given, more, strict=True)},
        )
        return [builder.template(call, (begins.shape[0], x.shape[1]), x.dtype.compute)]

    return body


def graph_of(
    combine: str, *given: str, skipped: int | None = None, dtype: DType = FLOAT32
) -> LoopGraph:
    shapes = {name: SHAPES[name] for name in ("x", "begins", "ends", *given)}
    if "rows" not in given:
        shapes["x"] = (12, 4)
    dtypes = {"x": dtype, "begins": INT64, "ends": INT64, "rows": INT64}
    return make_graph(bags(combine, *given, skipped=skipped), shapes, dtypes=dtypes)


def inputs(graph: LoopGraph) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seeded())
    found = {"begins": BEGINS, "ends": ENDS}
    for name in graph.inputs:
        shape = tuple(int(s) for s in graph.buffers[name].shape)
        if name == "rows":
            found[name] = rng.integers(0, 5, shape)
        elif name not in found:
            found[name] = rng.integers(-3, 4, shape).astype(graph.buffers[name].dtype.numpy)
    return found


@pytest.mark.parametrize("combine", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("dtype", [FLOAT32, INT64, INT32], ids=str)
def test_each_bag_is_reduced(combine: str, dtype: DType) -> None:
    graph = graph_of(combine, dtype=dtype)
    given = inputs(graph)
    (found,) = interpret(graph, given, {}, {})
    reduce = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}[combine]
    for bag in (0, 2, 3):
        expected = reduce(given["x"][BEGINS[bag] : ENDS[bag]], axis=0)
        np.testing.assert_array_equal(found[bag], expected)
    if dtype == FLOAT32:
        neutral = {"sum": 0, "prod": 1, "max": -np.inf, "min": np.inf}[combine]
        np.testing.assert_array_equal(found[1], np.full(4, neutral))


def test_points_name_rows_with_weights_and_some_do_not_count() -> None:
    graph = graph_of("sum", "rows", "weights", skipped=2)
    given = inputs(graph)
    (found,) = interpret(graph, given, {}, {})
    weights = np.where(given["rows"] == 2, 0, given["weights"])
    each = given["x"][given["rows"]] * weights[:, None]
    expected = [each[b:e].sum(axis=0) for b, e in zip(BEGINS, ENDS, strict=True)]
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("combine", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("given", [(), ("rows",), ("rows", "weights")], ids=str)
def test_nests_give_what_the_template_means(combine: str, given: tuple[str, ...]) -> None:
    if "weights" in given and combine != "sum":
        pytest.skip("of sums only")
    graph = graph_of(combine, *given, skipped=1 if given else None)
    expanded = expand_templates(graph, BARE)
    verify_loops(expanded)
    arrays = inputs(graph)
    arrays["x"][1, 2] = np.nan
    (expected,) = interpret(graph, arrays, {}, {})
    (found,) = interpret(expanded, arrays, {}, {})
    np.testing.assert_allclose(found, expected)


def test_its_operations_are_those_of_its_points() -> None:
    operands = {"x": view(100, 8), "begins": view(7), "ends": view(7), "rows": view(60)}
    call = Bags("b", view(7, 8), NO_ORIGIN, combine="sum", **operands)
    assert int(call.flops()) == 60 * 8
    assert int(replace(call, weights=view(60)).flops()) == 2 * 60 * 8
    assert int(replace(call, rows=None).flops()) == 100 * 8


def cutting(**changes: int) -> Machine:
    wish = {"columns": 64, "least_points": 32, "per_unit": 1, "most": 512}
    support = BagsSupport(Bags, parts=BagParts(**{**wish, **changes}))
    return replace(DEVICE, templates=(support,), units=64)


def long_bags(combine: str, count: int) -> LoopGraph:
    shapes = {"x": (dim("s0"), 3), "begins": (count,), "ends": (count,)}
    types = {"begins": INT64, "ends": INT64}
    return make_graph(bags(combine), shapes, dims=(POINTS,), dtypes=types)


@pytest.mark.parametrize("combine", ["sum", "max"])
def test_long_bags_are_cut_into_parts_that_give_the_same(combine: str) -> None:
    graph = long_bags(combine, 2)
    split = split_templates(graph, cutting())
    verify_loops(split)
    assert [type(op) for op in split.ops] == [LoopNest, Bags, LoopNest]
    (decision,) = split.decisions
    assert decision.verdict == "32 parts of each bag"
    rng = np.random.default_rng(seeded())
    for points, ends in ((4000, (3100, 4000)), (7, (5, 5)), (0, (0, 0))):
        given = {
            "x": rng.standard_normal((points, 3)).astype(np.float32),
            "begins": np.array((0, ends[0])),
            "ends": np.array(ends),
        }
        (expected,) = interpret(graph, given, {}, {"s0": points})
        (found,) = interpret(split, given, {}, {"s0": points})
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_parts_are_as_many_as_there_is_room_and_work_for() -> None:
    def parts(count: int, **changes: int) -> str:
        split = split_templates(long_bags("sum", count), cutting(**changes))
        return split.decisions[0].verdict if split.decisions else ""

    assert parts(1) == "64 parts of each bag"
    assert parts(1, per_unit=4) == "125 parts of each bag"
    assert parts(1, least_points=500) == "8 parts of each bag"
    assert parts(1, most=5) == "5 parts of each bag"
    assert not parts(40)
    graph = long_bags("sum", 1)
    uncut = replace(DEVICE, templates=(BagsSupport(Bags),), units=64)
    assert split_templates(graph, uncut) is graph
