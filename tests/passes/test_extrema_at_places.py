"""Running extrema where they were met: read by the kernel that finds the places."""

from __future__ import annotations

from functools import partial

import pytest

from aot.ir.dtypes import FLOAT32, INT64
from aot.ir.loops import LoopGraph
from aot.ir.nests import View
from aot.ir.templates.scan import Scan
from aot.lowering.builder import Tensor, identity_view
from aot.passes.expand_templates import expand_templates
from aot.passes.extrema_at_places import take_extrema_at_places
from tests.passes.parts import templates
from tests.schedule.graphs import BATCH, DEVICE, S0, check_same, make_graph, scan


def _places(x: Tensor, combine: str, **views: View) -> Tensor:
    call = partial(Scan, combine=combine, places=True, x=identity_view(x), **views)
    return x.builder.template(call, x.shape, INT64)


def _graph(*combines: str, other: str = "max") -> LoopGraph:
    def body(_: object, x: Tensor) -> list[Tensor]:
        return [*(scan(x, combine) for combine in combines), _places(x, other)]

    return make_graph(body, {"x": (3, S0)}, {}, (BATCH,), {"x": FLOAT32})


def test_the_extrema_are_read_behind_the_places() -> None:
    graph = _graph("max")
    taken = take_extrema_at_places(graph, DEVICE)
    (call,) = templates(taken)
    assert isinstance(call, Scan) and call.places and taken.ops[0] is call
    for size in (0, 1, 17):
        check_same(graph, taken, {"s0": size})


@pytest.mark.parametrize(("combines", "other"), [(("min",), "max"), (("sum",), "max"), ((), "min")])
def test_other_results_stay(combines: tuple[str, ...], other: str) -> None:
    graph = _graph(*combines, other=other)
    assert take_extrema_at_places(graph, DEVICE) is graph


def test_places_that_need_the_extrema_keep_them() -> None:
    """Those of a device without a kernel for places become maxima of places."""

    def body(_: object, x: Tensor) -> list[Tensor]:
        found = scan(x, "max")
        return [found, _places(x, "max", found=identity_view(found))]

    graph = make_graph(body, {"x": (3, S0)}, {}, (BATCH,), {"x": FLOAT32})
    assert take_extrema_at_places(graph, DEVICE) is graph
    expanded = expand_templates(graph, DEVICE)
    assert take_extrema_at_places(expanded, DEVICE) is expanded


def test_columns_keep_their_scan() -> None:
    """Elements of a column lie lines apart: what is read by place would come from each again."""

    def body(_: object, x: Tensor) -> list[Tensor]:
        view = identity_view(x)
        turned = View(view.buffer, (view.axes[1], view.axes[0]), view.index)
        call = partial(Scan, combine="max", x=turned)
        shape = (x.shape[1], x.shape[0])
        found = x.builder.template(call, shape, x.dtype)
        return [found, x.builder.template(partial(call, places=True), shape, INT64)]

    graph = make_graph(body, {"x": (3, S0)}, {}, (BATCH,), {"x": FLOAT32})
    assert take_extrema_at_places(graph, DEVICE) is graph
