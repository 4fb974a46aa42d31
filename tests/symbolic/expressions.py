"""Random index expressions over three loop variables, and all points of their ranges."""

from __future__ import annotations

import itertools

from hypothesis import strategies as st

from aot.symbolic import (
    Expr,
    FloorDiv,
    Maximum,
    Minimum,
    Modulo,
    dim,
    integer,
    var,
)

I, J, K = var("i0"), var("i1"), var("i2")  # noqa: E741  # as loop variables are called


S = dim("s0")


def leaves() -> st.SearchStrategy[Expr]:
    return st.sampled_from([I, J, K]) | st.integers(-7, 7).map(integer)


def grow(children: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    divisor = st.integers(1, 8).map(integer)
    return st.one_of(
        st.tuples(children, children).map(lambda p: p[0] + p[1]),
        st.tuples(children, st.integers(-4, 4)).map(lambda p: p[0] * p[1]),
        st.tuples(children, divisor).map(lambda p: FloorDiv(*p)),
        st.tuples(children, divisor).map(lambda p: Modulo(*p)),
        st.tuples(children, children).map(lambda p: Minimum(*p)),
        st.tuples(children, children).map(lambda p: Maximum(*p)),
    )


EXPRESSIONS = st.recursive(leaves(), grow, max_leaves=8)


EXTENTS = {I: integer(3), J: integer(4), K: integer(5)}


POINTS = [dict(zip((I, J, K), p, strict=True)) for p in itertools.product(*map(range, (3, 4, 5)))]


def grow_sized(children: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    """As `grow`, with sizes in factors and divisors: what views of dynamic shapes are made of."""
    sizes = st.sampled_from([S, 2 * S, 2 * S - 1, S + 1, S * (2 * S - 1), integer(3)])
    return st.one_of(
        st.tuples(children, children).map(lambda p: p[0] + p[1]),
        st.tuples(children, sizes | st.integers(-3, 3).map(integer)).map(lambda p: p[0] * p[1]),
        st.tuples(children, sizes).map(lambda p: FloorDiv(*p)),
        st.tuples(children, sizes).map(lambda p: Modulo(*p)),
    )


SIZED = st.recursive(leaves(), grow_sized, max_leaves=8)

SIZED_EXTENTS = {I: S, J: 2 * S - 1, K: integer(4)}
