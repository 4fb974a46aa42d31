"""CPU levels: what they are, and packages in which they have schedules of their own."""

from dataclasses import replace
from pathlib import Path

import aot_runtime
import numpy as np
import pytest
import torch
from aot_runtime.format.reader import PackageFile
from aot_runtime.tools.loaded import program_of, supported_levels

from aot import driver
from aot.backends.cpp.backend import CppBackend
from aot.backends.cpp.levels import LEVELS
from aot.frontend.capture import capture_module
from aot.options import ALL_CPU, CPU_LEVELS, BuildOptions, Target

LANES = (4, 8, 8)
APART = CppBackend(tuple(replace(u, lanes=n) for u, n in zip(LEVELS, LANES, strict=True)))
"""As if the narrowest level were better with a schedule of its own."""


class Resized(torch.nn.Module):
    """Panels of a resize are as wide as vectors are; the weight is another one at either width."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        up = torch.nn.functional.interpolate(x, (5, 48), mode="bilinear", align_corners=False)
        return torch.nn.functional.softmax(up, -1)


def test_levels_are_those_of_the_command_line() -> None:
    assert tuple(level.name for level in LEVELS) == CPU_LEVELS
    widths = [level.register_bytes for level in LEVELS]
    assert widths == sorted(set(widths))


def test_levels_of_equal_machines_share_a_program() -> None:
    assert CppBackend().programs(ALL_CPU) == (ALL_CPU,)
    narrow, wide = APART.programs(ALL_CPU)
    assert (narrow.archs, wide.archs) == (CPU_LEVELS[:1], CPU_LEVELS[1:])
    assert [APART.machine(part).lanes for part in (narrow, wide)] == [4, 8]
    assert not CppBackend(LEVELS[:1]).supports(ALL_CPU)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("levels") / "resized.pkg"
    captured = capture_module(Resized().eval(), (torch.ones(2, 3, 7, 20),))
    options = BuildOptions(targets=(Target("cpu", CPU_LEVELS[:2]),), output=path)
    driver.build(captured, options, choose=lambda _: APART)
    return path


def test_the_plan_has_a_program_for_each_schedule(package: Path) -> None:
    with PackageFile(package) as file:
        plan = file.plan
    assert [(p.device, p.arch) for p in plan.programs] == [("cpu", a) for a in CPU_LEVELS[:2]]
    assert [[u.isa for u in p.libraries] for p in plan.programs] == [[a] for a in CPU_LEVELS[:2]]
    for level, program in zip(CPU_LEVELS, plan.programs, strict=False):
        assert program_of(plan, "cpu", level) is program


def test_each_level_runs_its_own_program(package: Path) -> None:
    x = torch.randn(2, 3, 7, 20)
    expected = Resized()(x).numpy()
    with PackageFile(package) as file:
        levels = supported_levels(file.plan)
    for level in levels:
        model = aot_runtime.load(str(package), isa=level)
        assert model.isa == level
        np.testing.assert_allclose(model(x.numpy()), expected, rtol=1e-5, atol=1e-6)
    assert aot_runtime.load(str(package)).isa == levels[-1]
