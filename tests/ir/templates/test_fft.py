"""Fourier transforms: their factors, what they mean, and as nests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from aot.ir.loops import LoopGraph
from aot.ir.nests import LoopNest
from aot.ir.templates import Fft, Support
from aot.ir.templates.fft import digits_of, padded, radices
from aot.ir.verify import verify_loops
from aot.lowering.builder import GraphBuilder, Tensor
from aot.lowering.fourier import Direction, Signal, transformed
from aot.passes.expand_templates import expand_templates
from tests.schedule.graphs import BARE, BATCH, S0, Size, interpret, make_graph
from tests.settings import seeded


@pytest.mark.parametrize(
    ("n", "widest", "wanted"),
    [
        (1, 8, ()),
        (16, 8, (4, 4)),
        (1024, 8, (8, 8, 4, 4)),
        (360, 4, (4, 2, 5, 3, 3)),
        (62, 2, (2, 31)),
    ],
)
def test_factors_are_alike_powers_of_two_and_odd_primes(
    n: int, widest: int, wanted: tuple[int, ...]
) -> None:
    assert radices(n, widest) == wanted


def graph_of(points: int, inner: Size = 1, *, inverse: bool = False) -> LoopGraph:
    def body(builder: GraphBuilder, re: Tensor, im: Tensor) -> Sequence[Tensor]:
        return [transformed(Signal(re, im), 1, Direction(0.5, inverse=inverse))]

    shape: tuple[Size, ...] = (S0, points, inner)
    return make_graph(body, {"re": shape, "im": shape}, dims=(BATCH,))


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize(
    ("points", "inner"), [(1, 1), (12, 1), (30, 3), (64, 1), (144, 1), (34, 2)]
)
def test_nests_compute_what_the_call_means(points: int, inner: int, inverse: bool) -> None:
    graph = graph_of(points, inner, inverse=inverse)
    assert any(isinstance(op, Fft) for op in graph.ops)
    rng = np.random.default_rng(seeded())
    given = {n: rng.standard_normal((5, points, inner)).astype(np.float32) for n in ("re", "im")}
    nests = expand_templates(graph, BARE)
    verify_loops(nests)
    assert all(isinstance(op, LoopNest) for op in nests.ops)
    x = given["re"] + 1j * given["im"].astype(np.float64)
    transform = np.fft.ifft if inverse else np.fft.fft
    wanted = 0.5 * transform(x, axis=1, norm="forward" if inverse else "backward")
    for made in (graph, nests):
        (found,) = interpret(made, given, {}, {"s0": 5})
        assert np.allclose(found[..., 0] + 1j * found[..., 1], wanted, atol=1e-5 * points)


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize(("points", "inner"), [(144, 1), (30, 3)])
def test_two_steps_are_the_call(points: int, inner: int, inverse: bool) -> None:
    """Where the device has a template, but not for so many points."""
    graph = graph_of(points, inner, inverse=inverse)
    few = replace(BARE, templates=(Support(Fft, _takes_few),))
    steps = expand_templates(graph, few)
    verify_loops(steps)
    assert len([op for op in steps.ops if isinstance(op, Fft)]) == 2
    rng = np.random.default_rng(seeded())
    given = {n: rng.standard_normal((5, points, inner)).astype(np.float32) for n in ("re", "im")}
    wanted, found = (interpret(made, given, {}, {"s0": 5})[0] for made in (graph, steps))
    assert np.allclose(found, wanted, atol=1e-5 * points)


def _takes_few(call: Fft, buffers: object, hints: object) -> str:
    first, second = call.sizes
    return "" if first * second <= 16 else "too many points"


@pytest.mark.parametrize(
    ("n", "digits", "room"),
    [
        (1, (1,), 1),
        (16, (16,), 16),
        (1024, (16, 8, 8), 1024),
        (1000, (8, 25, 5), 2048),
        (243, (27, 9), 512),
        (49, (7, 7), 64),
        (31, (31,), 32),
    ],
)
def test_odd_primes_share_a_digit_where_that_wastes_no_room(
    n: int, digits: tuple[int, ...], room: int
) -> None:
    assert digits_of(n, 16) == digits
    assert padded(digits) == room
