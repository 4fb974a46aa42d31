"""How far a result may be from eager PyTorch's: the one place where tests decide it.

The reference is eager in float64. Integers and bools must equal eager's, NaN and infinities be
where eager has them. Of floats an error is accepted that is

- at most `FACTOR` times eager's own error in the same type, or
- a part of the result's magnitude, `TOLERANCE`, or
- where sums left less than they added up: what another order of the terms moves, `ROUNDINGS` of
  their magnitudes (tests/rounding.py; `difference` takes it as `slack`).

`difference` holds every element to that. `complaint` holds the greatest error of an output to its
greatest magnitude: for whole models, where an element's own magnitude says little.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

Array = np.ndarray[Any, Any]

FACTOR = 3.0
"""Our error may be this many times eager's own error in the model's dtype."""

TOLERANCE = {
    torch.float64: 1e-12,
    torch.float32: 2e-6,
    torch.float16: 2.0**-9,
    torch.bfloat16: 2.0**-6,
    torch.complex128: 1e-12,
    torch.complex64: 2e-6,
    torch.complex32: 2.0**-9,
    torch.float8_e4m3fn: 2.0**-3,
    torch.float8_e4m3fnuz: 2.0**-3,
    torch.float8_e5m2: 2.0**-2,
    torch.float8_e5m2fnuz: 2.0**-2,
}
"""A result may be off by this much of itself: two roundings of the type, and for the wide ones the
few ulp that vectorised functions are allowed."""

ROUNDINGS = {"float64": 2.0**-50, "float32": 2.0**-21, "float16": 2.0**-9, "bfloat16": 2.0**-6}
"""An error below this part of the magnitude is never too much: a few roundings."""

ORDINARY = 1e3
"""Up to this size the greatest error of eager is what counts; the error of one huge element must
not excuse that of a small one."""


def roundings_of_sums(dtype: torch.dtype) -> float:
    """The part of the summed magnitudes that a sum of a type may be off.

    Half types are summed in float32; what rounding the result costs is in their tolerance.
    """
    return ROUNDINGS["float64" if dtype in (torch.float64, torch.complex128) else "float32"]


def difference(
    actual: Array,
    eager: Array,
    dtype: torch.dtype,
    exact: Array,
    nearby: float = 0.0,
    slack: Callable[[], Array] | None = None,
) -> str:
    """Why `actual` is not right; "" when it is.

    Args:
        actual: Our result.
        eager: What eager gives in its own type.
        dtype: That type.
        exact: The reference, in float64.
        nearby: Eager's error for inputs close by.
        slack: Computes how far another order of the sums moves each element; costly, so it is
            called only for a result that would be wrong without.
    """
    if actual.dtype != eager.dtype or actual.shape != eager.shape:
        return f"{actual.dtype}{list(actual.shape)}, eager {eager.dtype}{list(eager.shape)}"
    if dtype.is_complex:
        return _complex_difference(actual, eager, dtype, exact, nearby, slack)
    if not dtype.is_floating_point:
        wrong = np.argwhere(actual != eager)
        return _first(wrong, actual, eager) if len(wrong) else ""
    a, own, x = (v.astype(np.float64) for v in (actual, eager, exact))
    with np.errstate(over="ignore"):
        nearest = exact.astype(actual.dtype).astype(np.float64)
    representable = np.isfinite(nearest)
    # Eager's own arithmetic may overflow where the true result does not.
    e = np.where(np.isfinite(own) | ~representable, own, x)
    finite = np.isfinite(a) & np.isfinite(e) & np.isfinite(x)
    # At infinities and NaN eager's types do not always agree; either answer will do.
    same = finite | (a == own) | (np.isnan(a) & (np.isnan(own) | np.isnan(x))) | (a == x)
    same |= a == nearest  # infinite because the type ends there
    if not same.all():
        return _first(np.argwhere(~same), actual, eager)
    a, e, x = (np.where(finite, v, 0.0) for v in (a, e, x))
    allowed = _allowed(np.abs(e - x), np.abs(x), dtype, nearby)
    within = np.abs(a - x) <= allowed
    if slack is not None and not within.all():
        within |= np.abs(a - x) <= allowed + slack()
    wrong = np.argwhere(~within)
    return _first(wrong, actual, exact) if len(wrong) else ""


def _complex_difference(
    actual: Array,
    eager: Array,
    dtype: torch.dtype,
    exact: Array,
    nearby: float,
    slack: Callable[[], Array] | None,
) -> str:
    """As `difference`, of the parts: each may be off by a part of the whole number's magnitude.

    A number of which eager, or the reference, has a part that is no finite number may be any such
    number: eager's own vectors and their remainders do not agree there.
    """
    a, e, x = (v.astype(np.complex128) for v in (actual, eager, exact))
    finite = np.isfinite(e) & np.isfinite(x)
    with np.errstate(over="ignore"):
        representable = np.isfinite(exact.astype(actual.dtype))
    special = ~finite & (np.isfinite(a) & ~(np.isfinite(e) | np.isfinite(x)))
    lost = finite & ~np.isfinite(a) & representable
    if special.any() or lost.any():
        return _first(np.argwhere(special | lost), actual, eager)
    finite &= np.isfinite(a)
    a, e, x = (np.where(finite, v, 0.0) for v in (a, e, x))
    allowed = _allowed(np.abs(e - x), np.abs(x), dtype, nearby)
    within = np.abs(a - x) <= allowed
    if slack is not None and not within.all():
        within |= np.abs(a - x) <= allowed + slack()
    wrong = np.argwhere(~within)
    return _first(wrong, actual, exact) if len(wrong) else ""


def _allowed(error: Array, magnitude: Array, dtype: torch.dtype, nearby: float) -> Array:
    """What eager's own errors and the results' own magnitudes allow, element by element."""
    if magnitude.max(initial=0.0) < ORDINARY:
        error = np.full_like(error, error.max(initial=nearby))
        # float64 is its own reference, with roundings of its own.
        magnitude = np.maximum(magnitude, 1e-3)
    return np.maximum(FACTOR * error, TOLERANCE[dtype] * magnitude) + torch.finfo(dtype).tiny


def _first(where: Array, actual: Array, expected: Array) -> str:
    at = tuple(int(i) for i in where[0])
    return f"{len(where)} wrong, first at {at}: {actual[at]!r} instead of {expected[at]!r}"


def complaint(
    ours: Array,
    eager: Array,
    exact: Array,
    floor: float | None = None,
    slack: Callable[[], float] | None = None,
) -> str:
    """What is wrong with an output, "" when nothing is.

    The error of floats is the greatest distance to float64, where eager is finite.

    Args:
        ours: Our result.
        eager: What eager gives in its own type.
        exact: The reference, in float64.
        floor: An error that is never too much; None: a few roundings of the greatest magnitude.
        slack: Computes how far another order of the sums moves the output; costly, so it is called
            only for one that would be wrong without.
    """
    if ours.shape != eager.shape or ours.dtype != eager.dtype:
        return f"{ours.dtype}{list(ours.shape)} instead of {eager.dtype}{list(eager.shape)}"
    if eager.dtype.kind not in "fV":
        different = int((ours != eager).sum())
        return f"{different} of {eager.size} elements differ" if different else ""
    special = ~np.isfinite(eager)
    if not np.array_equal(ours[special], eager[special], equal_nan=True):
        return "NaN or infinity in other places than eager"
    if not (~special).any():
        return ""
    values = [a[~special].astype(np.float64) for a in (ours, eager, exact)]
    error, own = (float(np.abs(values[k] - values[2]).max()) for k in (0, 1))
    scale = float(np.abs(values[2]).max())
    least = ROUNDINGS[eager.dtype.name] * scale if floor is None else floor
    return excess(error, own, scale, least, slack)


def excess(
    error: float,
    own: float,
    scale: float,
    least: float,
    slack: Callable[[], float] | None = None,
) -> str:
    """Why an output's greatest error is too much, "" when it is not.

    Args:
        error: Ours.
        own: Eager's.
        scale: The greatest magnitude.
        least: An error that is never too much.
        slack: As of `complaint`.
    """
    # Written so that a NaN of ours is an error.
    if error <= max(FACTOR * own, least):
        return ""
    if slack is not None and error <= max(FACTOR * own, least) + slack():
        return ""
    return f"error {error:.3g}, eager's is {own:.3g} (scale {scale:.3g}, floor {least:.3g})"
