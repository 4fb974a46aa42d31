"""Distinct elements, as runs of equal neighbours: in order, their beginnings are the elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aot.frontend.context import Context
from aot.frontend.measuring import (
    MeasuredCall,
    check_traced,
    dense,
    emit,
    flattened,
    name_size,
    true_count,
)
from aot.ir.dtypes import BOOL, INT64
from aot.ir.tensors import TensorOp, TensorType, ValueRef
from aot.symbolic import Expr, integer, product


@dataclass(frozen=True)
class _Runs:
    """The slices of `x` along `dim`, as runs.

    `flags`: whether each slice, in order, differs from the one before it. `order`: which slice is
    at each place; None where they are in the order that is meant. `ordered`: the elements in order,
    where slices are elements; else None.
    """

    context: Context
    call: MeasuredCall
    x: ValueRef
    dim: int
    flags: ValueRef
    order: ValueRef | None
    ordered: ValueRef | None

    def emit(self, target: str, args: tuple[Any, ...], name: str, *shape: Expr) -> ValueRef:
        """An operator whose result are positions or counts."""
        type_ = dense(INT64, *shape)
        return emit(self.context, self.call, target, args, f"{self.call.name}.{name}", type_)

    @property
    def length(self) -> Expr:
        """How many slices there are."""
        return self.context.ops.types[self.flags.name].shape[0]

    def results(self, inverse: Any, counts: Any) -> tuple[ValueRef, ...]:
        """The first slice of each run; of each slice the number of its run; the runs' lengths.

        `inverse`, `counts`: what torch says of the last two results, of which some have no counts.
        """
        context, call = self.context, self.call
        size = true_count(context, call, self.flags, call.name)
        name_size(context, call, size)
        if not call.symbol:
            size = context.type_of(call.result[0]).shape[self.dim]
        starts = self.emit("aot.true_positions.default", (self.flags,), "starts", size)
        picked = self._values(starts, size)
        results = [picked, self._inverse(context.type_of(inverse))]
        if counts is not None:
            results.append(self._counts(context.type_of(counts), starts))
        return tuple(results)

    def _values(self, starts: ValueRef, size: Expr) -> ValueRef:
        name, type_ = f"{self.call.name}.0", self.context.type_of(self.call.result[0])
        if self.ordered is not None:
            target = "aot.select_true.default"
            return emit(self.context, self.call, target, (self.ordered, self.flags), name, type_)
        at = starts
        if self.order is not None:
            at = self.emit("aten.index_select.default", (self.order, 0, starts), "at", size)
        args = (self.x, self.dim, at)
        return emit(self.context, self.call, "aten.index_select.default", args, name, type_)

    def _inverse(self, type_: TensorType) -> ValueRef:
        if not self._wanted(type_):
            return self._nothing("1")
        check_traced(type_, INT64)
        args = (self.flags,) if self.order is None else (self.flags, self.order)
        labels = self.emit("aot.run_labels.default", args, "labels", self.length)
        return self.emit("aten.view.default", (labels, type_.shape), "1", *type_.shape)

    def _counts(self, type_: TensorType, starts: ValueRef) -> ValueRef:
        size = self.context.ops.types[starts.name].shape[0]
        if type_.shape != (size,):
            return self._nothing("2")
        check_traced(type_, INT64)
        return self.emit("aot.run_lengths.default", (starts, self.length), "2", size)

    def _wanted(self, type_: TensorType) -> bool:
        return bool(product(type_.shape) == self.length)

    def _nothing(self, name: str) -> ValueRef:
        """A result that the call did not ask for: without elements."""
        made = f"{self.call.name}.{name}"
        target, args, type_ = "aten.full.default", ((integer(0),), 0), dense(INT64, integer(0))
        ops = self.context.ops
        return ops.call(target, args, made, type_, self.call.origin, dtype=INT64)


def _changes(context: Context, call: MeasuredCall, x: ValueRef, dim: int) -> ValueRef:
    type_ = dense(BOOL, context.ops.types[x.name].shape[dim])
    return emit(context, call, "aot.changes.default", (x, dim), f"{call.name}.flags", type_)


def _in_order(context: Context, call: MeasuredCall, x: ValueRef, dim: int, keys: ValueRef) -> _Runs:
    """The slices of x in the order of their keys."""
    type_ = context.ops.types[keys.name]
    names = (f"{call.name}.sorted", f"{call.name}.order")
    context.ops.declare(names[0], type_)
    context.ops.declare(names[1], dense(INT64, *type_.shape))
    context.ops.add(TensorOp("aten.sort.default", (keys, 0), (), names, call.origin))
    flags = _changes(context, call, ValueRef(names[0]), 0)
    ordered = ValueRef(names[0]) if keys == x else None
    return _Runs(context, call, x, dim, flags, ValueRef(names[1]), ordered)


def _unique(context: Context, call: MeasuredCall) -> Any:
    flat = flattened(context, call, call.args[0])
    runs = _in_order(context, call, flat, 0, flat)
    return runs.results(call.result[1], call.result[2] if len(call.result) > 2 else None)


def _unique_dim(context: Context, call: MeasuredCall) -> Any:
    x, dim = call.args[0], call.args[1] % max(len(context.ops.types[call.args[0].name].shape), 1)
    type_ = dense(INT64, context.ops.types[x.name].shape[dim])
    name = f"{call.name}.ranks"
    ranks = emit(context, call, "aot.slice_ranks.default", (x, dim), name, type_)
    return _in_order(context, call, x, dim, ranks).results(*call.result[1:])


def _unique_consecutive(context: Context, call: MeasuredCall) -> Any:
    x, dim = call.args[0], call.args[3] if len(call.args) > 3 else None
    if dim is None:
        x, dim = flattened(context, call, x), 0
    return _runs_of_neighbours(context, call, x, dim)


def _unique_dim_consecutive(context: Context, call: MeasuredCall) -> Any:
    return _runs_of_neighbours(context, call, *call.args[:2])


def _runs_of_neighbours(
    context: Context, call: MeasuredCall, x: ValueRef, dim: int
) -> tuple[ValueRef, ...]:
    rank = len(context.ops.types[x.name].shape)
    if len(call.result[0].shape) != rank:
        # torch's own shape of the result is wrong then, and with it all that follows.
        raise ValueError(f"torch traces dim={dim} wrongly; write dim={dim + rank}")
    axis = dim % max(rank, 1)
    flags = _changes(context, call, x, axis)
    ordered = x if rank == 1 else None
    return _Runs(context, call, x, axis, flags, None, ordered).results(*call.result[1:])


UNIQUES: Mapping[str, Callable[[Context, MeasuredCall], Any]] = {
    "aten._unique.default": _unique,
    "aten._unique2.default": _unique,
    "aten.unique_dim.default": _unique_dim,
    "aten.unique_consecutive.default": _unique_consecutive,
    "aten.unique_dim_consecutive.default": _unique_dim_consecutive,
}
"""Readers of the operators that give distinct elements."""
