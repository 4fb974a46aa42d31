"""The windows of a resize: which inputs each output reads, as far as sizes tell."""

from __future__ import annotations

from dataclasses import dataclass

from aot.symbolic import Expr, Minimum, as_expr


@dataclass(frozen=True)
class AxisWindows:
    """The runs of inputs that the outputs along one axis read. Neither of their ends ever falls.

    Attributes:
        size: Inputs in all.
        step: From an output's first input to the next one's, at most.
        reach: Inputs of an output at most; perhaps more than there are.
        each: [first, end) of each output's inputs, where all sizes are known; () otherwise.
    """

    size: Expr
    step: Expr
    reach: Expr
    each: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        """As dumps show it."""
        return f"{self.taps} of {self.size}, {self.step} apart"

    @property
    def taps(self) -> Expr:
        """Inputs that one output reads: exact for known sizes, a bound otherwise."""
        if not self.each:
            return Minimum(self.reach, self.size)
        return self._within(max(end - first for first, end in self.each))

    def panel(self, lanes: int) -> int:
        """Outputs to compute side by side in a vector of so many lanes.

        As many as divide the outputs, so that later passes go panel by panel, too; where only less
        than half a vector does, a whole vector, the last one padded.
        """
        most = range(max(1, lanes // 2), lanes + 1) if self.each else ()
        return max((d for d in most if len(self.each) % d == 0), default=lanes)

    def span(self, panel: int) -> Expr:
        """Inputs that hold all that a panel of so many outputs reads."""
        if not self.each:
            return Minimum(self.step * panel + self.reach, self.size)
        panels = (self.each[k : k + panel] for k in range(0, len(self.each), panel))
        return self._within(max(max(end for _, end in p) - p[0][0] for p in panels))

    def _within(self, count: int) -> Expr:
        return as_expr(min(max(count, 1), int(self.size)))
