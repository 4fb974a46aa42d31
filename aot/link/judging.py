"""How outputs are compared with the reference: what of them is determined, and how closely."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from aot_runtime.format.golden_sets import Shared
from aot_runtime.format.pairs import is_complex
from aot_runtime.tools.shared import shared_part
from aot_runtime.tools.verify import difference

Array = np.ndarray[Any, Any]

_RELATIVE = {
    **{"float64": 1e-9, "float32": 1e-4, "float16": 5e-3, "bfloat16": 4e-2},
    **dict.fromkeys(("float8_e4m3fn", "float8_e4m3fnuz"), 0.13),
    **dict.fromkeys(("float8_e5m2", "float8_e5m2fnuz"), 0.26),
    "float8_e8m0fnu": 1.0,
    **{"complex128": 1e-9, "complex64": 1e-4, "complex32": 5e-3},
}
"""Tolerance of an element relative to the output's greatest magnitude, by dtype. The reference is
eager in the same dtype, whose own error grows with the depth of a network; other dtypes: exact."""

_MARGIN = 4.0
"""How much farther from the reference an output may be than another right one is: three times as
far from the exact result as eager is, which is as far from the reference itself."""

_DETERMINED = 10.0
"""What right results are apart, in tolerances, where they differ by their roundings alone."""


@dataclass(frozen=True)
class Judged:
    """How one output is compared: what of it, and its absolute tolerance."""

    shared: Shared
    tolerance: float


def judge(outputs: Sequence[Array], others: Sequence[Sequence[Array]] = ()) -> list[Judged]:
    """For each output the most that it shares with others that are as right, and a tolerance.

    Args:
        outputs: The reference.
        others: Outputs of the same inputs that are as right; none where the reference is the only
            right one, but for roundings.
    """
    return [_judge(output, [other[k] for other in others]) for k, output in enumerate(outputs)]


def _judge(output: Array, others: Sequence[Array]) -> Judged:
    for shared in _candidates(output.ndim):
        reference = shared_part(output, shared)
        allowed = _relative(output) * _greatest(reference)
        apart = max((_apart(shared_part(x, shared), reference) for x in others), default=0.0)
        if apart <= _DETERMINED * allowed:
            return Judged(shared, float(f"{max(allowed, _MARGIN * apart):.3g}"))
    return Judged(Shared("finite"), 0.0)


def _candidates(rank: int) -> Iterator[Shared]:
    """What outputs may share, the most first."""
    yield Shared()
    yield Shared("magnitudes")
    for kind in ("sorted", "sorted magnitudes", "norms"):
        yield from (Shared(kind, axis) for axis in range(-1, -rank - 1, -1))


def _relative(output: Array) -> float:
    return _RELATIVE.get(output.dtype.name, 0.0)


def _greatest(array: Array) -> float:
    """The greatest finite magnitude; 0 without one."""
    if array.dtype.kind in "biu":
        return 0.0
    magnitudes = np.abs(array.astype(np.complex128 if is_complex(array.dtype) else np.float64))
    finite = magnitudes[np.isfinite(magnitudes)]
    return float(finite.max()) if finite.size else 0.0


def _apart(one: Array, other: Array) -> float:
    return difference(one, other, 0.0, 0.0)[0]
