"""`explain`: what became one kernel and what did not, and why, as text."""

from __future__ import annotations

from collections.abc import Iterator

from aot_runtime.tools.units import format_bytes, format_seconds

from aot.errors import Origin
from aot.report.model import BuildReport, KernelReport, ProgramReport, Roofline, format_count


def explain_text(report: BuildReport, roofline: Roofline | None = None) -> str:
    """The whole explanation; deterministic unless a measured roofline adds times.

    Args:
        report: What the build did.
        roofline: When given, each kernel of the host shows the least time that it could take.
    """
    return "\n".join(_lines(report, roofline)) + "\n"


def _lines(report: BuildReport, roofline: Roofline | None) -> Iterator[str]:
    yield report.model
    if report.sizes:
        yield "sizes: " + ", ".join(f"{name} = {value}" for name, value in report.sizes)
    for program in report.programs:
        yield ""
        yield from _program_lines(program, roofline if program.on_host else None)


def _program_lines(program: ProgramReport, roofline: Roofline | None) -> Iterator[str]:
    count = len(program.kernels)
    yield (
        f"{program.target}: {program.operators} operators in {count} "
        f"kernel{'s' if count != 1 else ''}"
    )
    yield f"memory between kernels: {format_bytes(program.arena_bytes)}"
    for call in program.host_calls:
        yield f"on the host, between launches: {call}, {format_count(call.flops)} flops"
    for kernel in program.kernels:
        yield ""
        yield from kernel_lines(kernel, roofline)
    for stage in dict.fromkeys(decision.stage for decision in program.decisions):
        yield ""
        yield f"decisions of {stage}"
        for decision in program.decisions:
            if decision.stage == stage:
                subject = " with ".join(short_group(name) for name in decision.subject)
                yield f"  {subject}: {decision.verdict}: {decision.reason}"


def kernel_lines(kernel: KernelReport, roofline: Roofline | None) -> Iterator[str]:
    """One kernel: its head line, its reads and writes, and the model lines it comes from."""
    cost = f"{format_bytes(kernel.nbytes)}, {format_count(kernel.flops)} flops"
    if roofline is not None:
        cost += f", at least {format_seconds(roofline.seconds(kernel.nbytes, kernel.flops))}"
    yield f"{kernel.name} ({kernel.kind}): {cost}"
    yield f"  reads {', '.join(kernel.reads) or 'nothing'}; writes {', '.join(kernel.writes)}"
    yield f"  nests {', '.join(kernel.nests)}"
    for place, operators in places(kernel):
        yield f"  {place}"
        yield f"      {', '.join(operators)}"


def places(kernel: KernelReport) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The model lines of a kernel with the operators that each brought, in program order."""
    lines: dict[str, list[Origin]] = {}
    for origin in kernel.origins:
        lines.setdefault(origin.place, []).append(origin)
    for place, origins in lines.items():
        code = next((o.code for o in origins if o.code != place), "")
        operators = dict.fromkeys(o.operator for o in origins if o.operator)
        yield f"{place or 'made by the compiler'}  {code}".rstrip(), tuple(operators)


def short_group(name: str) -> str:
    """A group of nests by its first and last: "t0+…+n9 (7 nests)"; short ones as they are."""
    members = name.split("+")
    if len(members) <= 3:
        return name
    return f"{members[0]}+…+{members[-1]} ({len(members)} nests)"
