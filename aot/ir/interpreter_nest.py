"""One loop nest in NumPy, block by block of its iteration space."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from aot.errors import InternalError
from aot.ir import numpy_ops
from aot.ir.interpreter_access import Array, Space, read, write
from aot.ir.interpreter_reduce import Partial, combine, finish
from aot.ir.nests import LoopNest
from aot.ir.operations import OPERATIONS
from aot.ir.scalar import Access, IndexCheck, IndexValue, Node, postorder
from aot.symbolic import dim, evaluate

BLOCK_POINTS = 1 << 18
"""Points evaluated at once: arrays of about a megabyte stay in the cache."""

Values = dict[int, Array]
Box = tuple[tuple[int, int], ...]


def run_nest(nest: LoopNest, arrays: MutableMapping[str, Array], dims: Mapping[str, int]) -> None:
    """Evaluates a nest: reads and writes `arrays`, which holds all of its buffers.

    `dims`: dynamic sizes by name. Raises IndexError for data-dependent indices out of range and
    InternalError for accesses of the nest itself that are out of bounds.
    """
    sizes: dict[Any, int] = {dim(name): value for name, value in dims.items()}
    kept = tuple(int(evaluate(a.extent, sizes)) for a in nest.axes)
    reduced = tuple(int(evaluate(a.extent, sizes)) for a in nest.reduction)
    if math.prod(kept) == 0:
        return
    run = _Run(nest, arrays, sizes, kept, reduced)
    per_point = min(max(math.prod(reduced), 1), BLOCK_POINTS)
    with np.errstate(all="ignore"):
        for box in boxes(kept, max(BLOCK_POINTS // per_point, 1)):
            run.block(box)


def boxes(shape: Sequence[int], limit: int) -> Iterator[Box]:
    """Boxes of at most `limit` points (at least one) that tile `shape`, in row-major order.

    Each box covers whole rows of the dimensions inside of the one that is cut, so its points are
    contiguous in row-major order.
    """
    inner = len(shape)
    points = 1
    while inner > 0 and points * shape[inner - 1] <= limit:
        inner -= 1
        points *= shape[inner]
    whole = tuple((0, s) for s in shape[inner:])
    if inner == 0:
        yield whole
        return
    step = max(limit // max(points, 1), 1)
    cut = shape[inner - 1]
    for outer in itertools.product(*(range(s) for s in shape[: inner - 1])):
        for start in range(0, cut, step):
            yield (*((k, k + 1) for k in outer), (start, min(start + step, cut)), *whole)


class _Run:
    """The evaluation of one nest: its buffers and the sizes of this call."""

    def __init__(
        self,
        nest: LoopNest,
        arrays: MutableMapping[str, Array],
        sizes: Mapping[Any, int],
        kept: tuple[int, ...],
        reduced: tuple[int, ...],
    ) -> None:
        self.nest, self.arrays, self.sizes = nest, arrays, sizes
        self.kept, self.reduced = kept, reduced
        self.axes = (*self.nest.axes, *self.nest.reduction)
        roots = self.nest.roots
        self.reductions = [n for n in postorder(roots) if n.op == "reduce"]
        inside = postorder([r.args[0] for r in self.reductions])
        if any(n.op == "reduce" for n in inside):
            raise InternalError(f"{self.nest.name}: a reduction inside a reduction")

    def block(self, box: Box) -> None:
        """Evaluates and stores the points of `box`, a part of the kept axes."""
        flat = tuple((0, 1) for _ in self.nest.reduction)
        values = self._reduce(box)
        space = Space(self.axes, (*box, *flat), self.sizes)
        results = self._evaluate(self.nest.roots, space, values)
        for store in self.nest.stores:
            value = results[id(store.value)]
            binds = {s: results[id(n)] for s, n in store.binds}
            target = self.arrays[store.buffer]
            write(target, store, space, value, binds, len(self.nest.reduction))

    def _reduce(self, box: Box) -> Values:
        """The values of the nest's reduce nodes for the kept points of `box`."""
        if not self.reductions:
            return {}
        partials = [Partial(n, None) for n in self.reductions]
        rest = math.prod(hi - lo for lo, hi in box)
        width = len(self.nest.reduction)
        for part in boxes(self.reduced, max(BLOCK_POINTS // rest, 1)):
            if any(hi == lo for lo, hi in part):
                continue
            space = Space(self.axes, (*box, *part), self.sizes)
            values = self._evaluate([r.args[0] for r in self.reductions], space, {})
            start = np.ravel_multi_index([lo for lo, _ in part], self.reduced) if width else 0
            partials = [
                combine(p, values[id(p.node.args[0])], space.shape, width, int(start))
                for p in partials
            ]
        ones = (1,) * len(self.axes)
        return {id(p.node): finish(p, ones) for p in partials}

    def _evaluate(self, roots: Sequence[Node], space: Space, known: Values) -> Values:
        """Values of all nodes below `roots`, not descending below the `known` ones."""
        values = dict(known)
        stack = [(r, False) for r in reversed(roots)]
        while stack:
            node, ready = stack.pop()
            if id(node) in values:
                continue
            if ready:
                values[id(node)] = self._node(node, [values[id(a)] for a in node.args], space)
            else:
                stack.append((node, True))
                stack.extend((a, False) for a in reversed(node.args))
        return values

    def _node(self, node: Node, args: Sequence[Array], space: Space) -> Array:
        attr = node.attr
        if isinstance(attr, Access):
            return read(self.arrays[attr.buffer], node, args, space)
        if isinstance(attr, IndexValue):
            bound = dict(zip(attr.binds, args, strict=True))
            return np.asarray(space.value(attr.expr, bound), np.int64)
        if isinstance(attr, IndexCheck):
            return _check(args[0], int(evaluate(attr.size, self.sizes)), attr.wrap)
        if node.op == "const":
            return numpy_ops.constant(attr, node.dtype)
        if node.op == "cast":
            return numpy_ops.convert(args[0], node.dtype)
        if node.op == "bitcast":
            return numpy_ops.reinterpret(args[0], node.args[0].dtype, node.dtype)
        if node.op == "where":
            return np.where(*args)
        if node.op not in OPERATIONS:
            raise InternalError(f"{self.nest.name}: {node.op} outside of its place")
        return np.asarray(OPERATIONS[node.op].meaning(*args))


def _check(index: Array, size: int, wrap: bool) -> Array:
    wrapped = np.where(index < 0, index + size, index) if wrap else index
    wrong = (wrapped < 0) | (wrapped >= size)
    if np.any(wrong):
        first = int(np.broadcast_to(index, wrong.shape)[wrong].flat[0])
        raise IndexError(f"index {first} is out of range for a dimension of {size}")
    return wrapped
