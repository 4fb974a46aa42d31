"""How many lanes a stage computes at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aot.backends.cpp.context import KernelContext
from aot.backends.cpp.lanes import VectorAxis, lane_step
from aot.backends.cpp.levels import LEVELS
from aot.backends.cpp.text import lane_type
from aot.ir.hints import body_weight, is_dear, is_index
from aot.ir.kernels import Stage
from aot.ir.scalar import Access, Node, postorder
from aot.symbolic import integer, is_int

_NARROWEST_REGISTER, *_, _WIDEST_REGISTER = (level.register_bytes for level in LEVELS)
_LANE_BYTES = {
    **{"double": 8, "int64_t": 8, "float": 4, "int32_t": 4, "int16_t": 2},
    **{"uint64_t": 8, "uint32_t": 4, "uint16_t": 2},
}

MOST_LANES = 64
"""Of a mask."""
TURNED_LEAST = 8
"""Points of either loop whose loads go by tiles: tiles of less are mostly empty."""
NEAR = (integer(0), integer(1), integer(-1))
"""Steps from lane to lane that a register's width makes faster."""
_LIGHT = 12
"""Weight of a body of which a reduction has many sums at once."""


@dataclass(frozen=True)
class Width:
    """The lanes of a stage's vectors.

    `element`: the C++ type whose full register sets the lane count; `unroll`: registers a value
    takes in the main loop. `single` and `wide`: names of the two lane counts in the source.
    `row`: elements of the whole loop, where registers of as many lanes need no mask; 0: they do.
    """

    element: str
    unroll: int
    single: str
    wide: str
    row: int = 0

    @property
    def most(self) -> int:
        """Lanes of one vector at the widest ISA level."""
        lanes = _WIDEST_REGISTER // _LANE_BYTES.get(self.element, 1)
        return min(lanes, self.row) if self.row else lanes

    @property
    def widest(self) -> int:
        """Lanes of the main loop at the widest ISA level, which those of all levels divide."""
        return min(self.most * self.unroll, MOST_LANES)

    @property
    def least(self) -> int:
        """Lanes of the main loop at the narrowest ISA level."""
        lanes = _NARROWEST_REGISTER // _LANE_BYTES.get(self.element, 1) * self.unroll
        return min(lanes, self.row) if self.row else lanes

    def fits(self, lane: str) -> bool:
        """Whether values of a lane type fill the registers that the lanes were counted for."""
        return _LANE_BYTES.get(lane, 1) == _LANE_BYTES.get(self.element, 1) >= 4

    def declarations(self) -> list[str]:
        """The C++ constants `single` and `wide`."""
        native = f"aot::native_lanes<{self.element}>()"
        if self.row:
            native = f"{native} < {self.row} ? {native} : {self.row}"
        lines = [f"constexpr int {self.single} = {native};"]
        if self.wide != self.single:
            lines.append(f"constexpr int {self.wide} = {self._wide()};")
        return lines

    def _wide(self) -> str:
        """Lanes of the main loop at the level that is compiled for."""
        if self.unroll * self.most <= MOST_LANES:
            return f"{self.unroll} * {self.single}"
        wide = f"{self.unroll} * {self.single}"
        return f"{wide} < {MOST_LANES} ? {wide} : {MOST_LANES}"


def choose_width(stage: Stage, context: KernelContext, number: int) -> Width:
    """The lanes of a stage: as many as its widest arithmetic allows, unrolled if that pays."""
    roots = [n for nest in stage.nests for n in nest.roots]
    nodes = postorder(roots)
    element = _element(nodes)
    unroll = _unroll(stage, roots) * _narrowing(stage, nodes, element, context)
    unroll = max(unroll, _packing(stage, roots, element, context))
    if stage.vector is not None:
        unroll = _aligned_unroll(stage, nodes, context, element, unroll)
    single = f"L{number}"
    row = _whole_row(stage, element)
    if row:
        return Width(element, 1, single, single, row)
    return Width(element, unroll, single, single if unroll == 1 else f"W{number}")


