"""Recurrent layers as packages, against eager: any length and batch, all cells, odd sizes."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import aot_runtime
import pytest
import torch
from aot_runtime import ShapeMismatch
from torch import nn
from torch.export import Dim

import aot
from aot.backends.base import EmittedGraph
from aot.backends.cpp import toolchain
from aot.backends.registry import backend_for
from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.frontend.weights import to_array
from aot.ir.kernels import KernelGraph
from aot.options import Target
from tests.backends.emitting import emit
from tests.comparing import difference
from tests.conformance.executors import scheduled
from tests.levels import target_of
from tests.rounding import slack
from tests.settings import SETTINGS, seeded

LAYERS: dict[str, tuple[type[nn.Module], dict[str, Any]]] = {
    "lstm": (nn.LSTM, {"num_layers": 2, "bidirectional": True}),
    "lstm projected": (nn.LSTM, {"proj_size": 5, "bidirectional": True, "bias": False}),
    "gru": (nn.GRU, {"batch_first": True, "bidirectional": True}),
    "gru without bias": (nn.GRU, {"bias": False}),
    "tanh": (nn.RNN, {"num_layers": 2, "batch_first": True}),
    "relu": (nn.RNN, {"nonlinearity": "relu", "bidirectional": True}),
}


def layer_of(name: str, units: int) -> nn.Module:
    torch.manual_seed(seeded())
    kind, settings = LAYERS[name]
    return kind(6, units, **settings).eval()


class Several(nn.Module):
    """Several layers on one input: one package for many cases."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__()
        self.layers = nn.ModuleList([layer_of(name, 19) for name in names])

    def forward(self, x: torch.Tensor) -> list[Any]:
        return [m(x.transpose(0, 1) if m.batch_first else x) for m in self.layers]


def flat(results: Any) -> list[torch.Tensor]:
    leaves: list[torch.Tensor] = torch.utils._pytree.tree_leaves(results)
    return leaves


def inputs(steps: int, rows: int, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seeded(100 * steps + rows))
    return torch.randn(steps, rows, 6, generator=generator).to(dtype)


def package(path: Path, layers: nn.Module, dtype: torch.dtype, *targets: str) -> None:
    dims = ({0: Dim("steps", min=1), 1: Dim("rows", min=0)},)
    given = (inputs(4, 3, dtype),)
    aot.package(layers, given, path=path, golden=False, dynamic_shapes=dims, targets=targets)


@torch.no_grad()
def check(
    path: Path,
    layers: nn.Module,
    dtype: torch.dtype,
    isa: str | None = None,
    sizes: Iterable[tuple[int, int]] = ((1, 1), (7, 40), (60, 2)),
) -> None:
    model, wide = aot_runtime.load(path, isa=isa), deepcopy(layers).double()
    for steps, rows in sizes:
        x = inputs(steps, rows, dtype)
        eager = flat(layers(x))

        def exact(x: torch.Tensor = x) -> list[torch.Tensor]:
            return flat(wide(x.double()))

        for k, (ours, own, best) in enumerate(zip(flat(model(x)), eager, exact(), strict=True)):
            arrays = (to_array(ours), to_array(own), dtype, to_array(best))
            problem = difference(*arrays, slack=partial(slack, exact, k, dtype))
            assert not problem, f"{steps} steps, {rows} rows, result {k}: {problem}"


@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_any_length_and_batch(tmp_path: Path, a_level: tuple[str, ...]) -> None:
    path, layers = tmp_path / "m.pkg", Several(LAYERS)
    package(path, layers, torch.float32, target_of(*a_level))
    for isa in a_level:
        check(path, layers, torch.float32, isa)
    model = aot_runtime.load(path)
    nothing = inputs(3, 0, torch.float32)
    sizes = [r.shape for r in flat(layers(nothing))]
    assert [r.shape for r in flat(model(nothing))] == sizes
    with pytest.raises(ShapeMismatch, match="steps"):
        model(inputs(0, 3, torch.float32))


@pytest.mark.parametrize("dtype", (torch.float64, torch.bfloat16, torch.float16), ids=str)
def test_other_types(tmp_path: Path, dtype: torch.dtype) -> None:
    path, layers = tmp_path / "m.pkg", Several(("lstm", "gru", "tanh")).to(dtype)
    package(path, layers, dtype, f"cpu:{SETTINGS.level}")
    check(path, layers, dtype)


def emitted(function: nn.Module, *args: torch.Tensor) -> EmittedGraph:
    target = Target("cpu", (SETTINGS.level,))
    backend = backend_for(target)
    graph = scheduled(ingest(capture_module(function, args))[0], backend.machine(target))
    return emit(backend, graph, target)


def kernels_of(function: nn.Module, *args: torch.Tensor) -> KernelGraph:
    return emitted(function, *args).graph


