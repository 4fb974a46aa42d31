"""Numbers of small matrices in the text of kernels: real ones, or complex ones as two tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

CHAINS = 4
"""In which a sum of many terms is found: a chain of all waits for each."""

LaneNumber = tuple[str, ...]
"""The texts of a number's parts: one, or the real and the imaginary one. Products read names."""


@dataclass(frozen=True)
class LaneNumbers:
    """Statements on tensors (matrices, lanes) of numbers.

    Attributes:
        line: Takes each statement.
        shape: The text of the tensors' shape.
        parts: Of a number: 1, or 2 for complex ones.
        kind: The text of the elements' type.
    """

    line: Callable[[str], None]
    shape: str
    parts: int
    kind: str

    def named(self, name: str) -> LaneNumber:
        """The variables of a number."""
        return (name,) if self.parts == 1 else (f"{name}_re", f"{name}_im")

    def let(self, name: str, value: LaneNumber) -> LaneNumber:
        """Sets the variables of a number, both at once."""
        names = self.named(name)
        self.line(f"{', '.join(names)} = {', '.join(value)}")
        return names

    def real(self, text: str) -> LaneNumber:
        """A number without imaginary part."""
        return (text,) if self.parts == 1 else (text, f"tl.zeros({self.shape}, {self.kind})")

    def lane(self, lane: str | int) -> str:
        """A lane's number for all lanes `i`: a constant, or of step k; or a tensor by its name."""
        return f"(i * 0 + {lane})" if isinstance(lane, int) or lane[0] in "k(" else lane

    def from_lane(self, x: LaneNumber, lane: str | int) -> LaneNumber:
        """What a lane has, for all lanes."""
        return tuple(f"tl.gather({part}, {self.lane(lane)}, 1)" for part in x)

    def where(self, condition: str, a: LaneNumber, b: LaneNumber) -> LaneNumber:
        """Either number."""
        return tuple(f"tl.where({condition}, {p}, {q})" for p, q in zip(a, b, strict=True))

    def if_live(self, live: str, a: LaneNumber, b: LaneNumber) -> LaneNumber:
        """a where `live` or there is no such condition, else b."""
        return self.where(live, a, b) if live else a

    def masked(self, condition: str, a: LaneNumber) -> LaneNumber:
        """A number, or 0."""
        return tuple(f"tl.where({condition}, {part}, 0)" for part in a)

    def conjugate(self, a: LaneNumber) -> LaneNumber:
        """The other sign of the imaginary part."""
        return a if self.parts == 1 else (a[0], f"(-{a[1]})")

    def product(self, a: LaneNumber, b: LaneNumber) -> LaneNumber:
        """a b."""
        if self.parts == 1:
            return (f"{a[0]} * {b[0]}",)
        return f"{a[0]} * {b[0]} - {a[1]} * {b[1]}", f"{a[0]} * {b[1]} + {a[1]} * {b[0]}"

    def plus(self, x: LaneNumber, a: LaneNumber, b: LaneNumber) -> LaneNumber:
        """x + a b."""
        if self.parts == 1:
            return (f"{x[0]} + {a[0]} * {b[0]}",)
        re = f"{x[0]} + {a[0]} * {b[0]} - {a[1]} * {b[1]}"
        return re, f"{x[1]} + {a[0]} * {b[1]} + {a[1]} * {b[0]}"

    def minus(self, x: LaneNumber, a: LaneNumber, b: LaneNumber) -> LaneNumber:
        """x - a b, in as few operations as there are: a pass of Triton's takes their square."""
        if self.parts == 1:
            return (f"tl.fma(-{a[0]}, {b[0]}, {x[0]})",)
        re = f"tl.fma({a[1]}, {b[1]}, tl.fma(-{a[0]}, {b[0]}, {x[0]}))"
        return re, f"tl.fma(-{a[1]}, {b[0]}, tl.fma(-{a[0]}, {b[1]}, {x[1]}))"

    def over_real(self, a: LaneNumber, b: str) -> LaneNumber:
        """a / b of a real b."""
        return tuple(f"near_quotient({part}, {b})" for part in a)

    def times_real(self, a: LaneNumber, b: str) -> LaneNumber:
        """a b of a real b."""
        return tuple(f"{part} * {b}" for part in a)

    def over(self, name: str, a: LaneNumber, b: LaneNumber, *, near: bool = False) -> LaneNumber:
        """Sets a number to a / b; `near`: without a branch, in more instructions and registers."""
        if self.parts == 1:
            return self.let(name, (f"{'near' if near else 'exact'}_quotient({a[0]}, {b[0]})",))
        names, how = self.named(name), "near_complex_quotient" if near else "complex_quotient"
        self.line(f"{', '.join(names)} = {how}({', '.join((*a, *b))})")
        return names

    def rough(self, a: LaneNumber) -> str:
        """A size of a: the sum of its parts' sizes."""
        return " + ".join(f"tl.abs({part})" for part in a)

    def square(self, a: LaneNumber) -> str:
        """The square of a's absolute value."""
        return " + ".join(f"{part} * {part}" for part in a)

    def is_zero(self, a: LaneNumber) -> str:
        """Whether a is 0."""
        return " & ".join(f"({part} == 0)" for part in a)

    def sum(
        self, name: str, terms: Sequence[tuple[LaneNumber, LaneNumber]], *, unit: bool = False
    ) -> LaneNumber:
        """Sets a number to the sum of products, in some chains: each waits for its own terms alone.

        `unit`: of the first product the first factor alone, as the other one is 1.
        """
        count = min(CHAINS, len(terms))
        for k, (a, b) in enumerate(terms):
            chain = f"{name}{k % count}"
            first = a if unit and k == 0 else self.product(a, b)
            self.let(chain, first if k < count else self.plus(self.named(chain), a, b))
        chains = [self.named(f"{name}{k}") for k in range(count)]
        return self.let(name, tuple(" + ".join(parts) for parts in zip(*chains, strict=True)))

    def total(self, name: str, terms: Sequence[str]) -> str:
        """The text of a sum of real terms, in some chains."""
        return self._folded(name, terms, "{0} + {1}")

    def most(self, name: str, terms: Sequence[str]) -> str:
        """The text of the greatest of real terms, in some chains; NaN where one is."""
        return self._folded(name, terms, "larger({0}, {1})")

    def _folded(self, name: str, terms: Sequence[str], how: str) -> str:
        chains = [f"{name}{k}" for k in range(min(CHAINS, len(terms)))]
        for k, term in enumerate(terms):
            chain = chains[k % len(chains)]
            self.line(f"{chain} = {term if k < len(chains) else how.format(chain, term)}")
        folded = chains[0]
        for chain in chains[1:]:
            folded = how.format(folded, chain)
        return folded
