"""Recurrent layers: steps that wait for each other, one layer and one direction at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from aot.errors import InternalError
from aot.ir.dtypes import INT32, DType
from aot.ir.hints import Hints
from aot.ir.nests import Axis, LoopNest, Store, View
from aot.ir.scalar import Node, binary, const, index_value, reduce_, unary, where
from aot.ir.templates.base import Array, LoopOp, Split, Strides, Support, TemplateCall
from aot.ir.templates.builder import NestBuilder
from aot.symbolic import Expr, ceil_div, integer, is_int, product, var

GATES: Mapping[str, int] = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}
"""Gates of a unit, by the kind of cell."""

_VECTORS = ("x", "bias")


@dataclass(frozen=True)
class Recurrence(TemplateCall):
    """x (steps, batch, gates * units) -> output (steps, batch, size): the states that are seen.

    Each step's gates are its part of x and the last seen state times the weight; in torch's order:
    input, forget, new and output gates of "lstm"; reset, update and new gates of "gru". What is
    seen of a state has as many elements as the state, or as the projection gives.

    Attributes:
        x: The input's part of all gates, biases included.
        weight: (size, gates * units), the state's part.
        hidden: (batch, size), what is seen before the first step.
        cell: "lstm", "gru", or the function of a plain cell, "tanh" or "relu".
        backwards: The last step comes first.
        ends: Behind the steps, output (steps + 1, batch, units) has the last state of "lstm"; what
            is seen of the others has zeros in the columns from `size` on.
        state: (batch, units), of "lstm": its state before the first step.
        bias: (units), of "gru": what the reset gate multiplies along with the state's part.
        projection: (units, size), of "lstm": what is seen is the output times this.
        marks: Zeros, in which work units that share out a step count which steps are done; the one
            operand that a kernel changes, and nobody else reads.
    """

    kind: ClassVar[str] = "recurrence"
    changes: ClassVar[frozenset[str]] = frozenset(("marks",))

    x: View
    weight: View
    hidden: View
    cell: str
    backwards: bool = False
    ends: bool = False
    state: View | None = None
    bias: View | None = None
    projection: View | None = None
    marks: View | None = None

    @property
    def steps(self) -> Expr:
        """How many steps there are."""
        return self.x.axes[0].extent

    @property
    def size(self) -> Expr:
        """Elements that are seen of a state."""
        return self.weight.axes[0].extent

    @property
    def units(self) -> Expr:
        """Elements of a state."""
        if self.state is not None:
            return self.state.axes[1].extent
        return self.hidden.axes[1].extent

    def interpret(self, operands: Mapping[str, Array], shape: tuple[int, ...]) -> Array:
        """SeenAndState by step."""
        x, weight, seen = operands["x"], operands["weight"], operands["hidden"]
        state = operands.get("state", seen)
        out = np.zeros(shape)
        steps, size = x.shape[0], weight.shape[0]
        for t in range(steps - 1, -1, -1) if self.backwards else range(steps):
            gates = np.split(seen @ weight, GATES[self.cell], axis=-1)
            given = np.split(x[t], GATES[self.cell], axis=-1)
            seen, state = _STEPS[self.cell](gates, given, state, operands.get("bias", 0.0))
            if self.projection is not None:
                seen = seen @ operands["projection"]
            out[t, :, :size] = seen
        if self.ends:
            out[steps] = state
        return out

    def flops(self) -> Expr:
        """The products of all steps, a multiplication and an addition for each of their points."""
        batch = self.x.axes[1].extent
        depths = [view for view in (self.weight, self.projection) if view is not None]
        each = sum((product([a.extent for a in v.axes]) for v in depths), integer(0))
        return product((self.steps, batch, each, integer(2)))

    def packs(self, role: str, support: Support[Any]) -> bool:
        """Weights are stored in the order in which steps read them, or copied once a run."""
        return role in ("weight", "projection")

    def misfit(self, role: str, support: Support[Any], strides: Strides, hints: Hints) -> str:
        """The input's part and the bias are read by vectors along the gates."""
        own = strides[role]
        if role not in _VECTORS or own is None or getattr(self, role).axes[-1].extent == 1:
            return ""
        return "" if own[-1] == 1 else f"operand {role} is not contiguous along its vectors"

    # ---- over several work units a step ----

    def split(
        self, builder: NestBuilder, support: Support[Any], units: int, hints: Hints
    ) -> Split | None:
        """The marks of a call whose steps are shared out, and the nest that clears them."""
        assert isinstance(support, RecurrenceSupport)
        sizes = tuple(a.extent for a in self.weight.axes)
        spread, known = support.spread, all(is_int(s) for s in sizes)
        if spread is None or not known or self.projection is not None or self.marks is not None:
            return None
        elements, depth = int(product(sizes)), int(sizes[0])
        if elements < spread.least_elements or depth > spread.most_depth:
            return None
        batch = self.x.axes[1].extent
        if not spread.takes(hints.value(batch), depth):
            return None
        name = f"{self.name}_marks"
        dtype, count = spread.marks(self, builder.dtype(self.x.buffer))
        axis = Axis(var("mark"), count)
        builder.temp(name, dtype, (axis.extent,))
        clear = Store(name, (axis.symbol,), const(0, dtype))
        marks = View(name, (axis,), (axis.symbol,))
        nest = LoopNest(name, (axis,), (), (clear,), self.origin)
        reason = f"one work unit would read {elements} weights at each step"
        return Split([nest, replace(self, marks=marks)], "steps shared out", reason)

    # ---- as nests ----

    def expand(self, builder: NestBuilder, support: Support[Any] | None) -> list[LoopOp]:
        """Nests for each step, which a device without loops over kernels needs in any case.

        Raises:
            InternalError: The number of steps is dynamic.
        """
        if not is_int(self.steps):
            raise InternalError(f"{self.name}: a device without the template has no dynamic steps")
        return _Unrolled(self, builder).nests()


