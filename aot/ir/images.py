"""Machine code of kernels, as backends make it and packages hold it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KernelImage:
    """One kernel's machine code for a device that loads kernels one by one.

    Attributes:
        name: Its function's name in the plan.
        symbol: The function's name in `data`.
        data: What the device's driver loads.
        threads: Threads of one program instance.
        shared: Bytes of shared memory of one program instance.
        scratch: Bytes of global memory that one program instance needs for itself.
        scratch_alignment: Of each instance's scratch, in bytes.
        faults: Whether it reports wrong indices in the data.
        waits: Whether it may start before the launch ahead of it has ended, and waits by itself.
    """

    name: str
    symbol: str
    data: bytes
    threads: int
    shared: int
    scratch: int
    scratch_alignment: int
    faults: bool
    waits: bool
