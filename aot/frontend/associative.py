"""torch's associative_scan: running results of a function that torch may bracket as it likes.

A plain sum, product or extremum is the scan template. Elementwise functions of a known number of
slices are doubled: each step joins every slice with what lies 1, 2, 4, … before it. Anything else
is a loop over the slices, one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import torch

from aot.frontend.control import BlockReader, ControlCall
from aot.ir.dtypes import BOOL
from aot.ir.tensors import Block, GraphOp, Loop, TensorOp, TensorType, ValueRef, reads_of
from aot.symbolic import Expr, integer, is_int, row_major_strides

_NAMED = {
    "aten.add.Tensor": "sum",
    "aten.mul.Tensor": "prod",
    "aten.maximum.default": "max",
    "aten.minimum.default": "min",
    "aten.logaddexp.default": "logaddexp",
}
"""Functions of two slices that the scan template knows."""


ASSOCIATIVE_SCAN = "associative_scan"
"""Name of the operator."""


class ScanReader(BlockReader, Protocol):
    """What reading a scan needs of the reader of the graph around it."""

    ops: list[GraphOp]


def read_associative_scan(reader: ScanReader, call: ControlCall) -> tuple[ValueRef, ...]:
    """The running results along the first axis, as operators of ours or a loop.

    Raises:
        ValueError: A package cannot hold the scan; the message says why.
    """
    combine, xs, _ = call.args
    if not all(isinstance(x, ValueRef) for x in xs):
        raise ValueError("it scans a number, no tensor")
    names = _named_parts(combine, len(xs))
    if names is not None and all(reader.types[x.name].dtype != BOOL for x in xs):
        return _running(reader, call, xs, names)
    count = reader.types[xs[0].name].shape[0]
    ranks = {len(reader.types[x.name].shape) for x in xs}
    if is_int(count) and len(ranks) == 1 and _is_pointwise(combine):
        return _doubled(reader, call, int(count))
    return _in_turn(reader, call, count)


def _calls(module: torch.fx.GraphModule) -> list[torch.fx.Node]:
    return [n for n in module.graph.nodes if n.op not in ("placeholder", "output")]


def _named_parts(combine: torch.fx.GraphModule, count: int) -> list[str] | None:
    """What the template calls the function of each of `count` pairs of slices, if it knows all."""
    given = [n for n in combine.graph.nodes if n.op == "placeholder"]
    (results,) = next(n for n in combine.graph.nodes if n.op == "output").args
    names = []
    for k, result in enumerate(results):
        name = _NAMED.get(str(result.target)) if isinstance(result, torch.fx.Node) else None
        if name is None or set(result.args) != {given[k], given[count + k]} or result.kwargs:
            return None
        names.append(name)
    return names


def _is_pointwise(combine: torch.fx.GraphModule) -> bool:
    return all(
        isinstance(n.target, torch._ops.OpOverload) and torch.Tag.pointwise in n.target.tags
        for n in _calls(combine)
    )


def _emit(
    reader: ScanReader,
    call: ControlCall,
    target: str,
    args: tuple[Any, ...],
    name: str,
    type_: TensorType,
) -> ValueRef:
    reader.types[name] = replace(type_, strides=row_major_strides(type_.shape))
    reader.ops.append(TensorOp(target, args, (), (name,), call.origin))
    return ValueRef(name)


def _running(
    reader: ScanReader, call: ControlCall, xs: Sequence[ValueRef], names: Sequence[str]
) -> tuple[ValueRef, ...]:
    return tuple(
        _emit(
            reader, call, "aot.running.default", (x, 0, name), f"{call.name}.{k}",
            reader.types[x.name],
        )
        for k, (x, name) in enumerate(zip(xs, names, strict=True))
    )  # fmt: skip


def _doubled(reader: ScanReader, call: ControlCall, count: int) -> tuple[ValueRef, ...]:
    """Kogge and Stone's steps (1973)."""
    _, xs, captured = call.args
    results, reach = tuple(xs), 1
    while reach < count:
        step = f"{call.name}.reach{reach}"
        parts = [
            [_part(reader, call, x, bounds, f"{step}.{word}{k}") for k, x in enumerate(results)]
            for word, bounds in (
                ("before", (0, count - reach)),
                ("own", (reach, count)),
                ("done", (0, reach)),
            )
        ]
        given = (*parts[0], *parts[1], *captured)
        joined = _joined(reader, call, given, f"{step}.combine", integer(count - reach))
        results = tuple(
            _emit(
                reader, call, "aten.cat.default", ((done, ValueRef(new)), 0), f"{step}.{k}",
                reader.types[x.name],
            )
            for k, (x, done, new) in enumerate(zip(xs, parts[2], joined, strict=True))
        )  # fmt: skip
        reach *= 2
    return results


