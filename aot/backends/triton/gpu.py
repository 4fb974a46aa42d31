"""What heuristics know of the GPUs that there is an assembler for."""

from __future__ import annotations

from dataclasses import dataclass

from aot.backends.triton.tuning import NOTHING, Chooser

KIB = 1024


@dataclass(frozen=True)
class Gpu:
    """One architecture, as its largest product for servers has it.

    `shared_bytes`: shared memory that one program may have. `copies_blocks`: it copies blocks of
    matrices by descriptors (TMA). `async_dots`: its tensor cores work while registers are computed
    with. `splits_floats`: they multiply float32 as three products of
    halves of its digits (tf32x3) faster than other units whole ones: at more than thrice the rate.
    `starts_early`: a launch may start while the one before it ends, and waits by itself.
    `units`: programs from which a launch keeps all multiprocessors busy.
    `tuning`: what was measured; it goes before heuristics.
    """

    arch: str
    multiprocessors: int
    shared_bytes: int
    copies_blocks: bool = False
    async_dots: bool = False
    splits_floats: bool = False
    starts_early: bool = False
    tuning: Chooser = NOTHING

    @property
    def units(self) -> int:
        """Programs from which a launch keeps all multiprocessors busy."""
        return 4 * self.multiprocessors


GPUS = {
    gpu.arch: gpu
    for gpu in (
        Gpu("sm_80", 108, 163 * KIB, splits_floats=True),
        Gpu("sm_86", 84, 99 * KIB),
        Gpu("sm_89", 142, 99 * KIB),
        Gpu(
            "sm_90",
            132,
            227 * KIB,
            copies_blocks=True,
            async_dots=True,
            splits_floats=True,
            starts_early=True,
        ),
        Gpu("sm_100", 148, 227 * KIB, copies_blocks=True, starts_early=True),
        Gpu("sm_120", 188, 99 * KIB, copies_blocks=True, starts_early=True),
    )
}
