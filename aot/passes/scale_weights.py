"""Factors of a result's channels go into the weight: convolutions under batch norms have one less.

Only where the device stores the weight anew anyway, in the order of its template: elsewhere a copy
of the weight would cost more than a multiplication of each result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from dataclasses import dataclass, replace

from aot.ir.decisions import Decision
from aot.ir.dtypes import FLOAT32, FLOAT64
from aot.ir.loops import LoopGraph, bases, reads
from aot.ir.machine import Machine
from aot.ir.nests import Buffer, LoopNest, Store, View, numbered_axes
from aot.ir.rewrite import with_roots
from aot.ir.scalar import (
    Access,
    Node,
    binary,
    load,
    mask_of,
    postorder,
    rebuild,
    substitute_index,
    with_args,
)
from aot.ir.templates.base import LoopOp, TemplateCall
from aot.passes.fold_weights import constant_writers
from aot.symbolic import Symbol


@dataclass(frozen=True)
class _Factor:
    """What every read of a result is multiplied by: `value`, at a channel, which is `channel`."""

    value: Node
    channel: Symbol


def scale_weights(graph: LoopGraph, machine: Machine) -> LoopGraph:
    """The graph with factors of channels that follow from weights alone in these calls' weights."""
    calls = [op for op in graph.ops if isinstance(op, TemplateCall) and _packs(machine, op)]
    if not calls:
        return graph
    writers = constant_writers(graph)
    constants = {n for n, b in graph.buffers.items() if b.kind == "weight"} | set(writers)
    uses = Counter(name for op in graph.ops for name in reads(op))
    last_reader = {name: op.name for op in graph.ops for name in reads(op)}
    current = {op.name: op for op in graph.ops}
    buffers, weights, decisions = dict(graph.buffers), list[LoopNest](), list[Decision]()
    for op in calls:
        if not _may_be_scaled(graph, uses, op):
            continue
        reader = current[last_reader[op.output.buffer]]
        found = _without_factor(op, reader, constants)
        if found is None:
            continue
        factor, current[reader.name] = found
        scaled, nest, current[op.name] = _with_scaled_weight(graph, op, factor)
        buffers[scaled.name] = scaled
        weights.append(nest)
        reason = "the device stores it anew in any case"
        decisions.append(Decision("scale", (op.name, reader.name), "in the weight", reason))
    if not weights:
        return graph
    first = dict.fromkeys(writers.values())
    rest = (current[op.name] for op in graph.ops if op not in first)
    return replace(
        graph,
        ops=(*first, *weights, *rest),
        buffers=buffers,
        decisions=(*graph.decisions, *decisions),
    )


def _packs(machine: Machine, call: TemplateCall) -> bool:
    """Whether factors can go into an operand that the device stores anew."""
    if call.scaled is None:
        return False
    role, _, _ = call.scaled
    return any(s.kind is type(call) and call.packs(role, s) for s in machine.templates)


def _may_be_scaled(graph: LoopGraph, uses: Counter[str], call: TemplateCall) -> bool:
    """A weight of the model that nobody else reads, and results of its type for one nest."""
    assert call.scaled is not None
    role, _, _ = call.scaled
    result, weight = call.output, dict(call.operands)[role]
    kept, made = graph.buffers[weight.buffer], graph.buffers[result.buffer]
    alone = uses[result.buffer] == uses[weight.buffer] == 1 and result.buffer not in graph.results
    precise = kept.dtype in (FLOAT32, FLOAT64) and made.dtype == kept.dtype
    whole = all(view.index == tuple(a.symbol for a in view.axes) for view in (result, weight))
    return alone and precise and whole and kept.kind == "weight"


def _without_factor(
    call: TemplateCall, reader: LoopOp, constants: Set[str]
) -> tuple[_Factor, LoopNest] | None:
    """The factor of all reads of a result, and their nest without it; None: there is none."""
    assert call.scaled is not None
    if not isinstance(reader, LoopNest) or call.output.buffer in bases(reader).values():
        return None
    nodes = postorder(reader.roots)
    own = [n for n in nodes if isinstance(n.attr, Access) and n.attr.buffer == call.output.buffer]
    if len(own) != 1 or own[0] in reader.roots or mask_of(own[0]) is not None:
        return None
    (read,) = own
    assert isinstance(read.attr, Access)
    channel = read.attr.index[call.scaled[2]]
    users = [n for n in nodes if read in n.args]
    others = {n.args[1 - n.args.index(read)] if n.op == "mul" else None for n in users}
    value = others.pop() if len(others) == 1 else None
    if value is None or not channel.is_Symbol or not _is_of(value, channel, constants):
        return None
    roots = rebuild(reader.roots, lambda n, args: read if n in users else with_args(n, args))
    return _Factor(value, channel), with_roots(reader, roots)


def _is_of(value: Node, channel: Symbol, constants: Set[str]) -> bool:
    """Whether it is an element of what follows from weights, by the channel alone."""
    attr = value.attr
    if not isinstance(attr, Access) or value.args or attr.buffer not in constants:
        return False
    return {s for e in attr.index for s in e.free_symbols} <= {channel}


def _with_scaled_weight(
    graph: LoopGraph, call: TemplateCall, factor: _Factor
) -> tuple[Buffer, LoopNest, TemplateCall]:
    """The scaled weight, the nest that computes it, and the call with it."""
    assert call.scaled is not None
    role, channel, _ = call.scaled
    kept = graph.buffers[dict(call.operands)[role].buffer]
    scaled = Buffer(f"{kept.name}_scaled", kept.dtype, kept.shape, None, "temp")
    axes = numbered_axes("i", kept.shape)
    at = tuple(axis.symbol for axis in axes)
    (here,) = substitute_index((factor.value,), {factor.channel: at[channel]})
    value = binary("mul", load(kept.name, kept.dtype, at), here)
    nest = LoopNest(scaled.name, axes, (), (Store(scaled.name, at, value),), call.origin)

    def renamed(other: str, view: View) -> View:
        return replace(view, buffer=scaled.name) if other == role else view

    return scaled, nest, call.with_views(renamed)
