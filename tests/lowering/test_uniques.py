"""What distinct elements are made of, in NumPy and as Triton kernels: no size is measured here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from aot.backends.triton.backend import TritonBackend
from aot.ir.dtypes import BOOL, FLOAT32, INT64
from aot.ir.interpreter import interpret_outline
from aot.ir.origin import NO_ORIGIN
from aot.ir.tensors import Signature, TensorGraph, TensorOp, TensorType, Tree, ValueRef
from aot.lowering.lower import lower_outline
from aot.lowering.outline import outline
from aot.options import Target
from aot.schedule.memory import plan_memory
from aot.symbolic import integer, row_major_strides
from tests.backends.emitting import emit
from tests.backends.triton.interpret import run_emitted
from tests.conformance.executors import scheduled
from tests.settings import seeded

Arrays = dict[str, np.ndarray]


def _type(dtype: Any, *shape: int) -> TensorType:
    sizes = tuple(integer(n) for n in shape)
    return TensorType(dtype, sizes, row_major_strides(sizes))


def called(
    target: str, args: Sequence[Any], inputs: dict[str, TensorType], *results: TensorType
) -> TensorGraph:
    """A graph of one call; `args` name inputs by strings."""
    names = tuple(f"r{k}" for k in range(len(results)))
    given = tuple(ValueRef(a) if a in inputs else a for a in args)
    op = TensorOp(target, given, (), names, NO_ORIGIN)
    types = {**inputs, **dict(zip(names, results, strict=True))}
    leaves = tuple(Tree("leaf", k) for k in range(len(names)))
    signature = Signature((), Tree("tuple", None, leaves))
    return TensorGraph("m", (), tuple(inputs), (), (op,), names, types, signature)


def in_numpy(graph: TensorGraph, arrays: Arrays) -> list[np.ndarray]:
    loops = lower_outline(outline(graph))
    return list(interpret_outline(loops, arrays, lambda _: np.zeros(0), {}))


def in_triton(graph: TensorGraph, arrays: Arrays) -> list[np.ndarray]:
    backend, target = TritonBackend(), Target("cuda", ("sm_90",))
    emitted = emit(backend, scheduled(graph, backend.machine(target)), target)
    in_place = plan_memory(emitted.graph).in_place
    outputs, fault = run_emitted(emitted, arrays, lambda _: np.zeros(0), {}, in_place)
    assert fault == 0
    return outputs


@pytest.fixture(params=[in_numpy, in_triton], ids=lambda f: f.__name__)
def run(request: pytest.FixtureRequest) -> Callable[..., list[np.ndarray]]:
    return request.param


@pytest.mark.parametrize("shape", [(40, 1), (30, 4), (9, 7), (1, 3)])
def test_ranks_are_in_the_order_of_slices(run: Any, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(seeded()).integers(0, 2, shape).astype(np.float32)
    graph = called(
        "aot.slice_ranks.default", ("x", 0), {"x": _type(FLOAT32, *shape)}, _type(INT64, shape[0])
    )
    (ranks,) = run(graph, {"x": x})
    rows = [tuple(row) for row in x.tolist()]
    for a, p in zip(rows, ranks, strict=True):
        assert [p < q for q in ranks] == [a < b for b in rows]


def test_slices_with_nan_have_ranks_of_their_own(run: Any) -> None:
    x = np.array([[1, np.nan], [1, 2], [1, np.nan], [1, 2]], np.float32)
    inputs = {"x": _type(FLOAT32, 4, 2)}
    (ranks,) = run(called("aot.slice_ranks.default", ("x", 0), inputs, _type(INT64, 4)), {"x": x})
    assert ranks[1] == ranks[3] and len(set(ranks)) == 3


def test_changes_along_the_inner_dimension(run: Any) -> None:
    x = np.array([[1, 1, 2, 2, np.nan, np.nan], [3, 3, 3, 4, 4, 4]], np.float32)
    inputs = {"x": _type(FLOAT32, 2, 6)}
    (flags,) = run(called("aot.changes.default", ("x", 1), inputs, _type(BOOL, 6)), {"x": x})
    assert flags.tolist() == [True, False, True, True, True, True]


@pytest.mark.parametrize("count", [1, 5, 700])
def test_labels_are_numbers_of_runs(run: Any, count: int) -> None:
    draw = np.random.default_rng(seeded(1))
    flags, order = draw.random(count) < 0.4, draw.permutation(count)
    flags[0] = True
    inputs = {"flags": _type(BOOL, count), "order": _type(INT64, count)}
    target, result = "aot.run_labels.default", _type(INT64, count)
    expected = np.cumsum(flags) - 1
    (labels,) = run(called(target, ("flags",), inputs, result), {"flags": flags, "order": order})
    assert np.array_equal(labels, expected)
    graph = called(target, ("flags", "order"), inputs, result)
    (labels,) = run(graph, {"flags": flags, "order": order})
    assert np.array_equal(labels[order], expected)


def test_a_run_ends_where_the_next_begins(run: Any) -> None:
    inputs = {"starts": _type(INT64, 3)}
    graph = called("aot.run_lengths.default", ("starts", integer(9)), inputs, _type(INT64, 3))
    assert run(graph, {"starts": np.array([0, 4, 8])})[0].tolist() == [4, 4, 1]


def test_bins_reach_to_the_greatest_element(run: Any) -> None:
    for values, total in (([3, 1], 4), ([0, 0], 2), ([5, -1], -1)):
        graph = called("aot.bin_total.default", ("x", 2), {"x": _type(INT64, 2)}, _type(INT64))
        assert run(graph, {"x": np.array(values)})[0] == total
