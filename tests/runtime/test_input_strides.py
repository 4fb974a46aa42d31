"""Inputs whose memory repeats elements or has gaps: kernels read it as it is, and no more of it."""

from __future__ import annotations

from pathlib import Path

import aot_runtime
import numpy as np
import pytest
import torch
from torch.export import Dim

from aot import api

MASK = torch.tensor([True, False, True, False, True])
GAPS = torch.tensor([[True, False] * 5, [False, True] * 5, [True] * 10])[:, ::2]


class Masked(torch.nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.where(mask, x, x * 2).sum(1)


@pytest.mark.parametrize("mask", [MASK.expand(3, 5), GAPS], ids=["repeated", "gaps"])
def test_strides_of_the_example(mask: torch.Tensor, tmp_path: Path) -> None:
    x = torch.arange(15.0).reshape(3, 5)
    api.package(Masked(), (x, mask), path=tmp_path / "m.pkg", targets=["cpu:x86-64-v3"])
    model = aot_runtime.load(tmp_path / "m.pkg")
    expected = Masked()(x, mask).numpy()
    np.testing.assert_array_equal(model(x.numpy(), mask.numpy()), expected)
    np.testing.assert_array_equal(model(x.numpy(), mask.numpy().copy()), expected)


def test_repeated_rows_of_any_number(tmp_path: Path) -> None:
    shapes = ({0: Dim("rows", min=0, max=64)},) * 2
    x = torch.arange(15.0).reshape(3, 5)
    api.package(
        Masked(),
        (x, MASK.expand(3, 5)),
        path=tmp_path / "m.pkg",
        targets=["cpu:x86-64-v3"],
        dynamic_shapes=shapes,
    )
    model = aot_runtime.load(tmp_path / "m.pkg")
    for rows in (0, 1, 7):
        values = torch.arange(5.0 * rows).reshape(rows, 5)
        mask = MASK.expand(rows, 5)
        got = model(values.numpy(), mask.numpy())
        np.testing.assert_array_equal(got, Masked()(values, mask).numpy())
