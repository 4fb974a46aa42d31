"""Values that join elements of a tensor at positions that tensors name.

Each value goes to its element: work grows with the values, whatever the number of elements. Sums
are taken in the type that arithmetic runs in. Extrema of floats are found among integers in the
same order (`order_key`), which every device compares in memory, NaN included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aot.ir.dtypes import BOOL, INT32, INT64, DType
from aot.ir.nests import neutral
from aot.ir.order_keys import from_order_key, order_key
from aot.ir.scalar import Node, binary, cast, const
from aot.lowering import exprs as e
from aot.lowering.builder import GraphBuilder, PointBody, Tensor
from aot.lowering.pointwise import narrow
from aot.lowering.rowwise import running
from aot.symbolic import Expr, product

Place = Callable[[tuple[Expr, ...]], Sequence[Expr]]
"""Where the value of a point goes; may hold `indirect` symbols."""

_MODES = {"sum": "add", "mean": "add", "prod": "mul", "max": "maximum", "min": "minimum"}


class Joined:
    """Elements of one type that values join by `kind`: sum, mean, prod, max or min."""

    def __init__(self, dtype: DType, kind: str) -> None:
        # The sum of truths is whether there is one.
        self.kind = "max" if dtype == BOOL and kind == "sum" else kind
        self.dtype = dtype
        self._keyed = dtype.is_float and kind in ("max", "min")
        wide = INT64 if dtype.itemsize == 8 else INT32
        self.held = dtype.compute if dtype.is_float and not self._keyed else wide

    @property
    def mode(self) -> str:
        """Of the store; the least of floats is the negative of the greatest negative."""
        return "maximum" if self._keyed else _MODES[self.kind]

    def hold(self, value: Node) -> Node:
        """A value as it is held while values join it."""
        value = cast(value, self.dtype.compute)
        if not self._keyed:
            return cast(value, self.held)
        return order_key(
            e.neg(value) if self.kind == "min" else value, self.held, equal_zeros=False
        )

    def onto(self, start: Tensor, points: Sequence[Expr], place: Place, value: PointBody) -> Tensor:
        """Held elements joined with the value of each point at its place."""

        def held(at: tuple[Expr, ...]) -> Node:
            return self.hold(value(at))

        return start.builder.update(start, points, place, held, self.mode)

    def give(self, held: Node) -> Node:
        """A held value as one of the type that arithmetic runs in."""
        if not self._keyed:
            return cast(held, self.dtype.compute)
        value = from_order_key(held, self.dtype.compute)
        return e.neg(value) if self.kind == "min" else value

    @property
    def nothing(self) -> Node:
        """What changes no value that it joins."""
        return const(neutral(self.mode, self.held), self.held)


def join_at(
    x: Tensor,
    points: Sequence[Expr],
    place: Place,
    value: PointBody,
    kind: str,
    *,
    include_self: bool = True,
) -> Tensor:
    """x with the elements at `place(point)` joined with `value(point)`, for all `points`.

    `include_self`: x's own element counts; where nothing joins, it stays in any case.
    Means of integers round down.
    """
    builder, joined = x.builder, Joined(x.dtype, kind)
    if include_self:
        start = x
        if x.dtype != joined.held:
            start = builder.pointwise(x.shape, joined.held, lambda at: joined.hold(x.load(at)))
        total = joined.onto(start, points, place, value)
    else:
        total, joined = join_fresh(builder, x.shape, x.dtype, points, place, value, kind)
    counted = kind == "mean" or not include_self
    if not counted and total.dtype == x.dtype:
        return total
    hits = count_at(builder, x.shape, points, place) if counted else None

    def result(at: tuple[Expr, ...]) -> Node:
        found = joined.give(total.load(at))
        if hits is None:
            return narrow(found, x.dtype)
        count = hits.load(at)
        if kind == "mean":
            # Where nothing joins, x's own is chosen below.
            parts = e.add(count, 1) if include_self else e.maximum(count, 1)
            found = _quotient(found, cast(parts, found.dtype))
        if include_self:
            return narrow(found, x.dtype)
        return e.select(e.gt(count, 0), narrow(found, x.dtype), x.load(at))

    return builder.pointwise(x.shape, x.dtype, result)


def count_at(
    builder: GraphBuilder, shape: Sequence[Expr], points: Sequence[Expr], place: Place
) -> Tensor:
    """How many of the points go to each element of a shape, int32."""
    none = builder.pointwise(shape, INT32, lambda _: const(0, INT32))
    return builder.update(none, points, place, lambda _: const(1, INT32), "add")


def count_up_to(
    builder: GraphBuilder, shape: Sequence[Expr], points: Sequence[Expr], place: Place
) -> Tensor:
    """How many of the points go to each element along the last dimension or to one before it.

    int32 where they are known to be few enough.
    """
    most = builder.ranges.greatest(product(points))
    dtype = INT32 if most is not None and most < 1 << 31 else INT64
    return running(count_at(builder, shape, points, place), len(shape) - 1, dtype, "sum")


def join_fresh(
    builder: GraphBuilder,
    shape: Sequence[Expr],
    dtype: DType,
    points: Sequence[Expr],
    place: Place,
    value: PointBody,
    kind: str,
) -> tuple[Tensor, Joined]:
    """Elements that only the values make, as `Joined` holds them; nothing where none comes."""
    joined = Joined(dtype, kind)
    none = builder.pointwise(shape, joined.held, lambda _: joined.nothing)
    return joined.onto(none, points, place, value), joined


def _quotient(a: Node, b: Node) -> Node:
    """a / b; rounded down for integers."""
    return e.div(a, b) if a.dtype.is_float else binary("floordiv", a, b)
