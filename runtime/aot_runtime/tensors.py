"""What a model takes and gives: names, types, sizes."""

from __future__ import annotations

from typing import Any, NamedTuple


class Dim(NamedTuple):
    """One dimension: `size` is None when dynamic, `max` None when unbounded."""

    size: int | None
    min: int
    max: int | None
    multiple_of: int
    label: str


class TensorInfo(NamedTuple):
    """One input, output or state: its name, dtype ("float32") and dimensions."""

    name: str
    dtype: str
    dims: tuple[Dim, ...]

    @property
    def shape(self) -> tuple[int | str, ...]:
        """Sizes, with a label such as "batch" where dynamic."""
        return tuple(d.label if d.size is None else d.size for d in self.dims)


def tensor_info(row: tuple[str, str, tuple[Any, ...]]) -> TensorInfo:
    """The row that the native module gives, by name."""
    name, dtype, dims = row
    return TensorInfo(name, dtype, tuple(Dim(*dim) for dim in dims))
