"""Other right results of operators that have several, and what packages say of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from aot_runtime.format.golden_sets import Shared
from aot_runtime.format.reader import PackageFile
from aot_runtime.tools.arrays import tensor_array
from aot_runtime.tools.verify import compare_golden, shared_difference
from torch import Tensor, nn

import aot
from aot.frontend.free_results import OtherResults, has_free_results
from tests.settings import level

linalg = torch.linalg
Rebuilt = Callable[[Tensor], tuple[Tensor, tuple[Tensor, ...]]]


def _eig(a: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    w, v = linalg.eig(a)
    return (v * w[..., None, :]) @ linalg.inv(v), (w, v)


def _eigh(a: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    w, v = linalg.eigh(a + a.mH)
    return (v * w[..., None, :]) @ v.mH - a.mH, (v,)


def _svd(a: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    u, s, vh = linalg.svd(a[..., :3])
    whole = torch.zeros_like(a)
    whole[..., :3] = (u[..., :3] * s[..., None, :]) @ vh
    whole[..., 3:] = a[..., 3:] * (u.mH @ u)[..., :1, :1]
    return whole, (u, vh)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("rebuilt", [_eig, _eigh, _svd])
def test_other_results_are_others_and_right(rebuilt: Rebuilt, dtype: torch.dtype) -> None:
    a = torch.randn(2, 5, 5, dtype=dtype, generator=torch.Generator().manual_seed(0))
    _, usual = rebuilt(a)
    with OtherResults(0):
        whole, others = rebuilt(a)
    torch.testing.assert_close(whole, a.to(whole.dtype))
    assert all(float((x - y).abs().max()) > 0.1 for x, y in zip(usual, others, strict=True))


class Spectra(nn.Module):
    """Outputs of every freedom."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """[n, n] -> eigenvalues, eigenvectors, a product that is determined, singular vectors."""
        values, vectors = linalg.eig(x)
        u, _, vh = linalg.svd(x)
        return linalg.eigvals(x), vectors, (vectors * values) @ linalg.inv(vectors), u, u @ vh, u[0]


class Normed(nn.Module):
    """No operator of it has several results, whatever their names have in them."""

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return torch._weight_norm(x, x[:, :1])


def test_weights_are_no_eigenvalues() -> None:
    x = torch.randn(3, 3)
    assert has_free_results(torch.export.export(Spectra(), (x,)))
    assert not has_free_results(torch.export.export(Normed(), (x,)))


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("spectra") / "model.pkg"
    x = torch.randn(24, 24, generator=torch.Generator().manual_seed(1))
    aot.package(Spectra(), (x,), path=path, targets=[f"cpu:{level()}"])
    return path


def test_what_is_free_is_not_compared(package: Path) -> None:
    with PackageFile(package) as file:
        found = compare_golden(file)
        shared = file.plan.golden[0].shared
    assert all(c.ok for c in found), [str(c) for c in found]
    assert [s.kind for s in shared] == [
        *("sorted", "sorted magnitudes", "elements"),
        *("magnitudes", "elements", "magnitudes"),
    ]
    assert "sorted along axis -1: several outputs are right" in str(found[0])


@pytest.mark.parametrize("output", range(6))
def test_a_wrong_output_is_found(package: Path, output: int) -> None:
    with PackageFile(package) as file:
        golden, spec = file.plan.golden[0], file.plan.outputs[output]
        right = tensor_array(file, golden.outputs[output], spec)
    wrong = right.copy()
    wrong.reshape(-1)[np.argmax(np.abs(right))] *= 1.01
    for array, ok in ((right, True), (wrong, False)):
        error, allowed = shared_difference(
            array, right, golden.shared[output], golden.atol[output], golden.rtol[output]
        )
        assert (error <= allowed) is ok


def test_sets_without_freedom_say_nothing_of_it(tmp_path: Path) -> None:
    path = tmp_path / "model.pkg"
    aot.package(Normed(), (torch.randn(3, 3),), path=path, targets=[f"cpu:{level()}"])
    with PackageFile(path) as file:
        assert file.plan.golden[0].shared == ()
        assert compare_golden(file)[0].shared == Shared()
