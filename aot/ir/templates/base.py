"""What every kind of template says of itself, and what a backend says of a kind that it has.

A kind is one class, in a file of its own beside this one: roles and attributes as fields, and as
methods what it computes, costs, wants of memory and becomes where no template serves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

import numpy as np

from aot.ir.dtypes import DType
from aot.ir.hints import Hints
from aot.ir.nests import Axis, Buffer, LoopNest, Store, View
from aot.ir.origin import Origin
from aot.ir.scalar import Node
from aot.ir.scalar import cast as converted
from aot.ir.templates.builder import NestBuilder
from aot.ir.tensors import Dim
from aot.symbolic import Expr, Ranges, Symbol, product

Array = np.ndarray[Any, Any]

Strides = Mapping[str, Sequence[Expr] | None]
"""By role: elements between neighbours along each axis of the operand; None for no plain view."""

SourceView = Callable[[View], View | None]
"""A view of a buffer that is itself a view of another: the same elements where that one is."""


@dataclass(frozen=True)
class RunningExtrema:
    """What a call finds along rows: the extremum so far, or with `places` where it was met.

    `rows` and `combine` ("max" or "min") say of what; `alone`: not from another call's extrema.
    """

    rows: View
    combine: str
    places: bool
    alone: bool

    @property
    def same(self) -> tuple[View, str]:
        """What calls for extrema and for their places have in common."""
        return self.rows, self.combine


@dataclass(frozen=True)
class Split:
    """What takes the place of one call.

    Attributes:
        ops: In order; the last one writes the call's output.
        choice: What was made of it, for the decision record.
        reason: Why.
    """

    ops: Sequence[LoopOp]
    choice: str
    reason: str


@dataclass(frozen=True)
class TemplateCall(ABC):
    """An operation with a hand-designed kernel: one class a kind.

    Fields of type View are operands, named by their roles; None stands for one that is not given.
    The other fields of a kind are its attributes.

    Attributes:
        name: Unique in the graph.
        output: Where the result goes; its axes are the result's.
        origin: Of the model.
    """

    name: str
    output: View
    origin: Origin

    kind: ClassVar[str]
    """As dumps, reports and messages call it."""
    broadcasts: ClassVar[frozenset[str]] = frozenset()
    """Roles of operands that may have stride 0 along all axes but the last."""
    changes: ClassVar[frozenset[str]] = frozenset()
    """Roles of operands that kernels write, too; nobody else reads what is left in them."""
    by_parts: ClassVar[bool] = False
    """Whether kernels that loop over points take epilogues of a part of each row of the result."""
    on_host: ClassVar[bool] = False
    """Whether the host computes it, between a device's launches: nothing is fused with it."""
    by_layout: ClassVar[bool] = False
    """Whether `expand` asks where operands lie, on devices that read neighbours as vectors."""
    follows: ClassVar[str] = ""
    """The role whose layout suits the result best; "": any layout is as good."""

    @property
    def scaled(self) -> tuple[str, int, int] | None:
        """The role, and its axis, that factors along an axis of the result can go into."""
        return None

    @property
    def clips(self) -> bool:
        """Whether an epilogue may read a part of the result, if work units store single points."""
        return False

    @property
    def row(self) -> Expr | None:
        """Elements of the rows that kernels hold or walk; None where no such thing is chosen."""
        return None

    @property
    def running_extrema(self) -> RunningExtrema | None:
        """What it finds of these, of whole rows."""
        return None

    @property
    def shortens(self) -> tuple[int, ...]:
        """Axes of the result along which kernels may end early: no other element changes."""
        return ()

    @cached_property
    def operands(self) -> tuple[tuple[str, View], ...]:
        """(role, view) of every operand that is given, in order."""
        own = ((f.name, getattr(self, f.name)) for f in _own_fields(self))
        return tuple((name, value) for name, value in own if isinstance(value, View))

    @cached_property
    def attributes(self) -> tuple[tuple[str, Any], ...]:
        """(name, value) of every attribute that is set, in order."""
        own = ((f.name, getattr(self, f.name)) for f in _own_fields(self))
        return tuple((k, v) for k, v in own if v is not None and not isinstance(v, View))

    def with_views(self, change: Callable[[str, View], View]) -> Self:
        """The call with each operand's view changed; itself where all stay."""
        changed = {role: change(role, view) for role, view in self.operands}
        if changed == dict(self.operands):
            return self
        return replace(self, **cast(dict[str, Any], changed))

    def stored(self, value: Node, builder: NestBuilder) -> Store:
        """The store of the result at a point of the output's axes."""
        dtype = builder.dtype(self.output.buffer)
        return Store(self.output.buffer, self.output.index, converted(value, dtype))

    def at_sizes(self, sizes: Mapping[Symbol, int]) -> Self:
        """The call with those of its attributes that are index expressions as numbers."""
        return self

    @property
    def is_partial(self) -> bool:
        """True where a nest adds up what it computes, in the order of memory of its own result."""
        return False

    # ---- float32 as TF32 ----

    def rounded(self) -> Self:
        """The call that may round its float32 operands to TF32; itself where kernels never do."""
        known = any(f.name == "precision" for f in fields(self))
        return replace(self, **cast(dict[str, Any], {"precision": "tf32"})) if known else self

    def rounded_as_eager(self, dims: Iterable[Dim]) -> Self:
        """The call that rounds at the sizes at which eager's libraries, allowed to, likely do."""
        return self.rounded()

    @property
    def rounding(self) -> str | None:
        """What float32 operands are rounded to ("tf32"); None: they are exact."""
        return dict(self.attributes).get("precision")

    @property
    def rounds(self) -> Expr | None:
        """1 at sizes at which float32 operands are rounded, else 0; None: `rounding` says it."""
        found: Expr | None = dict(self.attributes).get("rounded_where")
        return found

    # ---- what it computes and costs ----

    @abstractmethod
    def interpret(self, operands: Mapping[str, Array], shape: tuple[int, ...]) -> Array:
        """The result, of that shape, from the operands by role: float64, int64 or bool."""

    @abstractmethod
    def expand(self, builder: NestBuilder, support: Support[Any] | None) -> list[LoopOp]:
        """The same as loop nests. `support`: what the device has for this kind, if anything."""

    def flops(self) -> Expr:
        """Multiplications and additions; one for each result of a kind without them."""
        return product([axis.extent for axis in self.output.axes])

    def alone(self) -> Self:
        """The call without operands that only devices without a kernel for it need."""
        return self

    def better_as_nests(self, support: Support[Any], builder: NestBuilder) -> str:
        """Why the device's template should not compute it; "" where it should."""
        return ""

    # ---- what it wants of memory ----

    def walk(self, role: str, support: Support[Any], strides: Strides) -> tuple[Axis, ...] | None:
        """Axes of an operand, or of the "output", in the best order of memory, outermost first.

        `strides`: of the operands, where they are known. None where any plain view serves.
        """
        return None

    def stored_walk(
        self, role: str, support: Support[Any], strides: Strides
    ) -> tuple[Axis, ...] | None:
        """Axes of a weight in the order in which it had better be stored anew; None: it stays."""
        return None

    def followed(self, support: Support[Any]) -> str:
        """The role whose layout suits the result best on a device; "": any layout is as good."""
        return self.follows

    def packs(self, role: str, support: Support[Any]) -> bool:
        """Whether a weight of that role is stored anew for the kernel, so that any order serves."""
        return False

    def misfit(self, role: str, support: Support[Any], strides: Strides, hints: Hints) -> str:
        """Why the template cannot read an operand of these plain strides; "" when it can.

        `strides`: of the operands by role, and as "output" of what is stored of the result, where
        that is one order. `hints`: for a choice by typical sizes.
        """
        return ""

    def row_bytes(self, role: str, support: Support[Any], hints: Hints) -> int:
        """Bytes that an operand's rows had better start at multiples of; 1: anywhere.

        Where they do not, or may not, the operand is copied: it has to be worth that at `hints`.
        """
        return 1

    def row_words(self, role: str, support: Support[Any], hints: Hints) -> int:
        """Bytes that rows start at multiples of which are not worth that copy."""
        return self.row_bytes(role, support, hints)

    def line_bytes(self, role: str, support: Support[Any], hints: Hints) -> int:
        """Bytes that rows had better start at multiples of where that costs nothing; 1: anywhere.

        Weights are stored so when the package is built, and temporaries get such strides.
        """
        return 1

    # ---- what it may become ----

    def composed(
        self,
        source: SourceView,
        fits: Callable[[View], bool],
        ranges: Callable[..., Ranges],
    ) -> TemplateCall:
        """The call on other axes of its own, if only these let it see through views of operands.

        An operand that is a view of another buffer by plain strides is the caller's business.

        Args:
            source: The view of what a view's buffer is itself a view of; None when it is none.
            fits: Whether some layout of a view's buffer makes it plain strides.
            ranges: What is known of some axes and of the graph's dims.
        """
        return self

    @classmethod
    def joined(
        cls,
        first: TemplateCall,
        second: TemplateCall,
        support: Support[Any],
        strides: Callable[[View], Sequence[Expr] | None],
    ) -> TemplateCall | str | None:
        """One call of this kind for two, the second reading what the first writes.

        Args:
            first: The one whose result the other reads.
            second: The other.
            support: What the device has for this kind.
            strides: Along a view's axes, where its buffer has them by now.

        Returns:
            The call, or why there is none; None where the two are of other kinds.
        """
        return None

    def split(
        self, builder: NestBuilder, support: Support[Any], units: int, hints: Hints
    ) -> Split | None:
        """Several operations for a call that would leave the device idle; None: it stays.

        `units`: parallel work units from which a launch keeps the device busy.
        """
        return None


