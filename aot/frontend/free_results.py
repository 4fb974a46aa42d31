"""Runs of eager in which operators with several right results give others than they do.

Eigenvalues of a general matrix have no order, eigenvectors and singular vectors no sign or phase.
What a model makes of them may depend on it, or not (V diag(w) V^-1 does not): which outputs do is
seen when the model runs again on other right results, of matrices that differ by roundings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

FREE = ("linalg_eig", "svd")
"""What is in the names of operators that such results come from, composed ones among them."""


def has_free_results(program: torch.export.ExportedProgram) -> bool:
    """Whether any operator of the program, or of its branches, may have several right results."""
    modules = (m for m in program.graph_module.modules() if isinstance(m, torch.fx.GraphModule))
    names = (str(n.target) for m in modules for n in m.graph.nodes if n.op == "call_function")
    return any(part in name for name in names for part in FREE)


class OtherResults(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Inside of it, operators with several right results give another of them.

    Args:
        seed: Which.
    """

    supports_higher_order_operators = True

    def __init__(self, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The call itself, or of a matrix near to its own with another of its results."""
        other = _OTHER.get(getattr(func, "overloadpacket", None))
        if other is None:
            return func(*args, **(kwargs or {}))
        results = func(self._near(args[0]), *args[1:], **(kwargs or {}))
        return type(results)(other(self, *results))

    def _near(self, a: Tensor) -> Tensor:
        """A matrix that a stable algorithm may have seen in the place of this one."""
        size = torch.linalg.matrix_norm(a, keepdim=True) / max(a.shape[-1], 1) ** 0.5
        near: Tensor = a + torch.finfo(a.dtype).eps * size * self._normal(a.shape, a)
        return near

    def _normal(self, shape: torch.Size, like: Tensor) -> Tensor:
        drawn = torch.randn(shape, generator=self._generator, dtype=like.dtype)
        return drawn.to(like.device)

    def turns(self, vectors: Tensor, count: int) -> Tensor:
        """[…, 1, count] signs for columns, or phases for complex ones."""
        return torch.sgn(self._normal(torch.Size([*vectors.shape[:-2], 1, count]), vectors))

    def turned(self, vectors: Tensor, turns: Tensor) -> Tensor:
        """Columns times their turns; those behind them are turned into each other."""
        count = turns.shape[-1]
        first, rest = vectors[..., :count] * turns, vectors[..., count:]
        basis, _ = torch.linalg.qr(self._normal(torch.Size([rest.shape[-1]] * 2), vectors))
        return torch.cat([first, rest @ basis], -1)

    def order(self, values: Tensor) -> Tensor:
        """An order of the last dimension in which none of several keeps its place."""
        drawn = torch.randperm(values.shape[-1], generator=self._generator)
        return torch.empty_like(drawn).scatter_(0, drawn, drawn.roll(1)).to(values.device)


def _eig(mode: OtherResults, values: Tensor, vectors: Tensor) -> tuple[Tensor, ...]:
    order = mode.order(values)
    _, vectors = _eigh(mode, values, vectors)
    return values[..., order], vectors[..., order] if vectors.numel() else vectors


def _eigh(mode: OtherResults, values: Tensor, vectors: Tensor) -> tuple[Tensor, ...]:
    if not vectors.numel():
        return values, vectors
    return values, mode.turned(vectors, mode.turns(vectors, vectors.shape[-1]))


def _svd(mode: OtherResults, u: Tensor, s: Tensor, vh: Tensor) -> tuple[Tensor, ...]:
    if not u.numel():
        return u, s, vh
    turns = mode.turns(u, s.shape[-1])
    # Below the mode nothing looks at the bit of a tensor that is lazily conjugated.
    right = torch.conj_physical(vh).mT
    return mode.turned(u, turns), s, torch.conj_physical(mode.turned(right, turns)).mT


_aten = torch.ops.aten
_OTHER: Mapping[Any, Callable[..., tuple[Tensor, ...]]] = {
    _aten.linalg_eig: _eig,
    _aten._linalg_eigh: _eigh,
    _aten._linalg_svd: _svd,
}
