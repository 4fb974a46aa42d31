"""Typical sizes: what kernels are chosen for where the example is smaller than what will be run.

Every choice of a cost model (tiles, algorithms, layouts) is made at one value of each dim. That is
the example's, unless the user says what is typical; the package is right at all sizes either way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from aot.errors import UsageError
from aot.ir.tensors import Dim


def with_typical(dims: Iterable[Dim], sizes: Mapping[str, int]) -> tuple[Dim, ...]:
    """The dims with these sizes as their hints.

    `sizes`: by a dim's label, or by its symbol where it has none; what inputs have, in elements.

    Raises:
        UsageError: No dim has the name, or its range does not have the size.
    """
    given = tuple(dims)
    names = [d.label or d.name for d in given if d.source is not None]
    for name in sizes:
        if name not in names:
            known = ", ".join(names) or "none"
            raise UsageError(
                f"no dynamic size is called {name!r}, whose typical value was given",
                advice=f"Dynamic sizes of this model: {known}.",
            )
    return tuple(_with_hint(d, sizes) for d in given)


def _with_hint(d: Dim, sizes: Mapping[str, int]) -> Dim:
    size = sizes.get(d.label or d.name)
    if size is None or d.source is None:
        return d
    _, _, divisor, offset = d.source
    value, rest = divmod(size - offset, divisor)
    if rest or value < d.minimum or (d.maximum is not None and value > d.maximum):
        most = "any" if d.maximum is None else str(d.maximum * divisor + offset)
        steps = f", multiples of {divisor}" if divisor > 1 else ""
        raise UsageError(
            f"{d.label or d.name} is never {size}, which was given as typical",
            advice=f"Its values are {d.minimum * divisor + offset} to {most}{steps}.",
        )
    return replace(d, hint=value)
