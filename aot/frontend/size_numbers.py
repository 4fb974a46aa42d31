"""Numbers and conditions that sizes determine (`1 / n`, `n > 2`), as tensors without dimensions.

torch keeps them as symbols. Operators take such a tensor in place of a number: torch does not let
a tensor without dimensions decide the type of a result either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from aot.frontend.context import Context
from aot.ir.dtypes import BOOL, FLOAT64, DType
from aot.ir.origin import Origin
from aot.ir.tensors import TensorType, ValueRef


def number_of_sizes(context: Context, name: str, foreign: Any, origin: Origin) -> ValueRef:
    """The value of torch's expression: float64, or bool for a condition.

    Raises ValueError for an expression that has no counterpart.
    """
    writer = _Writer(context, name, origin)
    value = writer.condition(foreign) if writer.is_condition(foreign) else writer.number(foreign)
    return value if isinstance(value, ValueRef) else writer.constant(value, FLOAT64)


_OPAQUE = (
    *("sqrt", "exp", "log", "log2", "sin", "cos", "tan", "asin", "acos", "atan"),
    *("sinh", "cosh", "tanh", "asinh"),
)
_UNARY = {f"OpaqueUnaryFn_{name}": f"aten.{name}.default" for name in _OPAQUE}
_UNARY |= {"TruncToFloat": "aten.trunc.default"}
_FOLDED = {"Add": "aten.add.Tensor", "Mul": "aten.mul.Tensor"}
_FOLDED |= {"Max": "aten.maximum.default", "Min": "aten.minimum.default"}
_BINARY = {
    "FloatTrueDiv": "aten.div.Tensor",
    "IntTrueDiv": "aten.div.Tensor",
    "FloatPow": "aten.pow.Tensor_Tensor",
    "Pow": "aten.pow.Tensor_Tensor",
    "PowByNatural": "aten.pow.Tensor_Tensor",
}
_COMPARISONS: Mapping[str, str] = {
    "GreaterThan": "aten.ge.Tensor",
    "StrictGreaterThan": "aten.gt.Tensor",
    "LessThan": "aten.le.Tensor",
    "StrictLessThan": "aten.lt.Tensor",
    "Equality": "aten.eq.Tensor",
    "Unequality": "aten.ne.Tensor",
}
_LOGICAL = {"And": "aten.logical_and.default", "Or": "aten.logical_or.default"}

ScalarOperand = ValueRef | float
"""A tensor, or a number that is known."""


@dataclass
class _Writer:
    """Writes the operators of one number; they are named after it."""

    context: Context
    name: str
    origin: Origin
    numbers: Any = field(default_factory=count)

    def is_condition(self, foreign: Any) -> bool:
        """Whether the expression is true or false."""
        return type(foreign).__name__ in (*_COMPARISONS, *_LOGICAL, "Not")

    def condition(self, foreign: Any) -> ValueRef:
        """A bool.

        Raises:
            ValueError: It depends on sizes in a way that has no kernel, or on values of tensors.
        """
        kind = type(foreign).__name__
        if kind in _COMPARISONS:
            sides = [self.tensor(self.number(side)) for side in foreign.args]
            return self.emit(_COMPARISONS[kind], sides, BOOL)
        if kind in _LOGICAL:
            return self.fold(_LOGICAL[kind], [self.condition(a) for a in foreign.args], BOOL)
        if kind == "Not":
            return self.emit("aten.logical_not.default", [self.condition(foreign.args[0])], BOOL)
        raise ValueError(f"the condition {foreign} depends on sizes in a way that has no kernel")

    def number(self, foreign: Any) -> ScalarOperand:
        """A float64; every size is one exactly up to 2^53.

        Raises:
            ValueError: It depends on sizes in a way that has no kernel, or on values of tensors.
        """
        kind = type(foreign).__name__
        if foreign.is_number:
            return float(foreign)
        if kind in ("ToFloat", "Identity"):
            return self.number(foreign.args[0])
        if str(foreign) in self.context.bindings.numbers:
            return self.context.bindings.numbers[str(foreign)]
        if foreign.is_integer and kind not in _UNARY:
            return self.constant(self.context.sizes.foreign(foreign), FLOAT64)
        args = [self.tensor(self.number(a)) for a in foreign.args]
        if kind in _FOLDED:
            return self.fold(_FOLDED[kind], args, FLOAT64)
        target = _UNARY.get(kind) or _BINARY.get(kind)
        if target is None:
            raise ValueError(f"the number {foreign} depends on sizes in a way that has no kernel")
        return self.emit(target, args, FLOAT64)

    def tensor(self, value: ScalarOperand) -> ValueRef:
        """The number as a tensor."""
        return value if isinstance(value, ValueRef) else self.constant(value, FLOAT64)

    def constant(self, value: Any, dtype: DType) -> ValueRef:
        """A number, or an expression over dims, as a tensor."""
        return self.emit("aten.full.default", [(), value], dtype, dtype=dtype)

    def fold(self, target: str, args: Sequence[ValueRef], dtype: DType) -> ValueRef:
        """An operator of two operands over all of them, from the left."""
        first, *rest = args
        for arg in rest:
            first = self.emit(target, [first, arg], dtype)
        return first

    def emit(self, target: str, args: Sequence[Any], type_: DType, **kwargs: Any) -> ValueRef:
        """The result of an operator, of that element type."""
        name = f"{self.name}.{next(self.numbers)}"
        scalar = TensorType(type_, (), ())
        return self.context.ops.call(target, args, name, scalar, self.origin, **kwargs)
