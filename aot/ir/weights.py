"""Weights: where their bytes come from, and those derived from others at build time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from aot.ir.loops import LoopNest


class WeightStore(Protocol):
    """The model's weights by FQN. Arrays are C-contiguous; bytes are not copied when avoidable."""

    def names(self) -> tuple[str, ...]:
        """All FQNs, sorted."""

    def array(self, fqn: str) -> np.ndarray[Any, Any]:
        """The weight's values (bfloat16 through ml_dtypes). Raises KeyError for an unknown name."""


@dataclass(frozen=True)
class DerivedWeight:
    """A weight computed from others when the package is built (part of the weight program).

    `recipe`: "fold" (evaluate `nests` in order; the last one writes the buffer called `name`),
    or the name of a packing function of the backend (`params` are its arguments).
    `sources`: FQNs or names of other derived weights, in argument order.
    """

    name: str
    recipe: str
    sources: tuple[str, ...]
    params: tuple[tuple[str, Any], ...] = ()
    nests: tuple[LoopNest, ...] = ()
