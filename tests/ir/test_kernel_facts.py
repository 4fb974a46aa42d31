"""What backends ask of kernels: arguments, loops, the sizes that their text names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aot.errors import InternalError
from aot.ir.dtypes import INT64
from aot.ir.kernel_facts import (
    argument_buffers,
    draws_numbers,
    graph_dims,
    index_exprs,
    kernel_axes,
    kernel_sizes,
    maybe_empty,
    outer_axes,
    strip_of,
    template_call,
    template_views,
)
from aot.ir.kernels import NestKernel, Strip, TemplateKernel
from aot.ir.scalar import check_index, index_value, load
from aot.ir.templates import Matmul, Scan
from aot.ir.tensors import RANDOM_STATE
from aot.schedule.fusion import fuse
from aot.symbolic import Ranges, as_expr, dim
from tests.ir.nests import I0
from tests.schedule.graphs import BATCH, DEVICE, S0, make_graph, matmul, reduce_op, run_passes


def _rows() -> tuple[NestKernel, object]:
    graph = make_graph(lambda _, x: [reduce_op("sum", x, 1)], {"x": (S0, 100)}, dims=(BATCH,))
    fused = fuse(run_passes(graph), DEVICE)
    (kernel,) = fused.kernels
    assert isinstance(kernel, NestKernel)
    return kernel, fused


def _product() -> tuple[TemplateKernel, object]:
    def body(builder, x, w):
        return [matmul(builder, x, w)]

    graph = make_graph(body, {"x": (S0, 512)}, {"w": (512, 512)}, dims=(BATCH,))
    fused = fuse(run_passes(graph), DEVICE)
    (kernel,) = fused.kernels
    assert isinstance(kernel, TemplateKernel)
    return kernel, fused


def test_what_is_read_comes_before_what_is_written() -> None:
    kernel, _ = _rows()
    assert argument_buffers(kernel) == ("x", *kernel.writes)
    both = replace(kernel, writes=("x", "y"))
    assert argument_buffers(both) == ("x", "y")


def test_axes_are_the_outer_ones_and_then_each_stages() -> None:
    kernel, _ = _rows()
    assert outer_axes(kernel) == kernel.outer
    assert kernel_axes(kernel) == (*kernel.outer, *kernel.stages[0].order)
    strip = Strip(kernel.stages[0].order[0], 64)
    assert strip_of(replace(kernel, strip=strip)) == strip
    product, _ = _product()
    assert outer_axes(product) == () and strip_of(product) is None


def test_a_template_is_asked_for_by_its_kind() -> None:
    kernel, _ = _product()
    call = template_call(kernel, Matmul)
    assert template_views(kernel) == (call.output, call.a, call.b)
    with pytest.raises(InternalError, match="has no template of the kind scan"):
        template_call(kernel, Scan)
    assert template_views(_rows()[0]) == ()


@pytest.mark.parametrize("made", [_rows, _product])
def test_sizes_that_the_text_names(made) -> None:
    kernel, fused = made()
    assert graph_dims(fused) == {S0}
    others = {S0, dim("s7")}
    assert kernel_sizes(kernel, fused.buffers, others) == (S0,)
    assert kernel_sizes(kernel, fused.buffers, {dim("s7")}) == ()


def test_a_size_in_a_body_alone_is_named_too() -> None:
    kernel, fused = _rows()
    (stage,) = kernel.stages
    (nest,) = stage.nests
    (store,) = nest.stores
    asked = replace(store, value=index_value(I0 + dim("s7")))
    inner = replace(stage, nests=(replace(nest, stores=(asked,)),))
    found = kernel_sizes(replace(kernel, stages=(inner,)), fused.buffers, {S0, dim("s7")})
    assert found == (S0, dim("s7"))


def test_dimensions_that_may_be_empty() -> None:
    place = load("p", INT64, (I0,))
    bound = [check_index(place, as_expr(4)), check_index(place, S0), check_index(place, S0 + 1)]
    assert maybe_empty(bound, Ranges({}, {S0: (0, None)})) == (S0,)
    assert maybe_empty(bound, Ranges({}, {S0: (1, None)})) == ()
    assert index_exprs(bound[1]) == (S0,) and index_exprs(place) == (I0,)


def test_random_results_have_their_state() -> None:
    _, fused = _rows()
    assert not draws_numbers(fused)
    state = replace(fused.buffers["x"], kind="state", fqn=RANDOM_STATE)
    assert draws_numbers(replace(fused, buffers={**fused.buffers, "state": state}))
