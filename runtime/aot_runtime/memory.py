"""Memory of a GPU from elsewhere than the driver: one pool for all that a process computes."""

from __future__ import annotations

import sys
from typing import Any, Protocol

from .errors import InvalidArgument


class DeviceAllocator(Protocol):
    """Where a model's memory on a GPU comes from: temporaries, states, outputs, copies of inputs.

    Both functions are called from any thread, with the GPU's context current. What `allocate`
    raises counts as "no memory" and is written to `sys.unraisablehook`.
    """

    def allocate(self, size: int, alignment: int) -> int | None:
        """The address of `size` bytes that no work of the GPU uses; None: there are none left."""

    def release(self, address: int, size: int) -> None:
        """Takes a block back, which no work of the GPU uses any more."""


class TorchAllocator:
    """Memory from torch's caching allocator, so that models and torch share one pool.

    `torch.cuda.memory_stats()` counts it; `torch.cuda.empty_cache()` gives back what is free.

    Args:
        device: The GPU's number.

    Raises:
        InvalidArgument: The program has not imported torch.
    """

    def __init__(self, device: int = 0) -> None:
        torch = sys.modules.get("torch")
        if torch is None:
            raise InvalidArgument("torch is not imported: a TorchAllocator shares the pool of one")
        self._cuda: Any = torch.cuda
        self._device = device
        # torch hands a block to the stream it was freed for without waiting: nothing works in this
        # one, so its blocks are in use by nobody.
        self._stream: Any = self._cuda.Stream(device)

    def allocate(self, size: int, alignment: int) -> int:
        """The address of `size` bytes; torch aligns to 512.

        Raises:
            torch.OutOfMemoryError: The GPU has no room.
        """
        address: int = self._cuda.caching_allocator_alloc(size, self._device, self._stream)
        return address

    def release(self, address: int, size: int) -> None:
        """Gives a block back to torch's pool."""
        self._cuda.caching_allocator_delete(address)
