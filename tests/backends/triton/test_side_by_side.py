"""Small kernels that do not need each other share a launch; values stay those of eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from aot.backends.triton.compile import compile_kernels
from aot.ir.hints import hints_of
from aot.ir.kernels import JoinedKernel, fused_parts, side_by_side
from aot.options import default_cache_dir, environment
from aot.schedule.memory import live_ranges, plan_memory
from tests.backends.triton.templates import captured, check_close, emitted
from tests.launches import grid_of
from tests.settings import seeded

ROW = torch.randn(1, 64)
MATRICES = (torch.randn(48, 64), torch.randn(32, 64), torch.randn(16, 64))
TABLE, INDEX = torch.randn(20, 8), torch.tensor([3, 0, 19, 3])


def three_products(x: Any, a: Any, b: Any, c: Any) -> Any:
    """Products with one row, which is the result of another kernel."""
    row = x.softmax(-1)
    return row @ a.T, row @ b.T, row @ c.T


def parts_of(function: Callable[..., Any], *args: torch.Tensor, dims: Any = None) -> list[int]:
    """Kernels of each launch."""
    source = emitted(captured(function, args, dims))
    assert len(source.launches) == len(source.graph.kernels)
    return [len(fused_parts(kernel)) for kernel in source.graph.kernels]


def test_products_with_one_row_share_a_launch() -> None:
    torch.manual_seed(seeded())
    args = (ROW, *MATRICES)
    assert parts_of(three_products, *args) == [1, 3]
    check_close(captured(three_products, args), three_products, args)


def test_programs_of_a_launch_are_those_of_its_parts() -> None:
    source = emitted(captured(three_products, (ROW, *MATRICES)))
    (count, *rest) = grid_of(source.launches[1])
    sources = [emitted(captured(lambda x, a: x @ a.T, (ROW, m))) for m in MATRICES]
    alone = [grid_of(one.launches[0]) for one in sources]
    assert [int(count), *map(int, rest)] == [sum(int(g[0]) for g in alone), 1, 1]


@pytest.mark.parametrize("batch", [1, 3, 50])
def test_sizes_that_are_not_known_yet(batch: int) -> None:
    def function(x: Any, y: Any) -> Any:
        return (x + 1).amax(1), y.cumsum(1), x.sum(0)

    example = (torch.randn(7, 40), torch.randn(7, 30))
    dim = torch.export.Dim("batch", min=0, max=100)
    model = captured(function, example, ({0: dim}, {0: dim}))
    source = emitted(model)
    assert max(len(fused_parts(k)) for k in source.graph.kernels) > 1
    assert any("end_0" in f.text for f in source.functions)
    torch.manual_seed(seeded(batch))
    check_close(model, function, (torch.randn(batch, 40), torch.randn(batch, 30)))


def test_a_part_whose_loops_go_on_from_its_number_is_compiled() -> None:
    """Behind a bound that is an argument it had 64 bits, and what a loop carries has 32."""

    def function(x: Any) -> Any:
        return x.mean((2, 3)), F.interpolate(x, size=(7, 7), mode="bilinear", antialias=True)

    dim = torch.export.Dim("batch", min=1, max=16)
    source = emitted(captured(function, (torch.randn(2, 3, 20, 20),), ({0: dim},)))
    joined = [f for f in source.functions if "end_0" in f.text]
    images = compile_kernels(joined, "sm_90", 1, default_cache_dir(environment()))
    assert joined and all(image.data for image in images)


def test_one_part_of_a_launch_checks_indices_and_is_the_first() -> None:
    def function(x: Any, i: Any, y: Any, j: Any) -> Any:
        return y.cumsum(1), x[i].cumsum(1), y[j].softmax(-1)

    args = (TABLE, INDEX, torch.randn(5, 33), INDEX % 5)
    source = emitted(captured(function, args))
    checked = [f for f in source.functions if f.faults]
    assert len(checked) == 2
    assert any("_part1" in f.text for f in checked)
    for source_of in checked:
        assert "tl.store(fault" in source_of.text.partition("_part1(")[0]
        assert "tl.store(fault" not in source_of.text.partition("_part1(")[2]
    check_close(captured(function, args), function, args)


def test_what_is_read_is_written_later() -> None:
    def function(x: Any, y: Any) -> Any:
        old = x.sum(0)
        x.index_put_((torch.tensor([0]),), y)
        return old, x.sum(0)

    args = (torch.randn(4, 6), torch.randn(1, 6))

    def apart(x: Any, y: Any) -> Any:
        return function(x.clone(), y)

    check_close(captured(apart, args), apart, args)


def test_a_chain_has_a_launch_each() -> None:
    assert parts_of(lambda x: x.cumsum(1).cumsum(0).cumsum(1), torch.randn(30, 40)) == [1, 1, 1]


def test_large_kernels_have_launches_of_their_own() -> None:
    big = torch.zeros(3000, 3000)
    assert parts_of(lambda x, y: (x.sum(1), y.cumsum(1)), big, big) == [1, 1]


def test_tensor_core_kernels_have_launches_of_their_own() -> None:
    half = torch.zeros(64, 64, dtype=torch.float16)
    assert parts_of(lambda x, y, z: (x @ y, x @ z), half, half, half) == [1, 1]


def test_kernels_of_a_launch_share_no_memory() -> None:
    def function(x: Any, y: Any) -> Any:
        return (x.softmax(-1) @ MATRICES[0].T).softmax(-1), (y.cumsum(1)).softmax(-1).cumsum(0)

    graph = emitted(captured(function, (ROW, torch.randn(30, 40)))).graph
    lifetimes = live_ranges(graph, hints_of(graph.dims))
    for position, kernel in enumerate(graph.kernels):
        if isinstance(kernel, JoinedKernel):
            for name in {*kernel.reads, *kernel.writes} & set(lifetimes):
                assert lifetimes[name].first <= position <= lifetimes[name].last
            assert not set(dict(plan_memory(graph).in_place)) & set(kernel.writes)


def test_one_kernel_of_several_reads_and_writes_what_they_do() -> None:
    graph = emitted(captured(three_products, (ROW, *MATRICES))).graph
    joint = graph.kernels[1]
    assert isinstance(joint, JoinedKernel)
    assert joint == side_by_side(joint.parts)
    assert set(joint.writes) == {name for part in joint.parts for name in part.writes}
    assert joint.name == joint.parts[0].name
