"""The weight program: which routines there are, what they take, that they compute the weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from aot import driver
from aot.backends.cpp.backend import CppBackend
from aot.frontend.capture import capture_module
from aot.ir.interpreter import interpret_loops
from aot.ir.kernels import KernelGraph
from aot.ir.verify import verify_loops
from aot.ir.weights import WeightStore
from aot.link.derive import DerivedStore
from aot.options import ALL_CPU, BuildOptions
from aot.passes.weight_routines import WeightRoutines, weight_routines
from aot.report.observers import Keep
from tests.settings import seeded


class Net(torch.nn.Module):
    """Three equal layers and one other, batch norm, and a constant that is folded."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(33, 33) for _ in range(3))
        self.last = torch.nn.Linear(33, 5)
        self.norm = torch.nn.BatchNorm1d(5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.norm(self.last(x)) * torch.arange(5).float().exp()


@pytest.fixture(scope="module")
def found() -> tuple[KernelGraph, WeightStore, WeightRoutines]:
    torch.manual_seed(seeded())
    kept = Keep()
    with pytest.raises(driver.Stopped):
        driver.build(
            capture_module(Net().eval(), (torch.ones(4, 33),)),
            BuildOptions(targets=(ALL_CPU,), stop_after="emit", cache_dir=Path("unused")),
            kept,
        )
    (emitted,) = kept.values["emit"].values  # type: ignore[attr-defined]
    _, weights = kept.values["ingest"]  # type: ignore[misc]
    used = [name for launch in emitted.launches for name in launch.buffers]
    return emitted.graph, weights, weight_routines(emitted.graph, used)


def test_equal_layers_share_a_routine(
    found: tuple[KernelGraph, WeightStore, WeightRoutines],
) -> None:
    _, _, program = found
    layers = [d for d in program.derivations if d.sources[0].startswith("layers.")]
    assert sorted(d.sources for d in layers) == [(f"layers.{k}.weight",) for k in range(3)]
    assert len({d.routine for d in layers}) == 1
    (last,) = [d for d in program.derivations if d.sources == ("last.weight",)]
    assert last.routine != layers[0].routine
    assert len(program.routines) == len({d.routine for d in program.derivations})


def test_what_depends_on_no_weight_is_left_out(
    found: tuple[KernelGraph, WeightStore, WeightRoutines],
) -> None:
    graph, _, program = found
    assert all(d.sources for d in program.derivations)
    assert {d.weight for d in program.derivations} < {d.name for d in graph.derived}


def test_routines_compute_the_weights(
    found: tuple[KernelGraph, WeightStore, WeightRoutines],
) -> None:
    graph, weights, program = found
    store = DerivedStore(weights, graph.derived, graph.buffers, CppBackend().recipes())
    for derivation in program.derivations:
        routine = program.routines[derivation.routine]
        verify_loops(routine)
        sources = zip(routine.inputs, derivation.sources, strict=True)
        arrays = {name: weights.array(fqn) for name, fqn in sources}
        (made,) = interpret_loops(routine, arrays, weights.array, {})
        np.testing.assert_array_equal(made, store.array(derivation.weight))
