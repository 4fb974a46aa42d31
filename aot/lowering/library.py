"""Calls of routines on batches of matrices, and the parts of what they give as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from aot.ir.dtypes import FLOAT32, FLOAT64, DType
from aot.ir.nests import View
from aot.ir.scalar import cast
from aot.ir.templates.library import LibraryCall, LibraryRoutine, Sizes
from aot.lowering.builder import Tensor
from aot.lowering.registry import CannotLower
from aot.lowering.reshape import reshape_index
from aot.symbolic import Expr, product, ravel

Shape = tuple[Expr, ...]


@dataclass(frozen=True)
class Matrices:
    """A tensor as a batch of matrices.

    Attributes:
        tensor: Its last two dimensions are the matrices'.
        turned: Whether it is the transposed matrices that are meant.
    """

    tensor: Tensor
    turned: bool = False

    @property
    def batch(self) -> Shape:
        """The dimensions before the matrices'."""
        return self.tensor.shape[:-2]

    @property
    def rows(self) -> Expr:
        """Rows of each."""
        return self.tensor.shape[-1 if self.turned else -2]

    @property
    def columns(self) -> Expr:
        """Columns of each."""
        return self.tensor.shape[-2 if self.turned else -1]

    @property
    def mt(self) -> Matrices:
        """The transposed matrices."""
        return replace(self, turned=not self.turned)

    def view(self, batch: Shape) -> View:
        """As an operand of a routine, its batch broadcast to that shape."""
        x, builder = self.tensor, self.tensor.builder
        whole = (*batch, self.rows, self.columns)
        flat = (product(batch), self.rows, self.columns)
        index = reshape_index(builder.ranges, whole, flat)

        def own(at: Shape) -> Shape:
            *outer, row, column = index(at)
            place = outer[len(outer) - len(self.batch) :]
            kept = (
                builder.zero if size == 1 else i for i, size in zip(place, self.batch, strict=True)
            )
            return (*kept, column, row) if self.turned else (*kept, row, column)

        return builder.view(x, flat, own)


@dataclass(frozen=True)
class Records:
    """What a call gave: records (batch, record).

    Attributes:
        records: All of them.
        routine: What was called.
        sizes: Of an element of the batch.
        batch: The batch's shape.
    """

    records: Tensor
    routine: LibraryRoutine
    sizes: Sizes
    batch: Shape

    def part(self, name: str, dtype: DType | None = None) -> Tensor:
        """A part of every record, (*batch, *its shape), in the records' type or another."""
        start, shape = self.routine.place(name, self.sizes)
        kind, count = dtype or self.records.dtype, len(self.batch)

        def element(at: Shape) -> Shape:
            return ravel(at[:count], self.batch), start + ravel(at[count:], shape)

        return self.records.builder.pointwise(
            (*self.batch, *shape), kind, lambda at: cast(self.records.load(element(at)), kind)
        )


def call_routine(
    routine: LibraryRoutine,
    a: Matrices,
    b: Matrices | None = None,
    options: Sequence[str] = (),
    imaginary: tuple[Matrices, Matrices | None] | None = None,
) -> Records:
    """One call for all matrices; batches are broadcast. `imaginary`: parts that come apart.

    Raises:
        CannotLower: Eager refuses the elements' type, too.
    """
    tensor = a.tensor
    if tensor.dtype not in (FLOAT32, FLOAT64):
        raise CannotLower(f"eager factors no matrices of {tensor.dtype} either: use float32")
    batch = a.batch if b is None else broadcast(a.batch, b.batch)
    rows = a.rows if imaginary is None else (2 * a.rows).expand()
    sizes = Sizes(rows, a.columns, tensor.builder.zero if b is None else b.columns)
    call = partial(
        LibraryCall,
        a=a.view(batch),
        routine=routine,
        b=None if b is None else b.view(batch),
        a_im=None if imaginary is None else imaginary[0].view(batch),
        b_im=None if imaginary is None or imaginary[1] is None else imaginary[1].view(batch),
        options=tuple(sorted(options)),
    )
    shape = (product(batch), routine.record(sizes))
    return Records(tensor.builder.template(call, shape, tensor.dtype), routine, sizes, batch)


def broadcast(a: Shape, b: Shape) -> Shape:
    """The shape that both broadcast to."""
    rank = max(len(a), len(b))
    left, right = ((*[_ONE] * (rank - len(s)), *s) for s in (a, b))
    return tuple(q if p == 1 else p for p, q in zip(left, right, strict=True))


_ONE = product(())
