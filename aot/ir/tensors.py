"""The tensor graph: what the front end hands over. ATen operators on named values, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aot.ir.dtypes import DType
from aot.ir.origin import Origin
from aot.symbolic import Expr


@dataclass(frozen=True)
class TensorType:
    """dtype, logical shape, and strides in elements, as eager has them."""

    dtype: DType
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...]

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)


@dataclass(frozen=True)
class Dim:
    """A dynamic size.

    `source`: (input position, axis, divisor, offset), value = (actual - offset) / divisor.

    `maximum` None: unbounded. `hint`: the example's value, used by cost models only.
    """

    name: str
    minimum: int
    maximum: int | None
    hint: int
    source: tuple[int, int, int, int]
    label: str = ""
    multiple_of: int = 1


@dataclass(frozen=True)
class ValueRef:
    """A reference to a named tensor value."""

    name: str

    def __str__(self) -> str:
        return f"%{self.name}"


Argument = Any
"""ValueRef, DType, Expr (a symbolic size), bool, int, float, str, None, or a tuple of Arguments."""


@dataclass(frozen=True)
class TensorOp:
    """One operator call.

    `target`: "aten.add.Tensor". `outputs`: names; None for an unused result.
    """

    target: str
    args: tuple[Argument, ...]
    kwargs: tuple[tuple[str, Argument], ...]
    outputs: tuple[str | None, ...]
    origin: Origin


@dataclass(frozen=True)
class Tree:
    """Nesting of arguments or results. kind: leaf, constant, tuple, list, dict.

    leaf: `value` is the position in the graph's inputs or outputs. constant: `value` is a Python
    scalar or None. dict: `keys` parallel to `children`.
    """

    kind: str
    value: Any = None
    children: tuple[Tree, ...] = ()
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class Parameter:
    """One parameter of the model's forward."""

    name: str
    keyword_only: bool
    tree: Tree


@dataclass(frozen=True)
class Signature:
    """How inputs and outputs nest in the model's own call."""

    parameters: tuple[Parameter, ...]
    result: Tree


@dataclass(frozen=True)
class SizeRelation:
    """A relation over dims that must hold for the graph to be valid: left `relation` right."""

    left: Expr
    relation: str
    right: Expr
    message: str


@dataclass(frozen=True)
class TensorGraph:
    """A program of ATen operators.

    `types` gives every value's type (inputs, weights, results). `weights`: value name -> FQN in
    the weight store (tied weights share one FQN). `outputs`: value names, one per output leaf.
    """

    name: str
    dims: tuple[Dim, ...]
    inputs: tuple[str, ...]
    weights: tuple[tuple[str, str], ...]
    ops: tuple[TensorOp, ...]
    outputs: tuple[str, ...]
    types: Mapping[str, TensorType]
    signature: Signature
    relations: tuple[SizeRelation, ...] = ()