def _part(
    reader: ScanReader, call: ControlCall, x: ValueRef, bounds: tuple[int, int], name: str
) -> ValueRef:
    type_ = reader.types[x.name]
    shape = (integer(bounds[1] - bounds[0]), *type_.shape[1:])
    args = (x, 0, *(integer(b) for b in bounds))
    return _emit(reader, call, "aten.slice.Tensor", args, name, replace(type_, shape=shape))


def _joined(
    reader: ScanReader, call: ControlCall, given: Sequence[Any], name: str, count: Expr
) -> tuple[str, ...]:
    """The elementwise function on `count` slices at once; what depends on them has as many.

    Raises:
        ValueError: A result of the function depends on no slice, or is no tensor.
    """
    combine, xs, _ = call.args
    block = reader.block(name, combine, given, call.origin)
    many = {x.name for x in given[: 2 * len(xs)]}
    for op in block.ops:
        if many.isdisjoint(reads_of(op)):
            continue
        for output in op.outputs:
            if output is not None:
                shape = (count, *reader.types[output].shape)
                strides = row_major_strides(shape)
                reader.types[output] = replace(reader.types[output], shape=shape, strides=strides)
                many.add(output)
    if not many.issuperset(block.results):
        raise ValueError("a result of its function depends on no slice")
    reader.ops += block.ops
    return block.results


def _in_turn(reader: ScanReader, call: ControlCall, count: Expr) -> tuple[ValueRef, ...]:
    """A loop that carries the running results; the first slices are taken as they are."""
    combine, xs, captured = call.args
    types = [reader.types[x.name] for x in xs]
    slices = [replace(t, shape=t.shape[1:], strides=t.strides[1:]) for t in types]
    first = _constant(reader, call, f"{call.name}.begins", BOOL, reader.ops, value=True)
    carried = [(f"{call.name}.first", first)]
    reader.types[carried[0][0]] = reader.types[first]
    for k, type_ in enumerate(slices):
        start = f"{call.name}.start{k}"
        _constant(reader, call, start, type_.dtype, reader.ops, type_.shape, value=0)
        carried.append((f"{call.name}.carried{k}", start))
        reader.types[carried[-1][0]] = reader.types[start]
    elements = [(f"{call.name}.x{k}", x.name) for k, x in enumerate(xs)]
    reader.types.update((name, t) for (name, _), t in zip(elements, slices, strict=True))
    given = tuple(ValueRef(name) for name, _ in (*carried[1:], *elements))
    block = reader.block(f"{call.name}.combine", combine, (*given, *captured), call.origin)
    body = _chosen(reader, call, block, carried[0][0], elements)
    stacked = tuple(f"{call.name}.{k}" for k in range(len(xs)))
    for name, type_ in zip(stacked, types, strict=True):
        reader.types[name] = replace(type_, strides=row_major_strides(type_.shape))
    reader.ops.append(
        Loop(tuple(carried), None, count, tuple(elements), body, stacked, call.origin)
    )
    return tuple(ValueRef(name) for name in stacked)


def _chosen(
    reader: ScanReader,
    call: ControlCall,
    block: Block,
    first: str,
    elements: Sequence[tuple[str, str]],
) -> Block:
    """The body: each slice itself where it is the first, else the function's result; both twice."""
    ops = list(block.ops)
    names = [_constant(reader, call, f"{call.name}.continues", BOOL, ops, value=False)]
    copies = []
    for k, ((element, _), joined) in enumerate(zip(elements, block.results, strict=True)):
        type_ = reader.types[element]
        dense = replace(type_, strides=row_major_strides(type_.shape))
        for target, args, name in (
            ("aten.where.self", (ValueRef(first), ValueRef(element), ValueRef(joined)), "new"),
            ("aten.clone.default", (ValueRef(f"{call.name}.new{k}"),), "kept"),
        ):
            reader.types[f"{call.name}.{name}{k}"] = dense
            ops.append(TensorOp(target, args, (), (f"{call.name}.{name}{k}",), call.origin))
        names.append(f"{call.name}.new{k}")
        copies.append(f"{call.name}.kept{k}")
    return Block(tuple(ops), (*names, *copies))


def _constant(
    reader: ScanReader,
    call: ControlCall,
    name: str,
    dtype: Any,
    ops: list[GraphOp],
    shape: tuple[Expr, ...] = (),
    *,
    value: float,
) -> str:
    reader.types[name] = TensorType(dtype, shape, row_major_strides(shape))
    made = TensorOp("aten.full.default", (shape, value), (("dtype", dtype),), (name,), call.origin)
    ops.append(made)
    return name
