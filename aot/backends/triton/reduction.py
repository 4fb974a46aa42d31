"""Reductions of tiles along their columns: accumulators over loops, and the final combination."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from aot.backends.triton.body import Body
from aot.backends.triton.context import Value
from aot.backends.triton.ops import conversion
from aot.backends.triton.text import value_type
from aot.errors import InternalError
from aot.ir.dtypes import BOOL, INT32, INT64, UINT32, UINT64, DType
from aot.ir.kernels import Stage
from aot.ir.nests import LoopNest
from aot.ir.scalar import Node, cast, postorder
from aot.symbolic import Expr, ravel

_BOOL_KIND = {"min": "all", "max": "any", "prod": "all", "sum": "any"}
_COMBINE = {"sum": "plus", "prod": "times", "xor": "parity", "any": "either", "all": "both"}
_LATER = {"argmax": "later_max", "argmin": "later_min"}
_FIRST = {"argmax": "first_max", "argmin": "first_min"}
_GREATEST = {"int64": 2**63 - 1, "int32": 2**31 - 1, "uint64": 2**64 - 1, "uint32": 2**32 - 1}


@dataclass(frozen=True)
class Reduction:
    """One reduce node: what is accumulated, in which type, and how.

    `position`: the row-major position within the reduction's domain (arg-reductions only).
    `ascending`: a walk's later tiles have greater positions at every lane.
    """

    node: Node
    value: Node
    kind: str
    dtype: DType
    position: Expr
    ascending: bool = False

    @property
    def is_arg(self) -> bool:
        """True for argmin and argmax."""
        return self.kind in ("argmin", "argmax")

    @property
    def combine(self) -> str:
        """The helper that combines two values (arg-reductions: two pairs)."""
        if self.is_arg:
            return "arg_max" if self.kind == "argmax" else "arg_min"
        return _COMBINE.get(self.kind) or f"{self.kind}_nan"

    def joined(self, text: str, other: str) -> str:
        """Two results as one; not of positions."""
        if self.kind == "sum":
            return f"({text} + {other})"
        if self.kind in ("min", "max") and not self.dtype.is_float:
            return f"tl.{self.kind}imum({text}, {other})"
        return f"{self.combine}({text}, {other})"

    def neutral(self) -> str:
        """The value that changes nothing."""
        if self.kind in ("sum", "xor", "any"):
            return "0"
        if self.kind in ("prod", "all"):
            return "1"
        largest = self.kind in ("min", "argmin")
        if self.dtype.is_float:
            return "float('inf')" if largest else "float('-inf')"
        greatest = _GREATEST[self.dtype.name]
        return str(greatest if largest else 0 if self.dtype.kind == "u" else -greatest - 1)


def reductions_of(nest: LoopNest) -> list[Reduction]:
    """The reduce nodes of a nest, each once."""
    domain = [a.extent for a in nest.reduction]
    position = ravel([a.symbol for a in nest.reduction], domain)
    found = (_reduction(n, position) for n in postorder(nest.roots) if n.op == "reduce")
    return [replace(r, ascending=len(domain) == 1) for r in found]


def searched_with(r: Reduction, others: Iterable[Reduction]) -> Reduction | None:
    """The search for the position of what `r` finds, among others; None where there is none."""
    kind = f"arg{r.kind}"
    same = (o for o in others if o.kind == kind and o.value == r.value and o.dtype == r.dtype)
    return next(same, None)


def _reduction(node: Node, position: Expr) -> Reduction:
    kind, value = str(node.attr), node.args[0]
    if kind in ("any", "all"):
        return Reduction(node, cast(value, BOOL), kind, INT32, position)
    if kind in ("argmin", "argmax"):
        return Reduction(node, value, kind, _accumulated(value.dtype), position)
    if node.dtype == BOOL:
        return Reduction(node, cast(value, BOOL), _BOOL_KIND[kind], INT32, position)
    if kind not in ("sum", "prod", "xor", "min", "max"):
        raise InternalError(f"unknown reduction {kind!r}")
    return Reduction(node, value, kind, _accumulated(node.dtype), position)


def _accumulated(dtype: DType) -> DType:
    if dtype.is_float:
        return dtype.compute
    return dtype if dtype in (INT64, UINT64, UINT32) else INT32


def _places(body: Body) -> DType:
    """The type of positions within a reduction's domain: narrow ones are compared in one step."""
    return INT64 if body.context.wide else INT32


def _last(body: Body, shape: str) -> str:
    """A position behind all others, `shape` of them."""
    places = _places(body)
    return f"tl.full({shape}, {_GREATEST[places.name]}, {value_type(places)})"


