"""Weights as arrays, and what is said of types that packages cannot hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aot_runtime
import ml_dtypes
import numpy as np
import pytest
import torch
from torch.testing import assert_close
from torch.utils import _pytree as pytree

import aot
from aot.errors import ExportError
from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.frontend.weights import to_array
from tests.settings import level


def test_float8_becomes_an_array_of_its_bits() -> None:
    array = to_array(torch.tensor([1.0, -2.0]).to(torch.float8_e5m2))
    assert array.dtype == ml_dtypes.float8_e5m2
    np.testing.assert_array_equal(array.view(np.uint8), [0x3C, 0xC0])


def test_a_type_without_kernels_is_refused_with_what_to_do() -> None:
    class Held(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kept = torch.nn.Buffer(torch.zeros(2, dtype=torch.int16).view(torch.bits16))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.kept.view(torch.int16)

    captured = capture_module(Held(), (torch.ones(2),))
    with pytest.raises(ExportError, match="bits16") as caught:
        ingest(captured)
    assert "View it as uint8" in caught.value.advice


class Scaled(torch.Tensor):
    """A matrix of small whole numbers and a scale for each row, as libraries quantise weights."""

    whole: torch.Tensor
    scale: torch.Tensor

    @staticmethod
    def __new__(cls, whole: torch.Tensor, scale: torch.Tensor) -> Scaled:
        made: Any = torch.Tensor._make_wrapper_subclass(cls, whole.shape, dtype=scale.dtype)
        made.whole, made.scale = whole, scale
        return made

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["whole", "scale"], None

    @staticmethod
    def __tensor_unflatten__(parts: Any, _: Any, size: Any, stride: Any) -> Scaled:
        return Scaled(parts["whole"], parts["scale"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        aten = torch.ops.aten
        if func in (aten.detach.default, aten.alias.default):
            return Scaled(func(args[0].whole), func(args[0].scale))
        plain = pytree.tree_map_only(cls, lambda x: x.whole * x.scale, args)
        return func(*plain, **(kwargs or {}))


def test_weights_that_wrap_tensors_are_these_tensors(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 3))
    for layer in (model[0], model[2]):
        scale = layer.weight.detach().abs().amax(1, keepdim=True) / 127
        whole = (layer.weight.detach() / scale).round().to(torch.int8)
        layer.weight = torch.nn.Parameter(Scaled(whole, scale), requires_grad=False)
    path, x = tmp_path / "m.pkg", torch.randn(4, 8)
    rows, levels = torch.export.Dim("rows"), [f"cpu:{level()}"]
    aot.package(model, (x,), path=path, targets=levels, dynamic_shapes=({0: rows},))
    packaged = aot_runtime.load(path)
    for given in (x, torch.randn(7, 8)):
        assert_close(packaged(given), model(given).detach())
    assert isinstance(model[0].weight, Scaled), "the user's model stays as it is"
