"""Every kernel of every example compiles for two architectures, to code as it should be."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from aot.backends.base import EmittedGraph
from aot.backends.triton.backend import TritonBackend
from aot.backends.triton.compile import compile_kernels
from aot.frontend.capture import capture_file
from aot.frontend.ingest import ingest
from aot.lowering.lower import lower
from aot.options import Target, default_cache_dir, default_jobs, environment
from aot.schedule.fusion import fuse
from tests.backends.emitting import emit
from tests.backends.triton.disassembly import disassemble
from tests.schedule.graphs import run_passes

ROOT = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(p.parent.name for p in ROOT.glob("[01]*/model.py"))
ARCHS = ("sm_80", "sm_90")

SPILLED_BYTES = 128
"""Local memory that a thread may have: an address or two kept for after a loop."""

HALF = ("*fp16", "*bf16")


@cache
def lowered(example: str):
    """The example's loop graph."""
    graph, _ = ingest(capture_file(ROOT / example / "model.py"))
    return lower(graph)


def emitted(example: str, arch: str) -> EmittedGraph:
    """The example's kernels for an architecture."""
    backend, target = TritonBackend(), Target("cuda", (arch,))
    machine = backend.machine(target)
    return emit(backend, fuse(run_passes(lowered(example), machine), machine), target)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("example", EXAMPLES)
def test_every_kernel_compiles_to_good_code(example: str, arch: str) -> None:
    sources = emitted(example, arch).functions
    environ = environment()
    images = compile_kernels(sources, arch, default_jobs(environ), default_cache_dir(environ))
    for source, image in zip(sources, images, strict=True):
        machine = disassemble(image, arch)
        assert machine.local_bytes <= SPILLED_BYTES, source.text
        if "tl.dot(" in source.text:
            # The rest are loads of an epilogue, which may be of single elements. Taps and channels
            # of an image of few channels are walked as one, an element at a time.
            single = "= k % (" in source.text
            assert single or 2 * machine.vector_loads >= machine.loads, source.text
            in_half = any(kind in HALF for kind in source.signature)
            assert machine.uses_tensor_cores or not in_half, source.text
