"""Weights replaced at run time, in packages that the compiler built."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import aot_runtime
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import aot
from tests.settings import seeded

TARGETS = ("cpu:x86-64-v3",)


class Net(torch.nn.Module):
    """Folded batch norms, packed convolutions and products, tied weights, a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 20, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(20)
        self.each = torch.nn.Conv2d(20, 20, 3, padding=1, groups=20)
        self.first = torch.nn.Linear(20, 37)
        self.second = torch.nn.Linear(37, 37)
        self.third = torch.nn.Linear(37, 37)
        self.third.weight = self.second.weight
        self.register_buffer("scale", torch.tensor([0.5, 2.0]).repeat(10), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.each(torch.relu(self.norm(self.conv(x)))))
        return self.third(torch.relu(self.second(self.first(x.mean((2, 3)) * self.scale))))


def randomised(seed: int, like: torch.nn.Module | None = None) -> torch.nn.Module:
    """The module, or another of its kind, with weights of its own."""
    net = Net().eval() if like is None else copy.deepcopy(like)
    generator = torch.Generator().manual_seed(seeded(seed))
    with torch.no_grad():
        for name, tensor in {**dict(net.named_parameters()), **dict(net.named_buffers())}.items():
            if name != "scale" and tensor.is_floating_point():
                tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.1)
    return net


def state(net: torch.nn.Module) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in net.state_dict().items()}


X = np.linspace(-1, 1, 2 * 3 * 8 * 8, dtype=np.float32).reshape(2, 3, 8, 8)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool], Path]:
    """The path of a package of `randomised(0)`, with originals or without."""
    folder = tmp_path_factory.mktemp("weights")
    made: dict[bool, Path] = {}

    def get(originals: bool) -> Path:
        if originals not in made:
            made[originals] = folder / f"net{originals}.pkg"
            aot.package(
                randomised(0),
                (torch.from_numpy(X),),
                path=made[originals],
                targets=TARGETS,
                swappable=True,
                keep_originals=originals,
            )
        return made[originals]

    return get


def check_close(y: np.ndarray, net: torch.nn.Module) -> None:
    with torch.no_grad():
        expected = net.double()(torch.from_numpy(X).double()).numpy()
        net.float()
    np.testing.assert_allclose(y, expected, rtol=2e-6, atol=1e-5)


def test_the_same_weights_give_the_same_bits(packages: Callable[[bool], Path]) -> None:
    model = aot_runtime.load(packages(False))
    before = model(X)
    model.replace_weights(state(randomised(0)))
    np.testing.assert_array_equal(model(X), before)


def test_new_weights_from_arrays_and_files(
    packages: Callable[[bool], Path], tmp_path: Path
) -> None:
    model = aot_runtime.load(packages(False))
    other = model.session()
    for seed in (1, 2):
        net = randomised(seed)
        model.replace_weights(state(net))
        check_close(model(X), net)
        np.testing.assert_array_equal(other(X), model(X))
    file = tmp_path / "third.safetensors"
    net = randomised(3)
    save_file({k: v.clone() for k, v in net.state_dict().items()}, file)
    model.replace_weights(file)
    file.unlink()  # nothing needs it any more
    check_close(model(X), net)


def test_a_tied_weight_needs_one_of_its_names(packages: Callable[[bool], Path]) -> None:
    model = aot_runtime.load(packages(False))
    net = randomised(1)
    weights = state(net)
    del weights["third.weight"]
    model.replace_weights(weights)
    check_close(model(X), net)
    weights["third.weight"] = weights["second.weight"] + 1
    with pytest.raises(aot_runtime.InvalidArgument, match="is given twice, with other values"):
        model.replace_weights(weights)
    check_close(model(X), net)


def test_some_weights_alone(packages: Callable[[bool], Path]) -> None:
    model = aot_runtime.load(packages(True))
    net = randomised(0)
    with torch.no_grad():
        net.norm.running_var.mul_(3)
        net.second.weight.add_(1)
    names = ("norm.running_var", "second.weight")
    model.replace_weights({name: state(net)[name] for name in names}, partial=True)
    check_close(model(X), net)
    with torch.no_grad():
        net.conv.weight.mul_(2)
    model.replace_weights({"conv.weight": state(net)["conv.weight"]}, partial=True)
    check_close(model(X), net)
    model.replace_weights({}, partial=True, restart=True)
    check_close(model(X), randomised(0))


def test_what_is_folded_together_is_replaced_together(packages: Callable[[bool], Path]) -> None:
    model = aot_runtime.load(packages(False))
    variance = {"norm.running_var": state(randomised(1))["norm.running_var"]}
    with pytest.raises(aot_runtime.InvalidArgument, match=r"'norm\.running_var' needs 'norm\."):
        model.replace_weights(variance, partial=True)
    with pytest.raises(aot_runtime.InvalidArgument, match=r"weights are missing: 'conv\.weight'"):
        model.replace_weights(variance)
    check_close(model(X), randomised(0))


