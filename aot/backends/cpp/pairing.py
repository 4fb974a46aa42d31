"""Stores of neighbours, of which each has every second element: lanes of two vectors in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aot.backends.cpp.values import Body
from aot.ir.dtypes import BOOL
from aot.ir.nests import Store


def paired(body: Body, stores: Sequence[Store]) -> Iterator[tuple[Store, Store | None]]:
    """The stores in their order, each with the next one where both are a pair, the lower first."""
    left = list(stores)
    while left:
        first = left.pop(0)
        if left and is_pair(body, first, left[0]):
            yield first, left.pop(0)
        else:
            yield first, None


def is_pair(body: Body, low: Store, high: Store) -> bool:
    """Whether lanes of both stores lie two apart, and `high`'s next to `low`'s."""
    if body.vector is None or low.buffer != high.buffer or low.buffer in body.context.locals_:
        return False
    plain = (s.mode == "set" and not (s.binds or s.base or s.conflicts) for s in (low, high))
    if not all(plain) or low.buffer in body.context.streamed:
        return False
    context = body.context
    offsets = [context.offset(s.buffer, s.index) for s in (low, high)]
    near = context.ranges.simplify(offsets[1] - offsets[0]) == 1
    return near and all(body.step(offset, {}) == 2 for offset in offsets)


def store_pair(body: Body, low: Store, high: Store) -> None:
    """Writes both; lanes beyond the tail's count stay untouched."""
    vector, context = body.vector, body.context
    assert vector is not None
    values = [body.stored(s) for s in (low, high)]
    texts = [body.as_lanes(v, vector.lanes) for v in values]
    if values[0].dtype == BOOL:
        texts = [f"aot::from_mask<uint8_t>({text})" for text in texts]
    offset = context.offset(low.buffer, low.index)
    address = body.address(context.pointers[low.buffer], offset, {})
    suffix, last = ("_n", f", {vector.count}") if vector.count else ("", "")
    call = f"aot::store_pairs{suffix}({address}, {', '.join(texts)}{last});"
    body.writer.line(call)