def _own_fields(call: TemplateCall) -> list[Any]:
    common = {f.name for f in fields(TemplateCall)}
    return [f for f in fields(call) if f.name not in common]


LoopOp = LoopNest | TemplateCall


@dataclass(frozen=True)
class Parts:
    """How a backend wants few long rows to be cut, so that they keep the device busy.

    Attributes:
        longest: Elements of a row that one work unit computes in less time than it takes to launch
            kernels for its parts.
        least: Elements of the shortest part.
        room: Parts in all, for each work unit from which a launch keeps the device busy.
    """

    longest: int
    least: int
    room: int

    def size(self, points: int, units: int) -> int:
        """Elements of the parts of so many elements: a power of two times the least."""
        part = self.least
        while part * self.room * units < points:
            part *= 2
        return part


K = TypeVar("K", bound=TemplateCall)


def takes_all(call: TemplateCall, buffers: Mapping[str, Buffer], hints: Hints) -> str:
    """Accepts every call."""
    return ""


@dataclass(frozen=True)
class Support(Generic[K]):
    """A kind of template that a backend has. Kinds that ask for more facts have their own class.

    Attributes:
        kind: The class of calls.
        accepts: Why the template does not take a call ("" when it does), from the call, the
            graph's buffers and the sizes' hints.
        takes_producer: It evaluates pointwise nests in place of loading an operand.
        any_view: It reads operands by their indices, also where these are no plain strides.
    """

    kind: type[K]
    accepts: Callable[[K, Mapping[str, Buffer], Hints], str] = takes_all
    takes_producer: bool = False
    any_view: bool = False

    def of_type(self, dtype: DType) -> Support[K]:
        """The same with what holds for operands of a type alone."""
        return self


def operand_dtype(call: TemplateCall, buffers: Mapping[str, Buffer]) -> DType:
    """The element type of the call's first operand."""
    return buffers[call.operands[0][1].buffer].dtype
