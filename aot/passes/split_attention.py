"""Attention of few queries over many keys, in parts of the keys that are combined afterwards.

A step of a decoder has one query for each head and reads all keys: as many programs as there are
heads leave most of a device idle. So the keys are cut into parts with programs of their own, which
leave unnormalised sums and what rescales them; two small reductions then put the parts together
(flash-decoding: Dao, Haziza, Massa, Sizov, 2023). Keys and values are still read once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from aot.ir.decisions import Decision
from aot.ir.hints import Hints, hints_of
from aot.ir.loops import Axis, LoopGraph, LoopNest, LoopOp, Store, TemplateCall, View
from aot.ir.machine import Machine
from aot.ir.scalar import Node, binary, cast, const, load, reduce_, unary, where
from aot.passes.nest_builder import NestBuilder, Replacement, change_calls
from aot.symbolic import Expr, integer, var

QUERY_TILE = 16
"""Queries of one key head that a tile of attention takes at once, where they are few."""

PART_KEYS = 128
"""Least keys of a part: a block or two, which a program loads before it computes. In halves, they
and their values are 64 times the bytes that the sums of one query take, written and read."""

KEY_BLOCK = 64
"""Parts are multiples of so many keys, as they are of the template's blocks: rounded up later, they
would leave nothing for the last ones."""

FEWEST_PARTS = 6
"""A device that is busy with `units` programs wants memory most of the time with a quarter of them
(a tile on each multiprocessor): there, parts took 3 to 6 % longer than one walk. Parts pay where
there is room for so many of each tile."""

MANY_KEYS = 512
"""Keys from which parts pay. A program reads `PART_KEYS` of them in about a microsecond, and the
launch that combines takes two: the walk has to get shorter by more than that."""


def split_attention(graph: LoopGraph, machine: Machine) -> LoopGraph:
    """The graph with attention that would leave the device idle in parts of its keys."""
    if not machine.attention_parts:
        return graph
    hints = hints_of(graph.dims)

    def in_parts(builder: NestBuilder, call: TemplateCall) -> Replacement | None:
        parts = _parts(call, machine, hints)
        if parts == 1:
            return None
        tiles, keys = _tiles(call, hints), _keys(call, hints)
        reason = f"{tiles} tiles of queries would walk {keys} keys, and leave the device idle"
        decision = Decision("split", (call.name,), f"{parts} parts of the keys", reason)
        return decision, _split(builder, call, parts)

    return change_calls(graph, in_parts)


def _parts(call: TemplateCall, machine: Machine, hints: Hints) -> int:
    """How many parts the keys are cut into; 1: attention stays as it is.

    A number, also where sizes are dynamic: then memory for the parts is bounded, and the parts grow
    with the keys. With fewer keys than in the example some parts are empty.
    """
    if call.kind != "attention":
        return 1
    keys = _keys(call, hints)
    room = machine.units // max(1, _tiles(call, hints))
    if keys < MANY_KEYS or room < FEWEST_PARTS:
        return 1
    most = min(room, -(-keys // PART_KEYS))
    size = -(-keys // (most * KEY_BLOCK)) * KEY_BLOCK
    return -(-keys // size)


def _tiles(call: TemplateCall, hints: Hints) -> int:
    """Programs without parts."""
    *batch, queries, _ = call.output.axes
    heads = max(1, hints.volume(call.operand("k").axes[:-2]))
    rows = hints.volume((*batch, queries)) // heads
    return heads * -(-rows // QUERY_TILE)


def _keys(call: TemplateCall, hints: Hints) -> int:
    """Keys that some query sees."""
    keys = hints.value(call.operand("k").axes[-2].extent)
    queries = hints.value(call.output.axes[-2].extent)
    return min(keys, queries) if call.attr("causal") else keys


def _split(builder: NestBuilder, call: TemplateCall, parts: int) -> list[LoopOp]:
    dtype = builder.dtype(call.operand("q").buffer).compute
    rows, size = call.output.axes[:-1], call.operand("v").axes[-1].extent
    part, column = Axis(var("part"), integer(parts)), Axis(var("column"), size + 2)
    axes = (part, *rows, column)
    sums = builder.temp(f"{call.name}_parts", dtype, tuple(a.extent for a in axes))
    split = replace(
        call,
        output=View(sums, axes, tuple(a.symbol for a in axes)),
        attrs=(*call.attrs, ("parts", parts)),
    )

    def of_part(at: Expr) -> Node:
        return load(sums, dtype, (part.symbol, *(a.symbol for a in rows), at))

    # The maximum at each column, too: at the points of the sums that it goes into, it shares their
    # kernel and is never stored.
    results, point = call.output.axes, tuple(a.symbol for a in call.output.axes)
    top = builder.temp(f"{call.name}_top", dtype, tuple(a.extent for a in results))
    biggest = Store(top, point, reduce_("max", of_part(size)))
    value = _combined(of_part, load(top, dtype, point), call)
    out = Store(
        call.output.buffer, call.output.index, cast(value, builder.dtype(call.output.buffer))
    )
    return [
        split,
        LoopNest(top, results, (part,), (biggest,), call.origin),
        LoopNest(f"{call.name}_combined", results, (part,), (out,), call.origin),
    ]


def _combined(of_part: Callable[[Expr], Node], top: Node, call: TemplateCall) -> Node:
    """The parts' sums over their weights, both by how far each part's maximum is below the row's.

    A part that sees nothing has the maximum -inf and so the factor 0; a row that sees nothing is 0.
    """
    zero, size = const(0.0, top.dtype), call.operand("v").axes[-1].extent
    shift = where(unary("isinf", top), zero, top)
    factor = unary("exp", binary("sub", of_part(size), shift))
    mix = reduce_("sum", binary("mul", factor, of_part(call.output.axes[-1].symbol)))
    weight = reduce_("sum", binary("mul", factor, of_part(size + 1)))
    return where(binary("eq", weight, zero), zero, binary("div", mix, weight))
