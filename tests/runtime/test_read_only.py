"""Inputs that a model changes, in memory that nobody may write: refused, whoever says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aot_runtime
import numpy as np
import pytest
import torch

from aot import api


class Lent:
    """An array that is known by DLPack alone, as a library with arrays of its own has it."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(max_version=(1, 0))


class OnlyVersioned(Lent):
    """The same, for consumers that say that they know versions."""

    def __dlpack__(self, *, max_version: tuple[int, int] | None = None, **options: Any) -> Any:
        if max_version is None:
            return self.array.__dlpack__()
        return self.array.__dlpack__(max_version=max_version)


class Doubles(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x + 1


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> aot_runtime.Model:
    path = tmp_path_factory.mktemp("read_only") / "m.pkg"
    api.package(Doubles(), (torch.ones(6),), path=path, targets=["cpu:x86-64-v3"])
    return aot_runtime.load(path)


def from_dlpack(output: Any) -> np.ndarray:
    """What makes outputs of the same kind as `Lent`."""
    return np.from_dlpack(output)


def read_only() -> np.ndarray:
    array = np.ones(6, np.float32)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("kind", [Lent, OnlyVersioned])
def test_arrays_of_dlpack_that_say_so(model: aot_runtime.Model, kind: type[Lent]) -> None:
    array = read_only()
    with pytest.raises(aot_runtime.InvalidArgument, match="read-only"):
        model._session.run([kind(array)])
    assert array.tolist() == [1] * 6


@pytest.mark.parametrize("kind", [Lent, OnlyVersioned])
def test_writable_arrays_of_dlpack_are_changed(model: aot_runtime.Model, kind: type[Lent]) -> None:
    array = np.ones(6, np.float32)
    model._session.run([kind(array)])
    assert array.tolist() == [2] * 6


def test_arrays_of_numpy(model: aot_runtime.Model) -> None:
    array = read_only()
    with pytest.raises(aot_runtime.InvalidArgument, match="read-only"):
        model(array)
    assert array.tolist() == [1] * 6
    view = np.broadcast_to(np.float32(1), 6)
    with pytest.raises(aot_runtime.InvalidArgument, match="read-only"):
        model(view)
    with pytest.raises(aot_runtime.InvalidArgument, match="read-only"):
        model(memoryview(array))
    with pytest.raises(aot_runtime.InvalidArgument, match="read-only"):
        model(memoryview(np.ones(6, np.float32)).toreadonly())


def test_tensors_of_torch_that_share_memory_until_one_is_written(model: aot_runtime.Model) -> None:
    x = torch.ones(6)
    other = torch._lazy_clone(x)
    model(other)
    assert x.tolist() == [1] * 6
    assert other.tolist() == [2] * 6


def test_a_tensor_of_torch_whose_elements_share_memory(model: aot_runtime.Model) -> None:
    with pytest.raises(aot_runtime.InvalidArgument):
        model(torch.ones(1).expand(6))


def test_inputs_that_stay_may_be_read_only(model: aot_runtime.Model, tmp_path: Path) -> None:
    path = tmp_path / "plain.pkg"
    api.package(torch.nn.ReLU(), (torch.ones(6),), path=path, targets=["cpu:x86-64-v3"])
    plain = aot_runtime.load(path)
    assert plain(read_only()).tolist() == [1] * 6
    (output,) = plain._session.run([Lent(read_only())])
    assert np.asarray(output).tolist() == [1] * 6
