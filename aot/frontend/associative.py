"""torch's associative_scan: running results of a function that torch may bracket as it likes.

A plain sum, product or extremum is the scan template. Elementwise functions of a known number of
slices are doubled: each step joins every slice with what lies 1, 2, 4, … before it. Anything else
is a loop over the slices, one after the other.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch.utils import _pytree as pytree

from aot.frontend.context import Context, GraphOps
from aot.frontend.control import ControlCall
from aot.ir.dtypes import BOOL, DType
from aot.ir.tensors import Block, Loop, TensorType, ValueRef, reads_of
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

_own: Any = importlib.import_module("torch._higher_order_ops.associative_scan")
"""torch's module; its package has the function by the same name."""


def _open_scan(
    taken_apart: Callable[..., Any],
    operator: Callable[..., Any],
    leaves: Sequence[torch.Tensor],
    dim: int = 0,
    additional_inputs: tuple[Any, ...] = (),
) -> Any:
    """torch's scan in its mode "generic", of open length the operator: it halves known lengths.

    `operator` is of many slices at once, made by `torch.vmap` of what joins two of them.
    """
    of_many: Any = getattr(operator, "keywords", {}).get("combine_fn")
    of_two = inspect.getclosurevars(of_many).nonlocals.get("func") if of_many else None
    count: Any = leaves[0].shape[0]
    if dim or of_two is None or isinstance(count, int):
        return taken_apart(operator, leaves, dim, additional_inputs)

    def joined(*slices: torch.Tensor) -> list[torch.Tensor]:
        return pytree.tree_leaves(operator(*slices, combine_fn=of_two))

    return _own.associative_scan_op(joined, leaves, additional_inputs)


@contextmanager
def open_scans() -> Iterator[None]:
    """Inside of it, scans of open lengths stay scans, whatever mode the model asks for."""
    ours = partial(_open_scan, _own.generic_associative_scan)
    with patch.object(_own, "generic_associative_scan", ours):
        yield


def read_associative_scan(context: Context, call: ControlCall) -> tuple[ValueRef, ...]:
    """The running results along the first axis, as operators of ours or a loop.

    Raises:
        ValueError: A package cannot hold the scan; the message says why.
    """
    combine, xs, _ = call.args
    if not all(isinstance(x, ValueRef) for x in xs):
        raise ValueError("it scans a number, no tensor")
    names = _named_parts(combine, len(xs))
    if names is not None and all(context.ops.types[x.name].dtype != BOOL for x in xs):
        return _running(context, call, xs, names)
    count = context.ops.types[xs[0].name].shape[0]
    ranks = {len(context.ops.types[x.name].shape) for x in xs}
    if is_int(count) and len(ranks) == 1 and _is_pointwise(combine):
        return _doubled(context, call, int(count))
    return _in_turn(context, call, count)


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
    context: Context,
    call: ControlCall,
    target: str,
    args: tuple[Any, ...],
    name: str,
    type_: TensorType,
) -> ValueRef:
    dense = replace(type_, strides=row_major_strides(type_.shape))
    return context.ops.call(target, args, name, dense, call.origin)


def _running(
    context: Context, call: ControlCall, xs: Sequence[ValueRef], names: Sequence[str]
) -> tuple[ValueRef, ...]:
    return tuple(
        _emit(
            context, call, "aot.running.default", (x, 0, name), f"{call.name}.{k}",
            context.ops.types[x.name],
        )
        for k, (x, name) in enumerate(zip(xs, names, strict=True))
    )  # fmt: skip


def _doubled(context: Context, call: ControlCall, count: int) -> tuple[ValueRef, ...]:
    """Kogge and Stone's steps (1973)."""
    _, xs, captured = call.args
    results, reach = tuple(xs), 1
    while reach < count:
        step = f"{call.name}.reach{reach}"
        parts = [
            [_part(context, call, x, bounds, f"{step}.{word}{k}") for k, x in enumerate(results)]
            for word, bounds in (
                ("before", (0, count - reach)),
                ("own", (reach, count)),
                ("done", (0, reach)),
            )
        ]
        given = (*parts[0], *parts[1], *captured)
        joined = _joined(context, call, given, f"{step}.combine", integer(count - reach))
        results = tuple(
            _emit(
                context, call, "aten.cat.default", ((done, ValueRef(new)), 0), f"{step}.{k}",
                context.ops.types[x.name],
            )
            for k, (x, done, new) in enumerate(zip(xs, parts[2], joined, strict=True))
        )  # fmt: skip
        reach *= 2
    return results


