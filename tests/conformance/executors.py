"""What can run an operator row: a table of executors.

An executor takes a captured program and its inputs, and gives the flat outputs as arrays.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from aot_runtime.format.pairs import from_pairs, in_pairs
from torch.utils import _pytree as pytree

from aot import driver
from aot.backends.registry import backend_for
from aot.backends.triton import dot_tiling
from aot.backends.triton.backend import TritonBackend
from aot.frontend.capture import Captured
from aot.frontend.ingest import ingest
from aot.frontend.weights import to_array
from aot.ir.interpreter import bind_dims, interpret_kernels, interpret_outline
from aot.ir.interpreter_flow import Operators
from aot.ir.kernels import KernelGraph
from aot.ir.machine import Machine
from aot.ir.tensors import TensorGraph
from aot.link.derive import DerivedStore
from aot.lowering.lower import lower_outline
from aot.lowering.outline import outline
from aot.options import ALL_CPU, CPU_LEVELS, Target, from_environment, parse_target
from aot.passes.pipeline import run_passes
from aot.report.texts import stage_texts, verify_stage
from aot.schedule.fusion import fuse
from aot.schedule.join import join
from aot.schedule.memory import plan_memory
from tests.backends.triton.interpret import run_emitted, run_flow

Args = tuple[Any, ...]
Executor = Callable[[Captured, Args], list[np.ndarray]]


def interpret_lowered(captured: Captured, inputs: Args) -> list[np.ndarray]:
    """The loop graph in NumPy: checks the lowering alone."""
    graph, weights = ingest(captured)
    loops = lower_outline(outline(graph))
    verify_stage(loops)
    assert stage_texts(loops), "every row's dump can be made"
    arrays = _named(graph.inputs, inputs)
    found = interpret_outline(loops, arrays, weights.array, _dims(graph, inputs))
    return _seen(graph, found)


def interpret_fused(
    captured: Captured, inputs: Args, operators: Operators | None = None
) -> list[np.ndarray]:
    """The kernel graph in NumPy: checks passes and scheduling too."""
    graph, weights = ingest(captured, tuple(operators or ()))
    backend = backend_for(ALL_CPU)
    machine = backend.machine(ALL_CPU)
    kernels = backend.prepare(scheduled(graph, machine), ALL_CPU)
    verify_stage(kernels)
    assert stage_texts(kernels), "every row's dump can be made"
    store = DerivedStore(weights, kernels.derived, kernels.buffers, backend.recipes())
    arrays = _named(kernels.inputs, inputs)
    dims = _dims(graph, inputs)
    found = interpret_kernels(kernels, arrays, store.array, dims, operators=operators)
    return _seen(graph, found)


def _named(names: tuple[str, ...], inputs: Args) -> dict[str, np.ndarray]:
    return {name: in_pairs(to_array(t)) for name, t in zip(names, inputs, strict=True)}


def _seen(graph: TensorGraph, found: Iterable[np.ndarray]) -> list[np.ndarray]:
    """The results as callers see them: complex ones are pairs in graphs of reals."""
    types = [graph.types[name].dtype.numpy for name in graph.outputs]
    return [from_pairs(array, dtype) for array, dtype in zip(found, types, strict=True)]


def scheduled(graph: TensorGraph, machine: Machine) -> KernelGraph:
    """The kernels of a graph, each stage verified."""
    loops = run_passes(lower_outline(outline(graph)), machine)
    verify_stage(loops)
    kernels = join(loops.map(lambda part: fuse(part, machine)))
    verify_stage(kernels)
    return kernels


def _dims(graph: TensorGraph, inputs: Args) -> dict[str, int]:
    return bind_dims(graph.dims, [tuple(t.shape) for t in inputs])


def interpret_triton(captured: Captured, inputs: Args) -> list[np.ndarray]:
    """The Triton kernels in Triton's interpreter: checks the GPU backend's code, with no GPU."""
    graph, weights = ingest(captured)
    backend, target = TritonBackend(), Target("cuda", ("sm_90",))
    machine = backend.machine(target)
    kernels = scheduled(graph, machine)
    kernels = backend.prepare(kernels, target)
    verify_stage(kernels)
    # Products by groups of warps are in Gluon, which has no interpreter.
    with patch.object(dot_tiling, "GROUPED", ()):
        emitted = backend.emit(kernels, target)
    store = DerivedStore(weights, emitted.graph.derived, emitted.graph.buffers, backend.recipes())
    arrays = _named(kernels.inputs, inputs)
    in_place = plan_memory(emitted.graph).in_place
    run = run_flow if kernels.flow else run_emitted
    outputs, fault = run(emitted, arrays, store.array, _dims(graph, inputs), in_place)
    assert fault == 0, "a kernel reports a wrong index"
    return _seen(graph, outputs)


def packaged(target: Target) -> Executor:
    """A package for one target, run by the Python loader on its device."""

    def run(captured: Captured, inputs: Args) -> list[np.ndarray]:
        import aot_runtime  # the loader is not needed to interpret

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "row.pkg"
            driver.build(captured, from_environment(output=path, targets=(target,), golden=False))
            # Loaders refuse views that are conjugates: their memory is not what they say.
            given = pytree.tree_map_only(torch.Tensor, torch.resolve_conj, inputs)
            outputs = aot_runtime.load(path, target.device)(*given)
            return [
                np.array(o if isinstance(o, np.ndarray) else to_array(o)) for o in _leaves(outputs)
            ]

    return run


def _leaves(nested: Any) -> list[torch.Tensor | np.ndarray]:
    """The tensors, arrays if there was no input; numbers among the results were known at build."""
    arrays = (torch.Tensor, np.ndarray)
    return [leaf for leaf in pytree.tree_leaves(nested) if isinstance(leaf, arrays)]


EXECUTORS: Mapping[str, Executor] = {
    "loops": interpret_lowered,
    "kernels": interpret_fused,
    "triton": interpret_triton,
    **{f"cpu:{level}": packaged(Target("cpu", (level,))) for level in CPU_LEVELS},
}
"""By name; those of a device carry the target's name."""

GPU = "cuda"
"""The executor that needs this machine to have a GPU: packages for it."""


def executor_named(name: str) -> Executor | None:
    """An executor of the table, or the GPU; None for another name."""
    if name != GPU:
        return EXECUTORS.get(name)
    return packaged(parse_target(gpu_target()))


def gpu_target() -> str:
    """The target of this machine's first GPU."""
    major, minor = torch.cuda.get_device_capability(0)
    return f"cuda:sm_{major}{minor}"
