"""Times Fourier transforms beside eager: benchmarks/results/fft.md.

    python -m benchmarks.fft.run [--device cpu|cuda] [--only REGEX] [--json OUT] [--jobs N] …

Single rows from 16 to 10^6 points (powers of two, of 3, 5 and 7, primes), batches along inner and
outer dimensions, images, and the short-time transforms of audio front ends. Ours and eager's calls
alternate. On the CPU the time is the processor's, which what other processes take is no part of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import torch
from torch import fft

from benchmarks import problems
from benchmarks.options import staged_options
from benchmarks.problems import Problem
from benchmarks.processes import Event, Settings

LENGTHS = (16, 64, 1024, 65536, 1 << 20, 243, 3125, 16807, 10**6, 127, 1009, 10007)
SHAPES = (*((n,) for n in LENGTHS), (256, 16), (64, 1024), (512, 512), (1024, 1024))
LARGE = (4096, 4096)
BACK = ((16,), (1024,), (65536,), (1 << 20,), (3750,), (2018,), (256, 16), (64, 1024), (512, 512))
"""Of the transforms back, and of those of numbers whose transform is real."""

ACROSS = ((1024, 64), (16, 4096), (32, 128, 96))
"""Transformed along the last dimension but one."""

AUDIO = {
    "whisper": (400, 160, 80_000),
    "vocoder": (1024, 256, 131_072),
    "speech": (512, 128, 65_536),
}
"""Points, hop and samples of short-time transforms."""

COMPLEX, REAL = ("complex64", "complex128"), ("float32", "float64")

ABOUT = """# Fourier transforms

`python -m benchmarks.fft.run` writes this page and `fft_<device>.json`. Rows say the transform, the
operand's type, and the shape of it or, of irfft and hfft, of the results; eager is PyTorch (MKL on
the CPU, cuFFT on GPUs).
"""


def _drawn(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    return (torch.randn(shape, generator=generator, dtype=dtype).to(device),)


def _window(n: int, dtype: torch.dtype, device: str) -> tuple[torch.Tensor, ...]:
    return (torch.hann_window(n, dtype=dtype, device=device),)


def _signal(n: int, samples: int, dtype: torch.dtype, device: str) -> tuple[torch.Tensor, ...]:
    return (*_drawn((1, samples), dtype, device), *_window(n, dtype, device))


def _spectrum(
    n: int, hop: int, samples: int, dtype: torch.dtype, device: str
) -> tuple[torch.Tensor, ...]:
    shape = (1, n // 2 + 1, samples // hop + 1)
    return (*_drawn(shape, dtype.to_complex(), device), *_window(n, dtype, device))


def _half(shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
    """Of the operand whose result has the shape, its length even along `dim`."""
    sizes = list(shape)
    sizes[dim] = sizes[dim] // 2 + 1
    return tuple(sizes)


def _named(
    kind: str,
    shape: tuple[int, ...],
    dtype: str,
    function: Callable[..., Any],
    given: tuple[int, ...],
    note: str = "",
) -> Problem:
    """`shape` is the greater one of the operand's, which is `given`, and the result's."""
    name = f"{kind} {dtype} {' x '.join(map(str, shape))}{note}"
    return Problem(name, function, partial(_drawn, given, getattr(torch, dtype)))


def _plain() -> Iterator[Problem]:
    """Transforms of one or two dimensions."""
    forward = (*SHAPES, LARGE)
    for kind, dtypes, shapes in (
        ("fft", COMPLEX, forward),
        ("rfft", REAL, forward),
        ("ifft", COMPLEX, BACK),
        ("irfft", COMPLEX, BACK),
        ("hfft", COMPLEX, BACK[:-1]),
    ):
        for dtype in dtypes:
            for shape in shapes:
                square = len(shape) == 2 and shape[0] == shape[1]
                operator = f"{kind}2" if square else kind
                given = _half(shape, -1) if kind in ("irfft", "hfft") else shape
                yield _named(operator, shape, dtype, getattr(fft, operator), given)


def _across() -> Iterator[Problem]:
    """Transforms along the last dimension but one."""
    for kind, dtypes in (("fft", COMPLEX), ("rfft", REAL), ("irfft", COMPLEX)):
        for dtype in dtypes:
            for shape in ACROSS:
                function = partial(getattr(fft, kind), dim=-2)
                given = _half(shape, -2) if kind == "irfft" else shape
                yield _named(kind, shape, dtype, function, given, ", dim -2")


def _short_time() -> Iterator[Problem]:
    """Short-time transforms and those back."""
    for name, (n, hop, samples) in AUDIO.items():
        for dtype in REAL:
            kind, what = getattr(torch, dtype), f"{dtype} {samples} by {n} ({name})"
            there, back = partial(_stft, n, hop), partial(_istft, n, hop)
            yield Problem(f"stft {what}", there, partial(_signal, n, samples, kind))
            yield Problem(f"istft {what}", back, partial(_spectrum, n, hop, samples, kind))


def _stft(n: int, hop: int, x: torch.Tensor, window: torch.Tensor) -> torch.Tensor:
    return torch.stft(x, n, hop, window=window, return_complex=True)


def _istft(n: int, hop: int, x: torch.Tensor, window: torch.Tensor) -> torch.Tensor:
    return torch.istft(x, n, hop, window=window)


@cache
def every() -> dict[str, Problem]:
    """All rows, by their names."""
    return {row.name: row for rows in (_plain(), _across(), _short_time()) for row in rows}


def build_row(name: str, settings: Settings) -> str:
    """Packages a row; why there is no package, or ""."""
    return problems.build(every()[name], settings)


def times_row(name: str, settings: Settings) -> Iterator[Event]:
    """Times a row."""
    yield from problems.times(every()[name], settings)


def main() -> None:
    """The command line."""
    options = staged_options("fft", __doc__, seconds=0.3, most=10.0).parse_args()
    names = [name for name in every() if re.search(options.only, name)]
    problems.run(options, "fft", ABOUT, names, build_row, times_row)


if __name__ == "__main__":
    main()
