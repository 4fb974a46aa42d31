"""The execution plan as data: a mirror of the schema in docs/format.md, field for field.

Built by the driver from scheduled kernels, encoded by `plan_json`, checked by `plan_check`, read by
the runtime. Everything is frozen; positions in tuples are the indices that other parts refer to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from aot.errors import Origin

FORMAT_VERSION = (1, 0)

Expr: TypeAlias = "int | str | tuple[Expr, ...] | list[Expr]"
"""An integer, the name of a dim, or (op, operand, operand, …) with op in `EXPR_OPS`.

Lists are taken as well as tuples; a plan that was read from JSON holds tuples."""

EXPR_OPS = ("+", "*", "min", "max", "//", "%")

Relation: TypeAlias = Literal["==", "<=", "<"]
RELATIONS: tuple[Relation, ...] = ("==", "<=", "<")

DTYPE_BYTES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}
"""Element types of a package and their sizes in bytes."""


@dataclass(frozen=True)
class DimSource:
    """Where a dim comes from: value = (size of `axis` of input `input` - offset) / divisor."""

    input: int
    axis: int
    divisor: int = 1
    offset: int = 0


@dataclass(frozen=True)
class Dim:
    """A symbolic size that inputs bind.

    Attributes:
        name: The symbol used in expressions.
        label: The user's word for it, used in messages.
        min: Least value, inclusive.
        max: Greatest value, inclusive; None for unbounded.
        multiple_of: The value is always a multiple of this.
        source: The input size that defines it.
    """

    name: str
    label: str
    min: int
    max: int | None
    multiple_of: int
    source: DimSource


@dataclass(frozen=True)
class TensorSpec:
    """An input or output. Strides are in elements: the layout that kernels read or write."""

    name: str
    dtype: str
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...]


@dataclass(frozen=True)
class TreeInput:
    """A leaf of the signature: input number `index`."""

    index: int


@dataclass(frozen=True)
class TreeOutput:
    """A leaf of the result: output number `index`."""

    index: int


@dataclass(frozen=True)
class TreeConstant:
    """A leaf that is no tensor: a fixed number, bool, string or None."""

    value: int | float | bool | str | None


@dataclass(frozen=True)
class TreeSequence:
    """A tuple or list of trees."""

    kind: Literal["tuple", "list"]
    items: tuple[Tree, ...]


@dataclass(frozen=True)
class TreeDict:
    """A dict with string keys, in the model's order."""

    items: tuple[tuple[str, Tree], ...]


Tree: TypeAlias = TreeInput | TreeOutput | TreeConstant | TreeSequence | TreeDict


@dataclass(frozen=True)
class Parameter:
    """A parameter of the model's `forward`; a positional one may be given by keyword too."""

    name: str
    kind: Literal["positional", "keyword"]
    tree: Tree


@dataclass(frozen=True)
class Signature:
    """How the caller's nested containers map to inputs, and outputs to the result."""

    parameters: tuple[Parameter, ...]
    result: Tree


@dataclass(frozen=True)
class InputStorage:
    """The buffer is input number `index`, in the plan's layout."""

    index: int


@dataclass(frozen=True)
class OutputStorage:
    """The buffer is output number `index`: a fresh tensor that the caller owns."""

    index: int


@dataclass(frozen=True)
class EntryStorage:
    """The buffer is read-only bytes of a package entry, from byte `offset`."""

    entry: str
    offset: int = 0


@dataclass(frozen=True)
class ArenaStorage:
    """The buffer is a temporary in the arena, placed as `Program.arena` says."""


Storage: TypeAlias = InputStorage | OutputStorage | EntryStorage | ArenaStorage


@dataclass(frozen=True)
class Buffer:
    """A range of memory that steps read and write; `bytes` is its size."""

    name: str
    dtype: str
    bytes: Expr
    storage: Storage


@dataclass(frozen=True)
class ArenaSlot:
    """Places a temporary: at or above the ends of all buffers in `above`, on 64 bytes."""

    buffer: int
    above: tuple[int, ...]


