"""Rows of control flow: branches, loops and scans, nested, with captured tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._higher_order_ops.associative_scan import associative_scan, associative_scan_op
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan

from tests.conformance.harness import Args, Row, ordinary

Tensor = torch.Tensor


def _both_signs(dtype: torch.dtype) -> Sequence[Args]:
    x = ordinary(dtype, 3, 4)
    return [(x.abs() + 1,), (-x.abs() - 1,), (x.abs() * 9 + 1,)]


def _cond(x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x * 2, (x,))


def _cond_captures(x: Tensor) -> Any:
    y, bias = x.exp(), torch.arange(4, dtype=x.dtype)

    def positive(x: Tensor) -> tuple[Tensor, Tensor]:
        return x @ y.t() + bias[:3], x.clone()

    def negative(x: Tensor) -> tuple[Tensor, Tensor]:
        return (y - x)[:, :3] + 0.0, y.clone()

    a, b = torch.cond(x.sum() > 0, positive, negative, (x,))
    return a, b * y, a.sum()


def _cond_nested(x: Tensor) -> Any:
    def large(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 30, lambda x: x.log(), lambda x: x.softmax(1), (x,))

    return torch.cond(x.sum() > 0, large, lambda x: x.relu() - 1, (x,)) * 3


def _turns(dtype: torch.dtype) -> Sequence[Args]:
    return [(ordinary(dtype, 3, 4), torch.tensor(n)) for n in (0, 1, 5, 1000)]


def _while(x: Tensor, n: Tensor) -> Any:
    step = x.tanh()

    def again(i: Tensor, z: Tensor) -> Tensor:
        return i < n

    def body(i: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        return i + 1, (z * 0.5 + step).flip(0)

    return torch.while_loop(again, body, (torch.zeros((), dtype=torch.int64), x))


def _while_exchanges(x: Tensor, n: Tensor) -> Any:
    def body(i: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return i - 1, b.clone(), a * 0.75

    return torch.while_loop(lambda i, a, b: i > 0, body, (n, x, x + 1))


def _rows(dtype: torch.dtype) -> Sequence[Args]:
    return [(ordinary(dtype, n, 3, 4), ordinary(dtype, 3, 4)) for n in (1, 2, 7)]


def _scan(xs: Tensor, start: Tensor) -> Any:
    def step(carried: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        new = (carried + x).tanh()
        return new, new.sum(0)

    return *scan(step, start, xs), *scan(step, start, xs, reverse=True)


def _scan_nested(xs: Tensor, start: Tensor) -> Any:
    def row(total: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return total + x, total * x

    def step(carried: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        last, rows = scan(row, carried[0], x)
        kept = torch.cond(last.sum() > 0, lambda t: t * 0.5, lambda t: t + 1, (last,))
        return (carried + kept).sin(), rows

    return scan(step, start, xs)


def _scan_transposed(xs: Tensor, start: Tensor) -> Any:
    return scan(
        lambda c, x: (c + x, c.clone()), start[:, 0].clone(), xs[..., 0].t().contiguous().t()
    )


def _map(xs: Tensor, start: Tensor) -> Any:
    return map_over(lambda x, w: x @ w.t(), xs, start), map_over(lambda x: x.t() + 1, xs)


def _of_one(function: Any) -> Any:
    return lambda a, b: [function(a, b)]


def _running(xs: Tensor, start: Tensor) -> Any:
    whole = (xs * 3).int()
    pairs = ((torch.add, xs), (torch.mul, xs), (torch.maximum, xs), (torch.minimum, whole))
    one = [associative_scan_op(_of_one(f), [x], ()) for f, x in pairs]

    def each(a: Tensor, p: Tensor, b: Tensor, q: Tensor) -> list[Tensor]:
        return [torch.logaddexp(b, a), p + q]

    return one, associative_scan_op(each, [xs, whole], ())


def _recurrence(a: Tensor, x: Tensor, b: Tensor, y: Tensor, scale: Tensor) -> list[Tensor]:
    """Of state-space models: h' = a h + x."""
    return [a * b, torch.addcmul(y, b, x * scale / scale)]


