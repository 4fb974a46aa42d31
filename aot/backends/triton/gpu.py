"""What heuristics know of the GPUs that there is an assembler for."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024


@dataclass(frozen=True)
class Gpu:
    """One architecture, as its largest product for servers has it.

    `shared_bytes`: shared memory that one program may have. `units`: programs from which a launch
    keeps all multiprocessors busy.
    """

    arch: str
    multiprocessors: int
    shared_bytes: int

    @property
    def units(self) -> int:
        """Programs from which a launch keeps all multiprocessors busy."""
        return 4 * self.multiprocessors


GPUS = {
    gpu.arch: gpu
    for gpu in (
        Gpu("sm_80", 108, 163 * KIB),
        Gpu("sm_86", 84, 99 * KIB),
        Gpu("sm_89", 142, 99 * KIB),
        Gpu("sm_90", 132, 227 * KIB),
        Gpu("sm_100", 148, 227 * KIB),
        Gpu("sm_120", 188, 99 * KIB),
    )
}