@dataclass(frozen=True)
class Library:
    """A shared object with all kernels, for one instruction set level.

    The writer fills in `sha256`.
    """

    entry: str
    isa: str
    sha256: str = ""


@dataclass(frozen=True)
class KernelCode:
    """Code of one kernel for a device that loads kernels one by one.

    Attributes:
        entry: The package entry that holds it.
        symbol: The function's name in it.
        threads: Threads of one block.
        shared: Bytes of dynamic shared memory of one block.
        scratch: Bytes of global scratch of one block.
        scratch_alignment: Of each block's scratch, a power of 2.
        faults: The kernel takes the address of a fault word after its buffers.
        sha256: Of the entry; the writer fills it in.
    """

    entry: str
    symbol: str
    threads: int
    shared: int = 0
    scratch: int = 0
    scratch_alignment: int = 1
    faults: bool = False
    sha256: str = ""


@dataclass(frozen=True)
class KernelRef:
    """A kernel. Without `code`, its position equals its position in each library's table."""

    name: str
    code: KernelCode | None = None


@dataclass(frozen=True)
class WorkLaunch:
    """A range of work that threads of the host share: how kernels of libraries are launched.

    Attributes:
        work: Number of independent work units; the step is skipped when it is 0.
        grain: Least number of units that are worth a thread of their own.
        scratch: Bytes that each worker needs.
    """

    work: Expr
    grain: Expr
    scratch: Expr


@dataclass(frozen=True)
class GridLaunch:
    """Blocks in three dimensions: how kernels with code of their own are launched.

    The step is skipped when a number is 0.
    """

    x: Expr
    y: Expr
    z: Expr


@dataclass(frozen=True)
class Step:
    """One launch.

    Attributes:
        kernel: Index into `Program.kernels`.
        buffers: Indices into `Program.buffers`, in the kernel's argument order.
        sizes: Values of the kernel's size arguments, in its order.
        launch: How much of it there is.
        origin: Index into `Plan.origins`: the line that a fault is blamed on.
    """

    kernel: int
    buffers: tuple[int, ...]
    sizes: tuple[Expr, ...]
    launch: WorkLaunch | GridLaunch
    origin: int


@dataclass(frozen=True)
class Program:
    """What runs on one architecture of one device: memory, code and launches.

    Attributes:
        device: The device's kind.
        arch: Its architecture; "" when `libraries` say which.
        buffers: Ranges of memory that the steps use.
        kernels: All kernels.
        steps: In order of execution.
        outputs: The buffer of each of the plan's outputs.
        arena: Where temporaries lie.
        libraries: All kernels' code, a library a level; none when kernels have code of their own.
    """

    device: str
    arch: str
    buffers: tuple[Buffer, ...]
    kernels: tuple[KernelRef, ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    arena: tuple[ArenaSlot, ...] = ()
    libraries: tuple[Library, ...] = ()

    @property
    def target(self) -> str:
        """Device and architecture as `--target` takes them: "cpu", "cuda:sm_90"."""
        return f"{self.device}:{self.arch}" if self.arch else self.device


@dataclass(frozen=True)
class Check:
    """A relation over dims that must hold at bind, with the message for when it does not."""

    left: Expr
    relation: Relation
    right: Expr
    message: str


@dataclass(frozen=True)
class GoldenSet:
    """Example inputs and the reference's outputs: entry names, and tolerances per output."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    atol: tuple[float, ...]
    rtol: tuple[float, ...]


@dataclass(frozen=True)
class Plan:
    """All that the runtime does, as data (docs/format.md, section "The plan").

    What callers see is common to all devices; each architecture has a program of its own, at most
    one. The package writer fills in `entries`: (entry name, sha256) of every entry but plan and
    pads.
    """

    compiler: str
    model: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    signature: Signature
    programs: tuple[Program, ...]
    origins: tuple[Origin, ...] = ()
    dims: tuple[Dim, ...] = ()
    checks: tuple[Check, ...] = ()
    golden: tuple[GoldenSet, ...] = ()
    entries: tuple[tuple[str, str], ...] = ()
    format: tuple[int, int] = FORMAT_VERSION
