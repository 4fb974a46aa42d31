"""What every stage's value looks like as text, for `--dump`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from aot_runtime.format.plan import Plan
from aot_runtime.format.plan_json import plan_text

from aot.ir.flow import Outline, parts_of
from aot.ir.kernels import KernelGraph, MemoryPlan
from aot.ir.loops import LoopGraph
from aot.ir.printer import (
    print_kernels,
    print_loops,
    print_memory,
    print_outline,
    print_tensors,
)
from aot.ir.tensors import TensorGraph
from aot.ir.verify import verify_kernels, verify_loops
from aot.ir.verify_tensors import verify_tensors
from aot.link.plan_check import check_plan
from aot.report.model import PerProgram, as_file_name


@runtime_checkable
class SourceText(Protocol):
    """A function as a backend emits it."""

    @property
    def name(self) -> str:
        """The function's name in the plan."""

    @property
    def text(self) -> str:
        """Its source."""

    @property
    def signature(self) -> tuple[str, ...]:
        """Types of its parameters where the source is Python; empty for C++."""


class HostText(Protocol):
    """A source of what a device's program calls on the host."""

    @property
    def name(self) -> str:
        """The operator's."""

    @property
    def text(self) -> str:
        """C++ without a name."""


@runtime_checkable
class Emitted(Protocol):
    """What `emit` gives: sources of functions."""

    @property
    def functions(self) -> Sequence[SourceText]:
        """In the order of the table."""

    @property
    def host(self) -> Sequence[HostText]:
        """Of what is called on the host."""


@runtime_checkable
class Exported(Protocol):
    """What `capture` gives: a program of torch's, which prints itself."""

    @property
    def program(self) -> object:
        """The program."""


@runtime_checkable
class HasPlan(Protocol):
    """What `assemble` gives: a plan and entries."""

    @property
    def plan(self) -> Plan:
        """The plan, its hashes still empty."""


def stage_texts(value: object) -> dict[str, str]:
    """The text of a stage's value by file suffix; empty for one without a text form (binaries).

    Suffixes of several programs begin with their targets: "cuda_sm_90.txt".
    """
    match value:
        case PerProgram(_, (only,)):
            return stage_texts(only)
        case PerProgram(names, values):
            return {
                f"{as_file_name(name)}.{suffix}": text
                for name, one in zip(names, values, strict=True)
                for suffix, text in stage_texts(one).items()
            }
        case TensorGraph():
            return {"txt": print_tensors(value)}
        case LoopGraph():
            return {"txt": print_loops(value)}
        case Outline():
            return {"txt": print_outline(value)}
        case KernelGraph():
            return {"txt": print_kernels(value)}
        case MemoryPlan():
            return {"txt": print_memory(value)}
        case (TensorGraph() as graph, _):
            return {"txt": print_tensors(graph)}
        case Emitted():
            on_host = "\n".join(f"// {kernel.name}\n{kernel.text}" for kernel in value.host)
            return _sources(value.functions) | ({"host.cc": on_host} if on_host else {})
        case HasPlan():
            return {"json": plan_text(value.plan)}
        case Exported():
            return {"txt": f"{value.program}\n"}
    return {}


def _sources(functions: Sequence[SourceText]) -> dict[str, str]:
    python = any(source.signature for source in functions)
    suffix, comment = ("py", "#") if python else ("cc", "//")
    return {suffix: "\n".join(f"{comment} {s.name}\n{s.text}" for s in functions)}


def verify_stage(value: object) -> None:
    """Check the invariants of a stage's value.

    Raises:
        InternalError: Names what is broken.
    """
    match value:
        case PerProgram(_, values):
            for one in values:
                verify_stage(one)
        case (TensorGraph() as graph, _):
            verify_tensors(graph)
        case LoopGraph():
            verify_loops(value)
        case Outline():
            for part in parts_of(value.flow):
                verify_stage(part)
        case KernelGraph():
            verify_kernels(value)
        case HasPlan():
            check_plan(value.plan)
