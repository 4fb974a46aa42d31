"""Elements at an index that a tensor holds are written as eager writes them."""

from __future__ import annotations

from pathlib import Path

import aot_runtime
import pytest
import torch
from torch.testing import assert_close

import aot
from aot.frontend.element_writes import get_item, set_item
from tests.calls import Calls
from tests.settings import level


def written(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[i] = 1
    x[:, i] = x[:, 0]
    x[..., i] += x[0, 0]
    x[1:, i] = 7
    x[0, i] = x[0, 1] * 2
    x[i, i] = -x[i, 0]
    x[-i] = 3.5
    x[i, None] = x[1][None, None]
    x[i] = x[:1]
    return x


def test_indices_without_dimensions_stay_those_of_the_run(tmp_path: Path) -> None:
    path = tmp_path / "m.pkg"
    args = (torch.randn(6, 6), torch.tensor(2))
    aot.package(Calls(written), args, path=path, targets=[f"cpu:{level()}"], golden=False)
    packaged = aot_runtime.load(path)
    for i in (0, 2, 5):
        x = torch.randn(6, 6)
        assert_close(packaged(x, torch.tensor(i)), written(x, torch.tensor(i)))


@pytest.mark.parametrize(
    "index",
    [
        0,
        slice(1, 3),
        torch.tensor([0, 2]),
        True,
        torch.tensor([True, False, True]),
        (torch.tensor(True), torch.tensor(False)),
        torch.tensor(1, dtype=torch.uint8),
        (torch.tensor(True), torch.tensor([0, 2])),
        (torch.tensor(1), torch.tensor([0, 2])),
        [0, 1],
    ],
)
def test_other_indices_are_torchs_own(index: object) -> None:
    assert set_item(torch.zeros(3, 4), index, 1.0) is NotImplemented


def between(x: torch.Tensor, low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
    return x[low:high, None, -high:] + x[..., : high - low].sum()


def test_bounds_without_dimensions_are_those_of_the_run(tmp_path: Path) -> None:
    path = tmp_path / "m.pkg"
    args = (torch.randn(6, 6), torch.tensor(1), torch.tensor(4))
    aot.package(Calls(between), args, path=path, targets=[f"cpu:{level()}"], golden=False)
    packaged = aot_runtime.load(path)
    for low, high in ((0, 3), (2, 5), (1, 6)):
        given = (torch.randn(6, 6), torch.tensor(low), torch.tensor(high))
        assert_close(packaged(*given), between(*given))


def masked(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    m = y.sum() > 0
    total, share = x.sum(), torch.ones(())
    share[m] = 1 - total[m] / y.sum()[m]
    z, w = x.clone(), x.clone()
    z[m] = 2 * y
    z[~m, 1:] = 7
    z[0, m] = y[1]
    z[..., m] += 1
    z[m, torch.tensor(1)] = 4
    w[m] += y[m] * 2
    w[~m] *= 3
    return share, z, w, x[m].sum(0), x[:, m, 1:].sum(1), torch.cat([x[m], y[~m]])


def test_a_mask_without_dimensions_takes_all_or_nothing(tmp_path: Path) -> None:
    """What two tensors take by the same one is of one size."""
    path = tmp_path / "m.pkg"
    rows = torch.export.Dim("rows", min=2)
    args = (torch.randn(6, 4), torch.rand(6, 4))
    shapes = (({0: rows}, {0: rows}),)
    levels = [f"cpu:{level()}"]
    aot.package(Calls(masked), args, path=path, targets=levels, dynamic_shapes=shapes, golden=False)
    packaged = aot_runtime.load(path)
    for rows_, sign in ((6, 1), (3, -1), (8, -1), (2, 1)):
        given = (torch.randn(rows_, 4), sign * torch.rand(rows_, 4))
        assert_close(packaged(*given), masked(*given))


def test_slices_of_numbers_stay_torchs() -> None:
    assert get_item(torch.randn(3, 3), (slice(1, None), slice(None, 2))) is NotImplemented
    assert get_item(torch.randn(3, 3), torch.tensor(1)) is NotImplemented
