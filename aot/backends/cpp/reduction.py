"""Accumulators of reductions: declaration, one step, and the final value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aot.backends.cpp.indexing import Value
from aot.backends.cpp.text import lane_type, value_type
from aot.backends.cpp.values import Body
from aot.errors import InternalError
from aot.ir.dtypes import BOOL, UINT8, DType
from aot.ir.scalar import Node, cast
from aot.symbolic import Expr

_COMBINE = {
    "sum": "{a} + {b}",
    "prod": "{a} * {b}",
    "xor": "{a} ^ {b}",
    "min": "aot::minimum({a}, {b})",
    "max": "aot::maximum({a}, {b})",
    "any": "{a} | {b}",
    "all": "{a} & {b}",
}
_FOLD = {kind: f"reduce_{kind}" for kind in ("sum", "prod", "xor", "min", "max")}
_BOOL_KIND = {"min": "all", "max": "any", "prod": "all", "sum": "any"}


@dataclass(frozen=True)
class Reduction:
    """One reduce node: what is accumulated, and how.

    `position`: the row-major position within the reduction's domain (arg-reductions only);
    `index`: the C++ type that holds it. `compared`: the lane type that masks are of.
    """

    node: Node
    value: Node
    kind: str
    dtype: DType
    position: Expr
    index: str
    compared: str

    @property
    def is_arg(self) -> bool:
        """True for argmin and argmax."""
        return self.kind in ("argmin", "argmax")

    @property
    def is_blocked(self) -> bool:
        """True when long chains of additions would lose precision."""
        return self.kind == "sum" and self.dtype.is_float

    def type(self, lanes: str) -> str:
        """The accumulator's C++ type."""
        if self.is_arg:
            largest = "true" if self.kind == "argmax" else "false"
            return f"aot::ArgLanes<{largest}, {lane_type(self.dtype)}, {self.index}, {lanes}>"
        return value_type(self.dtype, lanes, self.compared)

    def identity(self, lanes: str) -> str:
        """The accumulator's start value."""
        if self.is_arg:
            return f"{self.type(lanes)}::none()"
        return f"{self.type(lanes)}({self._neutral()})"

    def _neutral(self) -> str:
        if self.kind in ("any", "all"):
            return "true" if self.kind == "all" else "false"
        if self.kind in ("sum", "prod", "xor"):
            return "1" if self.kind == "prod" else "0"
        return f"aot::{'greatest' if self.kind == 'min' else 'least'}<{lane_type(self.dtype)}>()"

    def combine(self, a: str, b: str) -> str:
        """Expression that combines two accumulators (not for arg-reductions)."""
        return _COMBINE[self.kind].format(a=a, b=b)


def reduction_of(node: Node, position: Expr, index: str, compared: str) -> Reduction:
    """Describes a reduce node.

    Raises:
        InternalError: The node's kind is unknown.
    """
    kind = str(node.attr)
    value = node.args[0]
    if kind in ("any", "all"):
        return Reduction(node, cast(value, BOOL), kind, BOOL, position, index, compared)
    if kind in ("argmin", "argmax"):
        dtype = UINT8 if value.dtype == BOOL else value.dtype.compute
        wide = cast(value, UINT8) if value.dtype == BOOL else value
        return Reduction(node, wide, kind, dtype, position, index, compared)
    if kind not in _COMBINE:
        raise InternalError(f"unknown reduction {kind!r}")
    dtype = node.dtype.compute
    if dtype == BOOL:
        return Reduction(node, cast(value, BOOL), _BOOL_KIND[kind], BOOL, position, index, compared)
    wide = value if value.dtype.compute == dtype else cast(value, dtype)
    return Reduction(node, wide, kind, dtype, position, index, compared)


