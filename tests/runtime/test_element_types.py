"""Wide unsigned integers and float8 as callers see them: NumPy, torch, numbers, weights kept."""

from __future__ import annotations

from pathlib import Path

import aot_runtime
import ml_dtypes
import numpy as np
import pytest
import torch

import aot
from tests.levels import target_of

FLOAT8 = torch.float8_e4m3fn


class Mixed(torch.nn.Module):
    """A product by float8 weights, and unsigned integers of which one is a number."""

    def __init__(self) -> None:
        super().__init__()
        weight = torch.randn(64, 48, generator=torch.Generator().manual_seed(3))
        self.weight = torch.nn.Buffer(weight.to(FLOAT8))

    def forward(
        self, x: torch.Tensor, codes: torch.Tensor, number: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        product = torch._scaled_mm(
            x.to(FLOAT8),
            self.weight.t(),
            scale_a=torch.ones(()),
            scale_b=torch.ones(()),
            out_dtype=torch.float32,
        )
        return product, product.to(FLOAT8), codes * 3, number ^ 1


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("types") / "mixed.pkg"
    example = (torch.ones(16, 48), torch.ones(4, dtype=torch.uint32), torch.ones((), dtype=U64))
    aot.package(Mixed(), example, path=path, targets=[target_of()])
    return path


U64 = torch.uint64


def test_numpy_gives_and_gets_the_types(package: Path) -> None:
    model = aot_runtime.load(package)
    x = np.linspace(-2, 2, 16 * 48, dtype=np.float32).reshape(16, 48)
    codes = np.array([0, 1, 2**31, 2**32 - 1], np.uint32)
    product, narrow, tripled, flipped = model(x, codes, 2**64 - 1)
    expected = Mixed()(torch.from_numpy(x), torch.from_numpy(codes), torch.tensor(7, dtype=U64))
    np.testing.assert_allclose(product, expected[0].numpy(), rtol=1e-5, atol=1e-5)
    assert narrow.dtype == ml_dtypes.float8_e4m3fn
    np.testing.assert_array_equal(tripled, codes * np.uint32(3))
    assert (flipped.dtype, int(flipped)) == (np.uint64, 2**64 - 2)


def test_torch_gives_and_gets_float8(package: Path) -> None:
    given = (torch.ones(16, 48), torch.ones(4, dtype=torch.uint32), torch.ones((), dtype=U64))
    results = aot_runtime.load(package)(*given)
    expected = Mixed()(*given)
    assert [r.dtype for r in results] == [e.dtype for e in expected]
    assert torch.equal(results[1].float(), expected[1].float())


def test_numbers_beyond_the_type_are_refused(package: Path) -> None:
    model = aot_runtime.load(package)
    arrays = (np.ones((16, 48), np.float32), np.ones(4, np.uint32))
    for number in (-1, 2**64):
        with pytest.raises(aot_runtime.InvalidArgument, match="does not hold"):
            model(*arrays, number)


def test_weights_stay_float8_in_the_package(package: Path) -> None:
    entry = aot_runtime.load(package).entry("weights/weight")
    assert entry.dtype == ml_dtypes.float8_e4m3fn
    assert entry.shape == (64, 48)
