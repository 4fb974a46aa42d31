"""What every backend offers: sources from kernels, and binaries from sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from aot.ir.capabilities import Capabilities
from aot.ir.kernels import KernelGraph, Launch
from aot.options import BuildOptions, Target

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class KernelSource:
    """One compiled function: its name in the plan, its text, and the headers that it needs.

    Kernels of equal text share one.
    """

    name: str
    text: str
    headers: tuple[str, ...] = ()


@dataclass(frozen=True)
class EmittedGraph:
    """Sources of a kernel graph, in the order of every binary's table, and a launch per kernel.

    `graph`: the graph with the weights that the kernels want packed, as buffers and as derived
    weights (`Backend.recipes` computes them); launches refer to its buffers.
    """

    graph: KernelGraph
    functions: tuple[KernelSource, ...]
    launches: tuple[Launch, ...]


@dataclass(frozen=True)
class KernelBinary:
    """All functions compiled for one architecture of a device."""

    device: str
    arch: str
    data: bytes


class Backend(Protocol):
    """Turns kernels into code for one kind of device. Implementations are frozen and stateless."""

    @property
    def name(self) -> str:
        """The backend's name in the registry."""

    def supports(self, target: Target) -> bool:
        """True when this backend makes code for the target's device and architectures."""

    def capabilities(self, target: Target) -> Capabilities:
        """Facts for the scheduler's cost models."""

    def recipes(self) -> Mapping[str, Callable[..., np.ndarray[Any, Any]]]:
        """The functions that derived weights name: `pack(*sources, **params) -> array`."""

    def emit(self, graph: KernelGraph, target: Target) -> EmittedGraph:
        """Sources and launches of every kernel. Deterministic text; no effects."""

    def compile(
        self, source: EmittedGraph, target: Target, options: BuildOptions
    ) -> tuple[KernelBinary, ...]:
        """A binary for each architecture of the target, in its order.

        Raises:
            ToolchainError: No compiler was found, or it refused the source.
        """

    def cache_key(self, source: EmittedGraph, target: Target, options: BuildOptions) -> str:
        """Equal keys mean equal binaries: a hash of sources, headers, flags and compiler."""
