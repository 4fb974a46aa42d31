"""Convolutions, and how they want their operands.

Where the device's template reads operands where they lie, channels of the input are contiguous,
unless they are few. A weight is stored in the order in which the template walks it: the depth (taps
and channels) fastest where its rows are whole vectors, else outputs fastest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from aot.ir.dtypes import DType
from aot.ir.hints import Hints, far_hints, hints_of
from aot.ir.nests import Axis, LoopNest, View
from aot.ir.scalar import Node, binary, index_value, load, reduce_
from aot.ir.templates.base import Array, LoopOp, Split, Strides, Support, TemplateCall
from aot.ir.templates.builder import NestBuilder
from aot.ir.templates.conv_rounding import (
    Filters,
    as_tf32,
    lowered,
    lowered_array,
    raised,
    rounded_when,
)
from aot.ir.templates.matmul import AlignedRows
from aot.ir.tensors import Dim
from aot.symbolic import (
    Expr,
    FloorDiv,
    Modulo,
    integer,
    is_int,
    product,
    row_major_strides,
    substitute,
    var,
)

_CLIPPED_PHASES = 4
"""Of a transposed convolution whose kernel stores what is within its result, and no other one puts
phases side by side: 24 channels of 8 x 112 x 112 to 128 took 97 us on an H200, with two kernels
115, 186 of 8 x 72 x 72 to 256 156 and 185; of 27 phases, 88 channels of 2 x 13 x 13 x 13 to 256,
851 and 184."""

_WORD = 4
"""Bytes that devices copy to shared memory at least without a wait."""

_MOST_ZEROS, _MOST_ZEROS_APART = 1.25, 1.5
"""Channels with zeros behind them, of those without, at most: of whole words, and of others."""


@dataclass(frozen=True)
class Narrow:
    """Channels of one group up to which a template reads operands of any order.

    Attributes:
        inputs: Of the input.
        outputs: Of the output, where neighbouring places see neighbours.
        outputs_of_steps: The same where a stride lies between what they see.
        products: Of an input and an output of one of several groups, from which on these are taken,
            with operands whose places are neighbours.
        few, few_outputs: Inputs of such a group, if fewer, and its outputs.
        group_outputs: Outputs of a group of any more inputs.
        multiple, multiple_outputs: The same where its inputs are a multiple of so many.
        deep: Pairs of tap and channel of such a group from which zeros behind its channels are
            worth it, where it is too wide for these bounds with them.
    """

    inputs: int = 0
    outputs: int = 0
    outputs_of_steps: int = 0
    products: int = 0
    few: int = 0
    few_outputs: int = 0
    group_outputs: int = 0
    multiple: int = 1
    multiple_outputs: int = 0
    deep: int = 0


@dataclass(frozen=True)
class Depth:
    """A convolution of one group at the hints: what its depth may be cut by.

    `rows`: images and places; `columns`: output channels; `rounded`: float32 as TF32, of which the
    input is `ready` in memory.
    """

    rows: int
    columns: int
    taps: int
    channels: int
    rounded: bool
    ready: bool = False


@dataclass(frozen=True)
class Conv(TemplateCall):
    """x (n, c, *spatial), w (o, c / groups, *kernel) -> output (n, o, *spatial): cross-correlation.

    Attributes:
        stride, padding, dilation: Of each spatial axis, in elements.
        groups: Runs of channels that meet only outputs of their own.
        precision: "tf32": float32 operands may be rounded to 11 bits (`TensorGraph.tf32`).
        prepared: Roles of operands whose elements are rounded so in memory.
        parts: Groups are so many parts of the depth of one convolution, whose sums are added up.
        phases: Outputs are so many phases of a transposed convolution; None: of none.
        last: True where channels are innermost in eager's memory: its library chooses by that. None
            otherwise.
        rounded_where: 1 at sizes at which operands are rounded, 0 where they are exact; what is
            `prepared` is `raised` then. None: `precision` says it for all.
    """

    kind: ClassVar[str] = "conv"

    x: View
    w: View
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    precision: str | None = None
    prepared: tuple[str, ...] = ()
    parts: int | None = None
    phases: int | None = None
    last: bool | None = None
    rounded_where: Expr | None = None

    @property
    def scaled(self) -> tuple[str, int, int] | None:
        """The weight of an output channel; of phases and parts, channels are others."""
        return None if self.phases or self.is_partial else ("w", 0, 1)

    @property
    def clips(self) -> bool:
        """Of few phases: of 27 the places of what is stored are too much beside a block's sums."""
        return self.phases is not None and self.phases <= _CLIPPED_PHASES

    @property
    def shortens(self) -> tuple[int, ...]:
        """Places; images and channels are the operands' own."""
        return tuple(range(2, len(self.output.axes)))

    @property
    def is_partial(self) -> bool:
        """True of parts of a depth."""
        return self.parts is not None

    @property
    def is_depthwise(self) -> bool:
        """True when every group has one input and one output channel."""
        channels = self.x.axes[1].extent
        return bool(self.groups == channels and self.w.axes[0].extent == channels)

    def _has_few_planes(self, support: ConvSupport) -> bool:
        """True of depthwise planes fewer than the pixels from which a row of them is vectors."""
        channels = self.x.axes[1].extent
        return self.is_depthwise and is_int(channels) and int(channels) < support.row

    def is_narrow(self, narrow: Narrow) -> bool:
        """True for groups of at most so many input channels and outputs."""
        outputs, inputs, *_ = (axis.extent for axis in self.w.axes)
        if not (is_int(inputs) and is_int(outputs)):
            return False
        if self.groups > 1:
            return self._is_narrow_group(narrow, int(inputs), int(outputs))
        steps = any(step != 1 for step in self.stride)
        most = narrow.outputs_of_steps if steps else narrow.outputs
        return int(inputs) <= narrow.inputs and int(outputs) <= most

    def _is_narrow_group(self, narrow: Narrow, inputs: int, outputs: int) -> bool:
        own, rest = divmod(outputs, self.groups)
        most = narrow.group_outputs if inputs % narrow.multiple else narrow.multiple_outputs
        most = narrow.few_outputs if inputs < narrow.few else most
        fits = own <= most and inputs * own >= narrow.products
        return fits and rest == 0 and not self.is_partial

    def is_direct(self, most: int) -> bool:
        """True for groups of at most `most` products of an input and an output channel."""
        outputs, inputs, *_ = (axis.extent for axis in self.w.axes)
        if self.groups == 1 or not (is_int(inputs) and is_int(outputs)):
            return False
        return int(inputs) * -(-int(outputs) // self.groups) <= most

    def in_any_order(self, role: str, support: ConvSupport, strides: Strides) -> bool:
        """True where a template in place reads an operand of any order as fast.

        Weights of tiny groups lie as channels do where these are neighbours.
        """
        if self.is_narrow(support.narrow):
            return role != "x" or self.groups == 1
        x = strides.get("x")
        near = x is None or x[1] == 1
        return self.is_direct(support.direct) and not (role == "w" and near)

    def followed(self, support: Support[Any]) -> str:
        """The input, where each channel sees its own group alone."""
        assert isinstance(support, ConvSupport)
        return "x" if self.is_direct(support.direct) else self.follows

    def interpret(self, operands: Mapping[str, Array], shape: tuple[int, ...]) -> Array:
        """Cross-correlation, `groups` at a time, up to the places that `shape` has."""
        x, w = (self._whole_numbers(role, operands[role]) for role in "xw")
        spatial = x.ndim - 2
        padded = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in self.padding)])
        reach = [d * (k - 1) + 1 for d, k in zip(self.dilation, w.shape[2:], strict=True)]
        windows = sliding_window_view(padded, reach, axis=tuple(range(2, x.ndim)))
        every = tuple(slice(None, None, s) for s in self.stride)
        inside = tuple(slice(None, None, d) for d in self.dilation)
        windows = windows[(slice(None), slice(None), *every, *inside)]
        windows = windows[(slice(None), slice(None), *(slice(size) for size in shape[2:]))]
        channels, outputs = x.shape[1] // self.groups, w.shape[0] // self.groups
        taps = [1, *range(2 + spatial, 2 + 2 * spatial)]
        parts = []
        for g in range(self.groups):
            part = windows[:, g * channels : (g + 1) * channels]
            weight = w[g * outputs : (g + 1) * outputs]
            dotted = np.tensordot(part, weight, axes=(taps, list(range(1, 2 + spatial))))
            parts.append(np.moveaxis(dotted, -1, 1))
        return np.concatenate(parts, axis=1)

    def _whole_numbers(self, role: str, operand: Array) -> Array:
        """An operand's own numbers."""
        is_raised = self.rounded_where is not None and role in self.prepared
        return lowered_array(operand) if is_raised else operand

    def rounded_as_eager(self, dims: Iterable[Dim]) -> Conv:
        """The call that rounds at the sizes at which eager does; weights have the hints'."""
        dims = tuple(dims)
        weight = tuple(hints_of(dims).value(axis.extent) for axis in self.w.axes)
        phases, last = self.phases or 0, bool(self.last)
        filters = Filters(weight, self.groups, phases, self.stride, self.dilation, last)
        when = rounded_when(self.flops(), filters)
        least, most = (hints.holds(when) for hints in far_hints(dims))
        if least == most:
            return self.rounded() if most else self
        return replace(self, rounded_where=when)

    def at_hints(self, hints: Hints) -> Conv:
        """The call that rounds or not, as it does at the hints."""
        if self.rounded_where is None:
            return self
        precision = "tf32" if hints.holds(self.rounded_where) else None
        return replace(self, rounded_where=None, precision=precision)

    def flops(self) -> Expr:
        """A multiplication and an addition for each output, tap and channel of a group."""
        out = [axis.extent for axis in self.output.axes]
        return product((*out, *(axis.extent for axis in self.w.axes[1:]), integer(2)))

    # ---- memory ----

    def walk(self, role: str, support: Support[Any], strides: Strides) -> tuple[Axis, ...] | None:
        """Images with channels last or first, as the device wants; weights as they are walked."""
        assert isinstance(support, ConvSupport)
        if self.in_any_order(role, support, strides):
            return None
        if role == "w":
            return self._weight_walk(support, strides) if support.in_place else self.w.axes
        axes = self.output.axes if role == "output" else self.x.axes
        narrow = self.is_narrow(support.narrow) or self._has_few_planes(support)
        last = support.channels_last and not narrow
        return (axes[0], *axes[2:], axes[1]) if last else axes

    def packs(self, role: str, support: Support[Any]) -> bool:
        """Unless the template reads operands where they lie."""
        assert isinstance(support, ConvSupport)
        return role == "w" and not support.in_place

    def misfit(self, role: str, support: Support[Any], strides: Strides, hints: Hints) -> str:
        """Inputs with channels that are not contiguous, weights that are not as they are walked."""
        assert isinstance(support, ConvSupport)
        own = strides[role]
        assert own is not None
        if support.in_place:
            if self.in_any_order(role, support, strides):
                return ""
            if role == "w":
                return self._misfit_weight(support, strides)
            if self.is_narrow(support.narrow):
                return "" if own[-1] in (0, 1) else "its places are no neighbours"
            far = own[1] not in (0, 1) and self.channels_fastest(
                own, support.vector, support.places
            )
            return "its channels are not contiguous" if far else ""
        if role == "x" and self._has_few_planes(support):
            return "" if own[-1] == 1 else "its few channels fill no vectors"
        apart = role == "x" and self.is_depthwise and self.x.axes[1].extent != 1 and own[1] != 1
        long, stored = self.output.axes[-1].extent, strides.get("output")
        rows = support.row and hints.value(long) >= support.row
        if rows and own[-1] == 1 and stored and stored[-1] == 1:
            return ""
        return "operand x is not contiguous along its vectors" if apart else ""

    def channels_fastest(self, x: Sequence[Expr] | None, vector: int, places: int) -> bool:
        """True when a template in place walks channels fastest in an input of these strides.

        A few channels (less than a `vector` has) with a stride are walked outside of the taps; an
        input with many is copied, so that they are contiguous. Where there is one tap, and places
        are neighbours, these are vectors, of so many `places`.
        """
        if x is None:
            return True
        if x[1] not in (0, 1) and x[-1] == 1 and self._is_pointwise(places):
            return False
        channels = self.w.axes[1].extent
        few = is_int(channels) and int(channels) < vector and not self.is_depthwise
        return x[1] in (0, 1) or not few

    def _is_pointwise(self, vector: int) -> bool:
        """True where each place sees itself alone, and places are whole vectors."""
        places = self.x.axes[-1].extent
        if not is_int(places) or int(places) % vector:
            return False
        taps = all(axis.extent == 1 for axis in self.w.axes[2:])
        still = all(step == 1 for step in self.stride) and not any(self.padding)
        return taps and still and self.groups == 1

    def _weight_walk(self, support: ConvSupport, strides: Strides) -> tuple[Axis, ...]:
        last = self.channels_fastest(strides.get("x"), support.vector, support.places)
        outputs, channels, *kernel = self.w.axes
        depth = (*kernel, channels) if last else (channels, *kernel)
        whole = support.fills_loads(product([a.extent for a in depth])) and self.groups == 1
        if whole or (last and support.fills_loads(channels.extent)):
            return (outputs, *depth)
        return (*depth, outputs)

    def _misfit_weight(self, support: ConvSupport, strides: Strides) -> str:
        order, own = self._weight_walk(support, strides), strides["w"]
        assert own is not None
        dense = dict(zip(order, row_major_strides([a.extent for a in order]), strict=True))
        fits = all(s == dense[a] for a, s in zip(self.w.axes, own, strict=True) if a.extent != 1)
        return "" if fits else "the template walks it in another order"

    # ---- other operands ----

    def split(
        self, builder: NestBuilder, support: Support[Any], units: int, hints: Hints
    ) -> Split | None:
        """With zeros behind an odd number of channels, and with operands that are rounded before.

        Both where each element is used often. A deep convolution with few results becomes groups of
        input channels, and their sum.
        """
        assert isinstance(support, ConvSupport)
        own = self.w.axes[1].extent
        uses = hints.volume([self.w.axes[0], *self.w.axes[2:]])
        uses //= math.prod(self.stride) * self.groups
        dtype = builder.dtype(self.x.buffer)
        roles = self._to_round(builder, support, uses)
        copied = "x" in roles
        whole = self._whole(support.of_type(dtype), uses, builder, dtype.itemsize, copied=copied)
        parts = self._parts(builder, support, whole, "x" in roles)
        if whole is None and not roles and parts < 2:
            return None
        views, nests = {"x": self.x, "w": self.w}, []
        rounding = as_tf32 if self.rounded_where is None else raised
        for role, view in views.items():
            if whole is not None or role in roles:
                change = rounding if role in roles else None
                extent = own if whole is None and role == "w" else view.axes[1].extent
                # Choosing layouts may store a weight anew, under the call's name and role.
                name = f"{self.name}_{role}" + ("_tf32" if role in roles else "")
                runs = self.groups if role == "x" else 1
                nest, views[role] = builder.with_zeros(
                    name, view, 1, whole * runs if whole else extent, self.origin, change, runs
                )
                nests += [] if nest is None else [nest]
        call = replace(self, x=views["x"], w=views["w"], prepared=roles)
        choice = [f"{whole} channels"] * (whole is not None)
        how = "rounded before" if self.rounded_where is None else "nearly rounded before"
        choice += [f"{' and '.join(roles)} {how}"] * bool(roles)
        reason = f"each element is used {uses} times"
        if whole is not None:
            each = support.of_type(dtype).widest or support.vector
            reason = f"{own} do not fill loads of {each}, and {reason}"
        if parts < 2:
            return Split([*nests, call], ", ".join(choice), reason)
        choice.append(f"{parts} parts of the channels")
        few = "its results leave the device idle"
        return Split(
            [*nests, *call.in_parts(builder, parts)],
            ", ".join(choice),
            f"{reason}; {few}" if whole is not None or roles else few,
        )

    def _parts(
        self,
        builder: NestBuilder,
        support: ConvSupport,
        whole: Expr | None,
        ready: bool,
    ) -> int:
        """Parts that the device would cut the input channels into; 1: it stays whole.

        Where sizes are dynamic, at some larger than the example's: parts of a large one move their
        sums for nothing.
        """
        channels = whole or self.w.axes[1].extent
        dtype = builder.dtype(self.x.buffer)
        # Of a weight that has zeros behind its channels the parts would be a view of a view.
        if support.parts is None or self.groups > 1 or not is_int(channels) or whole is not None:
            return 1
        if self.is_narrow(support.of_type(dtype).narrow) or not is_int(self.w.axes[0].extent):
            return 1
        batch, outputs, *places = self.output.axes
        hints = builder.between
        rows, taps = hints.volume([batch, *places]), hints.volume(self.w.axes[2:])
        rounded = self.at_hints(hints).precision is not None
        size = Depth(rows, int(outputs.extent), taps, int(channels), rounded, ready)
        return support.parts(size, dtype)

    def in_parts(self, builder: NestBuilder, parts: int) -> list[LoopOp]:
        """The convolution as groups of its input channels, and the sums of their results."""
        batch, outputs, *places = self.output.axes
        channels, count = self.w.axes[1], integer(int(self.w.axes[1].extent) // parts)
        every = Axis(outputs.symbol, outputs.extent * parts)
        # Behind the weight's own outputs come those of the next part of the channels.
        filters = Axis(self.w.axes[0].symbol, every.extent)
        own = self.w.axes[0].extent
        at = {
            filters.symbol: Modulo(filters.symbol, own),
            channels.symbol: product((FloorDiv(filters.symbol, own), count)) + channels.symbol,
        }
        index = tuple(substitute(e, at) for e in self.w.index)
        w = View(self.w.buffer, (filters, Axis(channels.symbol, count), *self.w.axes[2:]), index)
        axes = (batch, every, *places)
        dtype = builder.dtype(self.x.buffer).compute
        sums = builder.temp(f"{self.name}_parts", dtype, tuple(a.extent for a in axes))
        output = View(sums, axes, tuple(a.symbol for a in axes))
        call = replace(self, w=w, output=output, groups=parts, parts=parts)
        part = Axis(var("part"), integer(parts))
        place = product((part.symbol, outputs.extent)) + outputs.symbol
        point = (batch.symbol, place, *(a.symbol for a in places))
        total = self.stored(reduce_("sum", load(sums, dtype, point)), builder)
        nest = LoopNest(f"{self.name}_sums", self.output.axes, (part,), (total,), self.origin)
        return [call, nest]

    def _whole(
        self, support: ConvSupport, uses: int, builder: NestBuilder, itemsize: int, *, copied: bool
    ) -> Expr | None:
        """Channels that fill loads, where zeros behind an odd number of them are worth it.

        Where sizes are dynamic, at larger ones than the example's: zeros cost a launch, channels
        that are loaded one by one several times what the convolution takes. What are no whole words
        waits to be copied element by element, which costs more zeros; and so does what is `copied`
        in any case.
        """
        wish, channels = support.rows, self.w.axes[1].extent
        if wish is None or not is_int(channels) or support.fills_loads(channels):
            return None
        each = support.widest or support.vector
        whole = -(-int(channels) // each) * each
        if self.groups > 1 and self.is_narrow(support.narrow):
            depth = builder.hints.volume(self.w.axes[1:])
            outputs = int(self.w.axes[0].extent)
            wide = not self._is_narrow_group(support.narrow, whole, outputs)
            if not wide or depth < support.narrow.deep:
                return None
        work = builder.larger.value(self.flops())
        worth = uses >= wish.least_uses and work >= 2 * wish.least_work
        words = int(channels) * itemsize % _WORD == 0
        most = _MOST_ZEROS if words and not copied else _MOST_ZEROS_APART
        if int(channels) < support.vector or whole > most * int(channels) or not worth:
            return None
        return integer(whole)

    def _to_round(self, builder: NestBuilder, support: ConvSupport, uses: int) -> tuple[str, ...]:
        """Roles of operands that are worth being rounded before: weights cost nothing.

        A single tap loads each element once for a block of outputs, and rounds it once. Not where
        each sum is one thread's, which rounds nothing.
        """
        dtype = builder.dtype(self.x.buffer)
        rounds = (self.precision or self.rounded_where) is not None and dtype.name == "float32"
        if not (rounds and support.prepared_uses) or self.prepared or self.groups > 1:
            return ()
        if self.is_narrow(support.of_type(dtype).narrow):
            return ()
        taps = any(axis.extent != 1 for axis in self.w.axes[2:])
        often = uses >= support.prepared_uses * (1 if taps else support.prepared_blocks)
        weight = builder.buffers[self.w.buffer].kind == "weight"
        return ("x",) * often + ("w",) * (often or weight)

    # ---- as nests ----

    def expand(self, builder: NestBuilder, support: Support[Any] | None) -> list[LoopOp]:
        """One nest that sums products; a mask where there is padding."""
        x, w, axes = self.x, self.w, self.output.axes
        n, o, *spatial = (a.symbol for a in axes)
        kernel = [Axis(var(f"k{d}"), a.extent) for d, a in enumerate(w.axes[2:])]
        c = Axis(var("c"), w.axes[1].extent)
        per_group = w.axes[0].extent / self.groups
        group = FloorDiv(o, per_group) if self.groups > 1 else integer(0)
        position: list[Expr] = []
        mask: Node | None = None
        geometry = zip(spatial, kernel, self.stride, self.padding, self.dilation, strict=True)
        for d, (s, tap, stride, padding, dilation) in enumerate(geometry):
            place = s * stride + tap.symbol * dilation - padding
            position.append(place)
            if padding:
                mask = _inside(mask, place, x.axes[2 + d].extent)
        channel = group * c.extent + c.symbol
        at_x = dict(zip([a.symbol for a in x.axes], [n, channel, *position], strict=True))
        taps = (t.symbol for t in kernel)
        at_w = dict(zip([a.symbol for a in w.axes], [o, c.symbol, *taps], strict=True))
        loaded = {"x": builder.load(x, at_x, mask), "w": builder.load(w, at_w)}
        if self.rounded_where is not None:
            loaded |= {role: lowered(loaded[role]) for role in self.prepared}
        value = binary("mul", loaded["x"], loaded["w"])
        store = self.stored(reduce_("sum", value), builder)
        return [LoopNest(self.name, axes, (c, *kernel), (store,), self.origin)]


def vector_of(dtype: DType, vector: int) -> int:
    """Elements of a type that lie where a `vector` of halves does; of double precision as many."""
    return vector // 2 if dtype.itemsize == 4 and vector > 1 else vector


@dataclass(frozen=True)
class ConvSupport(Support[Conv]):
    """A backend's template for convolutions.

    Attributes:
        channels_last: It likes images with channels innermost; otherwise as they are numbered.
        in_place: It reads its operands where they lie, so that they should lie in the order in
            which it walks them; otherwise it packs them.
        vector: Elements that it reads at once where they lie.
        narrow: What does in any order, if `in_place`; `narrow_of`: by the name of the type.
        direct: Products of a group's input and output channels up to which groups do so, too.
        row: From so many outputs a row (of a dynamic one, typically) on it takes depthwise planes
            whose pixels are neighbours as they are, if the result is stored so too; 0 where it does
            not.
        rows: When channels are worth a copy with zeros behind them, so that they fill vectors.
        parts: Parts that input channels of so deep a convolution are cut into; None: none are.
        prepared_uses: Uses of an element from which a copy of float32 that is rounded to TF32 is
            worth its time; 0: never. `prepared_blocks`: so many times as many where there is a
            single tap.
        load_bytes: Of its widest load, which elements of a weight that lie in a row had better
            fill; 0: they fill vectors.
        widest: Elements of the type in it.
        places: Neighbouring places that it reads at once, of one tap.
    """

    channels_last: bool = True
    in_place: bool = False
    vector: int = 1
    narrow: Narrow = Narrow()
    narrow_of: tuple[tuple[str, Narrow], ...] = ()
    direct: int = 0
    row: int = 0
    rows: AlignedRows | None = None
    prepared_uses: int = 0
    prepared_blocks: int = 1
    parts: Callable[[Depth, DType], int] | None = None
    load_bytes: int = 0
    widest: int = 0
    places: int = 1

    def of_type(self, dtype: DType) -> ConvSupport:
        """The same with what holds for operands of a type alone."""
        narrow = dict(self.narrow_of).get(dtype.name, Narrow())
        widest = self.load_bytes // dtype.itemsize
        return replace(self, narrow=narrow, widest=widest, places=vector_of(dtype, self.vector))

    def fills(self, elements: Expr) -> bool:
        """True when so many elements are whole vectors."""
        return is_int(elements) and int(elements) % self.vector == 0

    def fills_loads(self, elements: Expr) -> bool:
        """True when so many elements of the type are whole loads."""
        return is_int(elements) and int(elements) % (self.widest or self.vector) == 0


def _inside(mask: Node | None, place: Expr, size: Expr) -> Node:
    low = binary("ge", index_value(place), index_value(integer(0)))
    high = binary("lt", index_value(place), index_value(size))
    inside = binary("and", low, high)
    return inside if mask is None else binary("and", mask, inside)