@dataclass(frozen=True)
class Accumulator:
    """A declared accumulator variable; `part` collects one block of a long sum.

    `across`: its lanes are points of the reduction's domain, so a tail must leave some out.
    """

    reduction: Reduction
    lanes: str
    name: str
    part: str | None
    across: bool

    def declare(self, body: Body) -> None:
        """Writes the declaration of the accumulator."""
        r = self.reduction
        body.writer.line(f"{r.type(self.lanes)} {self.name} = {r.identity(self.lanes)};")
        if self.part is not None:
            body.writer.line(f"{r.type(self.lanes)} {self._error} = {r.identity(self.lanes)};")

    @property
    def _error(self) -> str:
        return f"{self.name}_error"

    @property
    def total(self) -> str:
        """The accumulated lanes when all loops have ended."""
        return self.name if self.part is None else f"aot::settled({self.name}, {self._error})"

    def declare_part(self, body: Body) -> None:
        """Writes the declaration of the block's accumulator, if there is one."""
        r = self.reduction
        if self.part is not None:
            body.writer.line(f"{r.type(self.lanes)} {self.part} = {r.identity(self.lanes)};")

    def flush(self, body: Body) -> None:
        """Adds the block's accumulator to the whole one."""
        if self.part is not None:
            body.writer.line(f"aot::add_exactly({self.name}, {self._error}, {self.part});")

    def step(self, body: Body) -> None:
        """Accumulates the value at the current point; tail lanes beyond the count are left out."""
        r = self.reduction
        value = body.as_lanes(body.value(r.value), self.lanes)
        vector = body.vector
        count = vector.count if vector is not None and self.across else None
        if r.is_arg:
            position = self._position(body)
            if count is None:
                body.writer.line(f"{self.name}.add({value}, {position});")
            else:
                mask = f"aot::first_n<{self.lanes}>({count})"
                body.writer.line(f"{self.name}.add_m({value}, {position}, {mask});")
            return
        if count is not None:
            mask = f"aot::first_n<{self.lanes}>({count})"
            value = f"aot::select({mask}, {value}, {r.identity(self.lanes)})"
        target = self.part or self.name
        body.writer.line(f"{target} = {r.combine(target, value)};")

    def _position(self, body: Body) -> str:
        text = body.index_vector(body.context.ranges.simplify(self.reduction.position), {})
        if self.reduction.index != "int64_t":
            return f"aot::convert<{self.reduction.index}>({text})"
        return text


def folded(accumulator: Accumulator) -> str:
    """The accumulator's lanes combined into one (arg-reductions: an ArgLanes of one lane)."""
    r = accumulator.reduction
    name = accumulator.total
    if r.is_arg:
        return f"{name}.best()"
    if accumulator.lanes == "1":
        return name
    if r.dtype == BOOL:
        return f"aot::Mask<1>(aot::{r.kind}({name}))"
    return f"{value_type(r.dtype, '1')}(aot::{_FOLD[r.kind]}({name}))"


def _folded_together(accumulators: Sequence[Accumulator]) -> str:
    """All lanes of a main accumulator and of the tail's, combined into one."""
    first, *others = accumulators
    r = first.reduction
    if others and r.dtype != BOOL and all(a.lanes != "1" for a in accumulators):
        names = ", ".join(a.total for a in accumulators)
        return f"{value_type(r.dtype, '1')}(aot::{_FOLD[r.kind]}({names}))"
    text = folded(first)
    for other in others:
        text = r.combine(text, folded(other))
    return text


def finish(body: Body, accumulators: list[Accumulator], *, across: bool) -> Value:
    """The reduction's value from its accumulators (main and tail ones of one reduce node).

    `across`: the lanes are points of the reduction's domain, so they are combined too.
    """
    first = accumulators[0]
    r = first.reduction
    if not across:
        text = f"{first.name}.index" if r.is_arg else first.total
        return _convert(body, text, r, first.lanes)
    if r.is_arg:
        best = body.fresh("best")
        body.writer.line(f"auto {best} = {folded(first)};")
        for other in accumulators[1:]:
            rival = body.fresh("best")
            body.writer.line(f"const auto {rival} = {folded(other)};")
            body.writer.line(f"{best}.add({rival}.value, {rival}.index);")
        return _convert(body, f"{best}.index", r, "1")
    return _convert(body, _folded_together(accumulators), r, "1")


def _convert(body: Body, text: str, r: Reduction, lanes: str) -> Value:
    if r.is_arg and r.index != "int64_t":
        text = f"aot::convert<int64_t>({text})"
    return body.name(text, r.node.dtype, lanes)
