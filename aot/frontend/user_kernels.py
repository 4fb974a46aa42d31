"""Calls of the model's own Triton kernels (`torch.library.wrap_triton`) in an exported program."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._higher_order_ops import triton_kernel_wrap
from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table
from torch._library.triton import triton_ops_to_kernels
from torch.export import ExportedProgram

from aot.errors import ExportError
from aot.frontend.context import Context, NodeCall
from aot.frontend.operators import is_given, operator_name
from aot.frontend.places import first_lines
from aot.frontend.triton_source import kernel_module, literal
from aot.ir.layouts import dense_or_row_major
from aot.ir.tensors import OperatorCall, SizeRelation, TensorType, ValueRef
from aot.ir.user_kernel import TRITON, UserKernel
from aot.options import GPU
from aot.symbolic import as_expr, integer

LAUNCH = "triton_kernel_wrapper_functional"
"""The target of such a call: `torch.export` makes what it writes its results."""

_INT32 = 2**31 - 1
_EMPTY = (
    "empty_like",
    "empty",
    "new_empty",
    "empty_strided",
    "new_empty_strided",
    "empty_permuted",
)
_OPTIONS = {"num_warps": 4, "num_stages": 3}
"""Of a kernel that says nothing else: Triton's own."""


def launches_kernels(program: ExportedProgram, operators: Sequence[str]) -> bool:
    """Whether calls of operators of Triton kernels are to be taken apart into the launches.

    Those that `--operator` names are called by their names; then all are.
    """
    names = {operator_name(n) for n in program.graph.nodes if n.op == "call_function"}
    own = names.intersection(triton_ops_to_kernels)
    return not any(is_given(str(name), operators) for name in own)


@contextmanager
def analysing_kernels() -> Iterator[None]:
    """Lets torch ask Triton what kernels write, also without a GPU.

    Raises:
        ExportError: A kernel does not compile; torch only logs that, and believes it to write all.
    """
    with _compiling_for_some_gpu(), _Complaints() as complaints:
        yield
    for record in complaints.records:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and type(error).__name__ == "CompilationError":
            raise ExportError(
                "a Triton kernel of the model does not compile", details=first_lines(error)
            ) from error


class _Complaints(logging.Handler):
    """What torch logs of its analysis of kernels, inside of the context."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self._logger = triton_kernel_wrap.log
        self._before = self._logger.level, self._logger.propagate

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps the record."""
        self.records.append(record)

    def __enter__(self) -> _Complaints:
        self._logger.addHandler(self)
        self._logger.propagate = False
        self._logger.setLevel(logging.WARNING)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.level, self._logger.propagate = self._before


@contextmanager
def _compiling_for_some_gpu() -> Iterator[None]:
    """A target for Triton's compiler where there is no GPU."""
    triton = sys.modules.get("triton")
    if triton is None or torch.cuda.is_available():
        yield
        return
    target = triton.backends.compiler.GPUTarget(GPU, 90, 32)
    triton.runtime.driver.set_active(_SomeGpu(target))
    try:
        yield
    finally:
        triton.runtime.driver.set_active(None)


@dataclass(frozen=True)
class _SomeGpu:
    """As much of a driver as it takes to compile. `target`: a GPU, as Triton names it."""

    target: Any

    def get_current_target(self) -> Any:
        """What an analysis of loads and stores is done for."""
        return self.target


def read_launch(context: Context, call: NodeCall) -> tuple[OperatorCall, dict[str, ValueRef]]:
    """The call of a kernel, and the new values of the tensors that it writes, by parameter.

    Raises:
        ValueError: A package cannot hold the call; the message says why.
    """
    given: Mapping[str, Any] = call.node.kwargs
    if given["tma_descriptor_metadata"]:
        raise ValueError("the host makes tensor descriptors for it; make them in the kernel")
    function, configs = _function(kernel_side_table.get_kernel(given["kernel_idx"]))
    config = configs[0]
    values = {
        **given["kwargs"],
        **kernel_side_table.get_constant_args(given["constant_args_idx"]),
        **(config.kwargs if config is not None else {}),
    }
    name = function.fn.__name__
    launch = _Launch(context, call, name, given["tensors_to_clone"])
    constants, arguments = [], []
    for parameter in function.params:
        if parameter.name not in values:
            continue  # it has a default
        value = values[parameter.name]
        if parameter.is_constexpr or _is_constant(parameter, value):
            constants.append((parameter.name, literal(value)))
        else:
            arguments.append((parameter.name, *launch.argument(parameter.name, value)))
    x, y, z = (as_expr(context.argument(size)) for size in given["grid"][0])
    options = tuple(sorted(_options(config).items()))
    text = kernel_module(function)
    kernel = UserKernel(TRITON, text, name, tuple(constants), (x, y, z), options, len(configs))
    origin = replace(call.origin, operator=name)
    made, changed = tuple(launch.made), tuple(launch.changed)
    op = OperatorCall(name, tuple(arguments), made, origin, changed, kernel)
    return op, launch.written


