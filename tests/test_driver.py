"""The driver with several targets: one package, a program each, weights stored once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aot_runtime
import numpy as np
import pytest
import torch
from aot_runtime.format.plan import EntryStorage, GridLaunch, WorkLaunch
from aot_runtime.format.reader import PackageFile

from aot import driver
from aot.backends.base import Backend, EmittedGraph, KernelBinary, KernelSource
from aot.backends.cpp.backend import CppBackend
from aot.backends.registry import backend_for
from aot.errors import PackageWriteError, UsageError
from aot.frontend.capture import Captured, capture_module
from aot.ir.images import KernelImage
from aot.ir.kernels import Grid, KernelGraph
from aot.ir.machine import Machine
from aot.options import ALL_CPU, BuildOptions, Target, merge_targets, parse_target
from aot.report.observers import Dump, Keep, Several, Verify
from aot.report.summary import partial_report
from aot.report.texts import stage_texts, verify_stage
from aot.symbolic import integer
from tests.settings import seeded

HOST = CppBackend()
TARGETS = ("cuda:sm_90", "cpu:x86-64-v2", "cuda:sm_80")


@dataclass(frozen=True)
class DeviceBackend:
    """Stands in for a device that loads kernels one by one: its code is the C++ text itself."""

    name: str = "fake"

    def supports(self, target: Target) -> bool:
        return target.device == "cuda"

    def programs(self, target: Target) -> tuple[Target, ...]:
        return tuple(Target(target.device, (arch,)) for arch in target.archs)

    def machine(self, target: Target) -> Machine:
        # Without templates no weight is packed: this device's schedule differs from the host's.
        return replace(HOST.machine(ALL_CPU), templates=())

    def recipes(self) -> Mapping[str, Callable[..., np.ndarray[Any, Any]]]:
        return {}

    def tools(self, target: Target, options: BuildOptions) -> tuple[tuple[str, str], ...]:
        return (("fakec", "1.0"),)

    def begin(self, target: Target, options: BuildOptions) -> None:
        """Nothing."""

    def prepare(self, graph: KernelGraph, target: Target) -> KernelGraph:
        return HOST.prepare(graph, ALL_CPU)

    def emit(self, graph: KernelGraph, target: Target) -> EmittedGraph:
        emitted = HOST.emit(graph, ALL_CPU)
        one = integer(1)
        grids = [Grid(integer(k + 1), one, one) for k in range(len(emitted.launches))]
        return replace(
            emitted,
            functions=tuple(_of_device(f, k + 1) for k, f in enumerate(emitted.functions)),
            launches=tuple(
                replace(launch, over=grid)
                for launch, grid in zip(emitted.launches, grids, strict=True)
            ),
        )

    def compile(
        self, source: EmittedGraph, target: Target, options: BuildOptions
    ) -> tuple[KernelBinary, ...]:
        (arch,) = target.archs
        images = tuple(
            KernelImage(
                f.name,
                f"{f.name}_{arch}",
                f"{arch} {f.text}".encode(),
                64,
                16,
                8,
                4,
                faults=True,
                waits=True,
            )
            for f in source.functions
        )
        return (KernelBinary(target.device, arch, b"", images),)


def _of_device(function: KernelSource, programs: int) -> KernelSource:
    """The function as one for a device that counts in grids."""
    assert function.declaration is not None
    grid = replace(function.declaration, grid=(programs, 1, 1), work=0, scratch=0)
    return replace(function, signature=("*fp32",), declaration=grid)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(seeded())
        self.linear = torch.nn.Linear(256, 256)
        self.scale = torch.nn.Parameter(torch.rand(256))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.linear(x) * self.scale, dim=-1)


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> Captured:
    def choose(target: Target) -> Backend:
        device = DeviceBackend()
        return device if device.supports(target) else backend_for(target)

    monkeypatch.setattr(driver, "backend_for", choose)
    return capture_module(Net(), (torch.randn(32, 256),), name="net")


def options(**choices: Any) -> BuildOptions:
    return BuildOptions(targets=merge_targets([parse_target(t) for t in TARGETS]), **choices)


def test_one_package_for_several_devices(captured: Captured, tmp_path: Path) -> None:
    path = tmp_path / "net.pkg"
    report = driver.build(captured, options(output=path))
    assert report.targets == ("cpu:x86-64-v2", "cuda:sm_80", "cuda:sm_90")
    with PackageFile(path) as file:
        plan, names = file.plan, list(file.entries)
    host, old, new = plan.programs
    assert [p.target for p in plan.programs] == ["cpu", "cuda:sm_80", "cuda:sm_90"]
    assert [library.isa for library in host.libraries] == ["x86-64-v2"]
    assert all(isinstance(step.launch, WorkLaunch) for step in host.steps)
    assert not new.libraries
    for program in (old, new):
        codes = [kernel.code for kernel in program.kernels]
        assert [c.entry for c in codes] == [
            f"kernels/cuda/{program.arch}/{kernel.name}" for kernel in program.kernels
        ]
        assert all(c.entry in names and c.symbol.endswith(program.arch) for c in codes)
        assert {(c.threads, c.shared, c.scratch, c.scratch_alignment) for c in codes} == {
            (64, 16, 8, 4)
        }
        assert all(c.faults and c.waits and len(c.sha256) == 64 for c in codes)
        assert [s.launch for s in program.steps] == [
            GridLaunch(k + 1, 1, 1) for k in range(len(program.steps))
        ]
    assert [p.target for p in report.programs] == [
        "cpu:x86-64-v2",
        "cuda:sm_80",
        "cuda:sm_90",
    ]
    assert [p.on_host for p in report.programs] == [True, False, False]
    assert [len(p.kernels) for p in report.programs] == [len(p.steps) for p in plan.programs]


def test_weights_are_stored_once(captured: Captured, tmp_path: Path) -> None:
    path = tmp_path / "net.pkg"
    driver.build(captured, options(output=path))

    def weights(program: Any) -> set[str]:
        return {b.storage.entry for b in program.buffers if isinstance(b.storage, EntryStorage)}

    with PackageFile(path) as file:
        host, old, new = (weights(program) for program in file.plan.programs)
        stored = {name for name in file.entries if name.startswith(("weights/", "packed/"))}
    assert old == new
    assert "weights/scale" in host & new
    assert any(name.startswith("packed/") for name in host - new)
    assert stored == host | new


def test_the_host_runs_a_package_for_several_devices(captured: Captured, tmp_path: Path) -> None:
    path = tmp_path / "net.pkg"
    driver.build(captured, options(output=path))
    x = np.random.default_rng(seeded()).standard_normal((32, 256)).astype(np.float32)
    with torch.no_grad():
        expected = Net()(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(aot_runtime.load(path)(x), expected, rtol=1e-4, atol=1e-6)


def test_programs_of_equal_machines_share_a_schedule(captured: Captured) -> None:
    kept = Keep()
    with pytest.raises(driver.Stopped):
        driver.build(captured, options(stop_after="plan_memory"), kept)
    for stage in ("passes", "fuse"):
        host, old, new = kept.values[stage].values
        assert old is new
        assert host is not new


def test_equal_builds_give_equal_bytes(captured: Captured, tmp_path: Path) -> None:
    for name in ("a.pkg", "b.pkg"):
        driver.build(captured, options(output=tmp_path / name))
    assert (tmp_path / "a.pkg").read_bytes() == (tmp_path / "b.pkg").read_bytes()


def test_every_program_is_dumped_and_verified(captured: Captured, tmp_path: Path) -> None:
    kept = Keep()
    observers = Several([Dump(tmp_path, stage_texts), Verify(verify_stage), kept])
    with pytest.raises(driver.Stopped):
        driver.build(captured, options(stop_after="emit"), observers)
    files = {path.name for path in tmp_path.iterdir()}
    assert "03_lower.txt" in files
    assert {f"05_fuse.{t}.txt" for t in ("cpu_x86-64-v2", "cuda_sm_80", "cuda_sm_90")} <= files
    assert {"06_prepare.cpu_x86-64-v2.txt", "06_prepare.cuda_sm_90.txt"} <= files
    assert {"08_emit.cpu_x86-64-v2.cc", "08_emit.cuda_sm_90.py"} <= files
    report = partial_report(kept.values, kept.timings)
    assert [p.target for p in report.programs] == ["cpu:x86-64-v2", "cuda:sm_80", "cuda:sm_90"]
    assert all(p.kernels for p in report.programs)


def test_a_report_counts_no_copies_of_weights_that_backends_pack(captured: Captured) -> None:
    counted = []
    for stage in ("fuse", "plan_memory"):
        kept = Keep()
        with pytest.raises(driver.Stopped):
            driver.build(captured, options(stop_after=stage), kept)
        counted.append(partial_report(kept.values, kept.timings).weight_bytes)
    assert counted[0] == counted[1]


def test_a_target_without_a_backend() -> None:
    with pytest.raises(UsageError, match="no backend makes code for tpu:v1"):
        driver.choose_programs([Target("tpu", ("v1",))])


def test_a_place_that_cannot_be_written_is_told_before_anything_is_done(tmp_path: Path) -> None:
    def capture() -> Captured:
        raise AssertionError("the model was captured")

    with pytest.raises(PackageWriteError, match="No such file or directory"):
        driver.build(capture, BuildOptions(output=tmp_path / "nowhere" / "m.pkg"))
