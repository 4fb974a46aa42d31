"""The entries of golden values, and their records in the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from aot_runtime.format.golden_sets import GoldenSet
from aot_runtime.format.pairs import in_pairs

from aot.ir.dtypes import DTYPES
from aot.link.entry import Entry
from aot.link.judging import judge

Array = np.ndarray[Any, Any]

MAX_GOLDEN_BYTES = 16 << 20
"""Golden sets larger than this are left out: they shall not dominate a package."""


Reference: TypeAlias = tuple[Sequence[Array], Sequence[Array], Sequence[Sequence[Array]]]
"""Inputs, eager's outputs, and others that are as right where operators leave a choice."""


@dataclass(frozen=True)
class Golden:
    """The plan's records of golden sets, and their entries."""

    records: tuple[GoldenSet, ...]
    entries: tuple[Entry, ...]


def golden_entries(examples: Iterable[Reference]) -> Golden:
    """Records and entries of inputs with reference outputs, the too large ones left out."""
    records: list[GoldenSet] = []
    entries: list[Entry] = []
    for inputs, outputs, others in examples:
        if sum(a.nbytes for a in (*inputs, *outputs)) > MAX_GOLDEN_BYTES:
            continue
        place = f"golden/{len(records)}"
        given = [(f"{place}/inputs/{k}", a) for k, a in enumerate(inputs)]
        expected = [(f"{place}/outputs/{k}", a) for k, a in enumerate(outputs)]
        judged = judge(outputs, others)
        records.append(
            GoldenSet(
                tuple(name for name, _ in given),
                tuple(name for name, _ in expected),
                tuple(j.tolerance for j in judged),
                tuple(0.0 for _ in outputs),
                tuple(j.shared for j in judged) if others else (),
            )
        )
        entries += [_array_entry(name, a) for name, a in (*given, *expected)]
    return Golden(tuple(records), tuple(entries))


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
