"""Recurrences: what they mean is eager's, nests of a known length give the same."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from aot.errors import InternalError
from aot.ir.hints import Hints
from aot.ir.loops import LoopGraph
from aot.ir.nests import LoopNest
from aot.ir.origin import NO_ORIGIN
from aot.ir.templates import Recurrence, RecurrenceSupport, Spread, Support
from aot.ir.templates.recurrence import GATES
from aot.lowering.builder import GraphBuilder, Tensor, identity_view
from aot.passes.expand_templates import expand_templates
from aot.passes.split_templates import split_templates
from aot.symbolic import as_expr, to_text
from tests.ir.templates.views import strides, view
from tests.schedule.graphs import BARE, BATCH, S0, Size, interpret, make_graph
from tests.settings import seeded

ROWS, UNITS, SEEN = 2, 3, 2
_EAGER = {"lstm": torch.lstm, "gru": torch.gru, "tanh": torch.rnn_tanh, "relu": torch.rnn_relu}
KINDS = [(cell, backwards) for cell in GATES for backwards in (False, True)]


def graph_of(cell: str, steps: Size, *, backwards: bool, ends: bool, projected: bool) -> LoopGraph:
    """A layer's steps; inputs are called as the operands are."""
    size, gates = SEEN if projected else UNITS, GATES[cell] * UNITS
    shapes = {"x": (steps, ROWS, gates), "weight": (size, gates), "hidden": (ROWS, size)}
    if cell == "lstm":
        shapes["state"] = (ROWS, UNITS)
    if cell == "gru":
        shapes["bias"] = (UNITS,)
    if projected:
        shapes["projection"] = (UNITS, SEEN)

    def body(builder: GraphBuilder, *tensors: Tensor) -> list[Tensor]:
        given = {n: identity_view(t) for n, t in zip(shapes, tensors, strict=True)}
        call = partial(Recurrence, cell=cell, backwards=backwards, ends=ends, **given)
        rows = as_expr(steps) + (1 if ends else 0)
        shape = (rows, as_expr(ROWS), as_expr(UNITS if ends else size))
        return [builder.template(call, shape, tensors[0].dtype)]

    return make_graph(body, shapes, {}, (BATCH,) if steps is S0 else ())


def values(graph: LoopGraph, steps: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seeded())
    sizes = {
        name: [steps if s == S0 else int(s) for s in graph.buffers[name].shape]
        for name in graph.inputs
    }
    return {n: rng.standard_normal(shape).astype(np.float32) for n, shape in sizes.items()}


def eager(cell: str, given: dict[str, np.ndarray], backwards: bool) -> list[np.ndarray]:
    """What is seen of all steps, and the last states; x is the layer's input by a unit matrix."""
    wide = {name: torch.from_numpy(a.astype(np.float64)) for name, a in given.items()}
    x = wide["x"].flip(0) if backwards else wide["x"]
    weights = [torch.eye(x.shape[2], dtype=torch.float64), wide["weight"].T.contiguous()]
    if cell == "gru":
        zeros = torch.zeros(x.shape[2], dtype=torch.float64)
        weights += [zeros, torch.cat([zeros[: 2 * UNITS], wide["bias"]])]
    if "projection" in wide:
        weights.append(wide["projection"].T.contiguous())
    names = ("hidden", "state") if cell == "lstm" else ("hidden",)
    states = [wide[name][None] for name in names]
    first = states if cell == "lstm" else states[0]
    seen, *ends = _EAGER[cell](x, first, weights, cell == "gru", 1, 0.0, False, False, False)
    return [(seen.flip(0) if backwards else seen).numpy(), *(e[0].numpy() for e in ends)]


@pytest.mark.parametrize(("cell", "backwards"), KINDS)
@pytest.mark.parametrize("steps", [1, 5])
def test_it_means_what_eager_does(cell: str, backwards: bool, steps: int) -> None:
    graph = graph_of(cell, S0, backwards=backwards, ends=cell == "lstm", projected=False)
    given = values(graph, steps)
    (found,) = interpret(graph, given, {}, {"s0": steps})
    seen, *_, last = eager(cell, given, backwards)
    np.testing.assert_allclose(found[:steps], seen, rtol=1e-5, atol=1e-6)
    if cell == "lstm":
        np.testing.assert_allclose(found[steps], last, rtol=1e-5, atol=1e-6)


