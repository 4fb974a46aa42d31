"""`math`'s functions of sizes follow the sizes."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aot_runtime
import pytest
import torch
from torch.export import Dim
from torch.testing import assert_close
from torch.utils._sympy.reference import PythonReferenceAnalysis

import aot
from aot.frontend.capture import capture_module
from aot.frontend.open_math import open_math, truncating
from tests.calls import Calls
from tests.conformance.executors import interpret_lowered
from tests.settings import level


class Shared(torch.nn.Module):
    """The function, and a share by a number that `float` makes of the size."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The results."""
        return (*scaled(x), x / float(x.shape[0]))


def scaled(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    n = x.shape[0]
    share = math.log(n) / math.log(512)
    return (
        x * share,
        x.int() * math.log2(n),
        x.sum() * math.log(n, 3) + math.sqrt(n),
        x.double() * math.exp(-n / 10),
    )


def test_functions_of_sizes_are_those_of_the_run(tmp_path: Path) -> None:
    path = tmp_path / "m.pkg"
    model = Shared()
    aot.package(
        model,
        (torch.randn(6, 3),),
        path=path,
        dynamic_shapes=({0: Dim("n", min=2, max=64)},),
        targets=[f"cpu:{level()}"],
        golden=False,
    )
    packaged = aot_runtime.load(path)
    for n in (2, 6, 61):
        x = 3 * torch.randn(n, 3)
        for got, wanted in zip(packaged(x), model(x), strict=True):
            assert_close(got, wanted)


def test_they_are_maths_own_for_all_else() -> None:
    own = math.log
    with open_math():
        assert math.log(8, 2) == 3
        assert math.sqrt(4) == 2
        with pytest.raises(ValueError, match=r"math domain|positive"):
            math.log(-1)
    assert math.log is own


@pytest.mark.parametrize(
    "function",
    [
        lambda n: int(math.log2(n)),
        lambda n: math.ceil(math.log2(n)),
        lambda n: int(math.log(n, 2)),
        lambda n: int(n**0.5),
        lambda n: math.floor(math.sqrt(n)),
        lambda n: round(math.sqrt(n)),
        lambda n: round(n * 0.7),
    ],
)
def test_what_is_rounded_may_be_a_size(function: Callable[[Any], Any]) -> None:
    model = Calls(lambda x: x.new_ones(function(x.shape[0]), 2))
    spec = {"args": ({0: Dim("n", min=1, max=5000)},)}
    captured = capture_module(model, (torch.ones(37, 1),), dynamic_shapes=spec)
    for n in (1, 2, 3, 4, 15, 16, 17, 24, 25, 1023, 1024, 4095, 4096, 5000):
        (found,) = interpret_lowered(captured, (torch.ones(n, 1),))
        assert found.shape[0] == function(n), n


def _powers(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The sizes to which filters by spectra and blocks are filled."""
    n = x.shape[0]
    above = 2 ** math.ceil(math.log2(n))
    filled = torch.nn.functional.pad(x, (0, above - n))
    return filled, torch.arange(1 << (n - 1).bit_length()), x * 2 ** int(math.log(n, 3))


def test_powers_of_computed_numbers_are_sizes_of_the_run() -> None:
    x = torch.arange(1.0, 7.0)
    captured = capture_module(Calls(_powers), (x,), dynamic_shapes=({0: Dim.DYNAMIC},))
    for n in (6, 2, 8, 9, 33):
        given = torch.arange(1.0, n + 1.0)
        for found, wanted in zip(
            interpret_lowered(captured, (given,)), _powers(given), strict=True
        ):
            assert_close(torch.as_tensor(found), wanted)


def test_numbers_below_zero_have_as_many_digits_as_above() -> None:
    def digits(x: torch.Tensor) -> torch.Tensor:
        return torch.arange((x.shape[0] - 4).bit_length())

    captured = capture_module(Calls(digits), (torch.ones(6),), dynamic_shapes=({0: Dim.DYNAMIC},))
    for n in (2, 3, 4, 5, 8, 20):
        (found,) = interpret_lowered(captured, (torch.ones(n),))
        assert len(found) == (n - 4).bit_length()


def _of_two_numbers(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    n, (whole, rest) = x.shape[0], divmod(x.shape[0], 5)
    lengths = (math.gcd(n, 12), whole, rest, n & 7, n & ~3)
    numbers = (math.hypot(n, 3), math.atan2(n, 7), math.fmod(n, 2.5), math.copysign(2.0, n - 9))
    return (*map(torch.arange, lengths), *(x * number for number in numbers))


def test_functions_of_two_numbers_and_masks() -> None:
    captured = capture_module(
        Calls(_of_two_numbers), (torch.ones(37),), dynamic_shapes=({0: Dim("n", min=5, max=500)},)
    )
    for n in (5, 8, 9, 37, 96, 500):
        given = torch.randn(n)
        found, wanted = interpret_lowered(captured, (given,)), _of_two_numbers(given)
        for made, eager in zip(found, wanted, strict=True):
            assert_close(torch.as_tensor(made), eager)


def _tensors_of_numbers(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    n = x.shape[0]
    return (
        torch.as_tensor(5 * n / 7),
        torch.as_tensor([n, 4], dtype=torch.int32),
        torch.asarray((n / 3, 1.0)),
        x.new_tensor([n, 1]),
        x[: torch.ceil(torch.as_tensor(5 * n / 7)).long()],
    )


def test_tensors_of_numbers_of_sizes_are_those_of_the_run() -> None:
    """As those of `torch.tensor` are: torchaudio resamples to a length that is one."""
    captured = capture_module(
        Calls(_tensors_of_numbers), (torch.ones(7),), dynamic_shapes=({0: Dim.DYNAMIC},)
    )
    for n in (7, 5, 20):
        given = torch.randn(n)
        found, wanted = interpret_lowered(captured, (given,)), _tensors_of_numbers(given)
        for made, eager in zip(found, wanted, strict=True):
            assert made.shape == tuple(eager.shape)
            assert_close(torch.as_tensor(made), eager)


def test_tensors_of_other_numbers_are_torchs_own() -> None:
    with open_math():
        x = torch.ones(2)
        assert torch.as_tensor(x) is x
        assert torch.as_tensor([1, 2], dtype=torch.int8).dtype == torch.int8
        assert x.double().new_tensor([1]).dtype == torch.float64


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("trunc_to_int", torch.sym_int),
        ("floor_to_int", math.floor),
        ("ceil_to_int", math.ceil),
        ("int_truediv", operator.truediv),
    ],
)
def test_roundings_and_quotients_are_written_into_graphs(name: str, target: Any) -> None:
    """A call stands for one; without, torch asks the node for its value."""
    graph = torch.fx.Graph()
    node = torch.fx.Proxy(graph.placeholder("n"))
    more = 2 if name == "int_truediv" else torch.int64
    with truncating():
        made = getattr(PythonReferenceAnalysis, name)(node, more)
    assert made.node.target is target
    with pytest.raises((torch.fx.proxy.TraceError, TypeError)):
        getattr(PythonReferenceAnalysis, name)(node, more)