@dataclass(frozen=True)
class Spread:
    """Where a device's work units share out each step, and wait for those of the step before.

    Attributes:
        least_elements: Of the weight; a work unit alone reads fewer quickly.
        most_depth: Elements that are seen of a state, of which a work unit holds all.
        rows: Elements of the batch that a work unit takes.
        most_batch: Elements of the batch above which work units have enough without sharing steps;
            None: they never have.
        whole: What the units of a state must be a multiple of; None: of nothing.
    """

    least_elements: int
    most_depth: int
    rows: int
    most_batch: int | None = None
    whole: int | None = None

    def takes(self, batch: int, depth: int) -> bool:
        """Whether steps of so many elements of the batch, and units, are shared out."""
        few = self.most_batch is None or batch <= self.most_batch
        return few and (self.whole is None or depth % self.whole == 0)

    def marks(self, call: Recurrence, dtype: DType) -> tuple[DType, Expr]:
        """The type of the marks of a call on elements of `dtype`, and how many there are."""
        return INT32, (call.steps + 1) * ceil_div(call.x.axes[1].extent, self.rows) + 1


@dataclass(frozen=True)
class RecurrenceSupport(Support[Recurrence]):
    """`spread`: None on devices whose work units do not wait for each other."""

    spread: Spread | None = None


SeenAndState = tuple[Any, Any]
"""What is seen of a state, and the state."""


def _lstm(gates: list[Array], given: list[Array], state: Array, bias: Any) -> SeenAndState:
    taken, kept, new, shown = (g + x for g, x in zip(gates, given, strict=True))
    state = _sigmoid(kept) * state + _sigmoid(taken) * np.tanh(new)
    return _sigmoid(shown) * np.tanh(state), state


def _gru(gates: list[Array], given: list[Array], state: Array, bias: Any) -> SeenAndState:
    reset, update = (_sigmoid(g + x) for g, x in zip(gates[:2], given[:2], strict=True))
    new = np.tanh(given[2] + reset * (gates[2] + bias))
    state = (state - new) * update + new
    return state, state


def _plain(function: Callable[[Array], Array]) -> Callable[..., SeenAndState]:
    def step(gates: list[Array], given: list[Array], state: Array, bias: Any) -> SeenAndState:
        state = function(gates[0] + given[0])
        return state, state

    return step