def test_what_is_seen_may_be_projected() -> None:
    graph = graph_of("lstm", S0, backwards=False, ends=True, projected=True)
    given = values(graph, 4)
    (found,) = interpret(graph, given, {}, {"s0": 4})
    seen, _, last = eager("lstm", given, False)
    np.testing.assert_allclose(found[:4, :, :SEEN], seen, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found[:4, :, SEEN:], 0.0)
    np.testing.assert_allclose(found[4], last, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("cell", "backwards"), KINDS)
@pytest.mark.parametrize("projected", [False, True])
def test_nests_of_a_known_length_give_the_same(cell: str, backwards: bool, projected: bool) -> None:
    if projected and cell != "lstm":
        pytest.skip("of LSTM only")
    for ends in (False, True) if cell == "lstm" else (False,):
        graph = graph_of(cell, 4, backwards=backwards, ends=ends, projected=projected)
        given = values(graph, 4)
        (expected,) = interpret(graph, given, {})
        (found,) = interpret(expand_templates(graph, BARE), given, {})
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_nests_of_a_dynamic_length_are_refused() -> None:
    graph = graph_of("gru", S0, backwards=False, ends=False, projected=False)
    with pytest.raises(InternalError, match="has no dynamic steps"):
        expand_templates(graph, BARE)


def test_nests_without_steps_are_refused() -> None:
    graph = graph_of("tanh", 0, backwards=False, ends=False, projected=False)
    with pytest.raises(InternalError, match="has no steps"):
        expand_templates(graph, BARE)


SPREAD = RecurrenceSupport(Recurrence, spread=Spread(least_elements=36, most_depth=3, rows=4))
SPREADING = replace(BARE, templates=(SPREAD,))


def test_steps_are_shared_out_where_the_device_can_wait() -> None:
    graph = graph_of("lstm", S0, backwards=True, ends=True, projected=False)
    (clear, call) = split_templates(graph, SPREADING).ops
    assert isinstance(clear, LoopNest) and isinstance(call, Recurrence) and call.marks is not None
    assert to_text(clear.axes[0].extent) == "s0 + 2"
    given = values(graph, 5)
    (expected,) = interpret(graph, given, {}, {"s0": 5})
    (found,) = interpret(split_templates(graph, SPREADING), given, {}, {"s0": 5})
    np.testing.assert_array_equal(found, expected)


def test_small_and_projected_steps_and_those_of_other_devices_are_not() -> None:
    small = graph_of("gru", S0, backwards=False, ends=False, projected=False)
    projected = graph_of("lstm", S0, backwards=False, ends=False, projected=True)
    assert split_templates(small, SPREADING) is small
    assert split_templates(projected, SPREADING) is projected
    alone = replace(BARE, templates=(RecurrenceSupport(Recurrence),))
    large = graph_of("lstm", S0, backwards=False, ends=False, projected=False)
    assert split_templates(large, alone) is large
    shallow = replace(SPREAD, spread=Spread(least_elements=1, most_depth=2, rows=4))
    assert split_templates(large, replace(BARE, templates=(shallow,))) is large


def call_of(**more: object) -> Recurrence:
    given = {"x": view(5, 2, 12), "weight": view(3, 12), "hidden": view(2, 3), "cell": "lstm"}
    return Recurrence("r", view(5, 2, 3), NO_ORIGIN, **{**given, "state": view(2, 3), **more})


def test_every_step_multiplies_by_all_weights() -> None:
    assert to_text(call_of().flops()) == str(5 * 2 * 3 * 12 * 2)
    assert to_text(call_of(projection=view(3, 2)).flops()) == str(5 * 2 * (36 + 6) * 2)


def test_gates_are_read_by_vectors() -> None:
    call, support = call_of(bias=view(3)), Support(Recurrence)
    far = {"x": strides(24, 1, 2), "bias": strides(2), "hidden": strides(1, 2), "state": None}
    assert "not contiguous" in call.misfit("x", support, far, Hints({}))
    assert "not contiguous" in call.misfit("bias", support, far, Hints({}))
    assert not call.misfit("hidden", support, far, Hints({}))
    assert not call.misfit("state", support, far, Hints({}))
    assert [role for role, _ in call.operands if call.packs(role, support)] == ["weight"]
