"""Slices of loops that do not begin where the device's kernels need them to.

A slice begins at a multiple of its size, wherever that is. Where kernels rely on aligned addresses,
such a slice gets a buffer of its own: the loop copies it there before its body, and back behind it
if the body writes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from aot.ir.flow import (
    Copy,
    Flow,
    Item,
    Outline,
    Repeat,
    Slice,
    Straight,
    items_of,
    map_items,
    touched_by,
)
from aot.ir.loops import LoopGraph
from aot.ir.tensors import TensorType
from aot.symbolic import as_expr, is_multiple, product


def align_slices(outline: Outline[LoopGraph], alignment: int) -> Outline[LoopGraph]:
    """The outline with copies of the slices that may begin between multiples of `alignment` bytes.

    The same object when there are none.
    """
    types = outline.frame.types
    moved: dict[str, TensorType] = {}

    def change(item: Item[Any]) -> Item[Any]:
        if not isinstance(item, Repeat):
            return item
        for part in item.slices:
            if not _begins_aligned(types[part.buffer], alignment):
                place = f"{part.buffer}_slice"
                moved[place] = types[part.buffer]
                item = _with_copies(item, part, place)
        return item

    flow = map_items(outline.flow, change)
    if not moved:
        return outline
    return Outline(replace(outline.frame, types={**types, **moved}), flow)


def _begins_aligned(type_: TensorType, alignment: int) -> bool:
    size = product((*type_.shape, as_expr(type_.dtype.itemsize)))
    return is_multiple(size, alignment)


def _with_copies(loop: Repeat[Any], part: Slice, place: str) -> Repeat[Any]:
    """The loop with copies between its slice, called `place` now, and a buffer for the body."""
    name = part.buffer
    before = (Copy(place, name, loop.origin),)
    inner = (*loop.condition, *loop.body)
    behind = (Copy(name, place, loop.origin),) if name in _written(inner) else ()
    body = (*(before if name in _read(inner) else ()), *loop.body, *behind)
    slices = tuple(replace(s, buffer=place) if s == part else s for s in loop.slices)
    return replace(loop, slices=slices, body=body)


def _written(flow: Flow[Any]) -> set[str]:
    return {name for item in items_of(flow) for name in _of(item)[1]}


def _read(flow: Flow[Any]) -> set[str]:
    return {name for item in items_of(flow) for name in _of(item)[0]}


def _of(item: Item[Any]) -> tuple[Iterator[str] | tuple[str, ...], tuple[str, ...]]:
    """Buffers that an item reads and writes."""
    if isinstance(item, Straight):
        return item.graph.inputs, item.graph.outputs
    return touched_by(item)
