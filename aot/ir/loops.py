"""The loop graph: loop nests and template calls over buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aot.ir.decisions import Decision
from aot.ir.dtypes import DType
from aot.ir.origin import Origin
from aot.ir.scalar import Access, Node, loads
from aot.ir.tensors import Dim, Mutation, Signature, SizeRelation
from aot.symbolic import Expr, Ranges, Symbol, dim, var


@dataclass(frozen=True)
class Buffer:
    """A tensor in memory.

    `kind`: "input", "weight" (read-only, in the package), "state" (kept by the session from run to
    run), "temp" (also outputs: see LoopGraph.outputs). `strides` in elements; None until the
    layout pass has chosen them. `fqn`: a weight's or state's name in the weight store.
    """

    name: str
    dtype: DType
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...] | None
    kind: str
    fqn: str = ""


@dataclass(frozen=True)
class Axis:
    """A loop: `symbol` runs over [0, extent)."""

    symbol: Symbol
    extent: Expr


def numbered_axes(prefix: str, shape: Sequence[Expr]) -> tuple[Axis, ...]:
    """Loops over a shape: i0, i1, … for the prefix "i"."""
    return tuple(Axis(var(f"{prefix}{k}"), size) for k, size in enumerate(shape))


@dataclass(frozen=True)
class Store:
    """Writes `value` to one element of `buffer` for each point of the nest's axes.

    Set stores cover each element of the buffer at most once. mode: "set" or "add" (atomic).
    `binds`: indirect symbols of `index`, with their nodes; where two points of the nest write one
    element, they write the same value. `base`: the buffer is this one with the stored elements
    replaced; without one, a nest writes all elements.
    """

    buffer: str
    index: tuple[Expr, ...]
    value: Node
    mode: str = "set"
    binds: tuple[tuple[Symbol, Node], ...] = ()
    base: str = ""


@dataclass(frozen=True)
class LoopNest:
    """A body evaluated at every point of an iteration space.

    `axes`: the kept axes. `reduction`: the reduction axes; `reduce` nodes combine over all of them,
    and nodes outside a `reduce` use `axes` only. One nest writes each of its buffers completely
    unless a store's mode says otherwise. `absorbed`: origins of the nests inlined into this one,
    in program order; for reports only.
    """

    name: str
    axes: tuple[Axis, ...]
    reduction: tuple[Axis, ...]
    stores: tuple[Store, ...]
    origin: Origin
    absorbed: tuple[Origin, ...] = ()

    @property
    def roots(self) -> tuple[Node, ...]:
        """Stored values and the values that stores index with."""
        return tuple(n for s in self.stores for n in (s.value, *(b for _, b in s.binds)))


@dataclass(frozen=True)
class View:
    """A buffer seen through other axes: `index`, over the axes' symbols, per buffer dimension."""

    buffer: str
    axes: tuple[Axis, ...]
    index: tuple[Expr, ...]


@dataclass(frozen=True)
class TemplateCall:
    """An operation with a hand-designed kernel; the roles and axes of its views by kind.

    matmul: a (*batch, m, k), b (*batch, k, n) -> out (*batch, m, n). attrs: none.
    conv: x (n, c, *spatial), w (o, c/groups, *kernel) -> out (n, o, *spatial).
        attrs: stride, padding, dilation (tuples of int), groups (int).
    scan: x (m, n) -> out (m, n): running results along n. attrs: combine ("sum", "prod", "max",
        "min": NaN stays; "logaddexp": of floats).
    argsort: x (m, n) -> out (m, k) int64: positions along n of the first k elements in sorted
        order, stable, NaN greatest. attrs: descending (bool).
    attention: q (b, h, sq, d), k (b, hkv, sk, d), v (b, hkv, sk, dv) -> out (b, h, sq, dv).
        attrs: scale (float), causal (bool). Optional operand mask (b, h, sq, sk): float (added to
        the scaled scores) or bool (False: -inf).
        With the attribute parts (int), the keys are cut into so many runs, where the kernel likes,
        some of them empty: out (parts, b, h, sq, dv + 2) has, for the keys of a part, the sum of
        the values, each times exp(score - maximum); behind it the maximum of the scores (-inf for
        none), and the sum of those factors.
    resample: x (*lead, size, *rest), starts (out,), weights (out, taps) -> out (*lead, out, *rest):
        sums of x[starts[o] + t] * weights[o, t] in the weights' type. attrs: axis (of `size`); for
        panels of `panel` outputs along the last axis, `span` inputs hold all that one reads.
        Optional operand bits (): results are bytes, and weights are scaled by 2^bits (integers)
        or rounded to so many bits (float32, for bytes as signed numbers: `subtract` is what turns
        x into those, and `add` turns the results back).
    resample2: resample along two axes of floats in one call: x, starts and weights (of `axis`),
        inner_starts and inner_weights (of `inner`, an axis behind it). attrs: axis, inner, first
        ("outer", "inner": which of them is summed first). Starts never fall along an axis.
    """

    name: str
    kind: str
    operands: tuple[tuple[str, View], ...]
    output: View
    attrs: tuple[tuple[str, Any], ...]
    origin: Origin

    def operand(self, role: str) -> View:
        """The view of that role. Raises KeyError when absent."""
        return dict(self.operands)[role]

    def attr(self, name: str) -> Any:
        """The attribute's value. Raises KeyError when absent."""
        return dict(self.attrs)[name]


