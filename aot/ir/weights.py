"""Weights: where their bytes come from, and how those derived from others are computed again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from aot.ir.dtypes import DType


class WeightStore(Protocol):
    """The model's weights by FQN. Arrays are C-contiguous; bytes are not copied when avoidable."""

    def names(self) -> tuple[str, ...]:
        """All FQNs, sorted."""

    def specs(self) -> tuple[WeightSpec, ...]:
        """Every weight that the model has, used or not, in the model's order."""

    def array(self, fqn: str) -> np.ndarray[Any, Any]:
        """The weight's values: bfloat16 through ml_dtypes, complex ones in pairs (`ir/pairs.py`).

        Raises:
            KeyError: No weight has that name.
        """


@dataclass(frozen=True)
class Recipe:
    """How a derived weight is made: functions of its sources' arrays and its parameters by name.

    `whole`: all of it, C-contiguous. `parts`: the same, cut along the first dimension, each part
    made when it is asked for.
    """

    whole: Callable[..., np.ndarray[Any, Any]]
    parts: Callable[..., Iterator[np.ndarray[Any, Any]]]


@dataclass(frozen=True)
class Derivation:
    """How one derived weight is computed when weights are replaced.

    `routine`: which of the weight program's routines computes it. `sources`: FQNs of the model's
    own weights, in the order of the routine's inputs.
    """

    weight: str
    sources: tuple[str, ...]
    routine: int


@dataclass(frozen=True)
class WeightSpec:
    """One of the model's own weights, as whoever replaces it must give it.

    `aliases`: other names for the same tensor (tied weights). `saved`: it is a parameter or a
    persistent buffer, so it is in the model's state dict; constants of the graph are not.
    """

    fqn: str
    dtype: DType
    shape: tuple[int, ...]
    aliases: tuple[str, ...] = ()
    saved: bool = True
