"""Calls of routines: records and their parts, what they mean, that they have no nests."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from aot.errors import UnsupportedOperators
from aot.ir.dtypes import FLOAT32
from aot.ir.loops import LoopGraph
from aot.ir.printer import print_loops
from aot.ir.templates import LibraryCall, Sizes
from aot.ir.templates.linalg import ROUTINES
from aot.lowering.builder import GraphBuilder, Tensor, identity_view
from aot.passes.expand_templates import expand_templates
from aot.symbolic import as_expr, dim, to_text
from tests.schedule.graphs import BARE, interpret, make_graph

ROWS, COLUMNS = dim("m"), dim("n")


def call_graph(name: str) -> LoopGraph:
    """One call on two matrices of 3 x 3."""
    routine, shape = ROUTINES[name], (2, 3, 3)
    sizes = Sizes(as_expr(3), as_expr(3), as_expr(0))

    def body(builder: GraphBuilder, a: Tensor) -> list[Tensor]:
        call = partial(LibraryCall, a=identity_view(a), routine=routine)
        return [builder.template(call, (as_expr(2), routine.record(sizes)), FLOAT32)]

    return make_graph(body, {"a": shape}, {}, ())


def test_parts_follow_each_other_in_a_record() -> None:
    sizes, routine = Sizes(ROWS, COLUMNS, as_expr(0)), ROUTINES["lu"]
    start, shape = routine.place("pivots", sizes)
    assert to_text(start) == "m*n" and [to_text(s) for s in shape] == ["min(m, n)"]
    start, shape = routine.place("info", sizes)
    assert shape == () and to_text(routine.record(sizes) - start) == "1"
    with pytest.raises(KeyError):
        routine.place("factor", sizes)


def test_each_element_of_a_batch_has_its_record() -> None:
    graph = call_graph("cholesky")
    a = np.stack([4 * np.eye(3), -np.eye(3)]).astype(np.float32)
    (made,) = interpret(graph, {"a": a}, {})
    np.testing.assert_array_equal(made[0], [*(2 * np.eye(3)).ravel(), 0])
    assert made[1, -1] == 1


def test_a_device_without_the_routine_refuses_its_operator() -> None:
    with pytest.raises(UnsupportedOperators, match=r"linalg\.cholesky") as caught:
        expand_templates(call_graph("cholesky"), BARE)
    assert "--target cpu" in caught.value.advice


def test_dumps_name_routines_and_their_versions() -> None:
    assert "routine=linalg.cholesky (version 1)" in print_loops(call_graph("cholesky"))
