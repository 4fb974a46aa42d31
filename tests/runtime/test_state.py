"""Models that change their buffers and inputs: what a session keeps, and what callers see of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aot_runtime
import numpy as np
import pytest
import torch
from aot_runtime.errors import InvalidArgument

from aot import api
from tests.settings import seeded

LEVEL = "cpu:x86-64-v3"


class Counter(torch.nn.Module):
    """A count and a running sum; the sum does not begin as zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("sum", torch.full((4,), 2.0))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.count += 1
        self.sum += x
        return self.sum * self.count, self.count


class Trained(torch.nn.Module):
    """A parameter that each run changes; the layer's own stays as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.full((4,), 3.0))
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.scale.mul_(0.5).add_(x.mean())
        return self.layer(x) * self.scale


class Swap(torch.nn.Module):
    """Two buffers that change places: neither new value can be written before both are read."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("a", torch.arange(3.0))
        self.register_buffer("b", torch.arange(3.0) + 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        old = self.a.clone()
        self.a.copy_(self.b)
        self.b.copy_(old)
        return self.a + x


class Shift(torch.nn.Module):
    """A window over the last inputs: its new value reads other elements than it writes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.zeros(5, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.window.copy_(torch.cat([self.window[1:], x[None]]))
        return self.window.sum(0)


class ReadsOldAfter(torch.nn.Module):
    """The result needs the old value and, through a sum, the new one."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("s", torch.ones(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        old = self.s.clone()
        self.s.mul_(2).add_(x)
        return old / self.s.sum()


class Recurrent(torch.nn.Module):
    """A hidden state that a matrix product updates, and a weight beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("h", torch.zeros(2, 8))
        self.cell = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.h.copy_(torch.tanh(self.cell(self.h) + x))
        return self.h.amax(1)


class Assigned(torch.nn.Module):
    """A buffer that gets another tensor in place of being written."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(4), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.mean = 0.9 * self.mean + 0.1 * x
        return x - self.mean


class ChangesInput(torch.nn.Module):
    """Its first input is changed in place, and is a result too."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x.mul_(2).add_(y)
        return x + 1, x


def _package(module: torch.nn.Module, *args: torch.Tensor, path: Path, **more: Any) -> Any:
    api.package(module, args, path=path, targets=[LEVEL], **more)
    return aot_runtime.load(path)


SEQUENCES = {
    "counter": (Counter, (4,)),
    "swap": (Swap, (3,)),
    "shift": (Shift, (3,)),
    "reads_old_after": (ReadsOldAfter, (6,)),
    "recurrent": (Recurrent, (2, 8)),
    "assigned": (Assigned, (4,)),
    "trained": (Trained, (4,)),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_runs_follow_eager(name: str, tmp_path: Path) -> None:
    kind, shape = SEQUENCES[name]
    torch.manual_seed(seeded())
    module = kind().eval()
    inputs = [torch.randn(shape) for _ in range(4)]
    model = _package(module, inputs[0], path=tmp_path / "m.pkg")
    for x in inputs:
        with torch.no_grad():
            expected = module(x)
        found = model(x.numpy())
        pairs = zip(_flat(found), _flat(expected), strict=True)
        for mine, theirs in pairs:
            np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-5, atol=1e-6)
    values = {**dict(module.named_buffers()), **dict(module.named_parameters())}
    for key, value in model.state_dict().items():
        np.testing.assert_allclose(value, values[key].detach().numpy(), rtol=1e-5, atol=1e-6)


def _flat(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("state") / "counter.pkg"
    api.package(Counter(), (torch.ones(4),), path=path, targets=[LEVEL])
    return path


X = np.ones(4, np.float32)


def test_sessions_have_states_of_their_own(counter: Path) -> None:
    first = aot_runtime.load(counter)
    second = first.session()
    first(X)
    first(X)
    assert second(X)[1] == 1
    assert first(X)[1] == 3


def test_reset_gives_first_values(counter: Path) -> None:
    model = aot_runtime.load(counter)
    model(X)
    model.reset()
    state = model.state_dict()
    assert state["count"] == 0
    np.testing.assert_array_equal(state["sum"], np.full(4, 2, np.float32))


def test_clone_begins_where_the_other_is(counter: Path) -> None:
    model = aot_runtime.load(counter)
    model(X)
    copy = model.clone()
    model(X)
    assert copy(X)[1] == 2
    assert model.state_dict()["count"] == 2


def test_states_are_saved_and_loaded(counter: Path) -> None:
    model = aot_runtime.load(counter)
    assert [(s.name, s.dtype, s.shape) for s in model.states] == [
        ("count", "int64", ()),
        ("sum", "float32", (4,)),
    ]
    model(X)
    saved = model.state_dict()
    model(X)
    model.load_state_dict(saved)
    assert model(X)[1] == 2
    model.load_state_dict({"count": np.int64(7)}, strict=False)
    assert model(X)[1] == 8


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"count": np.int64(1)}, "no values for the states 'sum'"),
        ({"count": np.int64(1), "sum": X, "other": X}, "no states 'other'"),
        ({"count": np.int64(1), "sum": X[:3]}, r"'sum' is float32\[4\], the value given .*\[3\]"),
        ({"count": np.int32(1), "sum": X}, "'count' is int64"),
    ],
)
def test_wrong_states_change_nothing(counter: Path, values: Any, message: str) -> None:
    model = aot_runtime.load(counter)
    with pytest.raises(InvalidArgument, match=message):
        model.load_state_dict(values)
    assert model(X)[1] == 1


def test_first_values_are_stored_once_and_zeros_not_at_all(counter: Path) -> None:
    model = aot_runtime.load(counter)
    assert [e for e in model.entries if e.startswith(("state/", "weights/"))] == ["state/sum"]
    assert [s["entry"] for s in model.plan["states"]] == [None, "state/sum"]


def test_packaging_leaves_parameters_as_they_were(tmp_path: Path) -> None:
    module = Trained()
    _package(module, torch.ones(4), path=tmp_path / "m.pkg")
    assert module.scale.tolist() == [3.0] * 4


def test_packaging_leaves_the_module_as_it_was(counter: Path) -> None:
    module = Counter()
    api.package(module, (torch.ones(4),), path=counter.parent / "again.pkg", targets=[LEVEL])
    assert module.count == 0
    assert torch.equal(module.sum, torch.full((4,), 2.0))


def test_changed_inputs_are_written_back(tmp_path: Path) -> None:
    module = ChangesInput()
    dynamic = {"x": {0: torch.export.Dim("n", max=64)}, "y": {0: torch.export.Dim("n", max=64)}}
    args = (torch.randn(3, 4), torch.randn(3, 4))
    model = _package(module, *args, path=tmp_path / "m.pkg", dynamic_shapes=dynamic)
    for shape in ((3, 4), (6, 4)):
        x, y = torch.randn(shape), torch.randn(shape)
        mine, theirs = x.numpy().copy(), x.clone()
        found, expected = model(mine, y.numpy()), module(theirs, y)
        np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-6)
        np.testing.assert_allclose(found[0], expected[0].numpy(), rtol=1e-6)
        np.testing.assert_allclose(found[1], expected[1].numpy(), rtol=1e-6)
        assert not np.shares_memory(found[1], mine)


def test_changed_inputs_keep_their_strides(tmp_path: Path) -> None:
    model = _package(ChangesInput(), torch.ones(3, 4), torch.ones(3, 4), path=tmp_path / "m.pkg")
    whole = np.zeros((4, 7), np.float32)
    part = whole[:, ::2].T[:3]  # transposed, every other column of a larger array
    assert part.shape == (3, 4) and not part.flags.c_contiguous
    part[...] = np.arange(12).reshape(3, 4)
    model(part, np.ones((3, 4), np.float32))
    np.testing.assert_array_equal(part, 2 * np.arange(12).reshape(3, 4) + 1)
    assert not whole[:, 1::2].any()
    tensor = torch.arange(12.0).reshape(4, 3).T
    model(tensor, torch.ones(3, 4))
    assert torch.equal(tensor, 2 * torch.arange(12.0).reshape(4, 3).T + 1)


def test_inputs_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    model = _package(ChangesInput(), torch.ones(3), torch.ones(3), path=tmp_path / "m.pkg")
    y = np.ones(3, np.float32)
    frozen = np.ones(3, np.float32)
    frozen.flags.writeable = False
    with pytest.raises(InvalidArgument, match="'x', whose array is read-only: give a writable"):
        model(frozen, y)
    with pytest.raises(InvalidArgument, match=r"input 'x'.*repeats its elements"):
        model(torch.ones(1).expand(3), torch.ones(3))
    assert model(y, frozen)[0][0] == 4


def test_a_changed_scalar_cannot_be_a_number(tmp_path: Path) -> None:
    class Increment(torch.nn.Module):
        def forward(self, n: torch.Tensor) -> torch.Tensor:
            n += 1
            return n * 2

    model = _package(Increment(), torch.tensor(1), path=tmp_path / "m.pkg")
    n = np.array(4)
    assert model(n) == 10
    assert n == 5
    with pytest.raises(InvalidArgument, match="the model changes the input 'n'"):
        model(4)
