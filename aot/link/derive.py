"""Runs the weight program when the package is built: folding and packing, one weight at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from aot.errors import InternalError
from aot.ir.interpreter import run_op
from aot.ir.loops import reads, writes
from aot.ir.nests import Buffer, DerivedWeight
from aot.ir.weights import Recipe, WeightSpec, WeightStore

Array = np.ndarray[Any, Any]

_KEPT_BYTES = 16 << 20
"""Weights that others derive from are kept up to this size; larger ones are computed again, so that
packaging never holds a second copy of the model."""


class DerivedStore:
    """A weight store that also knows the derived weights, computing them on demand.

    Args:
        store: The model's own weights.
        derived: In dependency order.
        buffers: Buffers by name; they give the derived weights' and their sources' types.
        recipes: Packing functions by recipe name.
    """

    def __init__(
        self,
        store: WeightStore,
        derived: Iterable[DerivedWeight],
        buffers: Mapping[str, Buffer],
        recipes: Mapping[str, Recipe],
    ) -> None:
        self._store = store
        self._derived = {d.name: d for d in derived}
        self._buffers = buffers
        self._recipes = recipes
        self._read = {name for d in self._derived.values() for name in map(self._fqn, d.sources)}
        self._kept: dict[str, Array] = {}

    def names(self) -> tuple[str, ...]:
        """FQNs of the model's weights and names of the derived ones, sorted."""
        return tuple(sorted({*self._store.names(), *self._derived}))

    def specs(self) -> tuple[WeightSpec, ...]:
        """The model's weights."""
        return self._store.specs()

    def array(self, fqn: str) -> Array:
        """The weight's values, C-contiguous. Raises KeyError for an unknown name."""
        if fqn not in self._derived:
            return self._store.array(fqn)
        if fqn in self._kept:
            return self._kept[fqn]
        made = np.asarray(self._compute(self._derived[fqn]), order="C")
        if made.nbytes <= _KEPT_BYTES and fqn in self._read:
            self._kept[fqn] = made
        return made

    def parts(self, fqn: str) -> Iterator[Array]:
        """The same cut along the first dimension; of what nobody else reads, as its recipe does."""
        derived = self._derived.get(fqn)
        if derived is None or derived.recipe == "fold" or fqn in self._read:
            yield self.array(fqn)
            return
        sources = [self._source(name) for name in derived.sources]
        yield from self._recipe(derived).parts(*sources, **dict(derived.params))

    def _compute(self, derived: DerivedWeight) -> Array:
        if derived.recipe == "fold":
            return self._fold(derived)
        sources = [self._source(name) for name in derived.sources]
        return self._recipe(derived).whole(*sources, **dict(derived.params))

    def _recipe(self, derived: DerivedWeight) -> Recipe:
        recipe = self._recipes.get(derived.recipe)
        if recipe is None:
            raise InternalError(f"weight {derived.name}: no recipe {derived.recipe!r}")
        return recipe

    def _source(self, name: str) -> Array:
        return self.array(self._fqn(name))

    def _fqn(self, name: str) -> str:
        buffer = self._buffers.get(name)
        return buffer.fqn if buffer is not None and buffer.fqn else name

    def _fold(self, derived: DerivedWeight) -> Array:
        arrays: dict[str, Array] = {}
        for nest in derived.nests:
            for name in reads(nest):
                if name not in arrays:
                    arrays[name] = self._source(name)
            run_op(nest, self._buffers, arrays, {})
            if derived.name in writes(nest):
                return arrays[derived.name]
        raise InternalError(f"weight {derived.name}: its nests do not write it")
