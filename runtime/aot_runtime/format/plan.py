"""The execution plan as data: a mirror of the schema in docs/format.md, field for field.

Built by the driver from scheduled kernels, encoded by `plan_json`, checked by `plan_check`, read by
the runtime. Everything is frozen; positions in tuples are the indices that other parts refer to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from aot_runtime.format.errors import Origin
from aot_runtime.format.golden_sets import GoldenSet

FORMAT_VERSION = (1, 1)

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
    **dict.fromkeys(("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"), 1),
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "uint64": 8,
    "uint32": 4,
    "uint16": 2,
    **dict.fromkeys(("float8_e8m0fnu", "int8", "uint8", "bool"), 1),
}
"""Element types of buffers and entries, and their sizes in bytes."""


@dataclass(frozen=True)
class DimSource:
    """Where a dim comes from: value = (size of `axis` of input `input` - offset) / divisor."""

    input: int
    axis: int
    divisor: int = 1
    offset: int = 0


@dataclass(frozen=True)
class Dim:
    """A symbolic size that inputs, or steps of the programs, bind.

    Attributes:
        name: The symbol used in expressions.
        label: The user's word for it, used in messages.
        min: Least value, inclusive.
        max: Greatest value, inclusive; None for unbounded.
        multiple_of: The value is always a multiple of this.
        source: The input size that defines it; None: a `SizesStep` of each program does.
    """

    name: str
    label: str
    min: int
    max: int | None
    multiple_of: int
    source: DimSource | None


@dataclass(frozen=True)
class TensorSpec:
    """An input or output. Strides are in elements: the layout that kernels read or write.

    `changed`: a run leaves a new value in the caller's memory; of inputs only.
    """

    name: str
    dtype: str
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    changed: bool = False


@dataclass(frozen=True)
class StateSpec:
    """Memory that a session keeps from run to run; C-contiguous.

    Attributes:
        name: The model's name of the buffer.
        dtype: Of its elements.
        shape: Its sizes.
        entry: The package entry that holds its first value; "" when that is zeros.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    entry: str = ""


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
    """A dict whose keys are text or whole numbers, in the model's order."""

    items: tuple[tuple[str | int, Tree], ...]


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
    """The buffer is a temporary in the arena, placed as `Program.arena` says.

    Temporaries whose bytes need dims of a `SizesStep` lie in an arena of that step.
    """


@dataclass(frozen=True)
class StateStorage:
    """The buffer is state number `index` of the plan: memory that the session keeps."""

    index: int


@dataclass(frozen=True)
class SliceStorage:
    """The buffer is a part of buffer `of`: in turn k of a counted loop, at byte k * `stride`.

    `step`: the loop, a `RepeatStep`.
    """

    of: int
    stride: Expr
    step: int


Storage: TypeAlias = (
    InputStorage | OutputStorage | EntryStorage | ArenaStorage | StateStorage | SliceStorage
)


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
class OperatorLibrary:
    """A shared object with custom operators. The writer fills in `sha256`."""

    entry: str
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
        waits: It may start before the launch ahead of it has ended, and waits for that by itself.
        sha256: Of the entry; the writer fills it in.
    """

    entry: str
    symbol: str
    threads: int
    shared: int = 0
    scratch: int = 0
    scratch_alignment: int = 1
    faults: bool = False
    waits: bool = False
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
        values: What the variables of the kernel's declaration stand for.
    """

    kernel: int
    buffers: tuple[int, ...]
    sizes: tuple[Expr, ...]
    launch: WorkLaunch | GridLaunch
    origin: int
    values: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class Update:
    """Copies a buffer to an input's or a state's own memory when all steps have succeeded.

    The buffer has the layout that the plan gives the input; a state's is C-contiguous.
    """

    target: Literal["input", "state"]
    index: int
    buffer: int


@dataclass(frozen=True)
class Derived:
    """An entry that follows from the model's own weights.

    Attributes:
        entry: The package entry.
        sources: Names in `Plan.weights`, in the order of the routine's inputs.
        routine: Index into `WeightProgram.routines`.
    """

    entry: str
    sources: tuple[str, ...]
    routine: int


@dataclass(frozen=True)
class Routine:
    """Computes a derived entry, its one output, from weights, its inputs.

    Attributes:
        inputs: The weights that it takes.
        outputs: One: the entry.
        body: Buffers, arena and steps; all else is the program's that the routine belongs to.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    body: Program


@dataclass(frozen=True)
class WeightProgram:
    """How a program's derived entries are computed again when weights are replaced."""

    routines: tuple[Routine, ...]
    derived: tuple[Derived, ...]


