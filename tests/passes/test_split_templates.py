"""Template calls in parts where the device would be idle: the parts, what is said, and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from aot.ir.nests import LoopNest
from aot.ir.templates import Attention, AttentionSupport, KeyParts, Parts, Scan, ScanSupport
from aot.ir.tensors import Dim
from aot.lowering.builder import GraphBuilder, Tensor
from aot.passes.split_templates import split_templates
from tests.schedule.graphs import DEVICE, S0, attention, check_same, make_graph, matmul, scan

PARTS = KeyParts(query_tile=16, least_keys=128, block=64, fewest=6, many_keys=512)
SPLITS = replace(DEVICE, templates=(AttentionSupport(Attention, parts=PARTS),), units=64)


def _attend(_: GraphBuilder, q: Tensor, k: Tensor) -> Sequence[Tensor]:
    return [attention(q, k, k)]


@pytest.mark.parametrize(("keys", "parts"), [(600, 5), (1200, 10)])
def test_few_queries_of_many_keys_are_cut_along_the_keys(keys: int, parts: int) -> None:
    graph = make_graph(_attend, {"q": (1, 2, 1, 8), "k": (1, 2, keys, 8)})
    split = split_templates(graph, SPLITS)
    call, top, combined = split.ops
    assert isinstance(call, Attention) and call.parts == parts
    assert [int(a.extent) for a in call.output.axes] == [parts, 1, 2, 1, 8 + 2]
    for nest in (top, combined):
        assert isinstance(nest, LoopNest)
        assert call.output.buffer in {n for n in split.buffers} and nest.reduction
        assert [int(a.extent) for a in nest.reduction] == [parts]
    assert [s.buffer for s in combined.stores] == [graph.ops[0].output.buffer]
    (decision,) = split.decisions
    assert (decision.stage, decision.subject) == ("split", (graph.ops[0].name,))
    assert str(parts) in decision.verdict and decision.reason
    check_same(graph, split, tolerance=1e-4)


@pytest.mark.parametrize(("units", "heads", "parts"), [(16, 2, 8), (24, 2, 12), (24, 4, 6)])
def test_parts_are_as_many_as_keep_the_device_busy(units: int, heads: int, parts: int) -> None:
    graph = make_graph(_attend, {"q": (1, heads, 1, 8), "k": (1, heads, 8192, 8)})
    split = split_templates(graph, replace(SPLITS, units=units))
    call = split.ops[0]
    assert isinstance(call, Attention)
    assert call.parts == parts and parts * heads == units


def test_kinds_that_do_not_split_stay() -> None:
    def body(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
        return [matmul(builder, x, w)]

    graph = make_graph(body, {"x": (1, 4096), "w": (4096, 8)})
    assert split_templates(graph, replace(DEVICE, units=64)) is graph


def test_devices_that_are_busy_keep_calls_whole() -> None:
    graph = make_graph(_attend, {"q": (1, 2, 1, 8), "k": (1, 2, 600, 8)})
    assert split_templates(graph, replace(SPLITS, units=1)) is graph


SCANS = replace(
    DEVICE, templates=(ScanSupport(Scan, parts=Parts(longest=4096, least=1024, room=4)),), units=4
)


@pytest.mark.parametrize("combine", ["sum", "prod", "max", "min", "logaddexp"])
@pytest.mark.parametrize("columns", [5000, 40000])
def test_few_long_rows_are_scanned_in_parts(combine: str, columns: int) -> None:
    graph = make_graph(lambda _, x: [scan(x, combine)], {"x": (1, columns)})
    split = split_templates(graph, SCANS)
    *results, ends, call = split.ops
    assert len(results) == (2 if combine == "logaddexp" else 1)
    assert isinstance(call, Scan) and isinstance(ends, Scan) and call.before is not None
    assert call.part is not None and columns / call.part <= 16
    assert call.before.buffer == ends.output.buffer and ends.part is None
    check_same(graph, split, tolerance=1e-3)
    (decision,) = split.decisions
    assert decision.verdict == f"parts of {call.part} elements"
    assert decision.reason == f"1 rows of {columns} elements would leave the device idle"


@pytest.mark.parametrize("shape", [(1, 4096), (2, 40000), (0, 40000)], ids=str)
def test_short_rows_and_many_rows_are_scanned_whole(shape: tuple[int, int]) -> None:
    graph = make_graph(lambda _, x: [scan(x)], {"x": shape})
    assert split_templates(graph, SCANS) is graph


def test_scans_stay_whole_on_devices_that_do_not_ask_for_parts() -> None:
    graph = make_graph(lambda _, x: [scan(x)], {"x": (1, 40000)})
    assert split_templates(graph, replace(DEVICE, units=4)) is graph


def test_parts_of_rows_of_any_length() -> None:
    rows = Dim("s0", 0, 1 << 20, 40000, (0, 0, 0, 0), "rows")
    graph = make_graph(lambda _, x: [scan(x)], {"x": (1, S0)}, {}, (rows,))
    split = split_templates(graph, SCANS)
    assert len(split.ops) == 3
    for size in (0, 1, 5000, 70001):
        check_same(graph, split, {"s0": size}, 1e-3)
