"""The greatest of a row and the sum of its exponentials, in one walk.

Softmax and its like reduce a row twice: first to its greatest element, then to the sum of
exp(x - greatest). A row that is walked in turns would be read twice. Instead each lane's sum is
relative to the greatest element that the lane has seen, and lanes are joined at the end. A lane is
a vector of neighbours, so that its sum is scaled once for all of them; of columns, whose neighbours
belong to others, elements that a thread has far from each other. (Milakov, Gimelshein, Online
normalizer calculation for softmax, arXiv:1805.02867, 2018.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aot.backends.triton.body import Body
from aot.backends.triton.context import TileDim
from aot.backends.triton.reduction import Reduction, operand, reductions_of, store_reduced
from aot.backends.triton.walks import VECTOR_BYTES, beside, find_walk, ranges, rest_of, turns
from aot.ir.dtypes import FLOAT32
from aot.ir.kernels import Stage
from aot.ir.scalar import Access, Node, loads

FAR = 4
"""Elements of a lane down columns: logsumexp of 253240 x 265 float16 over its rows took 852 us on
an H200 where neighbours, which other threads have, were one lane, 55 with 4 or 8 of a thread."""


class _Sums:
    """The greatest elements of lanes so far, and sums relative to these."""

    def __init__(self, body: Body, rows: int, lanes: int, each: int, *, far: bool = False) -> None:
        """`each`: elements of a lane, so many times `lanes` a tile: neighbours, or `far` apart."""
        self._body = body
        self._axis = 1 if far else 2
        self._shape = f"[{rows}, {each}, {lanes}]" if far else f"[{rows}, {lanes}, {each}]"
        self.top, self.total = body.fresh("top"), body.fresh("total")
        shape = f"[{rows}, {lanes}]"
        body.writer.line(f"{self.top} = tl.full({shape}, float('-inf'), tl.float32)")
        body.writer.line(f"{self.total} = tl.zeros({shape}, tl.float32)")

    def add(self, values: str) -> None:
        """Takes a tile of values."""
        pair = f"{self.top}, {self.total}"
        values = f"tl.reshape({values}, {self._shape})"
        self._body.writer.line(f"{pair} = online_exp({pair}, {values}, {self._axis})")


@dataclass(frozen=True)
class Online:
    """Two stages that one walk does: `top` is the greatest element, `total` the sum."""

    first: Stage
    second: Stage
    top: Reduction
    total: Reduction

    def emit(self, body: Body, rows: TileDim, columns: TileDim, *, across: bool) -> None:
        """Writes the walk, and what both stages store.

        `across`: neighbours in memory are elements of different rows.
        """
        body.declare_dim(columns)
        tile, own = frozenset((rows.name, columns.name)), frozenset((rows.name,))
        each = min(columns.block, FAR if across else self._together(body))
        sums = _Sums(body, rows.block, columns.block // each, each, far=across)
        walk = find_walk(body, rows, columns, [self.top.value])
        if walk is None:
            for dim, head in ranges(body, columns):
                with body.loop(f"for start in {head}"):
                    body.open_dim(dim, "start")
                    sums.add(operand(body, self.top, tile))
            body.declare_dim(columns)
            found = [sums]
        else:
            for _ in turns(body, columns, walk):
                sums.add(operand(body, self.top, tile))
            rest = _Sums(body, rows.block, 1, walk.vector)
            with beside(body, columns, walk):
                rest.add(operand(body, self.top, frozenset((rows.name, rest_of(columns)))))
            found = [sums, rest]
        tops = [f"tl.reduce({s.top}, 1, max_nan)" for s in found]
        top = tops[0] if len(tops) == 1 else f"max_nan({', '.join(tops)})"
        best = body.name(f"{top}[:, None]", FLOAT32, own)
        body.define(self.top.node, best)
        store_reduced(body, self.first)
        parts = [f"tl.sum({s.total} * tl.exp({s.top} - {best.text}), 1)" for s in found]
        total = parts[0] if len(parts) == 1 else f"({' + '.join(parts)})"
        body.define(self.total.node, body.name(f"{total}[:, None]", FLOAT32, own))
        store_reduced(body, self.second)

    def _together(self, body: Body) -> int:
        """Neighbours that a thread reads at once: they are one lane, with one exponential more."""
        read = loads([self.top.value])
        sizes = [body.context.buffers[n.attr.buffer].dtype.itemsize for n in read]  # type: ignore[attr-defined]
        return VECTOR_BYTES // max(1, min(sizes, default=4))


def find_online(first: Stage, second: Stage | None) -> Online | None:
    """The two stages as one walk; None where they are something else."""
    if second is None or first.order != second.order:
        return None
    top, total = _only(first, "max"), _only(second, "sum")
    if top is None or total is None or total.value.op != "exp":
        return None
    (exponent,) = total.value.args
    if exponent.op != "sub":
        return None
    value, less = map(_widened, exponent.args)
    if value != _widened(top.value) or less.op != "load":
        return None
    access = less.attr
    assert isinstance(access, Access)
    (nest,) = first.nests
    stored = [s for s in nest.stores if s.buffer == access.buffer and s.value == top.node]
    same = any(s.index == access.index for s in stored) and not access.binds
    return Online(first, second, top, total) if same else None


def is_online(stages: Sequence[Stage]) -> bool:
    """True when one walk is all that there is to do."""
    return len(stages) == 2 and find_online(*stages) is not None


def _only(stage: Stage, kind: str) -> Reduction | None:
    """The reduction of a stage that has one nest and does nothing else, in single precision."""
    if len(stage.nests) != 1 or not stage.nests[0].reduction:
        return None
    found = reductions_of(stage.nests[0])
    if len(found) != 1 or found[0].kind != kind or found[0].dtype != FLOAT32:
        return None
    return found[0] if found[0].node.dtype == FLOAT32 else None


def _widened(node: Node) -> Node:
    """What a number in single precision was before it was that, which changes nothing."""
    while node.op == "cast" and node.dtype == FLOAT32 and node.args[0].dtype.is_float:
        if node.args[0].dtype.itemsize > FLOAT32.itemsize:
            break
        (node,) = node.args
    return node
