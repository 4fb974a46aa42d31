"""Operators are overridden on the devices of a program, and as before afterwards."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import pytest
import torch
from torch.export import export, exported_program

from aot.frontend.overridden import device_kinds, overridden

_LINEAR: Any = torch.ops.aten.linear.default


def _kept(*args: Any, **kwargs: Any) -> Any:
    return NotImplemented


def _keys(devices: Set[str]) -> list[Any]:
    with overridden({_LINEAR: _kept}, devices):
        return list(_LINEAR.py_kernels)


@pytest.mark.parametrize("devices", [{"cpu"}, {"cpu", "cuda"}, {"cuda", "meta"}])
def test_keys_of_other_devices_stay(devices: Set[str]) -> None:
    before = dict(_LINEAR.py_kernels)
    keys = torch._C.DispatchKey
    wanted = {"cpu": keys.AutogradCPU, "cuda": keys.AutogradCUDA, "meta": keys.AutogradMeta}
    found = _keys(devices)
    assert {wanted[d] for d in devices | {"meta"}} <= set(found)
    assert not {wanted[d] for d in wanted.keys() - devices - {"meta"}} & set(found)
    assert keys.AutogradXLA not in found
    assert _LINEAR.py_kernels == before


def test_on_a_device_that_is_not_known_all_are_overridden() -> None:
    assert torch._C.DispatchKey.AutogradXLA in _keys({"cpu", "xla"})
    assert len(exported_program._BACKEND_KEYS_TO_OVERRIDE) > 3


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_the_devices_of_a_program(device: str) -> None:
    model = torch.nn.Linear(2, 2, device=device)
    assert device_kinds(export(model, (torch.ones(1, 2, device=device),)).graph) == {device}
