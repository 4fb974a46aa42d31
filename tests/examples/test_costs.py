"""Models pay for nothing that they do not use: no complex numbers, transforms, solvers or calls."""

from __future__ import annotations

import pytest

from aot.backends.cpp.backend import CppBackend
from aot.options import Target
from aot.schedule.fusion import fuse
from tests.backends.emitting import emit
from tests.examples.test_gpu_code import lowered
from tests.schedule.graphs import run_passes

SMALL = ("01_mlp", "06_llama_style", "08_unet", "09_lstm", "10_resize")
"""Examples that are captured in no time; the others' kernels are of the same kinds."""

WORLDS = ("aot/linalg/", "aot/tmpl/fft", "aot/host/")
"""Headers of what the examples have no operator of."""


@pytest.mark.parametrize("example", SMALL)
def test_no_kernel_takes_code_of_worlds_that_the_model_does_not_know(example: str) -> None:
    backend, target = CppBackend(), Target("cpu", ("x86-64-v3",))
    machine = backend.machine(target)
    graph = emit(backend, fuse(run_passes(lowered(example), machine), machine), target)
    for source in graph.functions:
        assert not [h for h in source.headers if h.startswith(WORLDS)], source.text
        assert "complex" not in source.text
    assert graph.functions and not graph.host