def text_of(function: nn.Module, *args: torch.Tensor) -> str:
    texts = [f.text for f in emitted(function, *args).functions]
    (text,) = (t for t in texts if "RecurrenceConfig" in t)
    return text


class OnlySeen(nn.Module):
    """A layer whose states nobody asks for, and what follows it."""

    def __init__(self, layer: nn.Module, after: nn.Module) -> None:
        super().__init__()
        self.layer, self.after = layer, after

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.after(self.layer(x)[0])


def test_weights_are_packed_when_the_package_is_built() -> None:
    text = text_of(layer_of("gru without bias", 19), torch.ones(4, 3, 6))
    assert "PACKED = true" in text and "BIAS = false" in text


def test_weights_that_are_inputs_are_packed_by_each_unit() -> None:
    class Given(nn.Module):
        def forward(self, x: torch.Tensor, h: torch.Tensor, *w: torch.Tensor) -> Any:
            return torch.gru(x, h, list(w), False, 1, 0.0, False, False, False)

    args = (torch.ones(4, 2, 5), torch.ones(1, 2, 3), torch.ones(9, 5), torch.ones(9, 3))
    assert "PACKED = false" in text_of(Given(), *args)


def test_a_constant_batch_names_the_heights_that_it_cuts() -> None:
    functions = emitted(layer_of("gru without bias", 19), torch.ones(4, 3, 6)).functions
    (function,) = (f for f in functions if "RecurrenceConfig" in f.text)
    assert function.tables == () and "SHARED" not in function.text
    assert "BATCH = 3" in function.text and "UNITS = 19" in function.text


@pytest.mark.parametrize("rows", (1, 18))
@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_constant_sizes(rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = (*toolchain.COMMON_FLAGS, "-DAOT_TMPL_ONLY_NAMED_HEIGHTS")
    monkeypatch.setattr(toolchain, "COMMON_FLAGS", named)  # another height ends the process
    path = tmp_path / "m.pkg"
    layers = nn.ModuleList([layer_of("lstm projected", 19), nn.LSTM(6, 144).eval()])

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = layers

        def forward(self, x: torch.Tensor) -> list[Any]:
            return [layer(x) for layer in self.layers]

    given = inputs(5, rows, torch.float32)
    aot.package(Both(), (given,), path=path, golden=False, targets=(f"cpu:{SETTINGS.level}",))
    check(path, Both(), torch.float32, sizes=((5, rows),))


def test_what_follows_is_part_of_the_kernel() -> None:
    alone, followed = (
        kernels_of(OnlySeen(layer_of("gru without bias", 19), after), torch.ones(4, 3, 6))
        for after in (nn.Identity(), nn.Hardtanh())
    )
    assert len(followed.kernels) == len(alone.kernels)


def test_units_take_more_rows_of_a_matrix_beyond_the_cache() -> None:
    assert "ROWS = 16" in text_of(nn.RNN(6, 64), torch.ones(4, 3, 6))
    assert "ROWS = 32" in text_of(nn.LSTM(6, 200), torch.ones(4, 3, 6))


class Shared(nn.Module):
    """Layers of whole panels of units, and of so many weights that threads share their steps."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(seeded())
        lstm, gru = nn.LSTM(6, 144, num_layers=2), nn.GRU(6, 160, bidirectional=True)
        self.layers = nn.ModuleList([lstm, gru, nn.RNN(6, 256)]).eval()

    def forward(self, x: torch.Tensor) -> list[Any]:
        return [layer(x) for layer in self.layers]


def test_threads_share_the_steps_of_a_small_batch(tmp_path: Path) -> None:
    path, layers = tmp_path / "m.pkg", Shared()
    package(path, layers, torch.float32, f"cpu:{SETTINGS.level}")
    check(path, layers, torch.float32)
    models = [aot_runtime.load(path, num_threads=count) for count in (1, 2, 3, 16)]
    for steps, rows in ((1, 1), (50, 3), (9, 16), (4, 37)):
        x = inputs(steps, rows, torch.float32)
        alone, *others = (flat(model(x)) for model in models)
        for found in others:
            assert all(
                torch.equal(torch.as_tensor(a), torch.as_tensor(b))
                for a, b in zip(alone, found, strict=True)
            )


@pytest.mark.parametrize(
    ("layer", "rows", "shared"),
    [
        (nn.LSTM(6, 128), 4, True),
        (nn.LSTM(6, 128), 17, False),
        (nn.LSTM(6, 136), 4, False),
        (nn.RNN(6, 128), 4, False),
        (nn.LSTM(6, 128, proj_size=120), 4, False),
    ],
    ids=["small batch", "large batch", "no whole panels", "small matrix", "projected"],
)
@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_steps_are_shared_where_the_batch_leaves_threads_idle(
    layer: nn.Module, rows: int, shared: bool
) -> None:
    assert ("shared_recurrence" in text_of(layer, torch.ones(4, rows, 6))) is shared
