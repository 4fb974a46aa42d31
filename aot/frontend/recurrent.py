"""Layers whose tracing by torch would fix a length that is open.

`torch.export` traces a recurrent layer by walking its steps, and so fixes how many there are.
While a model is captured, calls of layers are calls of operators of ours, of which torch knows
nothing but the types and sizes of their results; `lowering/recurrent.py` has what they mean.
Pooling along one axis, whose code in torch takes sizes as plain numbers, is pooling along two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from aot.frontend.context import Context
from aot.frontend.instead import Instead
from aot.ir.origin import Origin
from aot.ir.tensors import SizeRelation
from aot.symbolic import as_expr

ARGUMENTS = 9
"""Of torch's functions of layers, on padded steps as on packed ones."""
_ONE_STATE = ("gru", "rnn_tanh", "rnn_relu")
_REST = "bool biases, int layers, float dropout, bool train, bool bidirectional, bool batch_first"

_OneSize = int | Sequence[int] | None
"""A size along one axis, as torch takes it: alone or in a sequence."""

_untyped: Any = torch
"""torch, for functions of it that have no types."""

_library = _untyped.library.Library("aot", "FRAGMENT")


class WholeLayers(Instead):
    """Inside of it, calls of recurrent layers on padded sequences are calls of our operators.

    `max_pool1d` is that of two axes, of which one has a single element. Packed
    sequences: packed.py.
    """

    def instead(
        self, func: Callable[..., Any], args: tuple[Any, ...], given: Mapping[str, Any]
    ) -> Any:
        """The call of our operator if there is one."""
        ours = LAYERS.get(func)
        if ours is not None and not given and len(args) == ARGUMENTS and not _differentiated(args):
            return ours(*args)
        if func in _POOLING and not given.get("return_indices"):
            return _max_pool1d(*args, **given)
        return NotImplemented


def _differentiated(args: Sequence[Any]) -> bool:
    """Whether a derivative by the steps or the first states is taken: then torch's are traced.

    Weights ask for gradients in every module, mostly of nobody.
    """
    given = [t for t in pytree.tree_leaves(args[:2]) if isinstance(t, torch.Tensor)]
    return torch.is_grad_enabled() and any(t.requires_grad for t in given)


def _max_pool1d(
    input: torch.Tensor,
    kernel_size: _OneSize,
    stride: _OneSize = (),
    padding: _OneSize = 0,
    dilation: _OneSize = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> torch.Tensor:
    """As torch's of that name, for `input` of any length."""
    _untyped._check(
        input.dim() in (2, 3),
        lambda: f"max_pool1d() expects an input of 2 or 3 dimensions, not {input.dim()}",
    )
    size = _one(kernel_size)
    step = _one(stride) if isinstance(stride, int) or stride else size
    pooled: torch.Tensor = torch.max_pool2d(
        input.unsqueeze(-2),
        (1, size),
        (1, step),
        (0, _one(padding)),
        (1, _one(dilation)),
        ceil_mode,
    )
    return pooled.squeeze(-2)


def _one(size: _OneSize) -> int:
    return size if isinstance(size, int) else next(iter(size or ()))


def _of_lstm(
    x: torch.Tensor, initial: Sequence[torch.Tensor], weights: Sequence[torch.Tensor], *rest: Any
) -> tuple[torch.Tensor, ...]:
    hidden, cell = initial
    return _seen(x, hidden, *rest), torch.empty_like(hidden), torch.empty_like(cell)


def _of_one_state(
    x: torch.Tensor, hidden: torch.Tensor, weights: Sequence[torch.Tensor], *rest: Any
) -> tuple[torch.Tensor, ...]:
    return _seen(x, hidden, *rest), torch.empty_like(hidden)


def _seen(
    x: torch.Tensor,
    hidden: torch.Tensor,
    biases: bool,
    layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> torch.Tensor:
    """Of the type and the sizes of what is seen of all steps; sizes are checked as eager does."""
    _untyped._check(x.dim() == 3, lambda: "a recurrent layer takes inputs of three dimensions")
    first, second, _ = x.shape
    steps, batch = (second, first) if batch_first else (first, second)
    _untyped._check(steps > 0, lambda: "Expected sequence length to be larger than 0 in RNN")
    _untyped._check(batch == hidden.shape[1], lambda: "the state is not of the input's batch")
    directions = 2 if bidirectional else 1
    made = x.new_empty((steps, batch, directions * hidden.shape[2]))
    return made.transpose(0, 1) if batch_first else made


def length_relations(
    context: Context, target: str, args: Sequence[Any], origin: Origin
) -> tuple[SizeRelation, ...]:
    """That a recurrent layer has a step to take, as eager checks at each call.

    torch takes open sizes to be no less than 2, and so says nothing of it.
    """
    if target not in _TARGETS:
        return ()
    steps = context.ops.types[args[0].name].shape[1 if args[-1] else 0]
    text = f"Expected sequence length to be larger than 0 in RNN, at {origin.place}"
    return (SizeRelation(as_expr(1), "<=", steps, text),)


def _define(name: str, state: str, results: str, sizes: Callable[..., Any]) -> None:
    """Declares the operator; where it runs at all, torch's own does."""
    _library.define(f"{name}(Tensor x, {state}, Tensor[] weights, {_REST}) -> ({results})")
    _library.impl(name, sizes, "Meta")
    _library.impl(name, getattr(torch.ops.aten, name).input, "CompositeExplicitAutograd")


_POOLING = (torch.max_pool1d, torch.nn.functional.max_pool1d)
"""Both ways in which it is called; with indices, it is another operator."""

_define("lstm", "Tensor[] initial", "Tensor, Tensor, Tensor", _of_lstm)
for _name in _ONE_STATE:
    _define(_name, "Tensor hidden", "Tensor, Tensor", _of_one_state)

LAYERS: Mapping[Any, Callable[..., Any]] = {
    getattr(torch, name): getattr(torch.ops.aot, name).default for name in ("lstm", *_ONE_STATE)
}
"""torch's functions of layers -> our operators, which take padded steps."""
_TARGETS = frozenset(
    target
    for name in ("lstm", *_ONE_STATE)
    for target in (f"aot.{name}.default", f"aten.{name}.input")
)
"""Names of the operators in exported programs; aten's in those that users exported."""
