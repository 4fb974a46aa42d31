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

    def held_of(self, x: Tensor) -> Tensor:
        """A tensor's own elements as they are held."""
        if x.dtype == self.held:
            return x
        return x.builder.pointwise(x.shape, self.held, lambda at: self.hold(x.load(at)))

    @property
    def tells_nothing(self) -> bool:
        """Whether no value is held as `nothing`: the least key would be a NaN's own."""
        return self._keyed

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
    if kind == "mean":
        return _means(x, points, place, value, include_self)
    builder, joined = x.builder, Joined(x.dtype, kind)
    if joined.tells_nothing and not include_self:
        total, _ = join_fresh(builder, x.shape, x.dtype, points, place, value, kind)

        def chosen(at: tuple[Expr, ...]) -> Node:
            held = total.load(at)
            found = narrow(joined.give(held), x.dtype)
            return e.select(e.eq(held, joined.nothing), x.load(at), found)

        return builder.pointwise(x.shape, x.dtype, chosen)
    start = joined.held_of(x)
    if not include_self:  # what is joined starts from nothing
        start = builder.update(start, points, place, lambda _: joined.nothing)
    total = joined.onto(start, points, place, value)
    if total.dtype == x.dtype:
        return total
    return builder.pointwise(
        x.shape, x.dtype, lambda at: narrow(joined.give(total.load(at)), x.dtype)
    )


def _means(
    x: Tensor, points: Sequence[Expr], place: Place, value: PointBody, include_self: bool
) -> Tensor:
    """`join_at` by means: sums, divided by how many were added up."""
    builder, joined = x.builder, Joined(x.dtype, "mean")
    if include_self:
        total = joined.onto(joined.held_of(x), points, place, value)
    else:
        total, joined = join_fresh(builder, x.shape, x.dtype, points, place, value, "mean")
    hits = count_at(builder, x.shape, points, place)

    def result(at: tuple[Expr, ...]) -> Node:
        found, count = joined.give(total.load(at)), hits.load(at)
        # Where nothing joins, x's own is chosen below.
        parts = e.add(count, 1) if include_self else e.maximum(count, 1)
        found = narrow(_quotient(found, cast(parts, found.dtype)), x.dtype)
        return found if include_self else e.select(e.gt(count, 0), found, x.load(at))

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
