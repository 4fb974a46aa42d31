"""Buffers of loop operations under other names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from aot.ir.loops import LoopNest, LoopOp, Store, View
from aot.ir.scalar import Access, Node, load, mask_of, rebuild, with_args


def rename_buffers(op: LoopOp, names: Mapping[str, str]) -> LoopOp:
    """The operation with buffers renamed; those that `names` leaves out keep theirs."""

    def view(old: View) -> View:
        return replace(old, buffer=names.get(old.buffer, old.buffer))

    if not isinstance(op, LoopNest):
        operands = tuple((role, view(v)) for role, v in op.operands)
        return replace(op, operands=operands, output=view(op.output))

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        fresh = with_args(node, args)
        access = fresh.attr
        if not isinstance(access, Access) or access.buffer not in names:
            return fresh
        binds = dict(zip(access.binds, args, strict=False))
        return load(names[access.buffer], fresh.dtype, access.index, binds, mask_of(fresh))

    roots = iter(rebuild(op.roots, visit))
    stores: list[Store] = []
    for store in op.stores:
        value = next(roots)
        binds = tuple((symbol, next(roots)) for symbol, _ in store.binds)
        buffer = names.get(store.buffer, store.buffer)
        stores.append(replace(store, buffer=buffer, value=value, binds=binds))
    return replace(op, stores=tuple(stores))
