"""Calls of routines of a library: what no loop nest says, an element of a batch at a time.

A *routine* is a row of a table (`ROUTINES` of the library's module), which is its contract: what it
is given, what it gives, what it costs and means. What a device runs for it is a row of a backend's
table, under the same name. A routine gives one *record* for each element of a batch: all its
results, its parts, one after the other in the type of its operands; results are views of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from aot.errors import MissingOperator, UnsupportedOperators
from aot.ir.nests import Buffer, View
from aot.ir.templates.base import Array, LoopOp, Support, TemplateCall
from aot.ir.templates.builder import NestBuilder
from aot.symbolic import Expr, integer, product

Shape = tuple[Expr, ...]


@dataclass(frozen=True)
class Sizes:
    """Sizes of one element of a call's batch: a is m x n, b has r columns (0 where there is none).

    A routine of vectors is given them as matrices of one row.
    """

    m: Expr
    n: Expr
    r: Expr


@dataclass(frozen=True)
class RoutineLibrary:
    """Where routines come from.

    Attributes:
        name: First part of its routines' names.
        version: Of what its routines promise; another one is another kernel.
        licence: Of the code that packages with such a call carry.
    """

    name: str
    version: int
    licence: str


RecordParts = Mapping[str, Shape]
"""The parts of a record, in order, and their shapes."""


@dataclass(frozen=True, repr=False)
class LibraryRoutine:
    """A contract.

    Attributes:
        library: Whose it is.
        name: In its library.
        parts: Of a record, from the sizes.
        compute: The parts of one element of a batch in NumPy, from a, b (None where there is none)
            and the call's options.
        flops: Of one element of a batch.
        roles: The operands; with "a_im" imaginary parts come apart.
        options: Which of the call's options it knows.
        instead: The same by nests and calls of other routines, where a device has no kernel of it.
    """

    library: RoutineLibrary
    name: str
    parts: Callable[[Sizes], RecordParts]
    compute: Callable[[Array, Array, frozenset[str]], Sequence[Array]]
    flops: Callable[[Sizes], Expr]
    roles: tuple[str, ...] = ("a",)
    options: frozenset[str] = frozenset()
    instead: Form | None = None

    def __repr__(self) -> str:
        return f"{self.library.name}.{self.name} (version {self.library.version})"

    def record(self, sizes: Sizes) -> Expr:
        """Elements of a record."""
        counts = [product(shape) for shape in self.parts(sizes).values()]
        return sum(counts, integer(0)).expand()

    def place(self, part: str, sizes: Sizes) -> tuple[Expr, Shape]:
        """Where a part begins in a record, and its shape.

        Raises:
            KeyError: The routine has no such part.
        """
        before = integer(0)
        for name, shape in self.parts(sizes).items():
            if name == part:
                return before.expand(), shape
            before += product(shape)
        raise KeyError(part)


Form = Callable[["LibraryCall", NestBuilder], list[LoopOp]]
"""What a call becomes where there is no kernel."""


@dataclass(frozen=True)
class LibraryCall(TemplateCall):
    """a (batch, m, n) and perhaps b (batch, its rows, r) -> output (batch, record).

    Attributes:
        a: The first operand.
        routine: What is called.
        b: The second operand, of a's type.
        a_im: Imaginary parts of a, where the routine takes them apart.
        b_im: Those of b.
        options: Of those that the routine knows.
    """

    kind: ClassVar[str] = "library"
    by_parts: ClassVar[bool] = True

    a: View
    routine: LibraryRoutine
    b: View | None = None
    a_im: View | None = None
    b_im: View | None = None
    options: tuple[str, ...] = ()

    @property
    def sizes(self) -> Sizes:
        """Of one element of the batch; rows of a complex matrix are those of both parts."""
        _, m, n = (axis.extent for axis in self.a.axes)
        rows = m if self.a_im is None else (2 * m).expand()
        return Sizes(rows, n, integer(0) if self.b is None else self.b.axes[2].extent)

    def interpret(self, operands: Mapping[str, Array], shape: tuple[int, ...]) -> Array:
        """Record by record."""
        a = _with_imaginary(operands, "a")
        b = _with_imaginary(operands, "b") if "b" in operands else a
        out = np.zeros(shape)
        for k in range(shape[0]):
            parts = self.routine.compute(a[k], b[k], frozenset(self.options))
            out[k] = np.concatenate([np.ravel(part) for part in parts])
        return out

    def flops(self) -> Expr:
        """Of all elements of the batch."""
        return product((self.a.axes[0].extent, self.routine.flops(self.sizes)))

    def expand(self, builder: NestBuilder, support: Support[Any] | None) -> list[LoopOp]:
        """By the host, or by other routines; there is no form as loop nests alone.

        Raises:
            UnsupportedOperators: Neither the device nor the routine says how.
        """
        if isinstance(support, LibrarySupport) and support.leaves_to_host(self, builder.buffers):
            return [HostCall(**{f.name: getattr(self, f.name) for f in fields(self)})]
        if self.routine.instead is not None:
            return self.routine.instead(self, builder)
        reason = f"one of the targets has no kernel for the routine {self.routine!r}"
        refused = support and support.accepts(self, builder.buffers, builder.hints)
        if refused:
            reason += f": {refused}"
        advice = "Package for the CPU alone (--target cpu), or split the model before this operator"
        operator = self.origin.operator or repr(self.routine)
        raise UnsupportedOperators([MissingOperator(operator, (self.origin,), reason, advice)])


@dataclass(frozen=True)
class HostCall(LibraryCall):
    """A call that a device leaves to the host: operands and records are copied between the two."""

    kind: ClassVar[str] = "host"
    by_parts: ClassVar[bool] = False
    on_host: ClassVar[bool] = True


def on_no_host(call: LibraryCall, buffers: Mapping[str, Buffer]) -> bool:
    """Leaves no call to the host."""
    return False


@dataclass(frozen=True)
class LibrarySupport(Support[LibraryCall]):
    """What a backend has for calls of routines.

    Attributes:
        leaves_to_host: Of the calls that it does not take, which the host computes.
    """

    leaves_to_host: Callable[[LibraryCall, Mapping[str, Buffer]], bool] = on_no_host


def _with_imaginary(operands: Mapping[str, Array], role: str) -> Array:
    """An operand with its imaginary parts below it, if these come apart."""
    parts = [operands[name] for name in (role, f"{role}_im") if name in operands]
    return np.concatenate(parts, axis=1)