def _function(kernel: Any) -> tuple[Any, Sequence[Any]]:
    """The function of a kernel, and its configurations; None where it has none."""
    return (kernel.fn, kernel.configs) if hasattr(kernel, "configs") else (kernel, (None,))


def _is_constant(parameter: Any, value: Any) -> bool:
    """Whether Triton compiles a number into the kernel: None, and 1 where nothing forbids it."""
    number = isinstance(value, int) and not isinstance(value, bool)
    return value is None or (number and value == 1 and not parameter.do_not_specialize)


def _options(config: Any) -> dict[str, int]:
    if config is None:
        return dict(_OPTIONS)
    if getattr(config, "num_ctas", 1) not in (None, 1):
        raise ValueError("its programs share several processors (num_ctas)")
    options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
    most = getattr(config, "maxnreg", None)
    return {**options, "maxnreg": most} if most else options


class _Launch:
    """The arguments of one call. `made`, `changed`: as `OperatorCall` has them."""

    def __init__(
        self, context: Context, call: NodeCall, kernel: str, writes: Sequence[str]
    ) -> None:
        self._context, self._call, self._kernel, self._writes = context, call, kernel, writes
        self.made: list[str] = []
        self.changed: list[tuple[str, str]] = []
        self.written: dict[str, ValueRef] = {}

    def argument(self, name: str, value: Any) -> tuple[str, Any]:
        """Kind and value of an argument.

        Raises:
            ValueError: Tensors determine the number, or a package cannot hold the tensor.
        """
        if isinstance(value, torch.fx.Node) and isinstance(value.meta.get("val"), torch.Tensor):
            return "tensor", self._tensor(name, value)
        plain = self._context.argument(value)
        if isinstance(plain, bool):
            return "bool", plain
        if isinstance(plain, float):
            return "float", plain
        if isinstance(plain, (ValueRef, str, tuple)):
            raise ValueError(f"its argument {name} is a number that tensors determine")
        return self._int(name, plain)

    def _int(self, name: str, value: Any) -> tuple[str, Any]:
        """Numbers have 32 bits where they fit, as in a call by hand."""
        size = as_expr(value)
        if size.is_Integer:
            return ("int32" if -_INT32 - 1 <= int(size) <= _INT32 else "int64"), size
        message = f"the kernel {self._kernel} takes {name} as a number of 32 bits"
        self._context.measured.require(SizeRelation(size, "<=", integer(_INT32), message))
        return "int32", size

    def _tensor(self, name: str, node: torch.fx.Node) -> ValueRef:
        """A tensor in the strides that the kernel was told of.

        Raises:
            ValueError: It is a view with gaps, or its type has no counterpart.
        """
        wanted = self._context.type_of(node.meta["val"])
        if dense_or_row_major(wanted) != wanted:
            raise ValueError(f"its argument {name} is a view with gaps; make it contiguous")
        if name not in self._writes:
            return self._in_layout(self._context.argument(node), wanted)
        made = f"{self._call.name}.{name}"
        self._context.ops.declare(made, wanted)
        self.written[name] = ValueRef(made)
        if _is_empty(node):
            self.made.append(made)
        else:
            self.changed.append((made, self._context.argument(node).name))
        return ValueRef(made)

    def _in_layout(self, value: ValueRef, wanted: TensorType) -> ValueRef:
        ops = self._context.ops
        if ops.types[value.name] == wanted:
            return value
        name = f"{self._call.name}.copy{len(ops.written)}"
        return ops.call("aten.clone.default", (value,), name, wanted, self._call.origin)


def _is_empty(node: torch.fx.Node) -> bool:
    """Whether a tensor's elements mean nothing yet."""
    namespace, _, name = str(node.target).partition(".")
    return namespace == "aten" and name.partition(".")[0] in _EMPTY
