"""What the compiler makes of families for a GPU, without one: launches, bytes, registers, spills.

    python -m benchmarks.growth.code [--only REGEX] [--arch sm_90] [--times 1] [--spills]

A line for each launch at a family's largest size: programs, warps, the bytes of all buffers that it
touches, and of its machine code the registers of a thread, the bytes that did not fit into them and
the number of instructions. What it takes at least is its bytes at BANDWIDTH, or a launch.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from aot.backends.base import EmittedGraph
from aot.backends.triton.backend import TritonBackend
from aot.backends.triton.compile import try_compile
from aot.errors import AotError, KernelRefused
from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.ir.hints import Hints
from aot.ir.images import KernelImage
from aot.ir.kernels import Grid, Kernel, Launch, TemplateKernel
from aot.ir.tensors import Dim
from aot.ir.work import buffer_bytes
from aot.lowering.lower import lower_outline
from aot.lowering.outline import outline
from aot.options import Target, default_cache_dir, default_jobs, environment
from aot.passes.pipeline import run_passes
from aot.schedule.fusion import fuse
from aot.schedule.join import join
from aot.symbolic import dim, product
from benchmarks.growth.families import FAMILIES, scaled_families
from benchmarks.growth.family import Blank, Family
from tests.backends.triton.disassembly import MachineCode, disassemble
from tests.calls import Calls

BANDWIDTH = 4e12
"""Bytes a second that an H200 moves."""

LAUNCH = 3e-6
"""Seconds that a launch takes at least."""


@dataclass(frozen=True)
class LaunchFacts:
    """One launch of a family's program.

    Attributes:
        name: Of the kernel, with the kind of its template.
        programs: How many there are.
        nbytes: Of all buffers that it touches, each once.
        warps: Of a program.
        code: None where the kernel was not compiled; a message where it was refused.
    """

    name: str
    programs: int
    nbytes: int
    warps: int
    code: MachineCode | str | None

    @property
    def seconds(self) -> float:
        """What it takes at least."""
        return max(LAUNCH, self.nbytes / BANDWIDTH)

    @property
    def spilled(self) -> int:
        """Bytes of local memory of a thread."""
        return self.code.local_bytes if isinstance(self.code, MachineCode) else 0

    def line(self) -> str:
        """For a table."""
        text = "" if self.code is None else str(self.code)
        if isinstance(self.code, MachineCode):
            count = sum(self.code.instructions.values())
            text = f"{self.code.registers:4d} registers {self.spilled:5d} spilled {count:6d} instr"
        head = f"  {self.name:36s} {self.programs:9d} x {self.warps:2d}"
        return f"{head} {self.nbytes / 1e6:10.3f} MB {self.seconds * 1e6:8.1f} us  {text}"


def main() -> None:
    """Prints what is chosen."""
    options = _options()
    for family in [*FAMILIES, *(scaled_families() if options.rows else ())]:
        if not re.search(options.only, family.name):
            continue
        n = options.n or family.sizes("cuda")[-1]
        try:
            facts = list(family_facts(family, n, options.arch, compiles=not options.quick))
        except (AotError, RuntimeError) as error:
            print(f"{family.name}: {str(error).splitlines()[0][:100]}", flush=True)
            continue
        shown = [f for f in facts if f.spilled or not options.spills]
        if not shown:
            continue
        total, least = sum(f.nbytes for f in facts), sum(f.seconds for f in facts)
        print(
            f"{family.name} at {n}: {len(facts)} launches, {total / 1e6:.3f} MB, "
            f"{total / n:.1f} bytes for each of n, at least {least * 1e6:.1f} us",
            flush=True,
        )
        for fact in shown:
            print(fact.line(), flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="a regular expression of names")
    parser.add_argument("--rows", action="store_true", help="the tests' operator rows too, scaled")
    parser.add_argument("--arch", default="sm_90", help="an architecture, for example sm_80")
    parser.add_argument("--n", type=int, default=0, help="default: the largest size of each")
    parser.add_argument("--quick", action="store_true", help="compile no kernel")
    parser.add_argument("--spills", action="store_true", help="only launches that spill")
    return parser.parse_args()


def family_facts(family: Family, n: int, arch: str, *, compiles: bool) -> Iterator[LaunchFacts]:
    """The launches of a family at a size, in order.

    Raises:
        AotError: The problem cannot be packaged.
    """
    function, *args = family.problem(n, Blank())
    graph, _ = ingest(capture_module(Calls(function), args))
    backend, target = TritonBackend(), Target("cuda", (arch,))
    machine = backend.machine(target)
    loops = run_passes(lower_outline(outline(graph)), machine)
    kernels = join(loops.map(lambda part: fuse(part, machine)))
    emitted = backend.emit(backend.prepare(kernels, target), target)
    codes = _codes(emitted, arch) if compiles else {}
    hints = Hints({dim(d.name): _bound(d, n) for d in emitted.graph.dims})
    options = {f.name: dict(f.options) for f in emitted.functions}
    for kernel, launch in emitted.kernels():
        yield LaunchFacts(
            _label(kernel),
            _programs(launch, hints),
            sum(hints.value(buffer_bytes(emitted.graph.buffers[b])) for b in launch.buffers),
            int(options[launch.function].get("num_warps", 4)),
            codes.get(launch.function),
        )


def _bound(size: Dim, n: int) -> int:
    """A size that data decides is n, or as near as it can be."""
    return max(size.minimum, n if size.maximum is None else min(size.maximum, n))


def _label(kernel: Kernel) -> str:
    if isinstance(kernel, TemplateKernel):
        return f"{kernel.name} ({kernel.template.kind})"
    return kernel.name


def _programs(launch: Launch, hints: Hints) -> int:
    assert isinstance(launch.over, Grid)
    return hints.value(product((launch.over.x, launch.over.y, launch.over.z)))


def _codes(emitted: EmittedGraph, arch: str) -> dict[str, MachineCode | str]:
    """By function."""
    sources: Sequence[object] = emitted.functions
    environ = environment()
    made = try_compile(emitted.functions, arch, default_jobs(environ), default_cache_dir(environ))
    assert len(made) == len(sources)
    return {
        source.name: _code(image, arch)
        for source, image in zip(emitted.functions, made, strict=True)
    }


def _code(image: KernelImage | KernelRefused, arch: str) -> MachineCode | str:
    return str(image) if isinstance(image, KernelRefused) else disassemble(image, arch)


if __name__ == "__main__":
    main()
