"""Rows of writes and searches at positions that are data, of distances and of segments."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch.nn import functional as F

from tests.conformance.harness import ALL, Args, Row, ordinary

REAL = (torch.float32, torch.float64, torch.bfloat16)
HALVES = (*REAL, torch.float16)
NUMBERS = (torch.float32, torch.int64, torch.bfloat16, torch.uint8)
NAMED = torch.tensor([3, 0, 3, 1])


def _reduce(reduce: str, include_self: bool) -> tuple[Row, ...]:
    def by_slices(x: Any, source: Any) -> Any:
        return torch.index_reduce(x, 1, NAMED, source, reduce, include_self=include_self)

    def by_elements(x: Any, source: Any, at: Any) -> Any:
        return torch.scatter_reduce(x, 0, at, source, reduce, include_self=include_self)

    def slices(dtype: torch.dtype) -> Sequence[Args]:
        return [(ordinary(dtype, 2, 5, 3), ordinary(dtype, 2, 4, 3))]

    def elements(dtype: torch.dtype) -> Sequence[Args]:
        at = torch.tensor([[1, 1, 0], [1, 2, 0], [1, 2, 2], [0, 2, 1]])
        return [(ordinary(dtype, 4, 3), ordinary(dtype, 4, 3), at)]

    name = f"{reduce}{'' if include_self else ' anew'}"
    return (
        Row(f"index_reduce {name}", by_slices, slices, NUMBERS),
        Row(f"scatter_reduce {name}", by_elements, elements, NUMBERS),
    )


def _vectors(*shapes: tuple[int, ...]) -> Callable[[torch.dtype], Sequence[Args]]:
    return lambda dtype: [tuple(ordinary(dtype, *shape) for shape in shapes)]


def _cdist(p: float) -> Row:
    def samples(dtype: torch.dtype) -> Sequence[Args]:
        return [
            (ordinary(dtype, 5, 7), ordinary(dtype, 4, 7)),
            (ordinary(dtype, 2, 1, 3, 2), ordinary(dtype, 3, 5, 2)),
            (ordinary(dtype, 3, 0), ordinary(dtype, 2, 0)),
        ]

    return Row(f"cdist {p}", lambda a, b: torch.cdist(a, b, p=p), samples, REAL[:2])


def _sorted(dtype: torch.dtype) -> Sequence[Args]:
    edges = ordinary(dtype, 3, 6, low=0, high=9).sort(-1).values
    values = ordinary(dtype, 3, 4, low=0, high=9)
    if dtype.is_floating_point:
        values[0, :3] = torch.tensor([math.nan, math.inf, -math.inf])
    values[1] = edges[1, :4]
    return [(edges, values)]


def _in_order(x: Any, values: Any) -> Any:
    mixed = x.flip(-1)
    return torch.searchsorted(mixed, values, sorter=torch.arange(5, -1, -1).expand(3, 6))


SEARCHES = (
    Row("searchsorted rows", torch.searchsorted, _sorted, NUMBERS),
    Row("searchsorted right", lambda e, v: torch.searchsorted(e, v, right=True), _sorted, NUMBERS),
    Row("searchsorted sorter", _in_order, _sorted),
    Row("searchsorted number", lambda e, v: torch.searchsorted(e[0], 4), _sorted, NUMBERS),
    Row("bucketize edges", lambda e, v: torch.bucketize(v, e[0]), _sorted, NUMBERS),
)


def _put_in_zeros(x: Any) -> Any:
    return torch.zeros(9, dtype=x.dtype).index_put((NAMED,), x)


AT = torch.tensor([[0, -1], [5, 0]])


def _put(accumulate: bool, at: torch.Tensor) -> Callable[..., Any]:
    return lambda x, source: torch.put(x, at, source, accumulate)


WRITES = (
    *(
        row
        for r in ("prod", "mean", "amax", "amin")
        for s in (True, False)
        for row in _reduce(r, s)
    ),
    Row("put", _put(False, AT), _vectors((2, 3), (2, 2)), ALL),
    Row("put added", _put(True, AT), _vectors((2, 3), (2, 2)), NUMBERS),
    Row("put in zeros", _put_in_zeros, _vectors((4,))),
    Row("put in nothing", _put(False, AT[:0]), _vectors((0,), (0, 2))),
    Row("repeat of nothing", lambda x: x.repeat(2, 3), _vectors((3, 0))),
    Row("put nothing", _put(False, AT[:0]), _vectors((2, 3), (0, 2))),
    Row("index_add number", lambda x, s: x.index_add(0, NAMED[1:2], s), _vectors((), ())),
    Row("index_copy number", lambda x, s: x.index_copy(0, NAMED[1:2], s), _vectors((), ())),
    Row("index_copy nothing", lambda x, s: x.index_copy(0, NAMED[:0], s), _vectors((4, 2), (0, 2))),
)


MANY = torch.arange(900).mul(7).remainder(9)
"""Places in a dimension of 9, each named by many indices: too many to compare with each other."""


def _many(dtype: torch.dtype) -> Sequence[Args]:
    x, values = ordinary(dtype, 9, 4), ordinary(dtype, 900, 4)
    if dtype.is_floating_point:
        values[5, 1], values[70, 2], x[3, 3] = math.nan, -math.inf, math.nan
    return [(x, values)]


def _elements(function: Callable[..., Any]) -> Callable[..., Any]:
    """A scatter along the first dimension, where each column has indices of its own."""
    at = (MANY[:, None] + torch.arange(4)).remainder(9)
    return lambda x, values: function(x, at, values)


MEETING = (
    Row("scatter many", _elements(lambda x, i, v: x.scatter(0, i, v)), _many, ALL),
    Row("scatter value many", _elements(lambda x, i, v: x.scatter(0, i, 2)), _many),
    Row("scatter_add many", _elements(lambda x, i, v: x.scatter_add(0, i, v)), _many, NUMBERS),
    Row(
        "scatter_reduce many",
        _elements(lambda x, i, v: x.scatter_reduce(0, i, v, "amin", include_self=False)),
        _many,
        NUMBERS,
    ),
    Row(
        "scatter_reduce products many",
        _elements(lambda x, i, v: x.scatter_reduce(0, i, v, "prod")),
        _many,
        NUMBERS,
    ),
    # Eager's threads race here: those that meet bring one value (see test_resolve_conflicts).
    Row("index_put many", lambda x, v: x.index_put((MANY,), v[MANY]), _many, ALL),
    Row("index_put of pairs many", lambda x, v: x.index_put((MANY, MANY % 4), v[MANY, 0]), _many),
    Row("index_put one value many", lambda x, v: x.index_put((MANY,), v[0]), _many),
    Row("index_put added many", lambda x, v: x.index_put((MANY,), v, True), _many, NUMBERS),
    Row("index_copy many", lambda x, v: x.index_copy(0, MANY, v[MANY]), _many, NUMBERS),
    Row("index_copy of columns many", lambda x, v: x.T.index_copy(1, MANY, v[MANY].T), _many),
    Row("index_add many", lambda x, v: x.index_add(0, MANY, v, alpha=2), _many, NUMBERS),
)


def _lengths(reduce: str, initial: float | None) -> Row:
    def run(x: Any) -> Any:
        lengths = torch.tensor([2, 0, 3])
        return torch.segment_reduce(x, reduce, lengths=lengths, initial=initial, unsafe=True)

    return Row(f"segment_reduce {reduce} {initial}", run, _vectors((5, 3)), REAL[:2])


def _offsets(x: Any) -> Any:
    offsets = torch.tensor([[0, 1, 4], [0, 4, 4]])
    return torch.segment_reduce(x, "max", offsets=offsets, axis=1, unsafe=True)


def _along(*given: Any) -> Any:
    lengths = torch.tensor([[2, 1, 0, 1], [0, 0, 4, 0]])
    return [
        torch.segment_reduce(x, kind, lengths=lengths, axis=1, unsafe=True)
        for kind in ("sum", "mean", "min", "prod")
        for x in given
    ]


def _of_elements(x: Any) -> Any:
    offsets = torch.tensor([0, 3, 3, 4, 40])
    kinds = ("sum", "mean", "max")
    found = [torch.segment_reduce(x, k, offsets=offsets, initial=1, unsafe=True) for k in kinds]
    none = torch.segment_reduce(x[:0], "sum", lengths=torch.tensor([0, 0]), unsafe=True)
    one = torch.segment_reduce(x, "max", lengths=torch.tensor([40]), unsafe=True)
    return *found, none, one


def _zeros(dtype: torch.dtype) -> Sequence[Args]:
    return [(ordinary(dtype, 3, 4, low=-1, high=1).round(),), (ordinary(dtype).round(),)]


COUNTS = (
    *(_cdist(p) for p in (0.0, 1.0, 2.0, 3.5, math.inf)),
    Row("pdist", F.pdist, _vectors((6, 4)), REAL[:2]),
    *(
        Row(f"pdist, p {p}", partial(F.pdist, p=p), _vectors((41, 5)), REAL[:2])
        for p in (2.0, math.inf)
    ),
    *(
        Row(f"pdist of {count}", lambda x: F.pdist(x, 1.0), _vectors((count, 4)))
        for count in (0, 1, 2, 3)
    ),
    Row("bilinear", F.bilinear, _vectors((2, 3), (2, 4), (5, 3, 4), (5,)), REAL),
    *(_lengths(r, i) for r in ("sum", "mean", "prod", "max", "min") for i in (None, 0.5)),
    Row("segment_reduce offsets", _offsets, _vectors((2, 4, 3))),
    Row("segment_reduce along 1", _along, _vectors((2, 4, 3), (2, 4), (2, 4, 2, 3)), HALVES),
    Row("segment_reduce of elements", _of_elements, _vectors((40,)), HALVES),
    Row(
        "nonzero_static",
        lambda x: torch.nonzero_static(x, size=9, fill_value=-2),
        _zeros,
        (torch.float32, torch.int64),
    ),
)


def _whole_numbers(dtype: torch.dtype) -> Sequence[Args]:
    x = torch.randint(0, 9, (50,), dtype=dtype)
    return [(x,), (x[:1],), (x[:0],), (torch.zeros_like(x),)]


def _bincount(x: Any) -> Any:
    if not len(x):  # Of weights eager gives another type then.
        return torch.bincount(x), torch.bincount(x, minlength=20)
    weights = torch.arange(len(x)) * 0.5
    sums = torch.bincount(x, weights), torch.bincount(x, weights.double(), 3)
    return torch.bincount(x), torch.bincount(x, minlength=20), *sums


def _histograms_of_boxes(x: Any) -> Any:
    points = x.reshape(-1)[: x.numel() // 2 * 2].view(-1, 2)
    edges = (torch.tensor([-2.0, -0.5, 0.5, 2.0], dtype=x.dtype), x.new_tensor([-1.0, 0.0, 3.0]))
    found = torch.histogramdd(points, list(edges), density=True)
    even = torch.histogramdd(points, [3, 4], range=[-1.0, 1.0, 0.5, 0.5], weight=points[:, 0].abs())
    own = torch.histogramdd(points, 2)
    return (*(one.hist for one in (found, even, own)), *even.bin_edges, *own.bin_edges)


def _histograms(x: Any) -> Any:
    edges = torch.tensor([-2.0, -1.0, -0.5, 0.25, 3.0], dtype=x.dtype)
    of_edges = torch.histogram(x, edges, weight=x.abs()), torch.histogram(x, edges, density=True)
    # Values lie on edges that every way to compute them makes exactly, or on none.
    ranges = ((6, (-1.0, 2.0)), (6, (-1.1, 1.5)), (3, (1.0, 1.0)))
    within = [torch.histogram(x, bins, range=r) for bins, r in ranges]
    return *torch.histogram(x, 7), *(r for pair in (*of_edges, *within) for r in pair)


def _spread(dtype: torch.dtype) -> Sequence[Args]:
    x = ordinary(dtype, 5, 9)
    x[0, :5] = torch.tensor([-2.0, -1.0, -0.5, 0.25, 3.0])
    return [(x,), (x[:1, :1],), (torch.full_like(x, 0.25),), (x[:0],)]


def _rows_of_limited_norm(weight: Any, at: Any) -> Any:
    # Eager changes the weights, which are here the model's own.
    found = [F.embedding(at, weight * 1, max_norm=1.5, norm_type=p) for p in (2.0, 1.0, math.inf)]
    return *found, F.embedding_bag(at, weight * 1, max_norm=0.5)


def _long_rows(dtype: torch.dtype) -> Sequence[Args]:
    weight = ordinary(dtype, 6, 4) * torch.tensor([0.1, 1, 0, 5, 0.5, 3])[:, None].to(dtype)
    at = torch.tensor([[3, 1, 3], [0, 2, 1]])
    return [(weight, at), (weight, at[:, :1])]


def _padded_bags(weight: Any, at: Any) -> Any:
    flat, starts = at.flatten(), torch.tensor([0, 1, 1, at.numel() - 1])
    return [
        F.embedding_bag(flat, weight, starts, mode=m, padding_idx=p)
        for m in ("sum", "mean", "max")
        for p in (3, -5)
    ]


def _weighed_bags(weight: Any, at: Any, factors: Any) -> Any:
    ends = torch.tensor([0, 0, 2, at.numel()])
    flat, factor = at.flatten(), factors.flatten()
    own = F.embedding_bag(at, weight, mode="sum", per_sample_weights=factors)
    given = [
        F.embedding_bag(flat, weight, ends, mode=m, include_last_offset=True)
        for m in ("sum", "mean", "max")
    ]
    return (
        own,
        *given,
        F.embedding_bag(flat, weight, ends[:2], per_sample_weights=factor, mode="sum"),
    )


def _bags_to_weigh(dtype: torch.dtype) -> Sequence[Args]:
    few = torch.tensor([[3, 1, 3], [0, 2, 1]])
    many = torch.arange(1200).reshape(3, 400) % 7
    return [
        (ordinary(dtype, 7, width), at, ordinary(dtype, *at.shape))
        for width, at in ((5, few), (16, few.int()), (33, many))
    ]


def _ends_side_by_side(x: Any, at: Any) -> Any:
    """Places that are computed, of parts of which each point of the result reads one."""
    a, b = (f(0).gather(0, (at - 1).unsqueeze(0)) for f in (x.cumsum, (-x).cumsum))
    return torch.stack([a, b]), torch.cat([a, b[:, :2]], 1)


def _ends(dtype: torch.dtype) -> Sequence[Args]:
    return [(ordinary(dtype, 6, 4), torch.tensor([6, 1, 3, 2]))]


TABLES = (
    Row("ends side by side", _ends_side_by_side, _ends, REAL[:2]),
    Row("embedding_bag padding", _padded_bags, _long_rows, REAL[:2]),
    Row("embedding_bag weights", _weighed_bags, _bags_to_weigh, HALVES),
    Row("bincount", _bincount, _whole_numbers, (torch.int64, torch.uint8)),
    Row("histogram", _histograms, _spread, (torch.float32, torch.float64), True),
    Row("histogramdd", _histograms_of_boxes, _spread, (torch.float32, torch.float64), True),
    Row("embedding max_norm", _rows_of_limited_norm, _long_rows, REAL[:2]),
)

ROWS: tuple[Row, ...] = (*SEARCHES, *WRITES, *MEETING, *COUNTS, *TABLES)
