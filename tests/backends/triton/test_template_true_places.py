"""Places of true elements: results through Triton's interpreter, parts, and machine code."""

from __future__ import annotations

import pytest
import torch

from aot.ir.dtypes import INT32, INT64
from aot.symbolic import is_int
from tests.backends.triton.templates import (
    captured,
    check_exact,
    kernels_of,
    machine_code,
    template_kinds,
)
from tests.settings import seeded

FUNCTIONS = {
    "indices": torch.nonzero,
    "indices of a condition": lambda x: torch.nonzero(x > 0),
    "selected": lambda x: torch.masked_select(x, x > 0),
    "selected, and more": lambda x: x[x > 0] * 2 + 1,
    "a mask that is spread": lambda x: torch.masked_select(x, x[..., :1] > 0),
    "transposed": lambda x: torch.nonzero(x.mT),
}
SHAPES = ((9, 7), (3, 4, 5), (1, 8193), (150, 150), (2, 1))


def numbers(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seeded(7))
    return torch.randint(-1, 2, shape, generator=generator).to(torch.float32)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_places(name: str, shape: tuple[int, ...]) -> None:
    function, x = FUNCTIONS[name], numbers(*shape)
    check_exact(captured(function, (x,)), function, (x,))


@pytest.mark.parametrize("value", (0.0, 1.0, float("nan")))
def test_none_or_all_are_true(value: float) -> None:
    x = torch.full((9000,), value)
    check_exact(captured(torch.nonzero, (x,)), torch.nonzero, (x,))


@pytest.mark.parametrize("size", (0, 1, 2047, 2048, 40000))
def test_values_at_other_sizes(size: int) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.nonzero(x)

    model = captured(function, (numbers(50000),), ({0: torch.export.Dim("n", min=0)},))
    check_exact(model, function, (numbers(size),))


def test_runs() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.unique_consecutive(x, return_inverse=True, return_counts=True)

    x = numbers(9000).to(torch.int64)
    check_exact(captured(function, (x,)), function, (x,))


def test_only_flags_and_what_is_asked_for_are_stored_for_each_element() -> None:
    model = captured(FUNCTIONS["selected"], (torch.zeros(1 << 20),))
    graph = kernels_of(model)
    stored = [graph.buffers[name] for kernel in graph.kernels for name in kernel.writes]
    large = [b for b in stored if b.shape and is_int(b.shape[0]) and b.shape[0] > 1 << 16]
    assert [b.dtype.name for b in large] == ["bool"]
    assert template_kinds(model) == ["scan", "true places"]


def test_numbers_of_parts_are_as_narrow_as_sizes_allow() -> None:
    known = kernels_of(captured(torch.nonzero, (torch.zeros(1 << 20),)))
    dims = ({0: torch.export.Dim("n", min=0)},)
    unknown = kernels_of(captured(torch.nonzero, (torch.zeros(1 << 20),), dims))
    for graph, dtype in ((known, INT32), (unknown, INT64)):
        (counts,) = [b for name, b in graph.buffers.items() if name.endswith("_counts")]
        assert counts.dtype == dtype


@pytest.mark.parametrize("arch", ("sm_80", "sm_90"))
@pytest.mark.parametrize("name", ("indices", "selected"))
def test_machine_code(name: str, arch: str) -> None:
    model = captured(FUNCTIONS[name], (torch.zeros(1 << 12, 1 << 10),))
    code = machine_code(model, "true places", arch)
    assert code.local_bytes == 0
    assert code.registers <= 128
