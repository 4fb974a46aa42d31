"""Resizing of bytes along two axes in one call, for devices that multiply pairs of small integers.

As nests, bytes are summed in float32, exactly, and each axis is a pass through memory. A kernel of
16-bit weights does several times as many products in an instruction, and keeps what the inner axis
gave in rows that the outer one reads at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from aot.errors import InternalError
from aot.ir.hints import Hints
from aot.ir.nests import View
from aot.ir.templates.base import Array, LoopOp, Strides, Support, TemplateCall
from aot.ir.templates.builder import NestBuilder
from aot.ir.templates.resample import Resample, flops_of_taps, weighted_sums
from aot.symbolic import Expr, is_int

_MOST_AXES = 4
"""Of an operand: the two that are resized, and `Images.others` or `Images.inside`."""


@dataclass(frozen=True)
class Images:
    """How the images of an operand lie in memory.

    Attributes:
        pixel: Elements that lie together in a pixel.
        inside: The axis of these elements; None: each is an image of its own.
        others: The axes that tell images apart, in the view's order; two at most.
    """

    pixel: int
    inside: int | None
    others: tuple[int, ...]


@dataclass(frozen=True)
class ResampleBytes(TemplateCall):
    """Two resamples of bytes: starts and weights along `axis`, after the others along `inner`.

    Each axis is rounded to bytes, as in eager: weights are whole numbers over 2^bits.

    Attributes:
        axis: The outer one.
        inner: An axis behind it.
    """

    kind: ClassVar[str] = "resample_bytes"
    follows: ClassVar[str] = "x"

    x: View
    starts: View
    weights: View
    bits: View
    inner_starts: View
    inner_weights: View
    inner_bits: View
    axis: int
    inner: int

    def interpret(self, operands: Mapping[str, Array], shape: tuple[int, ...]) -> Array:
        """The inner axis, then the outer one, in fixed point."""
        x = operands["x"].astype(np.int64)
        for role, axis in (("inner_", self.inner), ("", self.axis)):
            bits, weights = int(operands[f"{role}bits"]), operands[f"{role}weights"]
            if not np.issubdtype(weights.dtype, np.integer):
                weights = np.rint(weights * float(1 << bits)).astype(np.int64)
            total = weighted_sums(x, operands[f"{role}starts"], weights, axis)
            half = (1 << bits) >> 1
            x = np.clip((total + half) >> bits, 0, 255)
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

    def misfit(self, role: str, support: Support[Any], strides: Strides, hints: Hints) -> str:
        """Images whose pixels lie apart, and tables that are not whole rows."""
        own = strides[role]
        assert own is not None
        if role == "x":
            return "" if self.images(own) else "its pixels lie apart"
        view = dict(self.operands)[role]
        dense = [is_int(a.extent, 1) or s == 1 for a, s in zip(view.axes, own, strict=True)][-1:]
        if len(own) > 1:
            dense.append(own[0] == view.axes[1].extent or is_int(view.axes[0].extent, 1))
        return "" if all(dense) else "it is no table of whole rows"

    def images(self, strides: Sequence[Expr]) -> Images | None:
        """How images of these strides lie in memory; None: not as the kernels read them."""
        others = [k for k in range(len(self.x.axes)) if k not in {self.axis, self.inner}]
        step, axes = strides[self.inner], self.x.axes
        if step == 1 or is_int(axes[self.inner].extent, 1):
            return Images(1, None, tuple(others))
        for k in others:
            if strides[k] == 1 and is_int(step) and axes[k].extent == step:
                return Images(int(step), k, tuple(o for o in others if o != k))
        return None

    @classmethod
    def joined(
        cls,
        first: TemplateCall,
        second: TemplateCall,
        support: Support[Any],
        strides: Callable[[View], Sequence[Expr] | None],
    ) -> TemplateCall | str | None:
        """Two resamples of bytes in turn, the inner axis first."""
        if not isinstance(first, Resample) or not isinstance(second, Resample):
            return None
        if first.bits is None or second.bits is None:
            return None
        if len(first.x.axes) > _MOST_AXES:
            return f"it has {len(first.x.axes)} axes, and a kernel tells images apart by two"
        if first.axis <= second.axis or first.output.index != second.x.index:
            return "the second reads another part than the first writes, or the inner axis"
        return ResampleBytes(
            second.name,
            second.output,
            second.origin,
            first.x,
            second.starts,
            second.weights,
            second.bits,
            first.starts,
            first.weights,
            first.bits,
            second.axis,
            first.axis,
        )
