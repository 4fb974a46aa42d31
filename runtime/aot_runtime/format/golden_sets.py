"""Golden sets of the plan: reference outputs, and what of them all right outputs share."""

from __future__ import annotations

from dataclasses import dataclass

ELEMENTS = "elements"
KINDS = (ELEMENTS, "magnitudes", "sorted", "sorted magnitudes", "norms", "finite")
"""What two right outputs share, the most first: every element; their magnitudes; the elements or
their magnitudes in any order along an axis; norms along an axis; only that all are finite."""


@dataclass(frozen=True)
class Shared:
    """What of an output is compared: eigenvectors have free signs, eigenvalues a free order.

    Attributes:
        kind: One of `KINDS`.
        axis: The axis of those that have one; it counts from the last, which is -1.
    """

    kind: str = ELEMENTS
    axis: int = -1

    @property
    def along_axis(self) -> bool:
        """Whether the axis means anything."""
        return self.kind in ("sorted", "sorted magnitudes", "norms")

    def __str__(self) -> str:
        """For people: "sorted along axis -1"."""
        return f"{self.kind} along axis {self.axis}" if self.along_axis else self.kind


ALL = Shared()
"""Every element: there is one right result."""


@dataclass(frozen=True)
class GoldenSet:
    """Example inputs and the reference's outputs: entry names, and how each output is compared.

    Attributes:
        inputs: Entries of the inputs.
        outputs: Entries of the outputs.
        atol: Absolute tolerances, one for each output.
        rtol: Relative ones.
        shared: What is compared of each output; empty: all their elements.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    atol: tuple[float, ...]
    rtol: tuple[float, ...]
    shared: tuple[Shared, ...] = ()
