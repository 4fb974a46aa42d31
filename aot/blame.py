"""Where a package first computes something else than eager: the stage, the kernel, the line.

Each stage's graph has a reference interpreter, so a wrong result lies between the last stage whose
outputs are right and the first whose are wrong. Within it, values are compared one by one: of the
lowered model with those of eager's operators, of kernels with those of the lowered model, of the
package's steps with those of its kernels. Interpreters are slow (NumPy, an operation at a time).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from aot_runtime.format.pairs import in_pairs
from aot_runtime.tools.loaded import LoadedModel, step_results
from aot_runtime.tools.verify import step_name

from aot.errors import Origin
from aot.frontend.exact import LineValue
from aot.ir.interpreter import bind_dims, interpret_loops, kernel_values, loop_values
from aot.ir.kernels import KernelGraph, kernel_ops
from aot.ir.loops import LoopGraph, writes
from aot.ir.nests import Buffer
from aot.ir.weights import WeightStore
from aot.symbolic import dim, evaluate

Array = np.ndarray[Any, Any]

CLOSE = 1e-3
"""Of a value's greatest magnitude: above what rounding does to most values, below most mistakes."""


@dataclass(frozen=True)
class Stages:
    """What a build gave of a model without control flow.

    Attributes:
        lowered: The loop graph, an operator at a time.
        kernels: What was emitted.
        own: The model's weights.
        derived: Those and what is folded and packed of them.
    """

    lowered: LoopGraph
    kernels: KernelGraph
    own: WeightStore
    derived: WeightStore


@dataclass(frozen=True)
class Blame:
    """The first difference.

    Attributes:
        stage: "lowering", "fusion" or "code"; "" where none was found.
        where: The kernel or operator, and the model's line.
    """

    stage: str
    where: str

    def __str__(self) -> str:
        """One line for people."""
        return f"{self.where}, in {self.stage}" if self.stage else "not found"


NOT_FOUND = Blame("", "")


def first_difference(
    stages: Stages,
    model: LoadedModel,
    lines: Sequence[LineValue],
    inputs: Sequence[Array],
    expected: Sequence[Array],
) -> Blame:
    """What first differs from eager in a run of a package whose outputs do.

    Args:
        stages: Of the build that made the package.
        model: The package, loaded.
        lines: Eager's values for these inputs.
        inputs: One array for each input.
        expected: Eager's outputs.
    """
    lowered = stages.lowered
    dims = bind_dims(lowered.dims, [array.shape for array in inputs])
    # Graphs hold complex numbers as pairs.
    paired, expected = [in_pairs(a) for a in inputs], [in_pairs(e) for e in expected]
    given = dict(zip(lowered.inputs, paired, strict=True))
    own = stages.own.array
    outputs = interpret_loops(lowered, given, own, dims)
    if not all(map(close, outputs, expected)):
        return _of_lowering(lowered, loop_values(lowered, given, own, dims), lines)
    values = loop_values(lowered, given, own, dims)
    kernels = stages.kernels
    named = dict(zip(kernels.inputs, paired, strict=True))
    fused = kernel_values(kernels, named, stages.derived.array, dims)
    if not all(close(fused[name], e) for name, e in zip(kernels.outputs, expected, strict=True)):
        return _of_fusion(kernels, fused, values)
    return _of_code(model, inputs, kernels, fused, dims)


def close(actual: Array, expected: Array) -> bool:
    """Whether two values are the same but for rounding."""
    if actual.shape != expected.shape:
        return False
    wide = np.complex128 if "c" in (actual.dtype.kind, expected.dtype.kind) else np.float64
    a, e = actual.astype(wide), expected.astype(wide)
    finite = np.isfinite(e)
    scale = float(np.max(np.abs(e[finite]), initial=0.0))
    same = (a == e) | (np.isnan(a) & np.isnan(e))
    with np.errstate(invalid="ignore"):
        return bool(np.all(same | (np.abs(a - e) <= CLOSE * max(scale, 1e-30))))


def _key(origin: Origin) -> tuple[str, int, str]:
    return origin.file, origin.line, origin.operator


def _of_lowering(
    graph: LoopGraph, values: Mapping[str, Array], lines: Iterable[LineValue]
) -> Blame:
    """The first of eager's operators whose result no operation of its line has."""
    made: dict[tuple[str, int, str], list[Array]] = {}
    for op in graph.ops:
        made.setdefault(_key(op.origin), []).extend(values[name] for name in writes(op))
    for line in lines:
        value = in_pairs(line.value)
        found = [a for a in made.get(_key(line.origin), ()) if a.shape == value.shape]
        if found and not any(close(a, value) for a in found):
            return Blame("lowering", str(line.origin))
    return Blame("lowering", "an operator whose result is not kept")


def _of_fusion(
    graph: KernelGraph, fused: Mapping[str, Array], values: Mapping[str, Array]
) -> Blame:
    """The first kernel that gives a buffer another value than the lowered model does."""
    for kernel in graph.kernels:
        for op in kernel_ops(kernel):
            for name in writes(op):
                wrong = name in values and name in fused and not close(fused[name], values[name])
                if wrong:
                    return Blame("fusion", f"{kernel.name} ({op.origin})")
    return Blame("fusion", "a kernel whose buffers are its own")


def _of_code(
    model: LoadedModel,
    inputs: Sequence[Array],
    graph: KernelGraph,
    fused: Mapping[str, Array],
    dims: Mapping[str, int],
) -> Blame:
    """The first step of a run after which a buffer differs from what its kernel means."""
    buffers = model.program.buffers
    for (step, index), found in step_results(model, inputs).items():
        name = buffers[index].name
        if name not in fused or name not in graph.buffers:
            continue
        expected = in_memory(graph.buffers[name], fused[name], dims)
        if expected.size == found.size and not close(found, expected.ravel()):
            return Blame("code", step_name(model, step))
    return NOT_FOUND


def in_memory(buffer: Buffer, value: Array, dims: Mapping[str, int]) -> Array:
    """A buffer's elements in the order in which they lie in memory, where they fill it."""
    symbols = {dim(name): size for name, size in dims.items()}
    strides = [int(evaluate(s, symbols)) for s in buffer.strides or ()] or [0] * value.ndim
    order = sorted(range(value.ndim), key=lambda axis: (-strides[axis], axis))
    return np.ascontiguousarray(value.transpose(order))
