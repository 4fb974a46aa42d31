"""A program as data: inputs, statements in Python, outputs. It prints as code and runs as code."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

FLOATS = ("float32", "bfloat16", "float16")
INTS = ("int64", "int32", "uint8")
DTYPES = (*FLOATS, *INTS, "bool")

OWN: Mapping[str, Any] = {"torch": torch, **{name: getattr(torch, name) for name in DTYPES}}
"""What a program's text may name."""

WIDE: Mapping[str, Any] = {**OWN, **{name: torch.float64 for name in FLOATS}}
"""The same with every float type replaced by float64: the reference."""


@dataclass(frozen=True)
class Input:
    """An input tensor.

    Attributes:
        shape: Sizes of the example.
        dtype: Element type by name.
        layout: How its elements lie in memory, a key of `LAYOUTS`.
        seed: Of its values.
        dynamic: The axis whose size varies, or None.
    """

    shape: tuple[int, ...]
    dtype: str
    layout: str = "contiguous"
    seed: int = 0
    dynamic: int | None = None

    def tensor(self, growth: int = 0) -> torch.Tensor:
        """The values; the dynamic axis is longer by `growth`.

        Floats are multiples of 1/8 below 2, so every type holds them exactly.
        """
        shape = list(self.shape)
        if self.dynamic is not None:
            shape[self.dynamic] += growth
        generator = torch.Generator().manual_seed(self.seed * 1000 + growth)
        low, high = {"bool": (0, 2), "uint8": (0, 7)}.get(self.dtype, (-16, 17))
        values = torch.randint(low, high, shape, generator=generator)
        typed = (values / 8 if self.dtype in FLOATS else values).to(OWN[self.dtype])
        return LAYOUTS[self.layout](typed)


def _padded(tensor: torch.Tensor) -> torch.Tensor:
    """The same values with a gap after each row, and not at the storage's beginning."""
    wide = tensor.new_zeros((*tensor.shape[:-1], tensor.shape[-1] + 3))
    view = wide[..., 2:-1]
    return view.copy_(tensor)


def _transposed(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous(memory_format=torch.channels_last)


LAYOUTS: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda tensor: tensor,
    "padded": _padded,
    "transposed": _transposed,
    "channels_last": _channels_last,
}


@dataclass(frozen=True)
class Program:
    """Inputs v0, v1, …; then one value for each statement.

    Attributes:
        inputs: The first values.
        statements: Right sides of assignments, in terms of earlier values.
        outputs: Positions of the values that are returned.
        coarsest: Value by value, the least precise float type among it and its ancestors; "" where
            eager, float64 and we must agree on every bit.
        seed: What it was made from, for reports.
    """

    inputs: tuple[Input, ...]
    statements: tuple[str, ...]
    outputs: tuple[int, ...]
    coarsest: tuple[str, ...] = field(compare=False)
    seed: int = -1

    def __str__(self) -> str:
        first = len(self.inputs)
        names = ", ".join(f"v{k}" for k in range(first))
        body = [f"    v{first + k} = {text}" for k, text in enumerate(self.statements)]
        result = ", ".join(f"v{k}" for k in self.outputs)
        given = [f"# v{k}: {value}" for k, value in enumerate(self.inputs)]
        head = [f"def program({names}):"]
        return "\n".join([*given, *head, *body, f"    return ({result},)"])

    @property
    def dynamic(self) -> bool:
        """Whether a size varies."""
        return any(value.dynamic is not None for value in self.inputs)

    def function(self, names: Mapping[str, Any] = OWN) -> Callable[..., tuple[torch.Tensor, ...]]:
        """The program as a function of tensors, in the meaning that `names` give its words."""
        scope = dict(names)
        exec(str(self), scope)
        return scope["program"]

    def tensors(self, growth: int = 0) -> tuple[torch.Tensor, ...]:
        """Its inputs."""
        return tuple(value.tensor(growth) for value in self.inputs)

    def with_outputs(self, outputs: Sequence[int]) -> Program:
        """The same statements, other results."""
        return replace(self, outputs=tuple(outputs))

    def trimmed(self) -> Program:
        """Only the statements that the outputs need; values keep their order, not their names."""
        first = len(self.inputs)
        needed = set(self.outputs)
        for k in reversed(range(first, first + len(self.statements))):
            if k in needed:
                needed |= {j for j in range(k) if uses(self.statements[k - first], j)}
        kept = sorted({k for k in needed if k >= first} | set(range(first)))
        renamed = {old: new for new, old in enumerate(kept)}

        def rewritten(text: str) -> str:
            return re.sub(r"\bv(\d+)\b", lambda m: f"v{renamed[int(m[1])]}", text)

        return replace(
            self,
            statements=tuple(rewritten(self.statements[k - first]) for k in kept if k >= first),
            outputs=tuple(renamed[k] for k in self.outputs),
            coarsest=tuple(self.coarsest[k] for k in kept),
        )


def uses(text: str, position: int) -> bool:
    """Whether a statement reads a value."""
    return re.search(rf"\bv{position}\b", text) is not None
