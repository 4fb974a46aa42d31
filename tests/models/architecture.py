"""One architecture as data: how its library makes it, its inputs, and which sizes are dynamic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from tests.models.inputs import Dynamic, Make


@dataclass(frozen=True)
class Architecture:
    """One model of a library, small, with random weights, in the library's default settings.

    Attributes:
        library: transformers, timm, torchvision, torchaudio.
        name: What the tables call it.
        kind: encoder, decoder, experts, encoder-decoder, state-space, vision, audio, ….
        build: Makes the model.
        inputs: Makes inputs of a size.
        dynamic: Which sizes one package serves; empty: the example's only.
        sizes: (batch, length) of the example, then of more runs.
        cache: Positions of the cache that the model keeps as its state; 0: it keeps none. The
            sizes are then (1, position), one run after the other.
    """

    library: str
    name: str
    kind: str
    build: Callable[[], nn.Module]
    inputs: Make
    dynamic: Dynamic
    sizes: tuple[tuple[int, int], ...] = ((2, 7), (3, 12), (1, 5))
    cache: int = 0

    @property
    def key(self) -> str:
        """Its name among those of all libraries."""
        return f"{self.library} {self.name}"

    @property
    def runs(self) -> tuple[tuple[int, int], ...]:
        """The sizes to compare at."""
        return self.sizes if self.dynamic or self.cache else self.sizes[:1]

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the dynamic dims."""
        return tuple(dict.fromkeys(d for axes in self.dynamic.values() for d in axes.values()))
