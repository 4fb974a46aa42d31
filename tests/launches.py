"""What launches of a kernel graph hold, for tests that expect one kind."""

from __future__ import annotations

from aot.ir.kernels import (
    Grid,
    Kernel,
    KernelGraph,
    Launch,
    NestKernel,
    TemplateKernel,
    WorkUnits,
    fused_parts,
)
from aot.ir.templates import TemplateCall
from aot.symbolic import Expr


def template_kernels(graph: KernelGraph) -> list[TemplateKernel]:
    """Every template kernel, parts of joined launches included, in order."""
    parts = (part for kernel in graph.kernels for part in fused_parts(kernel))
    return [part for part in parts if isinstance(part, TemplateKernel)]


def calls_of(graph: KernelGraph) -> list[TemplateCall]:
    """Every template call, in order."""
    return [kernel.template for kernel in template_kernels(graph)]


def nest_kernel(kernel: Kernel) -> NestKernel:
    """The kernel, which is one of loop nests alone."""
    assert isinstance(kernel, NestKernel)
    return kernel


def grid_of(launch: Launch) -> tuple[Expr, Expr, Expr]:
    """Program instances in three dimensions."""
    assert isinstance(launch.over, Grid)
    return launch.over.x, launch.over.y, launch.over.z


def units_of(launch: Launch) -> WorkUnits:
    """The work of a launch on threads."""
    assert isinstance(launch.over, WorkUnits)
    return launch.over
