"""Which convolutions of float32 eager rounds to TF32, and operands that are rounded in memory.

Where eager rounds at some sizes alone, one copy of an operand serves kernels that round and kernels
that do not: it is `raised` by half of a last digit. Tensor cores cut off what is behind 11 bits,
which rounds it to nearest; half a digit less is the number itself (`lowered`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from aot.ir.dtypes import FLOAT32, INT32
from aot.ir.scalar import Node, binary, const, make, where
from aot.symbolic import Expr, at_least, integer

ROUNDED_FLOPS = 2_000_000_000
"""Of 18,708 random convolutions of float32 on an H200 whose rounding to TF32 was allowed, eager
(cuDNN, torch 2.11) rounded 17,299. With fewer operations it rounded 88 of 100: exact products of
these cost little, as memory takes the time or a launch does. Of 12,434 that rules call rounded 144
are not, which nothing tells from their neighbours. Rules are what parts the sample: the library
publishes none. Counts below are of the sample, of any number of operations."""

_FIRST_CHANNELS, _FIRST_DEPTH, _FIRST_OUTPUTS = 14, 490, 508
"""Input channels, products of a sum, and outputs, up to which it computes images with channels
first exactly (82 of 146); those of single taps and a stride, too (44 of 61)."""

_GROUP_CHANNELS, _GROUP_PAIRS = {1: 15, 2: 15, 3: 11}, 1152
"""Input channels of a group, by dimensions, from which on it rounds groups (of images with fewer it
left 256 of 510 exact), and pairs of channels up to which it does not, where channels come first. Of
groups whose channels are innermost, pairs do not matter, nor channels in volumes, but for up to
`_LAST_VOLUME`."""

_NEAR_CHANNELS, _NEAR_PAIRS, _LAST_VOLUME = 40, 2750, 4
"""Pairs up to which it leaves images of up to so many channels exact (125 of 203)."""

_LAST_CHANNELS, _LAST_OUTPUTS, _LAST_SPAN = 64, 80, 7
"""Input channels of a group of an image up to which it rounds groups whose channels are innermost;
of more, outputs of a group, and places from a first tap to a last one, from which it rounds them
(all 119; of the others 2 of 111)."""

_DEEP_CHANNELS, _DEEP_PAIRS = 138, 5000
"""Input channels of a group of a volume from which on it computes so few pairs exactly (10 of 18).
"""

_PHASES, _PHASE_OUTPUTS, _FEW_OUTPUTS = 27, range(97, 385), 10
"""Phases of a transposed convolution that it rounds only where each has one tap and not so many
outputs (all 96; of the others none of 327); outputs up to which it may not round (50 of 130)."""

_PATCH_TAPS, _PATCH_PAIRS, _PATCH_OUTPUTS = 4, 4800, 188
"""Taps, pairs of channels and outputs of a transposed image, channels last, up to which it does not
round: 47 of 56."""

_HALF, _KEPT, _NAN = 0x1000, -0x2000, 0x7FC00000
"""Half of the last of 11 bits, a mask of these, and a number that is none."""


@dataclass(frozen=True)
class Filters:
    """What of a convolution decides besides its operations.

    `weight`: outputs, input channels of a group, and taps. `phases`: 0 of no transposed one.
    `last`: channels are innermost.
    """

    weight: tuple[int, ...]
    groups: int
    phases: int
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    last: bool

    @property
    def _taps(self) -> int:
        return int(np.prod(self.weight[2:]))

    @property
    def _outputs(self) -> int:
        """Of a group, and a phase."""
        return self.weight[0] // self.groups // max(1, self.phases)

    @property
    def _dims(self) -> int:
        return len(self.weight) - 2

    @property
    def is_exact(self) -> bool:
        """True of what eager never rounds."""
        grouped = self.groups > 1 and self._is_exact_group
        if self.phases:
            return grouped or self._is_exact_transposed
        return grouped or (self.groups == 1 and self._is_exact_first)

    @property
    def _is_exact_first(self) -> bool:
        """True of images with channels first that have few channels, or single taps apart."""
        outputs, inputs, *_ = self.weight
        if self._dims != 2 or self.last:
            return False
        shallow = inputs <= _FIRST_CHANNELS and inputs * self._taps <= _FIRST_DEPTH
        apart = self._taps == 1 and max(self.stride) > 1
        return (shallow and outputs <= _FIRST_OUTPUTS) or apart

    @property
    def _is_exact_group(self) -> bool:
        inputs, pairs = self.weight[1], self.weight[1] * self._outputs
        if self._dims == 3:
            deep = inputs >= _DEEP_CHANNELS and pairs <= _DEEP_PAIRS
            few = inputs <= _LAST_VOLUME if self.last else inputs < _GROUP_CHANNELS[3]
            return few or deep
        if inputs < _GROUP_CHANNELS[self._dims]:
            return True
        if self.last and self._dims == 2:
            return inputs > _LAST_CHANNELS and not self._is_wide
        near = self._dims == 2 and inputs <= _NEAR_CHANNELS
        return pairs <= (_NEAR_PAIRS if near else _GROUP_PAIRS)

    @property
    def _is_wide(self) -> bool:
        """True of groups of an image that have many outputs, or taps far apart."""
        taps = self.weight[2:]
        spans = (step * (tap - 1) + 1 for step, tap in zip(self.dilation, taps, strict=True))
        return self._outputs >= _LAST_OUTPUTS or max(spans) >= _LAST_SPAN

    @property
    def _is_exact_transposed(self) -> bool:
        outputs, pairs = self._outputs, self.weight[1] * self._outputs
        if self.phases >= _PHASES and (self._taps > 1 or outputs in _PHASE_OUTPUTS):
            return True
        patch = self.last and self._dims == 2 and self._taps * self.phases <= _PATCH_TAPS
        few = patch and pairs <= _PATCH_PAIRS and outputs <= _PATCH_OUTPUTS
        return few or outputs <= _FEW_OUTPUTS


def rounded_when(flops: Expr, filters: Filters) -> Expr:
    """1 at sizes at which eager rounds operands, else 0.

    Not small ones, nor those of few channels or many phases: cuDNN computes many of these in
    float32.
    """
    return integer(0) if filters.is_exact else at_least(flops, ROUNDED_FLOPS)


def as_tf32(value: Node) -> Node:
    """float32 rounded to the nearest of 11 bits: tensor cores cut off what is behind these."""
    number = binary("eq", value, value)
    bits = make("bitcast", INT32, where(number, value, const(0, FLOAT32)))
    near = binary("and", binary("add", bits, const(_HALF, INT32)), const(_KEPT, INT32))
    return where(number, make("bitcast", FLOAT32, near), value)


def raised(value: Node) -> Node:
    """float32 and half of the last of 11 bits.

    What is no number is the usual one of these, so that raising it ends in another one.
    """
    bits = where(binary("eq", value, value), make("bitcast", INT32, value), const(_NAN, INT32))
    return make("bitcast", FLOAT32, binary("add", bits, const(_HALF, INT32)))


def lowered(value: Node) -> Node:
    """What was raised; 0 where nothing was, as a mask or a margin gives it."""
    bits = make("bitcast", INT32, value)
    own = binary("sub", bits, const(_HALF, INT32))
    return make("bitcast", FLOAT32, where(binary("eq", bits, const(0, INT32)), bits, own))


def lowered_array(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same of an array of these numbers in double precision."""
    bits = np.ascontiguousarray(array, np.float32).view(np.int32)
    own = np.where(bits == 0, bits, bits - np.int32(_HALF))
    return own.view(np.float32).astype(array.dtype)
