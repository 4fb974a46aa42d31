"""Every operator row, and a sample of PyTorch's operators, on a real GPU: for `make test-gpu`."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch

from aot.errors import WRONGLY_TRACED, UnsupportedOperators
from tests.conformance.executors import GPU, executor_named
from tests.conformance.harness import Row, run_row
from tests.conformance.linalg_rows import ROWS as LINALG
from tests.conformance.opinfo.outcome import CRASH, OK, WRONG
from tests.conformance.opinfo.running import run_cases
from tests.conformance.opinfo.samples import pairs, spread
from tests.conformance.test_rows import ROWS

pytestmark = pytest.mark.gpu

if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

PARTS = 15
PAIRS = 168
"""Operators and types in all; two samples of each, where there are two, make more than 300."""

DEVICE_FUNCTIONS = frozenset({"hypot", "logaddexp"})
"""Rows of functions that CUDA itself computes otherwise than the CPU, at the edges: hypot of the
greatest number is infinite, logaddexp near zero loses digits. Eager on the GPU is what counts."""


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_row_matches_eager(row: Row) -> None:
    device = "cuda" if row.name in DEVICE_FUNCTIONS else "cpu"
    try:
        problems = run_row(row, executor_named(GPU), device)
    except UnsupportedOperators as error:
        if WRONGLY_TRACED in str(error):
            pytest.skip(f"{row.name}: torch {torch.__version__} traces a wrong type")
        raise
    assert not problems, "\n".join(problems)


LARGE = (
    Row("solve", torch.linalg.solve, lambda d: [(well(d, 300), torch.ones(300, 2, dtype=d))]),
    Row("inv of a batch", torch.linalg.inv, lambda d: [(well(d, 40, 90),)]),
    Row("cholesky", lambda a: torch.linalg.cholesky(a @ a.mT), lambda d: [(well(d, 1000),)]),
    Row("eigvalsh", torch.linalg.eigvalsh, lambda d: [(well(d, 2, 200),)]),
    Row("svdvals", torch.linalg.svdvals, lambda d: [(well(d, 3, 120)[..., :70],)]),
    Row(
        "singular vectors",
        lambda a: made_again(a, *torch.linalg.svd(a, full_matrices=False)),
        lambda d: [(well(d, 400)[:, :300],)],
    ),
    Row(
        "vectors of conjugate values",
        lambda a: turned(a, *torch.linalg.eig(a)),
        lambda d: [(well(d, 500),)],
    ),
    Row(
        "hermitian vectors",
        lambda a: made_again(
            hermitian(a),
            torch.linalg.eigh(hermitian(a))[1],
            *torch.linalg.eigh(hermitian(a))[:1],
            torch.linalg.eigh(hermitian(a))[1].mH,
        ),
        lambda d: [(well(d, 300),)],
    ),
    Row(
        "qr and lstsq",
        lambda a: (
            near(torch.linalg.qr(a)[0] @ torch.linalg.qr(a)[1], a),
            near(a @ torch.linalg.lstsq(a, a[:, :2]).solution, a[:, :2]),
        ),
        lambda d: [(well(d, 300)[:, :200],)],
    ),
    Row(
        "complex systems",
        lambda a, b: near(torch.complex(a, b.mT) @ systems(a, b), torch.complex(a, a)[:, :3]),
        lambda d: [(well(d, 200), well(d, 200) / 7)],
    ),
    Row(
        "det between products",
        lambda a: (torch.linalg.det(a / 80) * a) @ a,
        lambda d: [(well(d, 80),)],
    ),
)
"""Of matrices that the host factors, or cuSOLVER."""


def near(found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Whether a matrix is another one but for roundings: what makes it is free in other ways."""
    rounding = torch.finfo(wanted.dtype).eps * wanted.shape[0]
    return (found - wanted).abs().amax() < 8 * rounding * wanted.abs().amax()


def made_again(
    wanted: torch.Tensor, u: torch.Tensor, values: torch.Tensor, vt: torch.Tensor
) -> torch.Tensor:
    """Whether singular values and vectors, or eigenvalues and theirs, make their matrix."""
    return near((u * values.unsqueeze(-2)) @ vt, wanted)


def turned(a: torch.Tensor, values: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    """Whether a matrix makes its eigenvectors longer, and nothing else."""
    return near(torch.complex(a, torch.zeros_like(a)) @ vectors, vectors * values)


def hermitian(a: torch.Tensor) -> torch.Tensor:
    """A matrix that is its own adjoint."""
    return torch.complex(a + a.mT, a - a.mT)


def systems(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A complex system's solution; its imaginary parts lie by columns."""
    return torch.linalg.solve(torch.complex(a, b.mT), torch.complex(a, a)[:, :3])


def well(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Square matrices that are far from singular."""
    generator = torch.Generator().manual_seed(sum(shape))
    size = shape[-1]
    values = torch.randn(*shape, size, generator=generator, dtype=torch.float64)
    return (values + 3 * size**0.5 * torch.eye(size, dtype=torch.float64)).to(dtype)


@pytest.mark.parametrize("row", LARGE, ids=lambda row: row.name)
def test_what_the_host_factors_matches_eager(row: Row) -> None:
    row = replace(row, dtypes=(torch.float32, torch.float64))
    problems = run_row(row, executor_named(GPU))
    assert not problems, "\n".join(problems)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("row", LINALG, ids=lambda row: row.name)
def test_linear_algebra_matches_eager(row: Row) -> None:
    """Also of sizes and routines that are left to the host."""
    problems = run_row(row, executor_named(GPU))
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("part", range(PARTS))
def test_opinfo_samples_match_eager(part: int) -> None:
    every = pairs()
    chosen = every[:: len(every) // PAIRS][part::PARTS]
    cases = [case for op, dtype in chosen for case in spread(op, dtype, 2)]
    outcomes = list(run_cases(cases, executor_named(GPU)))
    print(dict(Counter(o.kind for o in outcomes)))  # pytest -rP shows it
    bad = [f"{o.label}: {o.reason}" for o in outcomes if o.kind in (WRONG, CRASH)]
    assert not bad, "\n".join(bad)
    assert any(o.kind == OK for o in outcomes)
