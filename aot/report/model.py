"""What the tools tell, as plain frozen data: filled by the driver, shown by the other modules."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from aot_runtime.html import table
from aot_runtime.tools.units import format_bytes, format_seconds

from aot.errors import Origin
from aot.ir.kernels import Decision

T = TypeVar("T")


@dataclass(frozen=True)
class PerProgram(Generic[T]):
    """What a stage gives: a value for each program of the plan, in its order.

    Attributes:
        names: The programs' targets, as `--target` takes them.
        values: One for each.
    """

    names: tuple[str, ...]
    values: tuple[T, ...]

    def __getitem__(self, index: int) -> T:
        """The value of program `index`."""
        return self.values[index]


@dataclass(frozen=True)
class Roofline:
    """What one thread can do at best: bytes and operations per second.

    Attributes:
        bytes_per_second: From memory.
        flops_per_second: Arithmetic.
        caches: Bytes that a cache holds, smallest first, and bytes per second from it.
    """

    bytes_per_second: float
    flops_per_second: float
    caches: tuple[tuple[int, float], ...] = ()

    def seconds(self, nbytes: int, flops: int) -> float:
        """The least time for moving and computing this much, overlapped, all of it in a cache."""
        fits = (speed for size, speed in self.caches if nbytes <= size)
        return max(nbytes / next(fits, self.bytes_per_second), flops / self.flops_per_second)


TYPICAL_CORE = Roofline(
    bytes_per_second=25e9,
    flops_per_second=200e9,
    caches=((1 << 15, 400e9), (1 << 20, 200e9), (1 << 25, 60e9)),
)
"""The best of a server core of today (AVX-512 of float32 at 3.2 GHz): no kernel is faster there.

That a kernel takes several times as long is usual; what it took is for `bench` to say.
"""


@dataclass(frozen=True)
class KernelReport:
    """One kernel.

    Attributes:
        name: The kernel's name in plan, profile and source.
        kind: "pointwise", "reduction", or the kind of its template.
        origins: Model places of everything fused into it, in program order, each once.
        operators: The ATen operators fused into it, in program order.
        nests: Names of its nests and template, as decisions name them.
        reads: Buffers it reads from memory.
        writes: Buffers it writes to memory.
        nbytes: Bytes of those buffers, at the example's sizes.
        flops: Arithmetic operations, at the example's sizes.
        text: The kernel in the printer's form.
    """

    name: str
    kind: str
    origins: tuple[Origin, ...]
    operators: tuple[str, ...]
    nests: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    nbytes: int
    flops: int
    text: str = ""


@dataclass(frozen=True)
class BufferReport:
    """Memory that kernels read or write.

    Attributes:
        name: The buffer's name.
        kind: "input", "output", "weight", "state", "temporary", or another word of the graph.
        nbytes: Its size at the example's sizes.
        offset: Where in the arena it lies; None of what lies elsewhere.
    """

    name: str
    kind: str
    nbytes: int
    offset: int | None = None


@dataclass(frozen=True)
class HostCallReport:
    """A call that a device leaves to the host, between two of its launches.

    Attributes:
        operation: What is computed, such as "linalg.solve".
        place: The model's file and line; "" where it has none.
        copied: Bytes of operands and results, which are copied, at the example's sizes.
        flops: As of kernels.
    """

    operation: str
    place: str
    copied: int
    flops: int

    def __str__(self) -> str:
        """For people."""
        at = f" at {self.place}" if self.place else ""
        return f"{self.operation}{at} ({format_bytes(self.copied)} copied)"


def as_file_name(target: str) -> str:
    """A target's name as part of a file's: "cuda_sm_80_sm_90"."""
    return target.replace(":", "_").replace("+", "_")


@dataclass(frozen=True)
class StageTime:
    """How long a stage took; `passes`: its passes in order, if it has any, of all programs."""

    stage: str
    seconds: float
    passes: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class ProgramReport:
    """What was built for one program of the plan.

    Attributes:
        target: Its target, as `--target` takes it.
        kernels: In the order of execution.
        decisions: Every choice, with verdict and reason.
        arena_bytes: Bytes of temporaries at the example's sizes.
        on_host: True when it runs on the machine's own processors.
        buffers: What its kernels read and write.
        host_calls: What it leaves to the host, in the order of execution.
    """

    target: str
    kernels: tuple[KernelReport, ...]
    decisions: tuple[Decision, ...]
    arena_bytes: int
    on_host: bool = True
    buffers: tuple[BufferReport, ...] = ()
    host_calls: tuple[HostCallReport, ...] = ()

    @property
    def operators(self) -> int:
        """Number of operators in its kernels."""
        return sum(len(kernel.operators) for kernel in self.kernels)


@dataclass(frozen=True)
class OperatorUse:
    """A custom operator that programs for a kind of device call.

    Attributes:
        name: "ns::name", or "ns::name.overload".
        device: The kind of device.
        library: The library that the package carries it in; "" when whoever loads the package
            gives it.
    """

    name: str
    device: str
    library: str

    def __str__(self) -> str:
        """For people."""
        home = f"in {self.library}" if self.library else "at load"
        return f"{self.name} on {self.device} ({home})"


@dataclass(frozen=True)
class BuildReport:
    """What a build did.

    Attributes:
        model: The model's name.
        output: The package, None when none was written.
        nbytes: The package's size, 0 when none was written.
        weight_bytes: Bytes of weights in it, packed ones included.
        targets: Names of the architectures it runs on.
        programs: One for each program of the plan: devices differ in what is fused.
        timings: Seconds a stage, in order.
        sizes: The example's sizes, dim label to value.
        operators: The custom operators that the model calls; the compiler's own are programs'
            `host_calls`.
        decided: Decisions on values that every run must take as the example does: what one that
            does not is told.
        measured: What was measured for this build on this machine's GPU, in lines.
    """

    model: str
    output: Path | None
    nbytes: int
    weight_bytes: int
    targets: tuple[str, ...]
    programs: tuple[ProgramReport, ...]
    timings: tuple[StageTime, ...]
    sizes: tuple[tuple[str, int], ...] = ()
    operators: tuple[OperatorUse, ...] = ()
    decided: tuple[str, ...] = ()
    measured: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Time of all stages."""
        return sum(t.seconds for t in self.timings)

    def _repr_html_(self) -> str:
        """For notebooks: what was made, and a row for each kernel."""
        rows = [
            (
                program.target,
                kernel.name,
                kernel.kind,
                ", ".join(dict.fromkeys(o.place for o in kernel.origins if o.place)),
                ", ".join(kernel.operators),
                format_bytes(kernel.nbytes),
                format_count(kernel.flops),
            )
            for program in self.programs
            for kernel in program.kernels
        ]
        caption = (
            f"{self.output or self.model}: {format_bytes(self.nbytes)} for "
            f"{', '.join(self.targets)}, in {format_seconds(self.seconds)}"
        )
        columns = ("program", "kernel", "kind", "model", "operators", "bytes", "operations")
        return table(caption, columns, rows)

    def to_json(self) -> dict[str, Any]:
        """Everything but the kernels' texts, as plain JSON values."""
        output = str(self.output) if self.output else None
        plain = {**asdict(self), "output": output}
        for program in plain["programs"]:
            for kernel in program["kernels"]:
                del kernel["text"]
        return plain


def format_count(count: float) -> str:
    """`count` with a decimal prefix and three digits: "2.5 G"."""
    for prefix in ("", " k", " M", " G"):
        if abs(count) < 1000:
            return f"{count:.3g}{prefix}"
        count /= 1000
    return f"{count:.3g} T"
