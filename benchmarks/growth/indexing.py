"""Families of reads and writes at positions that are data."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from benchmarks.growth.family import Draw, Problem, Tensor, table

WIDTH = 8


def _onto(function: Any, duplicates: int = 1) -> Any:
    """n updates of rows, each place named by so many of them on average."""

    def problem(n: int, d: Draw) -> Problem:
        rows = max(n // duplicates, 1)
        return function, d.floats(rows, WIDTH), d.places(rows, n), d.floats(n, WIDTH)

    return problem


def _into(function: Any) -> Any:
    """n updates of rows, no place named twice."""
    return lambda n, d: (function, d.floats(2 * n, WIDTH), d.order(n), d.floats(n, WIDTH))


def _elements(function: Any, duplicates: int = 1) -> Any:
    """n updates of elements of one row."""

    def problem(n: int, d: Draw) -> Problem:
        places = max(n // duplicates, 1)
        return function, d.floats(places), d.places(places, n), d.floats(n)

    return problem


def _columns(function: Any) -> Any:
    """Updates along the rows of a matrix: n in all, 64 places in a row."""
    return lambda n, d: (
        function,
        d.floats(n // 64, 64),
        d.places(64, n // 64, 64),
        d.floats(n // 64, 64),
    )


def _reduced(kind: str) -> Any:
    return _elements(lambda x, i, s: x.scatter_reduce(0, i, s, kind), 4)


def _put_pairs(n: int, d: Draw) -> Problem:
    rows = n // 16
    put = lambda x, i, j, s: x.index_put((i, j), s)  # noqa: E731
    return put, d.floats(rows, 64), d.places(rows, n), d.places(64, n), d.floats(n)


def _put_mask(n: int, d: Draw) -> Problem:
    def put(x: Tensor, y: Tensor) -> Tensor:
        result = x.clone()
        result[y > 0] = y[y > 0] * 2
        return result

    return put, d.floats(n), d.floats(n)


ACCUMULATING = {
    "index_add": _onto(lambda x, i, s: x.index_add(0, i, s)),
    "index_add, 64 updates a row": _onto(lambda x, i, s: x.index_add(0, i, s), 64),
    "index_add, column": _elements(lambda x, i, s: x.index_add(0, i, s)),
    "scatter_add": _elements(lambda x, i, s: x.scatter_add(0, i, s)),
    "scatter_add, 64 updates a place": _elements(lambda x, i, s: x.scatter_add(0, i, s), 64),
    "scatter_add, along rows": _columns(lambda x, i, s: x.scatter_add(1, i, s)),
    "scatter_reduce sum": _reduced("sum"),
    "scatter_reduce mean": _reduced("mean"),
    "scatter_reduce amax": _reduced("amax"),
    "scatter_reduce prod": _reduced("prod"),
    "index_reduce amax": _onto(lambda x, i, s: x.index_reduce(0, i, s, "amax"), 4),
    "index_put accumulate": _onto(lambda x, i, s: x.index_put((i,), s, accumulate=True), 4),
    "put accumulate": _elements(lambda x, i, s: x.put(i, s, accumulate=True), 4),
    "bincount": lambda n, d: (
        lambda x: torch.bincount(x, minlength=n // 4),
        d.places(n // 4, n),
    ),
    "bincount, weights": lambda n, d: (
        lambda x, w: torch.bincount(x, w, minlength=n // 4),
        d.places(n // 4, n),
        d.floats(n),
    ),
    "histc": lambda n, d: (lambda x: torch.histc(x, n // 64, -1.0, 1.0), d.floats(n)),
    "histogram": lambda n, d: (
        lambda x: torch.histogram(x, 64, range=(-1.0, 1.0)).hist,
        d.floats(n),
    ),
    "embedding_bag sum, bags of 20": lambda n, d: (
        lambda i, w, o: F.embedding_bag(i, w, o, mode="sum"),
        d.places(n // 4, n),
        d.floats(n // 4, 16),
        d.bags(max(n // 20, 1), n),
    ),
    "embedding_bag mean, rows of 20": lambda n, d: (
        lambda i, w: F.embedding_bag(i, w, mode="mean"),
        d.places(n // 4, n // 20, 20),
        d.floats(n // 4, 16),
    ),
    "embedding_bag max, bags of 20": lambda n, d: (
        lambda i, w, o: F.embedding_bag(i, w, o, mode="max"),
        d.places(n // 4, n),
        d.floats(n // 4, 16),
        d.bags(max(n // 20, 1), n),
    ),
    "segment_reduce": lambda n, d: (
        lambda x, k: torch.segment_reduce(x, "sum", lengths=k, unsafe=True),
        d.floats(n),
        torch.full((n // 16,), 16, device=d.device),
    ),
}
WRITING = {
    "scatter, distinct": lambda n, d: (
        lambda x, i, s: x.scatter(0, i, s),
        d.floats(n),
        d.order(n),
        d.floats(n),
    ),
    "scatter, a number": lambda n, d: (
        lambda x, i: x.scatter(0, i, 1.0),
        d.floats(n),
        d.places(n, n),
    ),
    "index_put, distinct": _into(lambda x, i, s: x.index_put((i,), s)),
    "index_put, a mask": _put_mask,
    "index_copy": _into(lambda x, i, s: x.index_copy(0, i, s)),
    "index_fill": lambda n, d: (
        lambda x, i: x.index_fill(0, i, 1.0),
        d.floats(n, WIDTH),
        d.places(n, n // 4),
    ),
    "masked_scatter": lambda n, d: (
        lambda x, y: torch.masked_scatter(x, y > 0, y),
        d.floats(n),
        d.floats(n),
    ),
    "masked_fill": lambda n, d: (
        lambda x, y: x.masked_fill(y > 0, 1.0),
        d.floats(n),
        d.floats(n),
    ),
    "one_hot": lambda n, d: (lambda i: F.one_hot(i, 32), d.places(32, n // 16)),
}
LAST_WINS = {
    "scatter, duplicates": _elements(lambda x, i, s: x.scatter(0, i, s), 4),
    "scatter, along rows": _columns(lambda x, i, s: x.scatter(1, i, s)),
    "index_put, duplicates": _onto(lambda x, i, s: x.index_put((i,), s), 4),
    "index_put, pairs": _put_pairs,
    "put": _elements(lambda x, i, s: x.put(i, s)),
}
READING = {
    "gather": lambda n, d: (lambda x, i: x.gather(0, i), d.floats(n), d.places(n, n)),
    "gather, along rows": lambda n, d: (
        lambda x, i: x.gather(1, i),
        d.floats(n // 64, 64),
        d.places(64, n // 64, 64),
    ),
    "take": lambda n, d: (torch.take, d.floats(n), d.places(n, n)),
    "take_along_dim": lambda n, d: (
        lambda x, i: torch.take_along_dim(x, i, 1),
        d.floats(n // 64, 64),
        d.places(64, n // 64, 64),
    ),
    "index_select": lambda n, d: (
        lambda x, i: x.index_select(0, i),
        d.floats(n // 8, WIDTH),
        d.places(n // 8, n // 8),
    ),
    "index_select, columns": lambda n, d: (
        lambda x, i: x.index_select(1, i),
        d.floats(64, n // 64),
        d.places(n // 64, n // 64),
    ),
    "index by a tensor": lambda n, d: (lambda x, i: x[i], d.floats(n), d.places(n, n)),
    "embedding": lambda n, d: (
        F.embedding,
        d.places(n // 16, n // 16),
        d.floats(n // 16, 16),
    ),
    "where": lambda n, d: (
        lambda a, b, c: torch.where(a > 0, b, c),
        d.floats(n),
        d.floats(n),
        d.floats(n),
    ),
}

FAMILIES = (
    *table(ACCUMULATING, top=2**20),
    *table(WRITING, top=2**20),
    *table(LAST_WINS, top=2**20, last_wins=True),
    *table(READING, top=2**22),
)
