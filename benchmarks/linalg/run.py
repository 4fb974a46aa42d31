"""Times routines of dense linear algebra beside eager: benchmarks/results/linalg.md.

    python -m benchmarks.linalg.run [--device cpu|cuda] [--only REGEX] [--json OUT] [--jobs N] …

Batches of 10^4 small matrices, and single ones of 1024^2. Ours and eager's calls
alternate. On the CPU the time is the processor's, which what other processes take is no part of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import torch
from torch import linalg

from benchmarks import problems
from benchmarks.options import staged_options
from benchmarks.problems import Problem
from benchmarks.processes import Event, Settings

BATCH, SIZES, LARGE, COLUMNS = 10_000, (2, 4, 8, 16, 32), 1024, 4
TYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)
ABOUT = """# Dense linear algebra

`python -m benchmarks.linalg.run` writes this page and `linalg_<device>.json`. Rows say the
operator, how many matrices of which size, and their type; eager is PyTorch (on the CPU with MKL).
"""


def _definite(a: torch.Tensor) -> torch.Tensor:
    return a @ a.mH + a.shape[-1] * torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)


OPERATORS: dict[str, Callable[..., Any]] = {
    "cholesky": lambda a, s, b: linalg.cholesky_ex(s)[0],
    "solve_triangular": lambda a, s, b: linalg.solve_triangular(s, b, upper=False),
    "lu_factor": lambda a, s, b: linalg.lu_factor_ex(a)[:2],
    "solve": lambda a, s, b: linalg.solve_ex(a, b)[0],
    "inv": lambda a, s, b: linalg.inv_ex(a)[0],
    "det": lambda a, s, b: linalg.det(a),
    "slogdet": lambda a, s, b: linalg.slogdet(a),
    "lu": lambda a, s, b: linalg.lu(a),
    "qr": lambda a, s, b: linalg.qr(a),
    "eigh": lambda a, s, b: linalg.eigh(s),
    "svd": lambda a, s, b: linalg.svd(a, full_matrices=False),
    "eig": lambda a, s, b: linalg.eig(a),
    "eigvals": lambda a, s, b: linalg.eigvals(a),
    "eigvalsh": lambda a, s, b: linalg.eigvalsh(s),
    "svdvals": lambda a, s, b: linalg.svdvals(a),
    "lstsq": lambda a, s, b: linalg.lstsq(a, b).solution,
    "pinv": lambda a, s, b: linalg.pinv(a),
    "matrix_exp": lambda a, s, b: linalg.matrix_exp(a),
    "norm": lambda a, s, b: linalg.matrix_norm(a),
    "norm_2": lambda a, s, b: linalg.matrix_norm(a, 2),
    "cond": lambda a, s, b: linalg.cond(a),
}
"""Of matrices a, positive definite ones s, and right-hand sides b. Those that raise are timed as
the forms that do not: on a GPU, to ask whether one failed takes longer than the rest."""

GPU_LACKS = ("eig", "eigvals")
"""Of small matrices: eager takes them one after the other, for seconds."""


def _drawn(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    drawn = torch.complex128 if dtype.is_complex else torch.float64
    a = torch.randn(shape, generator=generator, dtype=drawn).to(dtype)
    b = torch.randn((*shape[:-1], COLUMNS), generator=generator, dtype=drawn).to(dtype)
    return tuple(x.to(device) for x in (a, _definite(a), b))


@cache
def every() -> dict[str, Problem]:
    """All rows, by their names."""
    found = {}
    for operator, function in OPERATORS.items():
        for dtype in TYPES:
            for batch, size in (*((BATCH, size) for size in SIZES), (1, LARGE)):
                kind = str(dtype).removeprefix("torch.")
                name = f"{operator} {batch} x {size}^2 {kind}"
                shape = (batch, size, size) if batch > 1 else (size, size)
                found[name] = Problem(name, function, partial(_drawn, shape, dtype))
    return found


def chosen(device: str, only: str) -> list[str]:
    """Rows that a device has."""
    left_out = [f"{name} {BATCH} " for name in GPU_LACKS] if device == "cuda" else []
    names = [name for name in every() if not any(part in name for part in left_out)]
    return [name for name in names if re.search(only, name)]


def build_row(name: str, settings: Settings) -> str:
    """Packages a row; why there is no package, or ""."""
    return problems.build(every()[name], settings)


def times_row(name: str, settings: Settings) -> Iterator[Event]:
    """Times a row."""
    yield from problems.times(every()[name], settings)


def main() -> None:
    """The command line."""
    options = staged_options("linalg", __doc__, seconds=0.3, most=10.0).parse_args()
    names = chosen(options.device, options.only)
    problems.run(options, "linalg", ABOUT, names, build_row, times_row)


if __name__ == "__main__":
    main()
