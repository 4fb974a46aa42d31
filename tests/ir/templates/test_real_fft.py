"""Fourier transforms of real numbers and back: what they mean, and as nests around complex ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from aot.ir.loops import LoopGraph
from aot.ir.nests import LoopNest
from aot.ir.templates import Fft, RealFft, Support
from aot.ir.verify import verify_loops
from aot.lowering import real_fourier
from aot.lowering.builder import GraphBuilder, Tensor
from aot.lowering.fourier import Signal
from aot.lowering.real_fourier import of_real, to_real
from aot.passes.expand_templates import expand_templates
from aot.symbolic import integer
from tests.schedule.graphs import BARE, BATCH, S0, Size, interpret, make_graph
from tests.settings import seeded

FORMS = ["half", "whole", "back"]


def graph_of(form: str, points: int, inner: int) -> LoopGraph:
    """A graph of one call for so many real numbers."""

    def there(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        return [of_real(x, 1, 0.5, integer(points // 2 + 1 if form == "half" else points))]

    def back(builder: GraphBuilder, re: Tensor, im: Tensor) -> Sequence[Tensor]:
        return [to_real(Signal(re, im), 1, integer(points), 0.5)]

    if form != "back":
        shape: tuple[Size, ...] = (S0, points, inner)
        return make_graph(there, {"x": shape}, dims=(BATCH,))
    shape = (S0, points // 2 + 1, inner)
    return make_graph(back, {"re": shape, "im": shape}, dims=(BATCH,))


def given_of(graph: LoopGraph, points: int, inner: int) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seeded())
    rows = points if graph.inputs == ("x",) else points // 2 + 1
    return {n: rng.standard_normal((3, rows, inner)).astype(np.float32) for n in graph.inputs}


def wanted_of(
    form: str, given: dict[str, np.ndarray[Any, Any]], points: int
) -> np.ndarray[Any, Any]:
    if form == "back":
        z = given["re"] + 1j * given["im"].astype(np.float64)
        return 0.5 * np.fft.irfft(z, n=points, axis=1, norm="forward")
    found = (np.fft.rfft if form == "half" else np.fft.fft)(given["x"], axis=1)
    return 0.5 * np.stack([found.real, found.imag], -1)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("points", "inner"), [(4, 1), (6, 3), (60, 1), (160, 1)])
def test_nests_compute_what_the_call_means(form: str, points: int, inner: int) -> None:
    graph = graph_of(form, points, inner)
    assert [type(op) for op in graph.ops if not isinstance(op, LoopNest)] == [RealFft]
    given = given_of(graph, points, inner)
    nests = expand_templates(graph, BARE)
    verify_loops(nests)
    assert all(isinstance(op, LoopNest) for op in nests.ops)
    for made in (graph, nests):
        (found,) = interpret(made, given, {}, {"s0": 3})
        assert np.allclose(found, wanted_of(form, given, points), atol=1e-5 * points)


@pytest.mark.parametrize("form", FORMS)
def test_a_device_with_complex_transforms_alone_has_a_call_of_them(form: str) -> None:
    graph = graph_of(form, 60, 3)
    steps = expand_templates(graph, replace(BARE, templates=(Support(Fft),)))
    verify_loops(steps)
    (call,) = (op for op in steps.ops if not isinstance(op, LoopNest))
    assert type(call) is Fft
    assert call.sizes == (30, 1)
    given = given_of(graph, 60, 3)
    (found,) = interpret(steps, given, {}, {"s0": 3})
    assert np.allclose(found, wanted_of(form, given, 60), atol=1e-3)


@pytest.mark.parametrize("form", FORMS)
def test_many_roots_are_products_of_few(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of more points than a test has: tables of 4 roots, and of every fourth."""
    monkeypatch.setattr(real_fourier, "MOST_UNSPLIT", 8)
    monkeypatch.setattr(real_fourier, "_FINE_ROOTS", 4)
    graph = graph_of(form, 60, 1)
    (call,) = (op for op in graph.ops if isinstance(op, RealFft))
    assert call.turns is not None and call.leaps is not None
    assert (call.turns.axes[0].extent, call.leaps.axes[0].extent) == (8, 8)
    given = given_of(graph, 60, 1)
    nests = expand_templates(graph, BARE)
    (found,) = interpret(nests, given, {}, {"s0": 3})
    assert np.allclose(found, wanted_of(form, given, 60), atol=1e-3)
