"""Reductions over bags: values through Triton's interpreter, blocks, and machine code."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from aot.backends.triton.template_bags import bags_tile
from aot.frontend.capture import capture_module
from aot.ir.hints import hints_of
from aot.ir.origin import NO_ORIGIN
from aot.ir.templates.bags import Bags
from tests.backends.triton.templates import (
    captured,
    check_close,
    emitted,
    machine_code,
    template_kinds,
)
from tests.ir.templates.views import view
from tests.settings import seeded


def real(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seeded(7))).to(dtype)


def places(most, *shape):
    generator = torch.Generator().manual_seed(seeded(8))
    return torch.randint(0, most, shape, generator=generator)


STARTS = torch.tensor([0, 0, 3, 50, 50])
"""An empty bag at the beginning, a long one, an empty one, and the rest."""


def bag(mode, **options):
    def function(weight, indices, starts):
        return F.embedding_bag(indices, weight, starts, mode=mode, **options)

    return function


class Summed(torch.nn.Module):
    """Bags of a dynamic number."""

    def forward(self, weight, indices, starts):
        return F.embedding_bag(indices, weight, starts, mode="sum")


def segments(reduce, **options):
    def function(x, lengths):
        return torch.segment_reduce(x, reduce, lengths=lengths, unsafe=True, **options)

    return function


LENGTHS = torch.tensor([3, 0, 40, 1, 16])
CASES = {
    "sum": (bag("sum"), (real(30, 16), places(30, 70), STARTS)),
    "mean": (bag("mean"), (real(30, 16), places(30, 70), STARTS)),
    "max": (bag("max"), (real(30, 5), places(30, 70), STARTS)),
    "padding": (bag("mean", padding_idx=2), (real(4, 16), places(4, 70), STARTS)),
    "halves": (bag("sum"), (real(30, 16, dtype=torch.bfloat16), places(30, 70), STARTS)),
    "doubles": (bag("sum"), (real(30, 3, dtype=torch.float64), places(30, 70), STARTS)),
    "weights": (
        lambda w, i, o, p: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=p),
        (real(30, 16), places(30, 70), STARTS, real(70)),
    ),
    "wide rows": (bag("sum"), (real(30, 300), places(30, 70), STARTS)),
    "runs of elements": (segments("sum"), (real(60), LENGTHS)),
    "least of runs": (segments("min"), (real(60), LENGTHS)),
    "products of runs": (segments("prod", initial=0.5), (real(60, 2), LENGTHS)),
    "means of halves": (segments("mean"), (real(60, dtype=torch.float16), LENGTHS)),
    "long bags of few": (bag("sum"), (real(30, 8), places(30, 4000), torch.tensor([0, 1500]))),
    "a long run": (segments("max"), (real(5000), torch.tensor([5000]))),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    function, args = CASES[name]
    model = captured(function, args)
    assert "bags" in template_kinds(model)
    check_close(model, function, args)


def test_not_a_number_stays():
    x = real(60)
    x[20] = float("nan")
    function = segments("max")
    check_close(captured(function, (x, LENGTHS)), function, (x, LENGTHS))


@pytest.mark.parametrize("sizes", ((1, 1), (40, 64), (0, 3)))
def test_values_at_other_sizes(sizes):
    points, bags = sizes
    dims = (None, {0: torch.export.Dim("points", min=0)}, {0: torch.export.Dim("bags")})
    example = (real(30, 16), places(30, 70), STARTS)
    model = capture_module(Summed(), example, dynamic_shapes=dims)
    starts = torch.linspace(0, points, bags + 1)[:bags].long()
    check_close(model, bag("sum"), (real(30, 16), places(30, points), starts))


def test_an_epilogue_is_part_of_the_kernel():
    args = (real(3000, 16), places(3000, 4000), torch.arange(0, 4000, 20))
    source = emitted(captured(lambda w, i, o: F.embedding_bag(i, w, o).relu() + 1, args))
    (text,) = [f.text for f in source.functions if "walk_bags(" in f.text]
    assert text.count("tl.store(") == 1


def tile(bags, width, points, size=4):
    call = Bags(
        "b",
        view(bags, width),
        NO_ORIGIN,
        x=view(100, width),
        begins=view(bags),
        ends=view(bags),
        combine="sum",
        rows=view(points),
    )
    return bags_tile(call, size, hints_of(()), 512)


def test_blocks_follow_the_sizes():
    assert tile(6554, 64, 131072).bags == 8
    assert tile(6554, 64, 131072, size=2).bags == 16
    assert tile(10, 64, 131072).bags == 1
    assert tile(10, 1000, 131072).columns == 256
    assert tile(6554, 64, 6554).points == 1
    assert [tile(n, 64, 131072).points for n in (6554, 512)] == [8, 16]
    assert not tile(6554, 2, 131072).spread
    runs = tile(1 << 20, 1, 1 << 24)
    assert runs.spread
    assert (runs.bags, runs.points) == (64, 16)


@pytest.mark.parametrize("arch", ("sm_80", "sm_90"))
@pytest.mark.parametrize("width", (64, 1))
def test_machine_code(arch, width):
    args = (real(3000, width), places(3000, 131072), torch.arange(0, 131072, 16))
    code = machine_code(captured(bag("sum"), args), "bags", arch)
    assert code.local_bytes == 0