@dataclass(frozen=True)
class BranchStep:
    """Runs the next `then` steps where `buffer` holds true, else the `otherwise` after them."""

    buffer: int
    then: int
    otherwise: int
    origin: int


@dataclass(frozen=True)
class WhileStep:
    """Runs the next `condition` steps; while they leave true in `buffer`, the `body` after them.

    The condition runs again after each body.
    """

    buffer: int
    condition: int
    body: int
    origin: int


@dataclass(frozen=True)
class RepeatStep:
    """Runs the next `body` steps `count` times."""

    count: Expr
    body: int
    origin: int


@dataclass(frozen=True)
class CopyStep:
    """Copies all bytes of buffer `source` to buffer `target`, which has as many."""

    source: int
    target: int
    origin: int


@dataclass(frozen=True)
class SizesStep:
    """Binds dims to the int64 numbers in buffers: (dim, buffer).

    They hold in the next `body` steps, and for the plan's outputs.
    """

    sizes: tuple[tuple[str, int], ...]
    body: int
    origin: int


@dataclass(frozen=True)
class CheckStep:
    """Fails the run with `message` where the bool in `buffer` is false."""

    buffer: int
    message: str
    origin: int


@dataclass(frozen=True)
class TensorOperand:
    """A buffer as a tensor of this shape, C-contiguous."""

    buffer: int
    shape: tuple[Expr, ...]


@dataclass(frozen=True)
class OperatorArgument:
    """An argument of a custom operator.

    `kind`: tensor, int, float, bool or string, which has one value; with "[]" a list of these; or
    none, which has no value. Values are TensorOperands, Exprs, floats, bools or strings.
    `changed`: of tensors, the operator changes them in place.
    """

    name: str
    kind: str
    values: tuple[TensorOperand | Expr | float | bool | str, ...]
    changed: bool = False


@dataclass(frozen=True)
class CallStep:
    """A custom operator, given by name, reads its arguments and fills `results`."""

    operator: str
    arguments: tuple[OperatorArgument, ...]
    results: tuple[TensorOperand, ...]
    origin: int


ControlStep: TypeAlias = (
    BranchStep | WhileStep | RepeatStep | CopyStep | SizesStep | CheckStep | CallStep
)
AnyStep: TypeAlias = Step | ControlStep


def parts_of(step: AnyStep) -> tuple[int, ...]:
    """How many of the steps that follow belong to the step, part by part."""
    match step:
        case BranchStep(_, then, otherwise):
            return then, otherwise
        case WhileStep(_, condition, body):
            return condition, body
        case RepeatStep(_, body) | SizesStep(_, body):
            return (body,)
    return ()


@dataclass(frozen=True)
class Program:
    """What runs on one architecture of one device: memory, code and launches.

    Attributes:
        device: The device's kind.
        arch: Its architecture; "" when `libraries` say which.
        buffers: Ranges of memory that the steps use.
        kernels: All kernels.
        steps: In order of execution; a step that has parts is followed by their steps.
        outputs: The buffer of each of the plan's outputs.
        arena: Where temporaries lie.
        libraries: All kernels' code, a library a level; none when kernels have code of their own.
        updates: What is copied when all steps have succeeded.
        operator_libraries: Where custom operators are looked for before the process is asked.
        weights: None where nothing is derived, or weights cannot be replaced.
    """

    device: str
    arch: str
    buffers: tuple[Buffer, ...]
    kernels: tuple[KernelRef, ...]
    steps: tuple[AnyStep, ...]
    outputs: tuple[int, ...]
    arena: tuple[ArenaSlot, ...] = ()
    libraries: tuple[Library, ...] = ()
    updates: tuple[Update, ...] = ()
    operator_libraries: tuple[OperatorLibrary, ...] = ()
    weights: WeightProgram | None = None

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
class WeightSpec:
    """One of the model's own weights, as whoever replaces weights must give it.

    Attributes:
        name: Its name in the model's state dict.
        dtype: Element type.
        shape: Sizes.
        aliases: Other names of the same tensor (tied weights).
        entry: The package entry that holds it; "" when only what is derived from it is stored.
        required: The model computes with it, and a state dict has it.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    aliases: tuple[str, ...]
    entry: str
    required: bool


@dataclass(frozen=True)
class Plan:
    """All that the runtime does, as data (docs/format.md, section "The plan").

    What callers see is common to all devices; each architecture has a program of its own, at most
    one. The package writer fills in `entries`: (entry name, sha256) of every entry but plan and
    pads. `weights` is empty unless weights can be replaced.
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
    states: tuple[StateSpec, ...] = ()
    weights: tuple[WeightSpec, ...] = ()
    entries: tuple[tuple[str, str], ...] = ()
    format: tuple[int, int] = FORMAT_VERSION
