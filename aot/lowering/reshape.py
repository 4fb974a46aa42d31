"""Which element of a tensor a position of its reshaped form means."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aot.symbolic import Expr, FloorDiv, Ranges, as_expr, product, ravel, unravel

DimGroup = tuple[range, range]


def _divides(a: Expr, b: Expr) -> bool:
    """Whether b / a simplifies to an expression without a division."""
    return not FloorDiv(b, a).has(FloorDiv)


def _extend_left(left: Expr, right: Expr) -> bool:
    """Whether the left shape takes a group's next dimension: its product so far is the smaller."""
    if left.is_Integer and right.is_Integer:
        return bool(left < right)
    return _divides(left, right)


def matching_groups(old: Sequence[Expr], new: Sequence[Expr]) -> list[DimGroup]:
    """Ranges of dimensions of both shapes with equal products, outermost first.

    They are as short as can be told; a reshape does not mix elements of different groups.
    """
    groups: list[DimGroup] = []
    i, j = len(old), len(new)
    while i > 0 and j > 0:
        p, q = i - 1, j - 1
        a, b = old[p], new[q]
        while a != b and (p > 0 or q > 0):
            if (_extend_left(a, b) or q == 0) and p > 0:
                p, a = p - 1, product((a, old[p - 1]))
            elif q > 0:
                q, b = q - 1, product((b, new[q - 1]))
        groups.append((range(p, i), range(q, j)))
        i, j = p, q
    if i or j:
        groups.append((range(i), range(j)))
    return groups[::-1]


def reshape_index(
    ranges: Ranges, old: Sequence[Expr], new: Sequence[Expr]
) -> Callable[[tuple[Expr, ...]], tuple[Expr, ...]]:
    """The map from a position of the shape `new` to the position of the shape `old`.

    `ranges`: knowledge of the sizes, used to remove divisions.
    """
    if any(s == 0 for s in (*old, *new)):
        return lambda at: tuple(as_expr(0) for _ in old)
    groups = matching_groups(old, new)
    zero = as_expr(0)

    def index(at: tuple[Expr, ...]) -> tuple[Expr, ...]:
        at = tuple(zero if size == 1 else i for i, size in zip(at, new, strict=True))
        known = ranges.with_extents(
            {i: size for i, size in zip(at, new, strict=True) if i.is_Symbol}
        )
        found: list[Expr] = []
        for from_, to in groups:
            sizes = [old[k] for k in from_]
            if len(from_) == 1 and len(to) == 1:
                found.append(at[to[0]])
                continue
            position = ravel([at[k] for k in to], [new[k] for k in to])
            parts = unravel(position, sizes)
            found.extend(
                zero if size == 1 else known.simplify(part)
                for size, part in zip(sizes, parts, strict=True)
            )
        return tuple(found)

    return index
