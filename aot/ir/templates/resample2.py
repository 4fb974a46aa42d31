"""Resizing along two axes in one call, for devices that walk an image.

Two calls in turn write and read an image between them. Where few taps make an output, a work unit
can instead walk down some columns of the result, and keep the sums along the inner axis of the
last rows that it has seen: the inner axis comes first. Where many do, it sums along the outer axis
first, and makes each row of the result from one row of these sums.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from aot.errors import InternalError
from aot.ir.nests import View
from aot.ir.templates.base import Array, LoopOp, Support, TemplateCall
from aot.ir.templates.builder import NestBuilder
from aot.ir.templates.resample import Resample, flops_of_taps, weighted_sums
from aot.symbolic import Expr

StridesOf = Callable[[View], Sequence[Expr] | None]


@dataclass(frozen=True)
class Resample2(TemplateCall):
    """Two resamples of floats: starts and weights along `axis`, the others along `inner`.

    Starts never fall along an axis.

    Attributes:
        axis: The outer one.
        inner: An axis behind it.
        first: "outer" or "inner": which of them is summed first.
    """

    kind: ClassVar[str] = "resample2"
    follows: ClassVar[str] = "x"

    x: View
    starts: View
    weights: View
    inner_starts: View
    inner_weights: View
    axis: int
    inner: int
    first: str

    def interpret(self, operands: Mapping[str, Array], shape: tuple[int, ...]) -> Array:
        """Weighted sums of neighbours along two axes, the one that is to be first."""
        outer = (operands["starts"], operands["weights"], self.axis)
        inner = (operands["inner_starts"], operands["inner_weights"], self.inner)
        x = operands["x"]
        for starts, weights, axis in (outer, inner) if self.first == "outer" else (inner, outer):
            x = weighted_sums(x, starts, weights, axis)
        return x

    def flops(self) -> Expr:
        """A multiplication and an addition for each output and tap along either axis."""
        return flops_of_taps(self.output, self.weights, self.inner_weights)

    def expand(self, builder: NestBuilder, support: Support[Any] | None) -> list[LoopOp]:
        """Never: only devices with the template join calls.

        Raises:
            InternalError: Always.
        """
        raise InternalError(f"{self.name}: two resizings in one are never nests")

    @classmethod
    def joined(
        cls, first: TemplateCall, second: TemplateCall, support: Support[Any], strides: StridesOf
    ) -> TemplateCall | str | None:
        """Two resamples in turn, of two axes."""
        if not isinstance(first, Resample) or not isinstance(second, Resample):
            return None
        assert isinstance(support, Resample2Support)
        order, reason = _order(first, second, support.walks, strides)
        if reason:
            return reason
        outer, inner = _by_axis(first, second)
        return Resample2(
            second.name,
            second.output,
            second.origin,
            first.x,
            outer.starts,
            outer.weights,
            inner.starts,
            inner.weights,
            outer.axis,
            inner.axis,
            order,
        )


@dataclass(frozen=True)
class Walks:
    """What programs that walk an image resize well.

    Attributes:
        least_taps: With the outer axis first, along it: fewer do not overlap enough to pay.
        most_taps: With the inner axis first, along either: so many rows of sums are in registers,
            and so many inputs are read for each.
        most_inner_taps: With the outer axis first, along the inner one: about so many columns are
            summed twice, by the two work units beside a border.
        most_inside: With the outer axis first, elements between neighbouring pixels: with more, a
            work unit's row of inputs is enough for few outputs.
    """

    least_taps: int
    most_taps: int
    most_inner_taps: int
    most_inside: int


@dataclass(frozen=True)
class Resample2Support(Support[Resample2]):
    """A backend's template for two axes at once.

    Attributes:
        walks: What its programs resize well.
    """

    walks: Walks = field(kw_only=True)


def _order(first: Resample, second: Resample, walks: Walks, strides: StridesOf) -> tuple[str, str]:
    """(the attribute `first` of two calls in one, why they cannot be one); one of them is ""."""
    if first.axis == second.axis:
        return "", "both resize the same axis"
    if first.bits is not None or second.bits is not None:
        return "", "bytes are rounded in between"
    if not all(_is_whole(view) for view in (first.output, second.x)):
        return "", "the second reads another part than the first writes"
    for call in (first, second):
        if not call.taps.is_Integer:
            return "", f"{call.name} has {call.taps} taps, a number that varies"
    if all(int(call.taps) <= walks.most_taps for call in (first, second)):
        return "inner", ""
    outer, inner = _by_axis(first, second)
    reason = outer.no_walk(walks.least_taps)
    if int(inner.taps) > walks.most_inner_taps:
        reason = f"{inner.name} has {inner.taps} taps, more than {walks.most_inner_taps}"
    elif not reason and not _short_pixels(strides(first.x), inner.axis, walks):
        reason = f"pixels of {first.x.buffer} may have many elements"
    return ("", reason) if reason else ("outer", "")


def _by_axis(first: Resample, second: Resample) -> tuple[Resample, Resample]:
    """(the one that resizes the outer axis, the other)."""
    return (first, second) if first.axis < second.axis else (second, first)


def _short_pixels(strides: Sequence[Expr] | None, axis: int, walks: Walks) -> bool:
    """Whether it is known that few elements lie between neighbours along an axis."""
    if strides is None:
        return False
    step = strides[axis]
    return bool(step.is_Integer) and 0 < int(step) <= walks.most_inside


def _is_whole(view: View) -> bool:
    return view.index == tuple(a.symbol for a in view.axes)