LoopOp = LoopNest | TemplateCall


@dataclass(frozen=True)
class DerivedWeight:
    """A weight computed from others when the package is built (part of the weight program).

    `nests`: what it is: evaluated in order; the last one writes the buffer called `name`.
    `recipe`: "fold", or the name of a packing function of the backend that computes the same in
    less time (`params` are its arguments).
    `sources`: FQNs or names of other derived weights, in argument order.
    """

    name: str
    recipe: str
    sources: tuple[str, ...]
    params: tuple[tuple[str, Any], ...] = ()
    nests: tuple[LoopNest, ...] = ()


@dataclass(frozen=True)
class LoopGraph:
    """Operations in a valid order. Every buffer is written by at most one op.

    `outputs`: a buffer name per output leaf, with the strides promised to the caller in
    `output_strides`. Buffers of kind input are listed in `inputs` in call order. `derived`: buffers
    of kind weight that are computed when the package is built, in dependency order (their name is
    the buffer's). `decisions`: what the passes chose so far. `mutations`: targets are buffers of
    kind state or input, values temporaries of the same type, none of them an output or the value
    of another; no operation writes a target, which holds the old value throughout.
    """

    name: str
    dims: tuple[Dim, ...]
    buffers: Mapping[str, Buffer]
    ops: tuple[LoopOp, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    output_strides: tuple[tuple[Expr, ...], ...]
    signature: Signature
    relations: tuple[SizeRelation, ...] = field(default=())
    derived: tuple[DerivedWeight, ...] = ()
    decisions: tuple[Decision, ...] = ()
    mutations: tuple[Mutation, ...] = ()

    @property
    def results(self) -> tuple[str, ...]:
        """Buffers that must hold their value when the run is over: outputs and new values."""
        return (*self.outputs, *(m.value for m in self.mutations))

    def ranges(self, *axes: Axis) -> Ranges:
        """Knowledge for simplifying an index of a nest with these axes."""
        return Ranges(
            {a.symbol: a.extent for a in axes},
            {dim(d.name): (d.minimum, d.maximum) for d in self.dims},
        )


def reads(op: LoopOp) -> tuple[str, ...]:
    """Names of the buffers that `op` reads, each once, in order of appearance."""
    if isinstance(op, TemplateCall):
        return tuple(dict.fromkeys(v.buffer for _, v in op.operands))
    found = [n.attr.buffer for n in loads(op.roots) if isinstance(n.attr, Access)]
    return tuple(dict.fromkeys((*found, *bases(op).values())))


def bases(op: LoopOp) -> dict[str, str]:
    """Buffers that `op` writes in part -> the buffer that has their other elements."""
    if isinstance(op, TemplateCall):
        return {}
    return {s.buffer: s.base for s in op.stores if s.base}


def writes(op: LoopOp) -> tuple[str, ...]:
    """Names of the buffers that `op` writes."""
    if isinstance(op, TemplateCall):
        return (op.output.buffer,)
    return tuple(dict.fromkeys(s.buffer for s in op.stores))