def _sigmoid(x: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


_STEPS: Mapping[str, Callable[..., SeenAndState]] = {
    "lstm": _lstm,
    "gru": _gru,
    "tanh": _plain(np.tanh),
    "relu": _plain(lambda x: np.maximum(x, 0.0)),
}


PlaceBody = Callable[[Expr, Expr], Node]
"""A value at a row and a column."""

_DEPTH = var("depth")


@dataclass(frozen=True)
class _Unrolled:
    """The nests of a recurrence of known length: a few a step, and one that joins the steps."""

    call: Recurrence
    builder: NestBuilder

    def nests(self) -> list[LoopOp]:
        """All of them."""
        call, steps = self.call, int(self.call.steps)
        ops: list[LoopOp] = []
        seen, state = call.hidden, call.state or call.hidden
        at: dict[int, View] = {}
        for t in range(steps - 1, -1, -1) if call.backwards else range(steps):
            seen, state = self._step(t, seen, state, ops)
            at[t] = seen
        rows = [at[t] for t in range(steps)]
        ops.append(self._joined([*rows, state] if call.ends else rows))
        return ops

    def _step(self, t: int, seen: View, state: View, ops: list[LoopOp]) -> tuple[View, View]:
        """What is seen, and the state, after step t."""
        call, name = self.call, f"{self.call.name}_{t}"
        gates = self._times(f"{name}_gates", seen, call.weight, ops)

        def parts(row: Expr, column: Expr, number: int) -> tuple[Node, Node]:
            place = column + number * call.units
            return self._load(call.x, integer(t), row, place), self._load(gates, row, place)

        def gate(row: Expr, column: Expr, number: int) -> Node:
            return binary("add", *parts(row, column, number))

        def sigmoid(row: Expr, column: Expr, number: int) -> Node:
            return unary("sigmoid", gate(row, column, number))

        def lstm(row: Expr, column: Expr) -> Node:
            kept = binary("mul", sigmoid(row, column, 1), self._load(state, row, column))
            new = unary("tanh", gate(row, column, 2))
            return binary("add", kept, binary("mul", sigmoid(row, column, 0), new))

        def gru(row: Expr, column: Expr) -> Node:
            given, own = parts(row, column, 2)
            if call.bias is not None:
                own = binary("add", own, self._load(call.bias, column))
            new = unary("tanh", binary("add", given, binary("mul", sigmoid(row, column, 0), own)))
            change = binary("sub", self._load(state, row, column), new)
            return binary("add", binary("mul", change, sigmoid(row, column, 1)), new)

        def plain(row: Expr, column: Expr) -> Node:
            value = gate(row, column, 0)
            if call.cell == "tanh":
                return unary("tanh", value)
            return binary("maximum", value, const(0.0, value.dtype))

        bodies = {"lstm": lstm, "gru": gru}
        after = self._pointwise(f"{name}_state", call.units, bodies.get(call.cell, plain), ops)
        if call.cell != "lstm":
            return after, after

        def output(row: Expr, column: Expr) -> Node:
            shown = unary("tanh", self._load(after, row, column))
            return binary("mul", sigmoid(row, column, 3), shown)

        made = self._pointwise(f"{name}_seen", call.units, output, ops)
        if call.projection is not None:
            made = self._times(f"{name}_projected", made, call.projection, ops)
        return made, after

    def _times(self, name: str, left: View, right: View, ops: list[LoopOp]) -> View:
        """left (batch, k) times right (k, n)."""
        depth, columns = right.axes

        def body(row: Expr, column: Expr) -> Node:
            pair = self._load(left, row, _DEPTH), self._load(right, _DEPTH, column)
            return reduce_("sum", binary("mul", *pair))

        return self._pointwise(name, columns.extent, body, ops, (Axis(_DEPTH, depth.extent),))

    def _pointwise(
        self,
        name: str,
        width: Expr,
        body: PlaceBody,
        ops: list[LoopOp],
        over: tuple[Axis, ...] = (),
    ) -> View:
        """A temporary (batch, width), and the nest that computes it."""
        rows = self.call.x.axes[1].extent
        dtype = self.builder.dtype(self.call.x.buffer)
        self.builder.temp(name, dtype, (rows, width))
        axes = (Axis(var("row"), rows), Axis(var("column"), width))
        point = tuple(a.symbol for a in axes)
        store = Store(name, point, body(*point))
        ops.append(LoopNest(name, axes, over, (store,), self.call.origin))
        return View(name, axes, point)

    def _load(self, view: View, *place: Expr) -> Node:
        at = {a.symbol: p for a, p in zip(view.axes, place, strict=True)}
        return self.builder.load(view, at)

    def _joined(self, rows: list[View]) -> LoopNest:
        """Every row of the output from the step that it is of."""
        call = self.call
        t, row, column = (a.symbol for a in call.output.axes)
        chosen: Node | None = None
        for k, view in reversed(list(enumerate(rows))):
            here = index_value(t)
            inside = binary("eq", here, const(k, here.dtype))
            width = view.axes[1].extent
            if width != call.output.axes[2].extent:
                shown = binary("lt", index_value(column), index_value(width))
                inside = binary("and", inside, shown)
            at = {a.symbol: p for a, p in zip(view.axes, (row, column), strict=True)}
            value = self.builder.load(view, at, inside)
            chosen = where(inside, value, const(0.0, value.dtype) if chosen is None else chosen)
        if chosen is None:
            raise InternalError(f"{call.name} has no steps")
        store = call.stored(chosen, self.builder)
        return LoopNest(call.name, call.output.axes, (), (store,), call.origin)