class Accumulator:
    """A reduction in progress: `step` for every tile of the domain, then `finish`.

    Without a loop there is one tile, and `step` keeps its value as it is.
    """

    def __init__(self, reduction: Reduction, rows: str, columns: str, looped: bool) -> None:
        self._r = reduction
        self._dims = frozenset((rows, columns))
        self._rows = frozenset((rows,))
        self._looped = looped
        self._name = ""
        self._place = ""

    @property
    def reduction(self) -> Reduction:
        """What is accumulated."""
        return self._r

    def declare(self, body: Body) -> None:
        """Writes the accumulator's start, before a loop."""
        if not self._looped:
            return
        shape = body.shape(self._dims)
        self._name = body.fresh("acc")
        kind = value_type(self._r.dtype)
        body.writer.line(f"{self._name} = tl.full({shape}, {self._r.neutral()}, {kind})")
        if self._r.is_arg:
            self._place = body.fresh("at")
            # Where nothing later is taken, all that lanes have seen is like the start.
            start = f"tl.zeros({shape}, {value_type(_places(body))})"
            start = start if self._r.ascending else _last(body, shape)
            body.writer.line(f"{self._place} = {start}")

    def step(self, body: Body) -> None:
        """Accumulates the value at the present tile."""
        r = self._r
        value = body.value(r.value)
        text = body.spread(value, self._dims)
        if value.dtype.compute != r.dtype:
            text = conversion(f"({text})", value.dtype, r.dtype)
        masks = body.masks(self._dims)
        if masks:
            text = f"tl.where({' & '.join(masks)}, {text}, {self._typed(r.neutral())})"
        if r.is_arg:
            self._step_arg(body, text)
        elif not self._looped:
            self._name = body.fresh("acc")
            body.writer.line(f"{self._name} = {text}")
        elif r.combine in ("plus", "times"):
            sign = "+" if r.combine == "plus" else "*"
            body.writer.line(f"{self._name} = {self._name} {sign} {text}")
        else:
            body.writer.line(f"{self._name} = {r.combine}({self._name}, {text})")

    def _typed(self, number: str) -> str:
        return f"tl.full([], {number}, {value_type(self._r.dtype)})"

    def _step_arg(self, body: Body, text: str) -> None:
        position, _ = body.index(body.context.ranges.simplify(self._r.position), {})
        kind = value_type(_places(body))
        spread = f"(({position}) + tl.zeros({body.shape(self._dims)}, {kind}))"
        masks = body.masks(self._dims)
        later = self._looped and self._r.ascending  # lanes beyond the end are never taken
        if masks and not later:
            spread = f"tl.where({' & '.join(masks)}, {spread}, {_last(body, '[]')})"
        if not self._looped:
            self._name, self._place = body.fresh("acc"), body.fresh("at")
            body.writer.line(f"{self._name} = {text}")
            body.writer.line(f"{self._place} = {spread}")
            return
        pair = f"{self._name}, {self._place}"
        combine = _LATER[self._r.kind] if self._r.ascending else self._r.combine
        body.writer.line(f"{pair} = {combine}({pair}, {text}, {spread})")

    def finish(self, body: Body, *others: Accumulator) -> Value:
        """The reduced value, one for each row; `others`: of the row's other pieces."""
        r = self._r
        if r.is_arg:
            place = body.fresh("place")
            first, last = _FIRST[r.kind], _GREATEST[_places(body).name]
            body.writer.line(f"{place} = {first}({self._name}, {self._place}, {last})")
            return body.name(f"{place}[:, None].to(tl.int64)", INT64, self._rows)
        text = self._along_rows(r)
        for other in others:
            text = r.joined(text, other._along_rows(other._r))
        return self._as_result(body, r, text)

    def extreme(self, body: Body, r: Reduction) -> Value:
        """The extreme value that a search for its position has found, `r` of the same values."""
        return self._as_result(body, r, self._along_rows(r))

    def _as_result(self, body: Body, r: Reduction, text: str) -> Value:
        found = body.name(f"{text}[:, None]", r.dtype, self._rows)
        if r.node.dtype.compute == r.dtype:
            return Value(found.text, r.node.dtype, found.dims)
        converted = conversion(found.text, r.dtype, r.node.dtype)
        return body.name(converted, r.node.dtype, self._rows)

    def _along_rows(self, r: Reduction) -> str:
        if r.kind == "sum":
            return f"tl.sum({self._name}, 1)"
        if r.kind in ("min", "max") and not r.dtype.is_float:
            return f"tl.{r.kind}({self._name}, 1)"
        return f"tl.reduce({self._name}, 1, {r.combine})"


def operand(body: Body, r: Reduction, tile: frozenset[str]) -> str:
    """What is reduced, over the whole tile; what lies beyond changes nothing."""
    value = body.value(r.value)
    text = body.spread(value, tile)
    if value.dtype.compute != r.dtype:
        text = conversion(f"({text})", value.dtype, r.dtype)
    masks = body.masks(tile)
    if not masks:
        return text
    neutral = f"tl.full([], {r.neutral()}, {value_type(r.dtype)})"
    return f"tl.where({' & '.join(masks)}, {text}, {neutral})"


def store_reduced(body: Body, stage: Stage) -> None:
    """Stores what follows from a stage's reductions, whose results are defined."""
    for nest in stage.nests:
        if nest.reduction:
            for store in nest.stores:
                value = body.value(store.value)
                body.define_buffer(store.buffer, value)
                if store.buffer in body.context.pointers:
                    body.store(store)
