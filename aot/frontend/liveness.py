"""Which operators the results need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from aot.ir.tensors import (
    Assertion,
    Block,
    Cond,
    GraphOp,
    OperatorCall,
    SizeRead,
    TensorOp,
    TensorType,
    blocks_of,
    dims_in,
    reads_of,
)


def live_ops(
    ops: Iterable[GraphOp],
    wanted: Iterable[str],
    types: Mapping[str, TensorType],
    dims: Iterable[str] = (),
) -> tuple[GraphOp, ...]:
    """The operators that `wanted` values need, and assertions; unused results become None.

    A size is read where a live operator mentions its dim, and where it is one of `dims`.
    """
    state = _Liveness(types, set(wanted), set(dims))
    # Sizes of what the caller gets are needed even if no operator mentions them.
    state.dims.update(d for name in state.values for d in dims_in(types[name].shape))
    return state.trim(tuple(ops))


class _Liveness:
    def __init__(self, types: Mapping[str, TensorType], values: set[str], dims: set[str]) -> None:
        self.types, self.values, self.dims = types, values, dims

    def trim(self, ops: tuple[GraphOp, ...]) -> tuple[GraphOp, ...]:
        kept: list[GraphOp] = []
        for op in reversed(ops):
            live = self._live_part(op)
            if live is not None:
                kept.append(live)
                self.values.update(reads_of(live))
        return tuple(reversed(kept))

    def _live_part(self, op: GraphOp) -> GraphOp | None:
        if isinstance(op, SizeRead):
            return op if op.dim in self.dims else None
        if isinstance(op, Assertion):
            return op
        asserts = any(_asserts(block) for block in blocks_of(op))
        if not asserts and not any(name in self.values for name in op.outputs):
            return None
        if isinstance(op, TensorOp):
            outputs = tuple(o if o in self.values else None for o in op.outputs)
            shapes = [self.types[o].shape for o in outputs if o is not None]
            self.dims.update(dims_in((op.args, op.kwargs, tuple(shapes))))
            return op if outputs == op.outputs else replace(op, outputs=outputs)
        shapes = [self.types[name].shape for name in op.outputs]
        self.dims.update(dims_in(tuple(shapes)))
        if isinstance(op, OperatorCall):
            self.dims.update(dims_in(tuple(value for _, _, value in op.arguments)))
            return op
        if isinstance(op, Cond):
            then, otherwise = self._block(op.then), self._block(op.otherwise)
            return replace(op, then=then, otherwise=otherwise)
        if op.count is not None:
            self.dims.update(dims_in(op.count))
        condition = op.condition and self._block(op.condition)
        return replace(op, condition=condition, body=self._block(op.body))

    def _block(self, block: Block) -> Block:
        inner = _Liveness(self.types, set(block.results), self.dims)
        return Block(inner.trim(block.ops), block.results)


def _asserts(block: Block) -> bool:
    return any(
        isinstance(op, Assertion) or any(_asserts(b) for b in blocks_of(op)) for op in block.ops
    )
