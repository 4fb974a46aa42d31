"""How convolutions want their operands when the device's template reads them where they lie.

Channels of the input are contiguous, unless they are few. A weight is stored in the order in which
the template walks it: channels fastest when rows of them are whole vectors, else outputs fastest.
"""

from __future__ import annotations

from collections.abc import Sequence

from aot.ir.loops import Axis, Buffer, LoopNest, Store, TemplateCall, View
from aot.ir.scalar import load
from aot.ir.weights import DerivedWeight
from aot.symbolic import Expr, is_int, row_major_strides

VECTOR_CHANNELS = 8
"""Elements of a 16-byte vector of half precision."""


def is_depthwise(call: TemplateCall) -> bool:
    """True when every group has one input and one output channel."""
    channels = call.operand("x").axes[1].extent
    return bool(call.attr("groups") == channels and call.operand("w").axes[0].extent == channels)


def weight_axes(call: TemplateCall) -> tuple[Axis, ...]:
    """The weight's axes in the order of memory, outermost first."""
    outputs, channels, *kernel = call.operand("w").axes
    if _whole_vectors(channels.extent):
        return (outputs, *kernel, channels)
    return (*kernel, channels, outputs)


def _whole_vectors(channels: Expr) -> bool:
    return bool(channels.is_Integer) and int(channels) % VECTOR_CHANNELS == 0


def misfit(call: TemplateCall, role: str, strides: Sequence[Expr]) -> str:
    """Why a template should not read an operand with these strides (one an axis); "" if it may."""
    view = call.operand(role)
    if role == "x":
        channels = call.operand("w").axes[1].extent
        few = is_int(channels) and int(channels) < VECTOR_CHANNELS and not is_depthwise(call)
        scattered = strides[1] not in (0, 1)
        return "its channels are not contiguous" if scattered and not few else ""
    order = weight_axes(call)
    dense = dict(zip(order, row_major_strides([a.extent for a in order]), strict=True))
    fits = all(s == dense[a] for a, s in zip(view.axes, strides, strict=True) if a.extent != 1)
    return "" if fits else "the template walks it in another order"


def stored_weight(
    name: str, source: Buffer, call: TemplateCall
) -> tuple[Buffer, DerivedWeight, View]:
    """The weight stored as the template wants it: its buffer, how to compute it, and its view."""
    view = call.operand("w")
    order = weight_axes(call)
    shape = tuple(a.extent for a in order)
    point = tuple(a.symbol for a in order)
    buffer = Buffer(name, source.dtype, shape, row_major_strides(shape), "weight", name)
    copy = Store(name, point, load(source.name, source.dtype, view.index))
    nest = LoopNest(name, order, (), (copy,), call.origin)
    derived = DerivedWeight(name, "fold", (source.name,), (), (nest,))
    return buffer, derived, View(name, view.axes, point)