def _doubled(xs: Tensor, start: Tensor) -> Any:
    scale = start.abs() + 1
    found = associative_scan_op(_recurrence, [xs.sigmoid(), xs], (scale,))
    picked = associative_scan_op(lambda a, b: [torch.where(b > 0, b, a)], [xs[..., 0]], ())
    return found, picked, associative_scan_op(lambda a, b: [a | b], [xs > 1], ())


def _backwards(xs: Tensor, start: Tensor) -> Any:
    """Torch itself takes this mode apart."""

    def affine(p: tuple[Tensor, Tensor], q: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return p[0] * q[0], q[0] * p[1] + q[1]

    pair = (xs.sigmoid(), xs)
    mode = {"reverse": True, "combine_mode": "generic"}
    return associative_scan(affine, pair, 0, **mode), associative_scan(affine, pair, 2, **mode)


def _products(xs: Tensor, start: Tensor) -> Any:
    squares = (xs @ start.t()).tanh()
    back = associative_scan_op(lambda a, b: [a @ b], [squares.flip(0)], ())
    return associative_scan_op(lambda a, b: [a @ b], [squares], ()), back[0].flip(0)


def _masks(dtype: torch.dtype) -> Sequence[Args]:
    x = ordinary(dtype, 5, 7)
    return [(x,), (torch.zeros_like(x),), (x.abs() + 1,), (x[:1, :1],)]


def _nonzero(x: Tensor) -> Any:
    return x.nonzero(), (x > 0).nonzero() + 1, x.sum().nonzero()


def _masked(x: Tensor) -> Any:
    picked = x[x > 0]
    rows = x[x.sum(1) > 0]
    return picked, picked.sum(), rows * 2, torch.masked_select(x, x[:1] > 0), x[:, x[0] > 0].sum(1)


def _masked_twice(x: Tensor) -> Any:
    picked = x[x > 0]
    return picked[picked < 2], picked[picked < 2].sum()


def _sizes(dtype: torch.dtype) -> Sequence[Args]:
    return [(ordinary(dtype, 4), torch.tensor(n)) for n in (0, 1, 6)]


def _item(x: Tensor, n: Tensor) -> Any:
    size = n.item()
    torch._check(size >= 0)
    torch._check(size <= 8)
    return torch.arange(size)[:, None] * x, x + torch.ones(size).sum()


def _repeats(dtype: torch.dtype) -> Sequence[Args]:
    x = ordinary(dtype, 3, 4)
    counts = ([1, 0, 3], [0, 0, 0], [2, 2, 2])
    return [(x, torch.tensor(c)) for c in counts] + [(x, torch.tensor([2], dtype=torch.int32))]


def _repeat_interleave(x: Tensor, counts: Tensor) -> Any:
    rows = x.repeat_interleave(counts, 0)
    return rows, rows.sum(0), torch.repeat_interleave(counts), x[:, 0].repeat_interleave(counts) * 2


ROWS = (
    Row("nonzero", _nonzero, _masks, (torch.float32, torch.int64)),
    Row("masked", _masked, _masks, (torch.float32, torch.bfloat16)),
    Row("masked twice", _masked_twice, _masks),
    Row("item", _item, _sizes),
    Row("repeat_interleave", _repeat_interleave, _repeats),
    Row("cond", _cond, _both_signs, (torch.float32, torch.bfloat16)),
    Row("cond captures", _cond_captures, _both_signs),
    Row("cond nested", _cond_nested, _both_signs),
    Row("while", _while, _turns),
    Row("while exchanges", _while_exchanges, _turns),
    Row("scan", _scan, _rows),
    Row("scan nested", _scan_nested, _rows),
    Row("scan transposed", _scan_transposed, _rows),
    Row("map", _map, _rows),
    Row("associative_scan", _running, _rows, (torch.float32, torch.bfloat16)),
    Row("associative_scan doubled", _doubled, _rows, (torch.float32, torch.float64)),
    Row("associative_scan backwards", _backwards, _rows),
    Row("associative_scan in turn", _products, _rows),
)
