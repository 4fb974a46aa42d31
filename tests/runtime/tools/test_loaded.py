"""Which program of a plan runs, and what is said of it."""

import dataclasses
from types import SimpleNamespace

import pytest
from aot_runtime.tools.loaded import LoadedModel, default_device, program_of, supported_levels

from aot.errors import PackageError
from tests.link.plans import device_program, host_program, small_plan, wide_plan


def test_the_host_is_the_default_where_the_package_runs_there() -> None:
    assert default_device(wide_plan()) == "cpu"
    assert default_device(dataclasses.replace(wide_plan(), programs=(device_program(),))) == "cuda"


def test_the_program_of_the_loaded_architecture() -> None:
    programs = (host_program(), device_program("sm_80"), device_program("sm_90"))
    plan = dataclasses.replace(small_plan(), programs=programs)
    assert program_of(plan, "cuda", "sm_90") is programs[2]
    assert program_of(plan, "cuda", "sm_80") is programs[1]
    # A level is a library of the host's only program.
    assert program_of(plan, "cpu", "x86-64-v2") is programs[0]


@pytest.mark.parametrize(
    ("program", "isa", "place"),
    [(host_program(), "x86-64-v3", "x86-64-v3"), (device_program(), "sm_90", "cuda sm_90")],
)
def test_where_a_model_runs(program, isa: str, place: str) -> None:
    model = LoadedModel(wide_plan(), program, SimpleNamespace(isa=isa))
    assert model.place == place


def test_no_level_for_this_machine() -> None:
    plan = dataclasses.replace(small_plan(), programs=(device_program(),))
    with pytest.raises(PackageError, match="kernels for no CPU; this CPU has"):
        supported_levels(plan)