def test_low_rank_updates(packages: Callable[[bool], Path]) -> None:
    model = aot_runtime.load(packages(True))
    generator = np.random.default_rng(seeded())
    up = generator.normal(size=(37, 4)).astype(np.float32)
    down = generator.normal(size=(4, 37)).astype(np.float32)
    taps = generator.normal(size=(2, 3, 3, 3)).astype(np.float32)
    columns = generator.normal(size=(20, 2)).astype(np.float32)
    for _ in range(2):  # always from the package's own: nothing adds up
        model.replace_weights(
            {
                "second.weight": aot_runtime.LowRank(up, down, 0.5),
                "conv.weight": aot_runtime.LowRank(columns, taps),
                "norm.bias": aot_runtime.Added(np.ones(20, np.float32), 2.0),
            },
            partial=True,
            restart=True,
        )
    net = randomised(0)
    with torch.no_grad():
        net.second.weight.add_(torch.from_numpy(0.5 * up @ down))
        net.conv.weight.add_(torch.from_numpy(np.einsum("or,rcij->ocij", columns, taps)))
        net.norm.bias.add_(2)
    check_close(model(X), net)


def test_half_precision(tmp_path: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(7, 33), torch.nn.Linear(33, 5)).bfloat16().eval()
    x = torch.linspace(-1, 1, 21).reshape(3, 7).bfloat16()
    path = tmp_path / "half.pkg"
    aot.package(net, (x,), path=path, targets=TARGETS, keep_originals=True)
    model = aot_runtime.load(path)
    before = model.run([x])[0]
    weights = {k: v.clone() for k, v in net.state_dict().items()}
    model.replace_weights(weights)
    assert torch.equal(model.run([x])[0], before)
    up, down = torch.randn(33, 2), torch.randn(2, 7)
    model.replace_weights({"0.weight": aot_runtime.LowRank(up, down)}, partial=True)
    added = model.run([x])[0]
    weights["0.weight"] = (weights["0.weight"].float() + up @ down).bfloat16()
    model.replace_weights(weights)
    torch.testing.assert_close(model.run([x])[0], added, rtol=2e-2, atol=2e-2)


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096


def test_a_thousand_swaps_under_load(packages: Callable[[bool], Path], tmp_path: Path) -> None:
    model = aot_runtime.load(packages(False), num_threads=1)
    files = [tmp_path / "0.safetensors", tmp_path / "1.safetensors"]
    expected = []
    for seed, file in enumerate(files):
        save_file({k: v.clone() for k, v in randomised(seed).state_dict().items()}, file)
        model.replace_weights(file)
        expected.append(model(X).tobytes())
    stop = threading.Event()
    counts: list[Mapping[bytes, int]] = []

    def run() -> None:
        session = model.session(num_threads=1)
        seen = dict.fromkeys(expected, 0)
        while not stop.is_set():
            y = session(X).tobytes()
            seen[y] = seen.get(y, 0) + 1
        counts.append(seen)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    settled = 0
    for i in range(1000):
        model.replace_weights(files[i % 2])
        if i == 100:
            settled = resident_bytes()
    grown = resident_bytes() - settled
    stop.set()
    for thread in threads:
        thread.join()
    assert len(counts) == 4
    for seen in counts:
        assert set(seen) == set(expected)  # whole sets of weights, never a mixture
    assert grown < 8 << 20  # one set of weights a swap would be 1000 times 25 kB


def test_packages_without_a_weight_program(tmp_path: Path) -> None:
    path = tmp_path / "plain.pkg"
    aot.package(torch.nn.Linear(3, 4).eval(), (torch.ones(2, 3),), path=path, targets=TARGETS)
    with pytest.raises(aot_runtime.Unsupported, match="package with --swappable"):
        aot_runtime.load(path).replace_weights({"bias": np.zeros(4, np.float32)})


@pytest.mark.parametrize(
    ("weights", "kind", "message"),
    [
        ({"nobody": np.ones(1, np.float32)}, "InvalidArgument", "has no weights 'nobody'"),
        ({"norm.bias": np.ones(3, np.float32)}, "ShapeMismatch", r"shape \(3\), the model has"),
        ({"norm.bias": np.ones(20)}, "InvalidArgument", "has dtype float64, the model has float32"),
        ({"norm.bias": 1.0}, "InvalidArgument", "must be an array, not a number"),
        (
            {"norm.num_batches_tracked": aot_runtime.Added(np.array(1))},
            "InvalidArgument",
            "only floating-point weights can be added to",
        ),
    ],
)
def test_updates_that_do_not_fit(
    packages: Callable[[bool], Path], weights: Mapping[str, object], kind: str, message: str
) -> None:
    model = aot_runtime.load(packages(True))
    with pytest.raises(getattr(aot_runtime, kind), match=message):
        model.replace_weights(weights, partial=True)
