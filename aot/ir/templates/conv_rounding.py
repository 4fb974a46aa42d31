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

ROUNDED_FLOPS, _SPREAD_FLOPS = 2_000_000_000, 3_000_000_000
_CHANNELS, _PAIRS, _TAPS, _PHASES = 15, 1152, 216, 27
"""Of 3161 random convolutions of float32 on an H200 whose rounding to TF32 was allowed, eager
(cuDNN, torch 2.11) did not round 237: 208 of the 1166 with fewer operations (`_SPREAD_FLOPS` are
those of groups and of phases), with groups of fewer input channels or of so few pairs of channels,
or transposed with so many taps or phases, and 29 of the others, which nothing tells from their
neighbours. Exact products of these 1166 cost little: memory takes the time, or eager more."""

_LAST_CHANNELS, _LAST_OUTPUTS, _LAST_SPAN = 64, 80, 7
"""Input channels of a group up to which eager rounds groups whose channels are innermost; of more,
outputs of a group, and places from a first tap to a last one, from which it rounds these in images.
Of 260 random images all of up to 64 channels are rounded, and of the 211 others the 144 that have
80 outputs and more or taps 7 places apart and more, and none of the 67 that have up to 64 and 5."""

_HALF, _KEPT, _NAN = 0x1000, -0x2000, 0x7FC00000
"""Half of the last of 11 bits, a mask of these, and a number that is none."""


@dataclass(frozen=True)
class Filters:
    """What of a convolution decides besides its operations.

    `weight`: outputs, input channels of a group, and taps. `phases`: 0 of no transposed one.
    `last`: groups whose channels are innermost.
    """

    weight: tuple[int, ...]
    groups: int
    phases: int
    dilation: tuple[int, ...]
    last: bool

    @property
    def _is_wide(self) -> bool:
        """True of groups of an image that have many outputs, or taps far apart."""
        outputs, _, *taps = self.weight
        spans = (step * (tap - 1) + 1 for step, tap in zip(self.dilation, taps, strict=True))
        many = outputs >= _LAST_OUTPUTS * self.groups
        return len(taps) == 2 and (many or max(spans) >= _LAST_SPAN)

    @property
    def is_exact(self) -> bool:
        """True of what eager never rounds."""
        outputs, inputs, *taps = self.weight
        few = self.groups > 1 and (inputs < _CHANNELS or inputs * outputs // self.groups <= _PAIRS)
        few |= self.last and inputs > _LAST_CHANNELS and not self._is_wide
        return few or int(np.prod(taps)) * self.phases >= _TAPS or self.phases >= _PHASES


def rounded_when(flops: Expr, filters: Filters) -> Expr:
    """1 at sizes at which eager rounds operands, else 0.

    Not small ones, small or some large groups, nor transposed ones of many taps or phases: cuDNN
    computes many of these in float32.
    """
    if filters.is_exact:
        return integer(0)
    least = _SPREAD_FLOPS if filters.groups > 1 or filters.phases else ROUNDED_FLOPS
    return at_least(flops, least)


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