def _whole_row(stage: Stage, element: str) -> int:
    """The extent of the vector loop, if it is that of a vector, or of a few at narrower levels.

    A row that leaves lanes empty would be masked, of narrow elements in several moves. From eight
    elements of four bytes on, tiles may turn them, which are of whole registers (`turning.py`).
    """
    if stage.vector is None or not is_int(stage.vector.extent):
        return 0
    extent = int(stage.vector.extent)
    size = _LANE_BYTES.get(element, 1)
    lanes = min(_WIDEST_REGISTER // size, TURNED_LEAST if size >= 4 else MOST_LANES)
    return extent if 2 <= extent < lanes and extent & (extent - 1) == 0 else 0


def _element(nodes: Sequence[Node]) -> str:
    """The widest lane type that is computed with; indices alone do not count."""
    counted = [n for n in nodes if not is_index(n)] or list(nodes)
    sizes = {lane_type(n.dtype): _LANE_BYTES.get(lane_type(n.dtype), 1) for n in counted}
    widest = max(sizes.values(), default=4)
    if widest == 1:
        return "uint8_t"
    return min(name for name, size in sizes.items() if size == widest)


def _unroll(stage: Stage, roots: Sequence[Node]) -> int:
    weight = body_weight(roots)
    if stage.reduction:
        return 4 if weight <= _LIGHT else 2 if weight <= 64 else 1
    return 2 if is_dear(roots) else 1


def _narrowing(stage: Stage, nodes: Sequence[Node], element: str, context: KernelContext) -> int:
    """How many lanes a reduction down columns has in the place of one.

    What it reads of a row are then as many bytes, however wide the lanes are: whole lines, each
    of which comes from far once.
    """
    reduced = {a.symbol for a in stage.reduction}
    if not reduced or stage.vector is None or stage.vector.symbol in reduced:
        return 1
    if body_weight([n for nest in stage.nests for n in nest.roots]) > _LIGHT:
        return 1
    loaded = [context.buffers[n.attr.buffer].dtype for n in nodes if isinstance(n.attr, Access)]
    widest = max((dtype.itemsize for dtype in loaded), default=0)
    return max(1, _LANE_BYTES.get(element, 1) // widest) if widest else 1


def _packing(stage: Stage, roots: Sequence[Node], element: str, context: KernelContext) -> int:
    """How many vectors of the computed type fill one of the narrowest that is stored, if any.

    They are packed two by two, and stored once. Rows that hold few of them would mostly be ends,
    and lanes that are read one by one fill a narrow register lane by lane.
    """
    if stage.reduction or stage.vector is None or not _reads_neighbours(stage, roots, context):
        return 1
    stores = [s for nest in stage.nests for s in nest.stores]
    size = _LANE_BYTES.get(element, 1)
    stored = min((context.buffers[s.buffer].dtype.itemsize for s in stores), default=size)
    most = 8 if body_weight(roots) <= _LIGHT else 2
    unroll = min(size // stored if stored < size else 1, most)
    extent, lanes = stage.vector.extent, unroll * (_WIDEST_REGISTER // size)
    return unroll if not is_int(extent) or int(extent) >= 4 * lanes else 1


def _reads_neighbours(stage: Stage, roots: Sequence[Node], context: KernelContext) -> bool:
    """Whether every load is of neighbours, or of one element for all lanes."""
    assert stage.vector is not None
    axis = VectorAxis(stage.vector.symbol, MOST_LANES)
    accesses = [n.attr for n in postorder(roots) if isinstance(n.attr, Access)]
    return not any(
        a.binds or lane_step(context.offset(a.buffer, a.index), axis) not in NEAR for a in accesses
    )


def _aligned_unroll(
    stage: Stage, nodes: Sequence[Node], context: KernelContext, element: str, unroll: int
) -> int:
    """The greatest unroll up to `unroll` that leaves the fewest accesses without a lane step."""
    if stage.vector is None:
        return unroll
    most = _WIDEST_REGISTER // _LANE_BYTES.get(element, 1)
    accesses = [n.attr for n in nodes if isinstance(n.attr, Access)]
    offsets = [context.offset(a.buffer, a.index) for a in accesses]
    stores = [s for nest in stage.nests for s in nest.stores]
    offsets += [context.offset(s.buffer, s.index) for s in stores]
    best, fewest = 1, None
    while unroll >= 1:
        axis = VectorAxis(stage.vector.symbol, min(most * unroll, MOST_LANES))
        without = sum(lane_step(o, axis) is None for o in offsets)
        if fewest is None or without < fewest:
            best, fewest = unroll, without
        unroll //= 2
    return best
