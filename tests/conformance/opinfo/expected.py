"""What a case must give: eager's results, and the same in float64 as reference."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from aot.frontend.weights import to_array
from tests.comparing import difference
from tests.conformance.opinfo.exact import sharpened
from tests.conformance.opinfo.samples import Case, seed
from tests.conformance.opinfo.scope import ANY_OF_EQUALS, UNDEFINED_VALUES, foreign_type
from tests.examples.accuracy import default_double
from tests.rounding import slack

NEIGHBOURS = 8
"""Inputs near a sample's own at which eager's error is measured too, where ours seems large."""

LUCK = 4.0
"""By how much eager's error for one input may be less than for others close by."""


@dataclass(frozen=True)
class Expected:
    """A case's results.

    Attributes:
        eager: Eager's results, tensors and numbers.
        exact: The same computed in float64; equal to `eager` where float64 is refused.
        values: False when only types and shapes are defined: random numbers, unwritten memory.
    """

    eager: list[Any]
    exact: list[Any]
    values: bool

    @property
    def foreign(self) -> str:
        """Why the results are out of scope; "" when they are not."""
        reasons = (foreign_type(r) for r in self.eager if isinstance(r, torch.Tensor))
        return next((r for r in reasons if r), "")


def expected(case: Case) -> Expected:
    """Runs eager. Raises what it raises: samples of OpInfo are valid, so that is a defect here."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        with _Draws() as draws:
            eager = _run(case, case.tensors)
        defined = UNDEFINED_VALUES.fullmatch(case.op) is None and not draws.any
        exact = eager
        if defined:
            with default_double():  # functions of integers give float64 too
                others = [x for x in case.leaves if not isinstance(x, torch.Tensor)]
                exact = sharpened(case.op, case.tensors, _exact(case, eager), others)
    return Expected(eager, exact, defined)


class _Draws(TorchDispatchMode):
    """Sees whether operators take random numbers, also where the caller then restores the state."""

    any = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **(kwargs or {}))
        before = torch.get_rng_state()
        result = func(*args, **(kwargs or {}))
        self.any |= not torch.equal(before, torch.get_rng_state())
        return result


def _run(case: Case, tensors: Sequence[torch.Tensor]) -> list[Any]:
    seed()
    # Some operators write into their argument although they return a result.
    return case.call(t.clone() for t in tensors)


def _exact(case: Case, eager: list[Any]) -> list[Any]:
    wide = [_widened(t) for t in case.tensors]
    leaves = tuple(_wide_type(x) if isinstance(x, torch.dtype) else x for x in case.leaves)
    try:
        exact = _run(replace(case, leaves=leaves), wide)
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        # An operator of half types only, or one whose other arguments fix the type.
        return eager
    alike = len(exact) == len(eager) and all(map(_same_shape, exact, eager))
    return exact if alike else eager


def _wide_type(dtype: torch.dtype) -> torch.dtype:
    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point else dtype


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(_wide_type(tensor.dtype))


def _same_shape(a: Any, b: Any) -> bool:
    return getattr(a, "shape", ()) == getattr(b, "shape", ())


def compare(case: Case, actual: Sequence[np.ndarray], wanted: Expected) -> str:
    """What is wrong with a case's results; "" when nothing is."""
    for position, (a, eager, exact) in enumerate(
        zip(actual, wanted.eager, wanted.exact, strict=True)
    ):
        own, best = _tensor(eager), _tensor(exact)
        problem = _problem(a, own, best, wanted.values)
        if problem and wanted.values and (own.is_floating_point() or own.is_complex()):
            nearby = _error_nearby(case, position, _greatest_error(eager, exact))
            moved = partial(_slack, case, position, own)
            problem = difference(a, to_array(own), own.dtype, to_array(best), nearby, moved)
        chosen = case.op in ANY_OF_EQUALS and position == int(case.op != "argsort")
        if problem and not (chosen and _names_equals(case, torch.as_tensor(a), own)):
            return f"result {position}: {problem}"
    return ""


def _slack(case: Case, position: int, eager: torch.Tensor) -> np.ndarray:
    """How far the order of sums moves a result, in float64 where the case can be computed so."""
    own = _run(case, case.tensors)

    def again() -> list[torch.Tensor]:
        with default_double():
            return [_tensor(r) for r in _exact(case, own)]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return slack(again, position, eager.dtype)


def _error_nearby(case: Case, position: int, own: float) -> float:
    """Eager's greatest error for inputs that differ in their last bits; at most LUCK times `own`.

    Where a result magnifies roundings, eager's error for one input is a matter of luck.
    """
    errors = [own]
    for draw in range(NEIGHBOURS):
        close = [_last_bits_changed(t, draw) for t in case.tensors]
        near = replace(case, leaves=_with_tensors(case.leaves, close))
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            eager = _run(near, close)
            with default_double():
                exact = _exact(near, eager)
        errors.append(_greatest_error(eager[position], exact[position]))
    return min(max(errors), LUCK * own)


def _greatest_error(eager: Any, exact: Any) -> float:
    error = (_widened(_tensor(eager)) - _widened(_tensor(exact))).abs()
    return float(error.nan_to_num(0.0, 0.0, 0.0).amax()) if error.numel() else 0.0


def _last_bits_changed(tensor: torch.Tensor, draw: int) -> torch.Tensor:
    draws = torch.Generator().manual_seed(draw)
    if tensor.is_complex():
        parts = torch.view_as_real(tensor.resolve_conj())
        return torch.view_as_complex(_last_bits_changed(parts, draw))
    if not tensor.is_floating_point():
        return tensor
    steps = torch.randint(-1, 2, tensor.shape, generator=draws, dtype=torch.float64)
    return (tensor.double() * (1.0 + steps * torch.finfo(tensor.dtype).eps)).to(tensor.dtype)


def _with_tensors(leaves: Sequence[Any], tensors: Sequence[torch.Tensor]) -> tuple[Any, ...]:
    rest = iter(tensors)
    return tuple(next(rest) if isinstance(x, torch.Tensor) else x for x in leaves)


def _tensor(result: Any) -> torch.Tensor:
    """A result as a tensor; a Python number is a float64."""
    return torch.as_tensor(result, dtype=torch.float64 if isinstance(result, float) else None)


def _names_equals(case: Case, positions: torch.Tensor, eager: torch.Tensor) -> bool:
    """Whether two tensors of positions name equal elements of the case's first tensor."""
    args, kwargs = pytree.tree_unflatten(list(case.leaves), case.spec)
    x, place = case.tensors[0], ANY_OF_EQUALS[case.op]
    dim = kwargs.get("dim", args[place] if len(args) > place else -1)
    if positions.shape != eager.shape or positions.dtype != eager.dtype or not x.dim():
        return False
    found, right = (
        x.gather(dim, p if p.dim() == x.dim() else p.unsqueeze(dim)) for p in (positions, eager)
    )
    return bool(torch.all((found == right) | (found.isnan() & right.isnan())))


def _problem(a: np.ndarray, eager: torch.Tensor, exact: torch.Tensor, values: bool) -> str:
    own = to_array(eager)
    if values:
        return difference(a, own, eager.dtype, to_array(exact))
    if a.dtype != own.dtype or a.shape != own.shape:
        return f"{a.dtype}{list(a.shape)}, eager {own.dtype}{list(own.shape)}"
    return ""
