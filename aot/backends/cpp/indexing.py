"""Index expressions in C++: uniform ones, and ones that vary across the lanes of a vector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aot.backends.cpp.context import KernelContext
from aot.backends.cpp.lanes import VectorAxis, is_multiple, lane_step
from aot.backends.cpp.ops import COMPARISONS
from aot.backends.cpp.text import index_text
from aot.errors import InternalError
from aot.ir.dtypes import INT64, DType
from aot.ir.operations import COMPARE
from aot.ir.scalar import IndexCheck, IndexValue, Node
from aot.symbolic import (
    Add,
    Expr,
    FloorDiv,
    Modulo,
    Mul,
    Symbol,
    coefficient_of,
    depends_on,
    expand,
    integer,
    number_and_rest,
    terms,
)

_NARROW = 1 << 31
"""Positions below it have 32 bits, with a sign."""

_EXACT = 1 << 48
"""`floor_div` of aot/kernel/prelude.h takes lanes up to twice this."""


@dataclass(frozen=True)
class Value:
    """An emitted value: C++ text, dtype, and "1" or the vector's lane count.

    `narrow`: text of the same in int32, of an int64 that has its value from one. `size`: an index
    is within a dimension of this size, where that is a number.
    """

    text: str
    dtype: DType
    lanes: str
    constant: bool = False
    narrow: str = ""
    size: int | None = None


@dataclass(frozen=True)
class Vector:
    """The vector loop that is open: its axis, the lane count's name, and the tail's count."""

    axis: VectorAxis
    lanes: str
    count: str | None


def is_narrow_check(check: IndexCheck) -> bool:
    """Whether a check may be done in 32 bits."""
    return not check.wrap and check.size.is_Integer and int(check.size) < _NARROW


class Indexer:
    """Writes index expressions for the vector loop that is open, if any."""

    def __init__(self, context: KernelContext) -> None:
        self.context = context
        self.vector: Vector | None = None

    def binding(self, symbols: tuple[Symbol, ...], args: list[Value]) -> dict[Symbol, Value]:
        """The values that indirect symbols stand for; a mask that follows them is left out."""
        return dict(zip(symbols, args, strict=False))

    def uniform_names(self, binds: Mapping[Symbol, Value]) -> dict[Symbol, str]:
        """Names for index text when every bound value is the same in all lanes."""
        names = dict(self.context.names)
        for symbol, value in binds.items():
            names[symbol] = value.text if value.constant else f"{value.text}[0]"
        return names

    def step(self, expr: Expr, binds: Mapping[Symbol, Value]) -> Expr | None:
        """The constant step of `expr` from lane to lane in the open vector; None if there is none.

        0 when there is no vector.
        """
        if any(v.lanes != "1" and s in expr.free_symbols for s, v in binds.items()):
            return None
        return integer(0) if self.vector is None else lane_step(expr, self.vector.axis)

    def index_vector(self, expr: Expr, binds: Mapping[Symbol, Value]) -> str:
        """`expr` in every lane of the open vector as a Vec of int64."""
        vector = self.vector
        if vector is None:
            text = index_text(expr, self.uniform_names(binds))
            return f"aot::Vec<int64_t, 1>({text})"
        step = self.step(expr, binds)
        if step is not None:
            base, delta = (index_text(e, self.uniform_names(binds)) for e in (expr, step))
            return f"aot::iota<int64_t, {vector.lanes}>({base}, {delta})"
        linear = self._linear(expr, binds) or self._divided(expr, binds)
        if linear is not None:
            return linear
        names = self.uniform_names(binds)
        for symbol, value in binds.items():
            if value.lanes != "1":
                names[symbol] = f"{value.text}[lane]"
        axis = vector.axis.symbol
        names[axis] = f"({self.context.names[axis]} + lane)"
        text = index_text(expr, names)
        return f"aot::lanes_of<{vector.lanes}>([&](int64_t lane) {{ return {text}; }})"

    def _linear(self, expr: Expr, binds: Mapping[Symbol, Value]) -> str | None:
        """`expr` as a linear combination of bound vectors; None when it is not one."""
        if self.vector is None:
            return None
        varying = {s: v for s, v in binds.items() if v.lanes != "1"}
        rest, parts = expr, []
        for symbol, value in varying.items():
            c = coefficient_of(rest, symbol)
            if c is None or depends_on(c, [*varying, self.vector.axis.symbol]):
                return None
            if c == 0:
                continue
            rest = expand(rest - c * symbol)
            scale = index_text(c, self.uniform_names(binds))
            parts.append(value.text if c == 1 else f"{value.text} * ({scale})")
        if self.step(rest, binds) is None or depends_on(rest, list(varying)):
            return None
        if rest != 0:
            parts.append(self.index_vector(rest, binds))
        return " + ".join(parts)

    def parted(self, expr: Expr, binds: Mapping[Symbol, Value]) -> tuple[Expr, Expr]:
        """(what is the same in all lanes, the rest) of a sum."""
        same = [t for t in terms(expr) if self.step(t, binds) == 0]
        return Add(*same), Add(*(t for t in terms(expr) if t not in same))

    def narrow_places(self, places: Expr, binds: Mapping[Symbol, Value]) -> str | None:
        """A vector's places in int32; None where a value has no such twin or may be too great.

        Vectors of 64 bits take two registers, and processors without AVX-512 multiply them slowly.
        """
        rest, parts, reach = places, [], 0
        for symbol, value in binds.items():
            c = coefficient_of(rest, symbol)
            if c is None or not c.is_Integer:
                return None
            if c == 0:
                continue
            if not value.narrow or value.size is None:
                return None
            rest = expand(rest - c * symbol)
            reach += abs(int(c)) * value.size
            parts.append(value.narrow if c == 1 else f"{value.narrow} * int32_t{{{c}}}")
        return " + ".join(parts) if rest == 0 and reach < _NARROW else None

    def turned(self, expr: Expr, binds: Mapping[Symbol, Value]) -> tuple[Expr, Modulo] | None:
        """(row, place) where `expr` is a remainder that rises by 1 a lane, on top of one row."""
        moving = [t for t in terms(expr) if self.step(t, binds) != 0]
        if len(moving) != 1 or not isinstance(moving[0], Modulo):
            return None
        place = moving[0]
        dividend, divisor = place.args
        if not divisor.is_Integer or self.step(dividend, binds) != 1:
            return None
        return expand(expr - place), place

    def _divided(self, expr: Expr, binds: Mapping[Symbol, Value]) -> str | None:
        """`expr` of quotients and remainders by numbers, on whole vectors; None where it is not."""
        if self.step(expr, binds) is not None:
            return self.index_vector(expr, binds)
        found = [(s, v) for s, v in binds.items() if s == expr]
        if found:
            return found[0][1].text
        if isinstance(expr, Add):
            return self._sum(expr, binds)
        if isinstance(expr, Mul):
            number, rest = number_and_rest(expr)
            inner = self._divided(rest, binds) if number.is_Integer and number != 1 else None
            return None if inner is None else f"({inner}) * int64_t{{{number}}}"
        if isinstance(expr, (FloorDiv, Modulo)):
            dividend, divisor = expr.args
            inner = self._divided(dividend, binds) if self._divides(dividend, divisor) else None
            name = "floor_div" if isinstance(expr, FloorDiv) else "floor_mod"
            return None if inner is None else f"aot::{name}({inner}, {divisor})"
        return None

    def _sum(self, expr: Expr, binds: Mapping[Symbol, Value]) -> str | None:
        """The terms with a step as one vector, and each of the others."""
        even = [t for t in terms(expr) if self.step(t, binds) is not None]
        parts = [self._divided(t, binds) for t in terms(expr) if t not in even]
        if even:
            parts.append(self.index_vector(Add(*even), binds))
        known = [p for p in parts if p is not None]
        return " + ".join(known) if len(known) == len(parts) else None

    def _divides(self, dividend: Expr, divisor: Expr) -> bool:
        """Whether `floor_div` on lanes is exact: small numbers, known beforehand."""
        bounds = self.context.ranges.bounds(dividend)
        if bounds is None or not divisor.is_Integer or int(divisor) <= 0:
            return False
        return all(b.is_Integer and abs(int(b)) < _EXACT for b in bounds)

    def address(self, pointer: str, offset: Expr, binds: Mapping[Symbol, Value]) -> str:
        """The address of the first lane's element."""
        if offset == 0:
            return pointer
        return f"{pointer} + ({index_text(offset, self.uniform_names(binds))})"

    def is_narrow(self, node: Node) -> bool:
        """True for a comparison of positions that fit into 32 bits, as of padding and slices."""
        if node.op not in COMPARE or node.args[0].dtype != INT64:
            return False
        return all(self.narrow_position(a) is not None for a in node.args)

    def narrow_position(self, node: Node) -> Expr | None:
        """The index expression of a constant or plain index within 32 bits; None if it is none."""
        if node.op == "const":
            expr = integer(int(node.attr))  # type: ignore[call-overload]
        elif isinstance(node.attr, IndexValue) and not node.args:
            expr = self.context.ranges.simplify(node.attr.expr)
        else:
            return None
        bounds = self.context.ranges.bounds(expr)
        if bounds is None or not all(b.is_Integer and abs(int(b)) < _NARROW for b in bounds):
            return None
        return expr

    def compare_positions(self, node: Node) -> tuple[str, str]:
        """The comparison and its lanes: in 32 bits, or once where all lanes agree.

        Raises:
            InternalError: A side is not known to be a position within 32 bits.
        """
        left, right = (self.narrow_position(a) for a in node.args)
        if left is None or right is None:
            raise InternalError(f"{node!r} does not compare positions")
        operator = COMPARISONS[node.op]
        names = self.context.names
        texts = [index_text(e, names) for e in (left, right)]
        steps = [self.step(e, {}) for e in (left, right)]
        if self.lanes_agree(node.op, left, right, steps) or self.vector is None:
            return f"aot::Mask<1>({texts[0]} {operator} {texts[1]})", "1"
        lanes = self.vector.lanes
        sides = []
        for expr, text, step in zip((left, right), texts, steps, strict=True):
            if step is None:
                sides.append(f"aot::convert<int32_t>({self.index_vector(expr, {})})")
            else:
                delta = index_text(step, names)
                sides.append(f"aot::iota<int32_t, {lanes}>(int32_t({text}), int32_t({delta}))")
        return f"{sides[0]} {operator} {sides[1]}", lanes

    def lanes_agree(self, op: str, left: Expr, right: Expr, steps: list[Expr | None]) -> bool:
        """True when a comparison has one result for all lanes of every vector."""
        if all(s == 0 for s in steps):
            return True
        if self.vector is None or op in ("eq", "ne") or steps not in ([1, 0], [0, 1]):
            return False
        moving, still = (left, right) if steps[0] == 1 else (right, left)
        # All lanes are on one side of a boundary that is a multiple of the vector's alignment.
        boundary = still + (1 if (op in ("le", "gt")) == (steps[0] == 1) else 0)
        axis = self.vector.axis
        return is_multiple(moving, axis) and is_multiple(expand(boundary), axis)
