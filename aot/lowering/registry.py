"""The table of lowerings: ATen operator -> function that builds its nests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from aot.errors import wrongly_traced
from aot.ir.tensors import TensorOp, TensorType, ValueRef
from aot.lowering.builder import GraphBuilder, Tensor


class CannotLower(Exception):
    """This call of a supported operator is outside of what its lowering covers.

    Raised by lowerings with the reason; `lower` collects it into errors.UnsupportedOperators.
    """


@dataclass(frozen=True)
class Call:
    """One operator call being lowered: the builder, and what is known of the call."""

    builder: GraphBuilder
    op: TensorOp

    def result_type(self, position: int = 0) -> TensorType:
        """dtype, shape and strides that eager gives the result at `position`.

        Raises:
            KeyError: The graph does not use that result.
        """
        name = self.op.outputs[position]
        if name is None:
            raise KeyError(f"{self.op.target}: result {position} is unused")
        return self.builder.graph.types[name]


SeveralResults = tuple[Tensor | None, ...]
"""Parallel to the operator's results; None for one that the graph does not use."""

Results = Tensor | SeveralResults
Lowering = Callable[..., Results]
"""lowering(call, *args, **kwargs): args as in the operator's schema; tensors as `Tensor`, sizes as
Expr or int, lists as tuples. Returns one Tensor, or a tuple parallel to the operator's results."""

L = TypeVar("L", bound=Lowering)


@dataclass(frozen=True)
class Row:
    """A registered lowering."""

    target: str
    lower: Lowering


@dataclass
class Registry:
    """Operator -> lowering, filled at import time of the family modules by `row`."""

    rows: dict[str, Row] = field(default_factory=dict)

    def row(self, *targets: str) -> Callable[[L], L]:
        """Decorator: registers a lowering for ATen overloads ("aten.add.Tensor")."""

        def register(lower: L) -> L:
            for target in targets:
                if target in self.rows:
                    raise ValueError(f"{target} has two lowerings")
                self.rows[target] = Row(target, lower)
            return lower

        return register


def resolve(builder: GraphBuilder, argument: Any) -> Any:
    """An argument of a TensorOp with value references replaced by tensors."""
    if isinstance(argument, ValueRef):
        return builder.value(argument.name)
    if isinstance(argument, tuple):
        return tuple(resolve(builder, a) for a in argument)
    return argument


def lower_op(rows: Mapping[str, Row], builder: GraphBuilder, op: TensorOp) -> None:
    """Lowers one operator into the builder. Raises KeyError when the operator has no row."""
    row = rows[op.target]
    builder.origin = op.origin
    args = [resolve(builder, a) for a in op.args]
    kwargs = {k: resolve(builder, v) for k, v in op.kwargs}
    results = row.lower(Call(builder, op), *args, **kwargs)
    flat = results if isinstance(results, tuple) else (results,)
    for name, tensor in zip(op.outputs, flat, strict=True):
        if name is not None and tensor is not None:
            _check_traced(len(builder.graph.types[name].shape), len(tensor.shape))
            builder.bind_result(name, tensor)


def _check_traced(said: int, computed: int) -> None:
    if said != computed:
        raise CannotLower(wrongly_traced(f"{computed} dimensions", said))
