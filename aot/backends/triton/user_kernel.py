"""Kernels that the model brings along: a function around them that gives them their arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from aot.backends.triton.gpu import Gpu
from aot.backends.triton.kernel import NAME, EmittedKernel
from aot.backends.triton.text import index_text, literal, pointer_type, value_type
from aot.errors import InternalError
from aot.ir.dtypes import BOOL, FLOAT32, INT32, INT64, DType
from aot.ir.hints import Hints
from aot.ir.kernels import KernelGraph, ModelKernel
from aot.ir.tensors import ValueRef, names_in
from aot.symbolic import Symbol

_TYPES = {"int32": INT32, "int64": INT64, "float": FLOAT32, "bool": BOOL}
"""What Triton makes of the numbers that a kernel is launched with."""

_FLOAT8 = {
    "float8_e4m3fn": "*fp8e4nv",
    "float8_e5m2": "*fp8e5",
    "float8_e4m3fnuz": "*fp8e4b8",
    "float8_e5m2fnuz": "*fp8e5b16",
}
"""Triton's pointers to what our own kernels read as bytes."""


def emit_user_kernel(kernel: ModelKernel, graph: KernelGraph, _: Hints, gpu: Gpu) -> EmittedKernel:
    """A function that calls the kernel with numbers that are known, or computed from sizes.

    Raises:
        InternalError: The call has no kernel to launch.
    """
    call = kernel.call
    if call.kernel is None:
        raise InternalError(f"{kernel.name} launches no kernel")
    own = call.kernel
    buffers = tuple(dict.fromkeys(n for _, _, value in call.arguments for n in names_in(value)))
    sizes = _sizes(value for _, _, value in call.arguments)
    pointers = {name: f"p{k}" for k, name in enumerate(buffers)}
    names = {size: f"d{k}" for k, size in enumerate(sizes)}
    given = [f"{name}={_text(kind, v, pointers, names)}" for name, kind, v in call.arguments]
    given += [f"{name}={text}" for name, text in own.constants]
    parameters = (*pointers.values(), *names.values())
    types = (*(_pointer(graph.buffers[b].dtype) for b in buffers), *("i64" for _ in sizes))
    body = f"    {own.function}({', '.join(given)})\n"
    return EmittedKernel(
        f"{own.text}\n\n@triton.jit\ndef {NAME}({', '.join(parameters)}):\n{body}",
        parameters,
        types,
        own.options,
        faults=False,
        waits=False,
        buffers=buffers,
        sizes=sizes,
        grid=own.grid,
    )


def _pointer(dtype: DType) -> str:
    return _FLOAT8.get(dtype.name) or pointer_type(dtype)


def _sizes(values: Iterable[Any]) -> tuple[Symbol, ...]:
    """The dims that arguments name, sorted by name."""
    found = {s for value in values for s in getattr(value, "free_symbols", ())}
    return tuple(sorted(found, key=str))


def _text(kind: str, value: Any, pointers: Mapping[str, str], names: Mapping[Symbol, str]) -> str:
    if isinstance(value, ValueRef):
        return pointers[value.name]
    dtype = _TYPES[kind]
    if getattr(value, "free_symbols", ()):
        return f"({index_text(value, names)}).to({value_type(dtype)})"
    return literal(value if dtype.is_float else int(value), dtype)
