"""References for functions that eager computes to six to ten digits, even in float64."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import mpmath as mp
import torch

FUNCTIONS: Mapping[str, Callable[[float], Any]] = {
    "special_airy_ai": mp.airyai,
    **{f"special_bessel_j{n}": partial(mp.besselj, n) for n in (0, 1)},
    **{f"special_bessel_y{n}": partial(mp.bessely, n) for n in (0, 1)},
}
"""OpInfo name -> the function of one element."""

POLYGAMMA = re.compile("(special_)?polygamma_.*")
"""OpInfo names; what they say of the order is not that of all their samples."""


def sharpened(
    op: str, tensors: Sequence[torch.Tensor], exact: list[Any], others: Sequence[Any] = ()
) -> list[Any]:
    """Eager's float64 results, with every finite one computed by mpmath where eager is inexact.

    `others`: the arguments that are no tensors.
    """
    function = FUNCTIONS.get(op)
    poles = POLYGAMMA.fullmatch(op) is not None
    if poles:
        (order,) = others
        function = partial(mp.polygamma, order)
    if function is None:
        return exact
    (x,), (result,) = tensors, exact
    pairs = list(zip(x.flatten().tolist(), result.flatten().tolist(), strict=True))
    # Where it is infinite, eager's result is left as it is.
    known = [not abs(r) < float("inf") or (poles and v <= 0 and v == int(v)) for v, r in pairs]
    values = [r if k else float(function(v)) for k, (v, r) in zip(known, pairs, strict=True)]
    return [torch.tensor(values, dtype=torch.float64).reshape(result.shape)]
