"""How convolutions want their operands when the device's template reads them where they lie.

Channels of the input are contiguous, unless they are few. A weight is stored in the order in which
the template walks it: the depth (taps and channels) fastest where its rows are whole vectors, else
outputs fastest.
"""

from __future__ import annotations

from collections.abc import Sequence

from aot.ir.loops import Axis, Buffer, DerivedWeight, LoopNest, Store, TemplateCall, View
from aot.ir.scalar import load
from aot.symbolic import Expr, is_int, product, row_major_strides

VECTOR_CHANNELS = 8
"""Elements of a 16-byte vector of half precision."""


def is_depthwise(call: TemplateCall) -> bool:
    """True when every group has one input and one output channel."""
    channels = call.operand("x").axes[1].extent
    return bool(call.attr("groups") == channels and call.operand("w").axes[0].extent == channels)


def channels_last(call: TemplateCall, strides: Sequence[Expr]) -> bool:
    """True when the template walks channels fastest in an input with these strides (one an axis).

    Few channels that lie apart are walked slowest, before the taps; many will have been copied.
    """
    channels = call.operand("w").axes[1].extent
    few = is_int(channels) and int(channels) < VECTOR_CHANNELS and not is_depthwise(call)
    return strides[1] in (0, 1) or not few


def weight_axes(call: TemplateCall, last: bool) -> tuple[Axis, ...]:
    """The weight's axes in the order of memory, outermost first. `last`: see `channels_last`."""
    outputs, channels, *kernel = call.operand("w").axes
    depth = (*kernel, channels) if last else (channels, *kernel)
    whole = _whole_vectors(product([a.extent for a in depth])) and call.attr("groups") == 1
    if whole or (last and _whole_vectors(channels.extent)):
        return (outputs, *depth)
    return (*depth, outputs)


def _whole_vectors(elements: Expr) -> bool:
    return is_int(elements) and int(elements) % VECTOR_CHANNELS == 0


def misfit_input(call: TemplateCall, strides: Sequence[Expr]) -> str:
    """Why a template should not read an input with these strides (one an axis); "" if it may."""
    apart = strides[1] not in (0, 1) and channels_last(call, strides)
    return "its channels are not contiguous" if apart else ""


def misfit_weight(call: TemplateCall, strides: Sequence[Expr], last: bool) -> str:
    """Why a template should not read a weight with these strides; "" if it may."""
    order = weight_axes(call, last)
    dense = dict(zip(order, row_major_strides([a.extent for a in order]), strict=True))
    axes = call.operand("w").axes
    fits = all(s == dense[a] for a, s in zip(axes, strides, strict=True) if a.extent != 1)
    return "" if fits else "the template walks it in another order"


def stored_weight(
    name: str, source: Buffer, call: TemplateCall, last: bool
) -> tuple[Buffer, DerivedWeight, View]:
    """The weight stored as the template wants it: its buffer, how to compute it, and its view."""
    view = call.operand("w")
    order = weight_axes(call, last)
    shape = tuple(a.extent for a in order)
    point = tuple(a.symbol for a in order)
    buffer = Buffer(name, source.dtype, shape, row_major_strides(shape), "weight", name)
    copy = Store(name, point, load(source.name, source.dtype, view.index))
    nest = LoopNest(name, order, (), (copy,), call.origin)
    derived = DerivedWeight(name, "fold", (source.name,), (), (nest,))
    return buffer, derived, View(name, view.axes, point)
