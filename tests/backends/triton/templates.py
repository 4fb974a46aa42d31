"""What tests of row templates and attention share: models of functions, their kernels and text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from aot.backends.base import EmittedGraph
from aot.backends.triton.backend import TritonBackend
from aot.backends.triton.compile import compile_kernels
from aot.frontend.capture import Captured, capture_module
from aot.frontend.ingest import ingest
from aot.frontend.weights import to_array
from aot.ir.kernels import KernelGraph
from aot.lowering.lower import lower_outline
from aot.lowering.outline import outline
from aot.options import Target, default_cache_dir, environment
from aot.schedule.fusion import fuse
from aot.schedule.join import join
from tests.backends.emitting import emit
from tests.backends.triton.disassembly import MachineCode, disassemble
from tests.calls import Calls
from tests.comparing import difference
from tests.conformance.executors import interpret_triton
from tests.launches import calls_of, template_kernels
from tests.rounding import slack
from tests.schedule.graphs import run_passes
from tests.settings import seeded

Args = tuple[torch.Tensor, ...]


def tensors(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Args:
    """Random tensors, the same ones for as many shapes."""
    generator = torch.Generator().manual_seed(seeded(len(shapes)))
    return tuple(torch.randn(*s, generator=generator).to(dtype) for s in shapes)


def qkv(
    batch: int,
    heads: int,
    queries: int,
    keys: int,
    size: int,
    value: int | None = None,
    shared: int | None = None,
    dtype: torch.dtype = torch.float32,
) -> Args:
    """Queries, keys and values; `shared`: heads of the latter two."""
    kv = shared or heads
    return tensors(
        (batch, heads, queries, size),
        (batch, kv, keys, size),
        (batch, kv, keys, value or size),
        dtype=dtype,
    )


def captured(function: Callable[..., Any], args: Args, dims: Any = None) -> Captured:
    # The arguments of `forward` are one parameter, a tuple.
    shapes = None if dims is None else (dims,)
    return capture_module(Calls(function), args, dynamic_shapes=shapes)


def kernels_of(model: Captured, arch: str = "sm_90") -> KernelGraph:
    machine = TritonBackend().machine(Target("cuda", (arch,)))
    parts = lower_outline(outline(ingest(model)[0]))
    return join(parts.map(lambda part: fuse(run_passes(part, machine), machine)))


def emitted(model: Captured, arch: str = "sm_90") -> EmittedGraph:
    return emit(TritonBackend(), kernels_of(model, arch), Target("cuda", (arch,)))


def template_kinds(model: Captured) -> list[str]:
    return [call.kind for call in calls_of(kernels_of(model))]


def machine_code(model: Captured, kind: str, arch: str) -> MachineCode:
    """The machine code of the last kernel with that template."""
    graph = emitted(model, arch)
    kernels = {k.name for k in template_kernels(graph.graph) if k.template.kind == kind}
    (*_, name) = [launch.function for launch in graph.launches if launch.kernel in kernels]
    (source,) = [f for f in graph.functions if f.name == name]
    (image,) = compile_kernels([source], arch, 1, default_cache_dir(environment()))
    return disassemble(image, arch)


def check_exact(model: Captured, function: Callable[..., Any], args: Args) -> None:
    """Every result is eager's, to the bit, NaN for NaN."""
    expected = _several(function(*args))
    found = interpret_triton(model, args)
    assert len(found) == len(expected)
    for got, wanted in zip(found, expected, strict=True):
        wide = np.float64 if wanted.dtype.is_floating_point else got.dtype
        exact = to_array(wanted)
        assert got.dtype == exact.dtype
        np.testing.assert_array_equal(got.astype(wide), exact.astype(wide))


def _is_exact(x: torch.Tensor) -> bool:
    return not (x.dtype.is_floating_point or x.is_complex())


def check_close(model: Captured, function: Callable[..., Any], args: Args) -> None:
    """Every result is the function's in double precision, as far as tests/comparing.py asks."""
    wide = [a if _is_exact(a) else a.to(torch.promote_types(a.dtype, torch.float64)) for a in args]

    def exact() -> list[torch.Tensor]:
        return list(_several(function(*wide)))

    found = interpret_triton(model, args)
    eager, references = _several(function(*args)), exact()
    assert len(found) == len(references)
    for k, (got, own, best) in enumerate(zip(found, eager, references, strict=True)):
        moved = partial(slack, exact, k, own.dtype)
        problem = difference(got, to_array(own), own.dtype, to_array(best), slack=moved)
        assert not problem, problem


def _several(result: Any) -> Sequence[torch.Tensor]:
    return result if isinstance(result, (tuple, list)) else (result,)
