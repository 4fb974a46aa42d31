"""Times Fourier transforms beside eager: benchmarks/results/fft.md.

    python -m benchmarks.fft.run [--device cpu|cuda] [--only REGEX] [--json OUT] [--jobs N] …

Single rows from 16 to 10^6 points (powers of two, of 3, 5 and 7, primes), batches, and images. Ours
and eager's calls alternate. On the CPU the time is the processor's, which what other processes take
is no part of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, partial

import torch
from torch import fft

from benchmarks import problems
from benchmarks.options import bounded_options
from benchmarks.problems import Problem
from benchmarks.processes import Event, Settings

LENGTHS = (16, 64, 1024, 65536, 1 << 20, 243, 3125, 16807, 10**6, 127, 1009, 10007)
SHAPES = (*((n,) for n in LENGTHS), (256, 16), (64, 1024), (512, 512), (1024, 1024))
LARGE = (4096, 4096)
ABOUT = """# Fourier transforms

`python -m benchmarks.fft.run` writes this page and `fft_<device>.json`. Rows say the transform, the
operand's type and its shape; eager is PyTorch (MKL on the CPU, cuFFT on GPUs).
"""


def _drawn(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    return (torch.randn(shape, generator=generator, dtype=dtype).to(device),)


@cache
def every() -> dict[str, Problem]:
    """All rows, by their names."""
    found = {}
    for kind, dtypes in (("fft", ("complex64", "complex128")), ("rfft", ("float32", "float64"))):
        for dtype in dtypes:
            for shape in (*SHAPES, LARGE):
                operator = f"{kind}2" if len(shape) == 2 and shape[0] == shape[1] else kind
                name = f"{operator} {dtype} {' x '.join(map(str, shape))}"
                draw = partial(_drawn, shape, getattr(torch, dtype))
                found[name] = Problem(name, getattr(fft, operator), draw)
    return found


def build_row(name: str, settings: Settings) -> None:
    """Packages a row."""
    problems.build(every()[name], settings)


def times_row(name: str, settings: Settings) -> Iterator[Event]:
    """Times a row."""
    yield from problems.times(every()[name], settings)


def main() -> None:
    """The command line."""
    options = bounded_options("fft", __doc__, seconds=0.3, most=10.0).parse_args()
    names = [name for name in every() if re.search(options.only, name)]
    problems.run(options, "fft", ABOUT, names, build_row, times_row)


if __name__ == "__main__":
    main()
