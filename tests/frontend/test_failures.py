"""Why a model cannot be traced: each cause has its own sentence and its own way out."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch._higher_order_ops import while_loop
from torch.export import Dim

from aot import package
from aot.errors import DynamicShapeError, ExportError, InputMismatch
from tests.calls import Calls

X = torch.arange(3.0)


def build(folder: Path, function: Any, *args: Any) -> None:
    package(Calls(function), args, path=folder / "m.pkg")


def decides(x: torch.Tensor) -> torch.Tensor:
    return x if (x > 0).all() else x[:1]


def unrolls(x: torch.Tensor) -> torch.Tensor:
    for _ in range(int(x.sum().int().item())):
        x = x * 2
    return x


def sized_by_values(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten.linalg_lstsq(x.reshape(-1, 1), x.reshape(-1, 1), None, driver="gelss")[1]


def counts_in_a_loop(x: torch.Tensor) -> torch.Tensor:
    counts = torch.bincount(x)

    def goes_on(k: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return k < 3

    def turn(k: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return k + 1, y + counts

    return while_loop(goes_on, turn, (torch.tensor(0), torch.zeros_like(x)))[1]


class Opaque:
    """Nothing that torch looks into."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x


@pytest.mark.parametrize(
    ("function", "message", "advice"),
    [
        (decides, "a decision of the model depends on the values of a tensor", r"torch\.cond"),
        (unrolls, "uses a number as a constant that it computes", r"torch\.while_loop"),
        (lambda x: torch.from_numpy(x.numpy() + 1), "leaves PyTorch", "custom operator"),
        (lambda x: (x * 1j)[0].item(), "takes a complex number out", "x.real"),
        (sized_by_values, "as large as the values of a tensor say", "custom operator"),
        (Opaque, "gives an object that torch cannot look into", "register_pytree_node"),
    ],
    ids=["decision", "number", "numpy", "complex", "size", "object"],
)
def test_causes_have_their_own_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], function: Any, message: str, advice: str
) -> None:
    with pytest.raises(ExportError, match=message) as caught:
        build(tmp_path, function, X)
    assert advice.replace("\\", "") in caught.value.advice
    assert capfd.readouterr().err == ""


def test_sizes_as_keys_are_told(tmp_path: Path) -> None:
    rows = Dim("rows")
    with pytest.raises(ExportError, match="a dynamic size is a key of a dict") as caught:
        package(
            Calls(lambda x: {x.shape[0]: x}[x.shape[0]]),
            (torch.ones(4, 3),),
            path=tmp_path / "m.pkg",
            dynamic_shapes={"args": ({0: rows},)},
        )
    assert "a list in place of a set" in caught.value.advice


def test_sizes_in_functions_of_a_loop_are_told(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"gives to torch\.while_loop") as caught:
        build(tmp_path, counts_in_a_loop, torch.tensor([2, 1, 0]))
    assert "counts[:n]" in caught.value.advice


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_part_that_is_a_script_is_named(tmp_path: Path) -> None:
    scripted = nn.Sequential(torch.jit.script(nn.Linear(3, 3)), nn.ReLU())
    with pytest.raises(ExportError, match="cannot trace 0, a TorchScript module"):
        package(scripted, (X,), path=tmp_path / "m.pkg")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_script_is_no_module_to_trace(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="TorchScript"):
        package(torch.jit.script(nn.Linear(3, 3)), (X,), path=tmp_path / "m.pkg")


@pytest.mark.filterwarnings("ignore")
def test_packed_weights_are_no_tensors(tmp_path: Path) -> None:
    quantized = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(3, 3)), {nn.Linear})
    with pytest.raises(ExportError, match="packed for one of torch's own engines") as caught:
        package(quantized, (torch.ones(2, 3),), path=tmp_path / "m.pkg")
    assert "before that step" in caught.value.advice
    assert "contextlib" not in caught.value.where


def test_weights_without_values_are_named(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3, device="meta"))
    with pytest.raises(ExportError, match=r"weight 1\.weight is on the meta device"):
        package(module, (X,), path=tmp_path / "m.pkg")


