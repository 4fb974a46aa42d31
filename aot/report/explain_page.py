"""The page of `explain --html`: what a build decided."""

from __future__ import annotations

from itertools import accumulate, pairwise

from aot_runtime.tools.units import format_bytes, format_seconds

from aot.report.explain import places
from aot.report.model import BuildReport, KernelReport, ProgramReport, Roofline, format_count
from aot.report.page import Page, PageKernel, PageProgram, TimelineEvent


def explain_page(report: BuildReport, roofline: Roofline) -> Page:
    """What the page shows.

    Args:
        report: What the build did.
        roofline: The machine that the host's kernels get their least times for.
    """
    sizes = ", ".join(f"{name} = {value}" for name, value in report.sizes)
    weights = f"{format_bytes(report.weight_bytes)} of weights"
    return Page(
        model=report.model,
        title="explained",
        facts=(f"{weights}, at {sizes}." if sizes else f"{weights}.",),
        programs=tuple(_program(program, roofline) for program in report.programs),
        rows=tuple((t.stage, format_seconds(t.seconds)) for t in report.timings),
        rows_title="Time of the build",
    )


def _program(program: ProgramReport, roofline: Roofline) -> PageProgram:
    kernels = tuple(_kernel(k, roofline if program.on_host else None) for k in program.kernels)
    facts = [
        f"{program.operators} operators in {len(kernels)} kernels; "
        f"{format_bytes(program.arena_bytes)} between kernels."
    ]
    if program.on_host:
        facts.append(
            "Times are the least by bytes and operations, on "
            f"{format_bytes(roofline.bytes_per_second)}/s and "
            f"{format_count(roofline.flops_per_second)}flop/s; bench --html shows measured ones."
        )
    return PageProgram(
        title=program.target,
        facts=tuple(facts),
        kernels=kernels,
        buffers=program.buffers,
        events=_one_after_the_other(kernels) if program.on_host else (),
        decisions=program.decisions,
    )


def _kernel(kernel: KernelReport, roofline: Roofline | None) -> PageKernel:
    details = f"nests {', '.join(kernel.nests)}"
    return PageKernel(
        name=kernel.name,
        kind=kernel.kind,
        places=tuple(places(kernel)),
        reads=kernel.reads,
        writes=kernel.writes,
        nbytes=kernel.nbytes,
        flops=kernel.flops,
        least=None if roofline is None else roofline.seconds(kernel.nbytes, kernel.flops),
        details=f"{details}\n\n{kernel.text}".strip(),
    )


def _one_after_the_other(kernels: tuple[PageKernel, ...]) -> tuple[TimelineEvent, ...]:
    """A timeline of the least times."""
    ends = [0.0, *accumulate(kernel.least or 0.0 for kernel in kernels)]
    return tuple(
        TimelineEvent(kernel.name, "least times", begin, end, index)
        for index, (kernel, (begin, end)) in enumerate(zip(kernels, pairwise(ends), strict=True))
    )
