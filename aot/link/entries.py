"""The entries of golden values, and their tolerances."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from aot_runtime.format.pairs import in_pairs, is_complex
from aot_runtime.format.plan import GoldenSet

from aot.ir.dtypes import DTYPES
from aot.link.package import Entry

Array = np.ndarray[Any, Any]

MAX_GOLDEN_BYTES = 16 << 20
"""Golden sets larger than this are left out: they shall not dominate a package."""

_RELATIVE = {
    **{"float64": 1e-9, "float32": 1e-4, "float16": 5e-3, "bfloat16": 4e-2},
    **dict.fromkeys(("float8_e4m3fn", "float8_e4m3fnuz"), 0.13),
    **dict.fromkeys(("float8_e5m2", "float8_e5m2fnuz"), 0.26),
    "float8_e8m0fnu": 1.0,
    **{"complex128": 1e-9, "complex64": 1e-4, "complex32": 5e-3},
}
"""Tolerance of an element relative to the output's greatest magnitude, by dtype. The reference is
eager in the same dtype, whose own error grows with the depth of a network; other dtypes: exact."""


@dataclass(frozen=True)
class Golden:
    """The plan's records of golden sets, and their entries."""

    records: tuple[GoldenSet, ...]
    entries: tuple[Entry, ...]


def golden_entries(examples: Iterable[tuple[Sequence[Array], Sequence[Array]]]) -> Golden:
    """Records and entries of (inputs, reference outputs) pairs, the too large ones left out."""
    records: list[GoldenSet] = []
    entries: list[Entry] = []
    for inputs, outputs in examples:
        if sum(a.nbytes for a in (*inputs, *outputs)) > MAX_GOLDEN_BYTES:
            continue
        place = f"golden/{len(records)}"
        given = [(f"{place}/inputs/{k}", a) for k, a in enumerate(inputs)]
        expected = [(f"{place}/outputs/{k}", a) for k, a in enumerate(outputs)]
        records.append(
            GoldenSet(
                tuple(name for name, _ in given),
                tuple(name for name, _ in expected),
                tuple(_tolerance(a) for a in outputs),
                tuple(0.0 for _ in outputs),
            )
        )
        entries += [_array_entry(name, a) for name, a in (*given, *expected)]
    return Golden(tuple(records), tuple(entries))


def _tolerance(output: Array) -> float:
    relative = _RELATIVE.get(output.dtype.name, 0.0)
    if not relative:
        return 0.0
    wide = np.complex128 if is_complex(output.dtype) else np.float64
    magnitudes = np.abs(output.astype(wide))
    finite = magnitudes[np.isfinite(magnitudes)]
    return float(f"{relative * (float(finite.max()) if finite.size else 0.0):.3g}")


def _array_entry(name: str, array: Array) -> Entry:
    array = in_pairs(array)
    return Entry(name, DTYPES[array.dtype.name].name, array.shape, array_bytes(lambda: array))


def array_bytes(array: Callable[[], Array]) -> Callable[[], tuple[memoryview, ...]]:
    """What an entry's `data` is for an array that is made when its turn comes."""
    return lambda: (flat_bytes(array()),)


def flat_bytes(array: Array) -> memoryview:
    """The bytes of an array, in order."""
    flat: Array = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return flat.data
