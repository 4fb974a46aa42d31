"""Typical sizes: what kernels are chosen for, and what is no size of the model."""

from __future__ import annotations

from pathlib import Path

import aot_runtime
import numpy as np
import pytest
import torch
from torch.export import Dim as Named

import aot
from aot.errors import UsageError
from aot.frontend.typical import with_typical
from aot.ir.tensors import Dim
from tests.settings import level

TOKENS = Dim("s0", 2, 64, 4, (0, 0, 1, 0), "tokens")
EIGHTHS = Dim("s1", 1, None, 2, (0, 1, 8, 0))
MEASURED = Dim("u0", 0, None, 5, None)
DIMS = (TOKENS, EIGHTHS, MEASURED)


def test_hints_are_what_is_typical() -> None:
    found = with_typical(DIMS, {"tokens": 48, "s1": 80})
    assert [d.hint for d in found] == [48, 10, 5]
    assert with_typical(DIMS, {}) == DIMS


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"words": 3}, "Dynamic sizes of this model: tokens, s1"),
        ({"tokens": 65}, "2 to 64"),
        ({"tokens": 1}, "2 to 64"),
        ({"s1": 12}, "8 to any, multiples of 8"),
        ({"u0": 12}, "tokens, s1"),
    ],
)
def test_what_is_no_size_of_the_model_is_said(sizes: dict[str, int], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        with_typical(DIMS, sizes)
    assert said in str(caught.value)


def test_a_package_for_large_inputs_is_right_for_small_ones(tmp_path: Path) -> None:
    module, path = torch.nn.Linear(64, 64), tmp_path / "typical.pkg"

    def package(typical: dict[str, int]) -> None:
        aot.package(
            module,
            (torch.randn(4, 64),),
            path=path,
            targets=[f"cpu:{level()}"],
            dynamic_shapes=({0: Named("rows", min=1, max=8192)},),
            typical=typical,
        )

    with pytest.raises(UsageError, match="never 9000"):
        package({"rows": 9000})
    package({"rows": 4000})
    model = aot_runtime.load(path)
    for size in (1, 4, 300):
        x = torch.randn(size, 64)
        np.testing.assert_allclose(
            torch.as_tensor(model(x)), module(x).detach(), rtol=1e-5, atol=1e-5
        )
