"""Complex numbers through the loader: inputs, outputs, states, weights, Python numbers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import aot_runtime
import numpy as np
import pytest
import torch
from aot_runtime.format.reader import PackageFile
from aot_runtime.tools.verify import compare_golden

from aot import api
from tests.levels import target_of
from tests.settings import seeded


class Turning(torch.nn.Module):
    """Every run turns a state by 90 degrees."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seeded())
        weight = torch.randn(4, 3, dtype=torch.complex64, generator=generator)
        self.weight = torch.nn.Parameter(weight)
        self.register_buffer("phase", torch.full((3,), 1 + 2j))
        self.register_buffer("total", torch.zeros((), dtype=torch.complex128))

    def forward(self, x: torch.Tensor, factor: torch.Tensor) -> dict[str, torch.Tensor]:
        made = (x @ self.weight) * self.phase * factor
        self.phase.mul_(1j)
        self.total.add_(made.sum())
        return {"made": made, "turned": made.mH, "size": made.abs()}


def _given() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seeded())
    return torch.randn(5, 4, dtype=torch.complex64, generator=generator), torch.tensor(0.5 + 1j)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("complex") / "model.pkg"
    rows = torch.export.Dim("rows", min=2, max=64)
    shapes = {"x": {0: rows}, "factor": {}}
    settings = {"targets": [target_of()], "swappable": True}
    api.package(Turning(), _given(), path=path, dynamic_shapes=shapes, **settings)
    return path


def _close(actual: object, expected: torch.Tensor) -> None:
    wanted = expected.detach().resolve_conj().numpy()
    found = np.asarray(actual)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_the_contract_has_complex_types_and_the_file_pairs(package: Path) -> None:
    with PackageFile(package) as file:
        assert [spec.dtype for spec in file.plan.inputs] == ["complex64", "complex64"]
        assert [s.dtype for s in file.plan.outputs] == ["complex64", "complex64", "float32"]
        assert [s.strides for s in file.plan.outputs[:2]] == [(3, 1), (1, 3)]
        assert [(s.dtype, s.shape) for s in file.plan.states] == [
            ("complex64", (3,)),
            ("complex128", ()),
        ]
        (entry,) = (e for name, e in file.entries.items() if name == "state/phase")
        assert (entry.dtype, entry.shape) == ("float32", (3, 2))
        assert all(comparison.ok for comparison in compare_golden(file))


def test_arrays_tensors_and_numbers_give_what_eager_gives(package: Path) -> None:
    model, eager = aot_runtime.load(package), Turning()
    x, factor = _given()
    wide = torch.cat([x, x * 1j, x.conj()])
    for given, number in ((x, factor), (wide, factor), (x[::2], torch.tensor(2.0 + 0j))):
        expected = eager(given, number)
        found = model(given.numpy(), complex(number))
        assert set(found) == set(expected)
        for name, value in expected.items():
            _close(found[name], value)
    state = model.state_dict()
    _close(state["phase"], eager.phase)
    _close(state["total"], eager.total)
    model.load_state_dict({"phase": np.full(3, 1j, np.complex64), "total": state["total"]})
    assert model.state_dict()["phase"][0] == 1j
    found = model(x.t().contiguous().t(), 3)
    assert isinstance(found["made"], torch.Tensor)
    eager.phase.fill_(1j)
    _close(found["made"], eager(x, torch.tensor(3 + 0j))["made"])


def test_tensors_that_are_their_memory_take_the_short_way(package: Path) -> None:
    session = aot_runtime.load(package)._session
    x, factor = _given()
    assert session.run_exchanged([x, factor]) is not None
    assert session.run_exchanged([x.conj(), factor]) is None


def test_a_conjugate_view_is_refused(package: Path) -> None:
    """Its memory is that of what it is the conjugate of: it must not be taken for its values."""
    x, factor = _given()
    model = aot_runtime.load(package)
    with pytest.raises(aot_runtime.InvalidArgument, match="'x' does not give its memory"):
        model(x.conj(), factor)
    _close(model(x.conj().resolve_conj(), factor)["made"], Turning()(x.conj(), factor)["made"])


def test_other_types_are_refused(package: Path) -> None:
    model = aot_runtime.load(package)
    with pytest.raises(aot_runtime.InvalidArgument, match="complex128, the model takes complex64"):
        model(np.zeros((5, 4), np.complex128), 1j)
    with pytest.raises(aot_runtime.InvalidArgument, match="float32, the model takes complex64"):
        model(np.zeros((5, 4), np.float32), 1j)


def test_weights_are_replaced_as_pairs(package: Path) -> None:
    model, eager = aot_runtime.load(package), Turning()
    x, factor = _given()
    with torch.no_grad():
        eager.weight.mul_(1 - 1j)
    pairs = torch.view_as_real(eager.weight.detach()).numpy()
    model.replace_weights({"weight": pairs})
    _close(model(x.numpy(), complex(factor))["made"], eager(x, factor)["made"])
    with pytest.raises(aot_runtime.InvalidArgument, match="complex64"):
        model.replace_weights({"weight": eager.weight.detach().numpy()})


def test_a_process_without_torch_runs_the_package(package: Path) -> None:
    program = (
        "import sys, numpy, aot_runtime\n"
        "model = aot_runtime.load(sys.argv[1])\n"
        "made = model(numpy.ones((5, 4), numpy.complex64), 1j)['made']\n"
        "assert 'torch' not in sys.modules\n"
        "print(made.dtype, made[0, 0])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(package)], capture_output=True, text=True, check=True
    )
    with torch.no_grad():
        expected = Turning()(torch.ones(5, 4, dtype=torch.complex64), torch.tensor(1j))["made"]
    name, value = done.stdout.split()
    assert name == "complex64"
    assert abs(complex(value) - complex(expected[0, 0])) < 1e-4
