"""Rows of Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fft

from tests.conformance.complex_rows import COMPLEX, PARTS, complexes
from tests.conformance.harness import Args, Row, ordinary

REAL = (torch.float32, torch.float64)
KIND = {part: whole for whole, part in PARTS.items()}

LENGTHS: dict[str, tuple[int, ...]] = {
    "1 point": (3, 1),
    "a power of two": (3, 32),
    "a long power of two": (1024,),
    "3 and 5": (2, 45),
    "7 and 11": (2, 154),
    "a prime": (2, 127),
}
"""Shapes whose last dimension is transformed."""

SEVERAL: dict[str, Callable[..., Any]] = {
    "ifft of a middle dimension": lambda z: fft.ifft(z, dim=1, norm="ortho"),
    "fftn": lambda z: fft.fftn(z, norm="forward"),
    "ifft2 cut and padded": lambda z: fft.ifft2(z, s=(4, 9)),
    "hfft": lambda z: fft.hfft(z, n=12, dim=0),
    "irfft2": lambda z: fft.irfft2(z, norm="ortho"),
    "irfft of an odd number": lambda z: fft.irfft(z, n=9),
    "fftshift": lambda z: fft.ifftshift(fft.fftshift(fft.fft(z), dim=-1)),
}
"""Of complex numbers (6, 4, 5)."""

OF_REAL: dict[str, Callable[..., Any]] = {
    "rfft": fft.rfft,
    "rfft of an odd number": lambda x: fft.rfft(x, n=15, dim=0, norm="ortho"),
    "fft of real numbers": lambda x: (fft.fft(x), fft.ifft(x, dim=0)),
    "ihfft": lambda x: fft.ihfft(x, norm="forward"),
    "rfftn": lambda x: fft.rfftn(x, dim=(1, 0)),
    "frequencies": lambda x: x[:, :8] * (fft.fftfreq(8, 0.5) + fft.rfftfreq(14)),
    "convolution by spectra": lambda x: fft.irfft(fft.rfft(x, n=40) * fft.rfft(x[0], n=40), n=40),
}
"""Of real numbers (12, 32)."""


def _hann(like: torch.Tensor) -> torch.Tensor:
    return torch.hann_window(32, dtype=like.dtype)


def _round_trip(x: torch.Tensor) -> torch.Tensor:
    window = _hann(x)
    spectrum = torch.stft(x, 32, 8, window=window, return_complex=True)
    return torch.istft(spectrum, 32, 8, window=window, length=x.shape[-1])


def _mel(x: torch.Tensor) -> torch.Tensor:
    spectrum = torch.stft(x, 32, 8, window=_hann(x), return_complex=True)
    bands = torch.linspace(0, 1, 17 * 5, dtype=x.dtype).reshape(5, 17)
    return (bands @ spectrum.abs().square()).clamp(min=1e-6).log()


def _complex(*shape: int) -> Callable[[torch.dtype], Sequence[Args]]:
    return lambda dtype: [(complexes(dtype, *shape),)]


def _real(*shape: int) -> Callable[[torch.dtype], Sequence[Args]]:
    return lambda dtype: [(ordinary(dtype, *shape),)]


ROWS: tuple[Row, ...] = (
    *(Row(f"fft of {n}", fft.fft, _complex(*s), COMPLEX) for n, s in LENGTHS.items()),
    *(Row(n, f, _complex(6, 4, 5), COMPLEX) for n, f in SEVERAL.items()),
    *(Row(n, f, _real(12, 32), REAL) for n, f in OF_REAL.items()),
    Row("fft of a greater prime", fft.fft, _complex(1009), COMPLEX[:1]),
    Row("stft and istft", _round_trip, _real(2, 160), REAL),
    Row("mel spectrogram", _mel, _real(2, 160), REAL),
)
