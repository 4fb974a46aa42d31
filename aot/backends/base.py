"""What every backend offers: sources from kernels, and binaries from sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from aot_runtime.format.declarations import Declaration

from aot.ir.images import KernelImage
from aot.ir.kernels import Kernel, KernelGraph, Launch, MemoryPlan, launched
from aot.ir.machine import Machine
from aot.ir.weights import Derivation, Recipe
from aot.options import BuildOptions, Target

Array = np.ndarray[Any, Any]

UNNAMED = "@NAME@"
"""A function's name in a text that has none yet."""


@dataclass(frozen=True)
class KernelSource:
    """One compiled function. Kernels of equal text that declare the same share one.

    Attributes:
        name: Its name in the plan.
        text: The source.
        headers: What a C++ function includes.
        signature: Types of a device kernel's parameters in order, as its compiler spells them.
        options: What a device kernel is compiled with, such as ("num_warps", 4).
        faults: Whether the kernel reports wrong indices in the data.
        waits: Whether it may start before the launch ahead of it has ended: it waits by itself
            before it touches what that may write, and ends after it.
        declaration: What it is called with, and the memory that it touches then; None in sources
            that no package gets.
        tables: Types of C++ whose tables of micro-kernels it finds in another unit.
        unnamed: The text with `UNNAMED` for the name, by which equal functions of other models are
            known; "" where the text does for that.
    """

    name: str
    text: str
    headers: tuple[str, ...] = ()
    signature: tuple[str, ...] = ()
    options: tuple[tuple[str, int], ...] = ()
    faults: bool = False
    waits: bool = False
    declaration: Declaration | None = None
    unnamed: str = ""
    tables: tuple[str, ...] = ()


@dataclass(frozen=True)
class HostKernel:
    """What the host computes for another device, as a custom operator.

    Attributes:
        name: The operator's, made of its text.
        text: The source, with `UNNAMED` for the function's name.
        reads: Buffers that it reads.
        results: Buffers that it fills, which come after those.
        solver: The routine of the device's own library that computes the same, as the language of
            `text` says it; "" where there is none.
    """

    name: str
    text: str
    reads: int
    results: int
    solver: str


@dataclass(frozen=True)
class EmittedRoutine:
    """A routine of the weight program: its kernels, memory and launches."""

    graph: KernelGraph
    memory: MemoryPlan
    launches: tuple[Launch, ...]


@dataclass(frozen=True)
class EmittedGraph:
    """Sources of a kernel graph, in the order of every binary's table, and their launches.

    A kernel has a launch, or several of which the sizes of a run choose one (`Launch.when`); they
    are in the order of kernels.

    `graph`: what was emitted; launches refer to its buffers.
    `routines`, `derivations`: the weight program, where one is wanted; its functions come last.
    `host`: the kernels that the graph calls on the host.
    """

    graph: KernelGraph
    functions: tuple[KernelSource, ...]
    launches: tuple[Launch, ...]
    routines: tuple[EmittedRoutine, ...] = ()
    derivations: tuple[Derivation, ...] = ()
    host: tuple[HostKernel, ...] = ()

    def kernels(self) -> Iterator[tuple[Kernel, Launch]]:
        """Every launch with its kernel, the weight program's last."""
        yield from launched(self.graph.kernels, self.launches)
        for routine in self.routines:
            yield from launched(routine.graph.kernels, routine.launches)


@dataclass(frozen=True)
class KernelBinary:
    """All functions compiled for one architecture of a device: one library, or an image each."""

    device: str
    arch: str
    data: bytes
    images: tuple[KernelImage, ...] = ()


class Backend(Protocol):
    """Turns kernels into code for one kind of device. Implementations are frozen and stateless."""

    @property
    def name(self) -> str:
        """The backend's name in the registry."""

    def supports(self, target: Target) -> bool:
        """True when this backend makes code for the target's device and architectures."""

    def programs(self, target: Target) -> tuple[Target, ...]:
        """The target cut into those that get one program of the plan each.

        A program has one schedule; its binaries differ in code alone.
        """

    def machine(self, target: Target) -> Machine:
        """Facts for the scheduler's cost models."""

    def recipes(self) -> Mapping[str, Recipe]:
        """The functions that derived weights name."""

    def tools(self, target: Target, options: BuildOptions) -> tuple[tuple[str, str], ...]:
        """Name and version of each compiler that `compile` uses, for the package's provenance."""

    def begin(self, target: Target, options: BuildOptions) -> None:
        """Starts, beside the caller, what `compile` wants for any model; never fails."""

    def prepare(self, graph: KernelGraph, target: Target) -> KernelGraph:
        """The graph as this backend launches it, with its decisions.

        Weights that kernels want in another layout become derived weights (`recipes` computes
        them), memory that kernels want for themselves becomes buffers, and launches are joined.
        """

    def emit(self, graph: KernelGraph, target: Target) -> EmittedGraph:
        """Sources and launches of every kernel of a prepared graph. Deterministic; no effects."""

    def compile(
        self, source: EmittedGraph, target: Target, options: BuildOptions
    ) -> tuple[KernelBinary, ...]:
        """A binary for each architecture of the target, in its order.

        Raises:
            ToolchainError: No compiler was found, or it refused the source.
        """


class HostCalls(Protocol):
    """What the host computes for programs of other devices. Frozen and stateless."""

    def emit(self, graph: KernelGraph) -> tuple[KernelGraph, tuple[HostKernel, ...]]:
        """The graph with its calls of the host complete, and what they call, each kernel once."""

    def compile(self, kernels: Mapping[HostKernel, Sequence[str]], options: BuildOptions) -> bytes:
        """One library of custom operators with these kernels.

        Args:
            kernels: With the kinds of devices that call each.
            options: Of the build.

        Raises:
            ToolchainError: No compiler was found, or it refused a source.
        """
