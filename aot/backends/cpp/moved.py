"""Halves and float8 that a kernel moves and never computes with: integers of as many bytes.

A load widens these types to float32 and a store rounds them. Where what is loaded is stored again,
or one of two chosen, its bits say all: as integers a register holds twice as many, and no bit of a
NaN is lost. A sign of 16 bits is one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from aot.backends.cpp.context import KernelContext
from aot.backends.cpp.lanes import VectorAxis, lane_step
from aot.backends.cpp.text import is_half
from aot.backends.cpp.width import MOST_LANES, NEAR
from aot.ir.dtypes import UINT8, UINT16, DType
from aot.ir.kernels import NestKernel, Stage
from aot.ir.nests import Buffer, LoopNest
from aot.ir.rewrite import with_roots
from aot.ir.scalar import (
    Access,
    Node,
    bind_map,
    const,
    make,
    named_symbols,
    postorder,
    rebuild,
)
from aot.symbolic import Expr

_WORDS = {1: UINT8, 2: UINT16}
"""By bytes."""

_SIGNS = {"abs": ("and", 0x7FFF), "neg": ("xor", 0x8000)}
"""What the operations on a sign are of an element's bits."""


def moved_as_words(kernel: NestKernel, context: KernelContext) -> tuple[NestKernel, KernelContext]:
    """The kernel with such buffers as integers, and the context that knows them as such.

    For the kernel's text alone: what it is called with is the same memory.
    """
    every = {*kernel.reads, *kernel.writes, *kernel.local}
    halves = {name for name in every if is_half(context.buffers[name].dtype)}
    if not halves:
        return kernel, context
    flow = _Flow()
    kernel = _each_nest(kernel, _with_own_signs)
    for stage in kernel.stages:
        _follow_stage(stage, context, flow)
    moved = {name for name in halves if not flow.is_spoilt(name)}
    if not moved:
        return kernel, context
    words = {name: _as_word(context.buffers[name]) for name in moved}
    changed = replace(context, buffers={**context.buffers, **words})
    return _each_nest(kernel, lambda nest: _nest(nest, moved, flow)), changed


def _each_nest(kernel: NestKernel, change: Callable[[LoopNest], LoopNest]) -> NestKernel:
    stages = tuple(
        replace(stage, nests=tuple(change(nest) for nest in stage.nests)) for stage in kernel.stages
    )
    return replace(kernel, stages=stages)


def _with_own_signs(nest: LoopNest) -> LoopNest:
    """Signs of halves that are widened for it and rounded again, in the type itself: as exact."""

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        if node.op == "cast" and _has_sign(node.dtype) and args[0].op in _SIGNS:
            (wide,) = args[0].args
            if wide.op == "cast" and wide.args[0].dtype == node.dtype:
                return make(args[0].op, node.dtype, wide.args[0])
        return make(node.op, node.dtype, *args, attr=node.attr)

    return with_roots(nest, rebuild(nest.roots, visit))


def _has_sign(dtype: DType) -> bool:
    """Whether a bit of the element says its sign, and nothing else; of float8 it may be a NaN."""
    return is_half(dtype) and dtype.itemsize == 2


def _follow_stage(stage: Stage, context: KernelContext, flow: _Flow) -> None:
    """Where the elements of a stage go to; those that go one by one may go as before."""

    def is_far(buffer: str, index: tuple[Expr, ...], bound: Iterable[Node]) -> bool:
        if stage.vector is None:
            return False
        axis = VectorAxis(stage.vector.symbol, MOST_LANES)
        varies = any(axis.symbol in named_symbols(n) for n in postorder(bound))
        return varies or lane_step(context.offset(buffer, index), axis) not in NEAR

    for nest in stage.nests:
        for node in postorder(nest.roots):
            _follow(node, flow)
            if isinstance(node.attr, Access):
                flow.join(node, node.attr.buffer)
                if is_far(node.attr.buffer, node.attr.index, bind_map(node).values()):
                    flow.spoil(node)
        for store in nest.stores:
            flow.join(store.buffer, _source(store.value))
            like = store.value.dtype == context.buffers[store.buffer].dtype
            far = is_far(store.buffer, store.index, [n for _, n in store.binds])
            if not like or store.mode != "set" or far:
                flow.spoil(store.buffer)


def _follow(node: Node, flow: _Flow) -> None:
    """What becomes of a node's operands."""
    if node.op == "where":
        for side in node.args[1:]:
            flow.join(node, _source(side))
        return
    if node.op in _SIGNS and _has_sign(node.dtype):
        flow.join(node, _source(node.args[0]))
        return
    if is_half(node.dtype) and node.op not in ("load", "const"):
        flow.spoil(node)
    for arg in node.args:
        flow.spoil(_source(arg))


def _source(node: Node) -> Node | None:
    """The node; None for a constant, which several may want, each in another type."""
    return None if node.op == "const" else node


@dataclass
class _Flow:
    """Which nodes and buffers hold the same values, and which of those are computed with.

    `leaders`: another item of the same class, up to one that stands for all.
    """

    leaders: dict[Node | str, Node | str] = field(default_factory=dict)
    spoilt: set[Node | str] = field(default_factory=set)

    def leader(self, item: Node | str) -> Node | str:
        """What stands for the item's class."""
        while item in self.leaders:
            item = self.leaders[item]
        return item

    def join(self, a: Node | str, b: Node | str | None) -> None:
        """One class holds both; of nothing, no change."""
        if b is None:
            return
        first, second = self.leader(a), self.leader(b)
        if first == second:
            return
        self.leaders[second] = first
        if second in self.spoilt:
            self.spoilt.add(first)

    def spoil(self, item: Node | str | None) -> None:
        """What the item's class holds is computed with."""
        if item is not None:
            self.spoilt.add(self.leader(item))

    def is_spoilt(self, item: Node | str) -> bool:
        """Whether what it holds is computed with."""
        return self.leader(item) in self.spoilt


def _nest(nest: LoopNest, moved: set[str], flow: _Flow) -> LoopNest:
    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        dtype = node.dtype
        if is_half(dtype) and node.op != "const" and not flow.is_spoilt(node):
            dtype = _word(dtype)
            args = tuple(_as_bits(a, dtype) for a in args)
            if node.op in _SIGNS:
                op, bits = _SIGNS[node.op]
                return make(op, dtype, *args, const(bits, dtype))
        return make(node.op, dtype, *args, attr=node.attr)

    changed = with_roots(nest, rebuild(nest.roots, visit))
    stores = tuple(
        replace(s, value=_as_bits(s.value, _word(s.value.dtype))) if s.buffer in moved else s
        for s in changed.stores
    )
    return replace(changed, stores=stores)


def _as_bits(node: Node, word: DType) -> Node:
    """A constant's bits; of what is an integer already, itself."""
    if not is_half(node.dtype) or node.op != "const":
        return node
    bits = np.asarray(node.attr, node.dtype.numpy).view(word.numpy)
    return const(int(bits), word)


def _word(dtype: DType) -> DType:
    return _WORDS[dtype.itemsize] if is_half(dtype) else dtype


def _as_word(buffer: Buffer) -> Buffer:
    return replace(buffer, dtype=_word(buffer.dtype))
