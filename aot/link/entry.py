"""What is written into a package under a name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from aot_runtime.format.plan import DTYPE_BYTES

Chunk: TypeAlias = bytes | bytearray | memoryview


@dataclass(frozen=True)
class Entry:
    """What becomes an entry of the package.

    Attributes:
        name: It begins with one of `package.GROUPS`.
        dtype: Element type, a key of `plan.DTYPE_BYTES`.
        shape: Sizes.
        data: Called once, when the entry's turn comes; gives its bytes, C-contiguous, in order.
            No more than `takers.AHEAD_BYTES` of what entries have given are kept while one makes
            more, and `write_data.LANES` entries are asked in turn, all in one thread.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: Callable[[], Iterable[Chunk]]

    @property
    def nbytes(self) -> int:
        """Its size in the file."""
        return math.prod(self.shape) * DTYPE_BYTES[self.dtype]


def bytes_entry(name: str, data: bytes) -> Entry:
    """A U8 entry with these bytes, for example a shared object."""
    return Entry(name, "uint8", (len(data),), lambda: (data,))
