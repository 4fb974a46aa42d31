"""Kernels that start before the launch ahead has ended: what they may do before they wait."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F

from aot.backends.base import EmittedGraph
from aot.backends.triton import tiling
from aot.backends.triton.backend import TritonBackend
from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.frontend.weights import to_array
from aot.lowering.lower import lower
from aot.options import Target
from aot.schedule.fusion import fuse
from tests.backends.emitting import emit
from tests.backends.triton.interpret import run_emitted
from tests.comparing import difference
from tests.conformance import executors
from tests.conformance.executors import interpret_triton
from tests.schedule.graphs import run_passes
from tests.settings import seeded

IMAGE = torch.zeros(1, 64, 16, 16, dtype=torch.bfloat16)


class Row(torch.nn.Module):
    """A linear layer of one row, after a kernel of its own."""

    def __init__(self, depth: int, width: int = 8) -> None:
        super().__init__()
        torch.manual_seed(seeded())
        self.linear = torch.nn.Linear(depth, width, dtype=torch.bfloat16)
        self.example = torch.randn(1, depth, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


class Convolution(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(64, 64, 3, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


class Rows(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.softmax(x, -1)


class Product(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x @ y


def emitted_for(module: torch.nn.Module, *args: torch.Tensor, arch: str = "sm_90") -> EmittedGraph:
    graph, _ = ingest(capture_module(module, args))
    backend, target = TritonBackend(), Target("cuda", (arch,))
    facts = backend.machine(target)
    return emit(backend, fuse(run_passes(lower(graph), facts), facts), target)


def before_waiting(text: str) -> str:
    head, _, _ = text.partition("    gdc_wait()")
    return head


def test_a_kernel_waits_before_it_reads() -> None:
    (function,) = emitted_for(Rows(), torch.zeros(64, 1000)).functions
    assert function.waits
    assert function.text.count("gdc_wait()") == 1
    assert "tl." not in before_waiting(function.text).partition("def k0")[2]


def test_architectures_before_sm_90_have_no_early_start() -> None:
    (function,) = emitted_for(Rows(), torch.zeros(64, 1000), arch="sm_80").functions
    assert not function.waits
    assert "gdc" not in function.text


@pytest.mark.parametrize(
    ("module", "args"),
    [
        (Product(), (torch.zeros(64, 64, dtype=torch.bfloat16),) * 2),
        (Convolution(), (IMAGE,)),
    ],
    ids=["product", "convolution"],
)
def test_programs_that_fill_a_processor_start_in_turn(
    module: torch.nn.Module, args: tuple[torch.Tensor, ...]
) -> None:
    """They let the next kernel start, which may wait, but do not start early themselves."""
    function = emitted_for(module, *args).functions[-1]
    assert "tl.dot" in function.text
    assert not function.waits
    assert "gdc_launch_dependents()" in function.text
    assert "gdc_wait" not in function.text


def test_a_row_product_has_weights_on_their_way_before_it_waits() -> None:
    module = Row(5632)
    source = emitted_for(module, module.example)
    (launch,), (function,) = source.launches, source.functions
    # What `gemv` reads before it waits is the matrix, in so many turns.
    before = before_waiting(function.text).partition("def gemv(")[2]
    assert re.findall(r"load_\w+\(", before) == ["load_matrix("]
    assert "AHEAD=4," in function.text
    assert "WAITS=True," in function.text
    read = function.text.partition("_load_matrix(")[2].partition("def ")[0]
    (weight,) = re.findall(r"tl\.load\(p(\d)", read)
    assert source.graph.buffers[launch.buffers[int(weight)]].kind == "weight"
    assert function.waits


def test_a_row_product_of_two_inputs_waits_first() -> None:
    example = torch.zeros(1, 256, dtype=torch.bfloat16)
    matrix = torch.zeros(8, 256, dtype=torch.bfloat16).t()
    (function,) = emitted_for(Product(), example, matrix).functions
    assert "tl.dot" not in function.text
    assert "tl.load" not in before_waiting(function.text)


@pytest.mark.parametrize("depth", [520, 1024, 2000, 4096, 5632])
def test_row_products_read_all_of_the_matrix_once(
    depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: list[str] = []

    def run(emitted, *rest):
        texts.extend(f.text for f in emitted.functions)
        return run_emitted(emitted, *rest)

    monkeypatch.setattr(executors, "run_emitted", run)
    module = Row(depth)
    (actual,) = interpret_triton(capture_module(module, (module.example,)), (module.example,))
    (ahead,) = [int(n) for text in texts for n in re.findall("AHEAD=(.*),", text)]
    assert ahead == min(4, -(-depth // 1024))
    with torch.no_grad():
        eager = module(module.example)
        exact = module.double()(module.example.double())
    assert difference(actual, to_array(eager), torch.bfloat16, to_array(exact)) == ""


class Bessel(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.special.bessel_j0(x)


class Exponential(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x)


@pytest.mark.parametrize(("least", "most"), [(0.0, 1.0), (20.0, 30.0), (0.0, 30.0)])
def test_dear_sides_are_computed_in_tiles_that_want_them(
    least: float, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: list[str] = []

    def run(emitted, *rest):
        texts.extend(f.text for f in emitted.functions)
        return run_emitted(emitted, *rest)

    monkeypatch.setattr(executors, "run_emitted", run)
    module, x = Bessel(), torch.linspace(least, most, 700)
    (actual,) = interpret_triton(capture_module(module, (x,)), (x,))
    assert "    if any_true(" in texts[0]
    assert "in range(" not in texts[0]
    exact = to_array(module(x.double()))
    assert difference(actual, to_array(module(x)), torch.float32, exact) == ""


def test_tiles_whose_points_decide_together_are_of_one_warp() -> None:
    large = torch.empty(1 << 24)
    (function,) = emitted_for(Bessel(), large).functions
    options = dict(function.options)
    assert options["num_warps"] == 1
    assert options["maxnreg"] == tiling.WARP_REGISTERS
    # So many programs that their start takes long compute several tiles each.
    assert re.search(r"for start\d+ in range\(", function.text)
    (plain,) = emitted_for(Exponential(), large).functions
    assert dict(plain.options) == {"num_warps": 4}
    assert "in range(" not in plain.text


def test_programs_of_several_tiles_end_with_the_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiling, "UNIT_WARPS", 1)
    x = torch.linspace(0, 30, 2 * 128 * 528 + 128 * 5)
    (function,) = emitted_for(Bessel(), x).functions
    assert "for start" in function.text
    module = Bessel()
    (actual,) = interpret_triton(capture_module(module, (x,)), (x,))
    exact = to_array(module(x.double()))
    assert difference(actual, to_array(module(x)), torch.float32, exact) == ""