def test_an_example_outside_of_its_range_is_named(tmp_path: Path) -> None:
    rows = Dim("rows", min=4, max=8)
    with pytest.raises(DynamicShapeError, match=r"input has 3 elements along dimension 0.*4 to 8"):
        package(
            nn.Linear(3, 3),
            (torch.ones(3, 3),),
            path=tmp_path / "m.pkg",
            dynamic_shapes=({0: rows},),
        )


@pytest.mark.parametrize(
    ("shapes", "message", "advice"),
    [
        (({3: Dim("n")},), "names dimension 3 of input, which has 2 dimensions", "from 0"),
        ({"x": {0: Dim("n")}}, "do not fit the inputs", "names of forward's parameters"),
        (({0: "n"},), "do not fit the inputs", "Dim.AUTO"),
        (({0: Dim("n")}, {0: Dim("n")}), "do not fit the inputs", "an entry for each input"),
    ],
    ids=["dimension", "name", "text", "count"],
)
def test_misspelt_shapes_are_told_how_they_are_written(
    tmp_path: Path, shapes: Any, message: str, advice: str
) -> None:
    with pytest.raises(DynamicShapeError, match=message) as caught:
        package(
            nn.Linear(3, 3), (torch.ones(4, 3),), path=tmp_path / "m.pkg", dynamic_shapes=shapes
        )
    assert advice in caught.value.advice


def test_arrays_are_no_tensors(tmp_path: Path) -> None:
    with pytest.raises(InputMismatch, match="input is an array of NumPy's") as caught:
        package(nn.Linear(3, 3), (np.ones((4, 3), "f4"),), path=tmp_path / "m.pkg")
    assert "torch.from_numpy" in caught.value.advice


def test_what_a_model_prints_while_it_is_traced_is_shown(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def talks(x: torch.Tensor) -> torch.Tensor:
        print("traced", file=sys.stderr)
        return decides(x)

    with pytest.raises(ExportError):
        build(tmp_path, talks, X)
    assert capfd.readouterr().err.splitlines().count("traced") >= 1


def _nested() -> torch.Tensor:
    parts = [torch.ones(3, 2), torch.ones(4, 2)]
    made: torch.Tensor = torch.nested.nested_tensor(parts, layout=torch.jagged)
    return made


@pytest.mark.parametrize("make", [_nested, lambda: torch.ones(3, 4).to_sparse()])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_inputs_are_plain_tensors(tmp_path: Path, make: Callable[[], torch.Tensor]) -> None:
    with pytest.raises(ExportError, match="the input args_0 is no plain tensor") as caught:
        build(tmp_path, lambda x: x.sin(), make())
    assert "offsets" in caught.value.advice


@pytest.mark.parametrize("first", [True, False])
def test_nested_tensors_inside_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    """The first nested tensor of a process fails in another way than later ones do."""
    if first:
        monkeypatch.setattr(torch.nested._internal.nested_tensor, "_dummy_instance", None)
    else:
        _nested()

    def padded(x: torch.Tensor) -> torch.Tensor:
        parts = torch.nested.as_nested_tensor([x[:1], x[1:]], layout=torch.jagged)
        dense: torch.Tensor = torch.nested.to_padded_tensor(parts, 0.0)
        return dense

    with pytest.raises(ExportError, match="tensors of a subclass, such as nested ones") as caught:
        build(tmp_path, padded, torch.ones(3, 2))
    assert "mask" in caught.value.advice


def test_a_changed_tensor_that_is_no_buffer_is_told(tmp_path: Path) -> None:
    kept = torch.zeros(4, 3)

    def remembers(x: torch.Tensor) -> torch.Tensor:
        kept[:2] = x[:2].detach()
        return x + kept

    with pytest.raises(ExportError, match="does not know as a buffer") as caught:
        build(tmp_path, remembers, torch.ones(4, 3))
    assert "register_buffer" in caught.value.advice


def test_a_generator_of_its_own_is_told(tmp_path: Path) -> None:
    def drawn(x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand(3, generator=torch.Generator().manual_seed(1))

    with pytest.raises(ExportError, match="holds a Generator of its own") as caught:
        build(tmp_path, drawn, X)
    assert "generator" in caught.value.advice
