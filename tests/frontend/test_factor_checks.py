"""Factorizations in functions of loops are computed as by eager, and refused as by it."""

from __future__ import annotations

from pathlib import Path

import aot_runtime
import numpy as np
import pytest
import torch
from torch import Tensor
from torch._higher_order_ops.scan import scan

from aot import package
from tests.calls import Calls
from tests.levels import OWN, target_of


def _inverses(z: Tensor) -> Tensor:
    def step(c: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        a = c + 2 * torch.eye(2) + y[:, None, None]
        return c * 0.5 + torch.linalg.solve(a, c + 1), torch.linalg.inv(a)[:, 0, 0]

    found: Tensor = scan(step, torch.zeros(3, 2, 2), z)[1]
    return found


def test_in_a_loop(tmp_path: Path) -> None:
    x = torch.linspace(0, 1, 12).reshape(4, 3)
    package(Calls(_inverses), (x,), path=tmp_path / "m.pkg", targets=[target_of(OWN)], golden=False)
    loaded = aot_runtime.load(tmp_path / "m.pkg")
    np.testing.assert_allclose(loaded(x), _inverses(x), 1e-4, 1e-4)
    with pytest.raises(aot_runtime.InvalidArgument, match="singular"):
        loaded(torch.full((4, 3), -1.0))
    with pytest.raises(torch.linalg.LinAlgError, match="singular"):
        _inverses(torch.full((4, 3), -1.0))