def _part(
    context: Context, call: ControlCall, x: ValueRef, bounds: tuple[int, int], name: str
) -> ValueRef:
    type_ = context.ops.types[x.name]
    shape = (integer(bounds[1] - bounds[0]), *type_.shape[1:])
    args = (x, 0, *(integer(b) for b in bounds))
    return _emit(context, call, "aten.slice.Tensor", args, name, replace(type_, shape=shape))


def _joined(
    context: Context, call: ControlCall, given: Sequence[Any], name: str, count: Expr
) -> tuple[str, ...]:
    """The elementwise function on `count` slices at once; what depends on them has as many.

    Raises:
        ValueError: A result of the function depends on no slice, or is no tensor.
    """
    combine, xs, _ = call.args
    block = call.block(name, combine, given)
    many = {x.name for x in given[: 2 * len(xs)]}
    for op in block.ops:
        if many.isdisjoint(reads_of(op)):
            continue
        for output in op.outputs:
            if output is not None:
                type_ = context.ops.types[output]
                shape = (count, *type_.shape)
                strides = row_major_strides(shape)
                context.ops.declare(output, replace(type_, shape=shape, strides=strides))
                many.add(output)
    if not many.issuperset(block.results):
        raise ValueError("a result of its function depends on no slice")
    context.ops.add(*block.ops)
    return block.results


def _in_turn(context: Context, call: ControlCall, count: Expr) -> tuple[ValueRef, ...]:
    """A loop that carries the running results; the first slices are taken as they are."""
    combine, xs, captured = call.args
    types = [context.ops.types[x.name] for x in xs]
    slices = [replace(t, shape=t.shape[1:], strides=t.strides[1:]) for t in types]
    ops = context.ops
    first = _constant(ops, call, f"{call.name}.begins", BOOL, value=True)
    carried = [(f"{call.name}.first", first)]
    ops.declare(carried[0][0], ops.types[first])
    for k, type_ in enumerate(slices):
        start = f"{call.name}.start{k}"
        _constant(ops, call, start, type_.dtype, type_.shape, value=0)
        carried.append((f"{call.name}.carried{k}", start))
        ops.declare(carried[-1][0], ops.types[start])
    elements = [(f"{call.name}.x{k}", x.name) for k, x in enumerate(xs)]
    for (name, _), type_ in zip(elements, slices, strict=True):
        ops.declare(name, type_)
    given = tuple(ValueRef(name) for name, _ in (*carried[1:], *elements))
    block = call.block(f"{call.name}.combine", combine, (*given, *captured))
    body = _chosen(ops.inner(block.ops), call, block.results, carried[0][0], elements)
    stacked = tuple(f"{call.name}.{k}" for k in range(len(xs)))
    for name, type_ in zip(stacked, types, strict=True):
        ops.declare(name, replace(type_, strides=row_major_strides(type_.shape)))
    ops.add(Loop(tuple(carried), None, count, tuple(elements), body, stacked, call.origin))
    return tuple(ValueRef(name) for name in stacked)


def _chosen(
    ops: GraphOps,
    call: ControlCall,
    results: Sequence[str],
    first: str,
    elements: Sequence[tuple[str, str]],
) -> Block:
    """The body: each slice itself where it is the first, else the function's result; both twice.

    `ops` are those of the function, whose results are `results`.
    """
    names = [_constant(ops, call, f"{call.name}.continues", BOOL, value=False)]
    copies = []
    for k, ((element, _), joined) in enumerate(zip(elements, results, strict=True)):
        type_ = ops.types[element]
        dense = replace(type_, strides=row_major_strides(type_.shape))
        for target, args, name in (
            ("aten.where.self", (ValueRef(first), ValueRef(element), ValueRef(joined)), "new"),
            ("aten.clone.default", (ValueRef(f"{call.name}.new{k}"),), "kept"),
        ):
            ops.call(target, args, f"{call.name}.{name}{k}", dense, call.origin)
        names.append(f"{call.name}.new{k}")
        copies.append(f"{call.name}.kept{k}")
    return Block(ops.written, (*names, *copies))


def _constant(
    ops: GraphOps,
    call: ControlCall,
    name: str,
    dtype: DType,
    shape: tuple[Expr, ...] = (),
    *,
    value: float,
) -> str:
    type_, args = TensorType(dtype, shape, row_major_strides(shape)), (shape, value)
    return ops.call("aten.full.default", args, name, type_, call.origin, dtype=dtype).name
