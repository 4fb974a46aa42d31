"""Operators of a matrix, the types each is timed in, and the matrices that a seed draws."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch.nn import functional as F

from benchmarks.problems import Problem

Tensor = torch.Tensor
Function = Callable[[Tensor], Any]

TYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "bool": torch.bool,
}
FLOATS, INTS = ("f32", "f64", "f16", "bf16"), ("i64", "i32", "i16", "i8", "u8")
NUMBERS, ALL = (*FLOATS, *INTS), (*FLOATS, *INTS, "bool")
FEW = ("f64", "f16", "i64", "i32", "u8")
"""One type of each kind and width, for what has many operators."""

ELEMENTS = 2**20
"""About as many has a matrix."""


def _other(x: Tensor) -> Tensor:
    """Other elements of the same matrix."""
    return x.flip(0).contiguous()


def _at(x: Tensor) -> Tensor:
    """A position among the columns for each element."""
    places = torch.arange(x.numel()).reshape(x.shape)
    return (places * 7919) % x.shape[1]


def _with_other(function: Callable[[Tensor, Tensor], Any]) -> tuple[Any, Any]:
    return function, lambda x: (x, _other(x))


def _with_places(function: Callable[[Tensor, Tensor], Any]) -> tuple[Any, Any]:
    return function, lambda x: (x, _at(x))


def _pixels(x: Tensor) -> tuple[Tensor, Tensor]:
    """Its elements as pixels of three channels, and a number for each of these."""
    return x.reshape(-1)[: x.numel() // 3 * 3].reshape(-1, 3), torch.tensor([0.5, 0.25, 2.0])


def _fifths(x: Tensor) -> Tensor:
    """x, a fifth of which is zeros."""
    return x * (torch.arange(x.numel()).reshape(x.shape) % 5 > 0)


ELEMENTWISE: Mapping[str, tuple[Function, tuple[str, ...]]] = {
    "abs": (torch.abs, ("f16", "i64", "i32", "i8")),
    "clamp": (lambda x: x.clamp(1, 9), NUMBERS),
    "sign": (torch.sign, ("f32", "f64", "i64")),
    "cube": (lambda x: x**3, ("i64", "i32", "f64")),
    "shift": (lambda x: x >> 2, INTS),
    "div": (lambda x: x / 3, INTS),
    "floor_divide": (lambda x: x // 3, (*INTS, "f32", "f64")),
    "remainder": (lambda x: x % 7, ("i64", "i32", "u8", "f64")),
    **{
        name: (getattr(torch, name), ("f64", "f16", "bf16"))
        for name in ("exp", "sigmoid", "tanh", "log1p", "sin", "erf", "rsqrt", "round", "isnan")
    },
    **{name: (getattr(F, name), ("f64", "f16", "bf16")) for name in ("gelu", "silu", "softplus")},
    "pow": (lambda x: x.abs() ** 1.7, ("f64", "f16")),
}
ROWS: Mapping[str, tuple[Function, tuple[str, ...]]] = {
    "sum": (lambda x: x.sum(-1), (*FEW, "bool")),
    "sum0": (lambda x: x.sum(0), (*FEW, "bool")),
    "sum all": (torch.sum, (*FEW, "bool")),
    "prod": (lambda x: x.prod(-1), FEW),
    "amax": (lambda x: x.amax(-1), FEW),
    "amax0": (lambda x: x.amax(0), FEW),
    "max all": (torch.max, FEW),
    "argmax": (lambda x: x.argmax(-1), FEW),
    "argmax0": (lambda x: x.argmax(0), FEW),
    "any0": (lambda x: x.any(0), ("u8", "bool")),
    "all": (lambda x: x.all(-1), ("u8", "bool", "f32")),
    "count": (torch.count_nonzero, FEW),
    "cumsum": (lambda x: x.cumsum(-1), (*FEW, "bool")),
    "cumsum0": (lambda x: x.cumsum(0), FEW),
    "cummax": (lambda x: x.cummax(-1), NUMBERS),
    "cummin0": (lambda x: x.cummin(0), NUMBERS),
    "logcumsumexp": (lambda x: x.logcumsumexp(-1), ("f32", "f64")),
    "sort": (lambda x: x.sort(-1), FEW),
    "argsort": (lambda x: x.argsort(dim=-1, stable=True), ("i64", "f32")),
    "topk": (lambda x: x.topk(min(8, x.shape[1])), FEW),
    "median": (lambda x: x.median(-1), NUMBERS),
    "median0": (lambda x: x.median(0), ("f32", "f64")),
    "kthvalue": (lambda x: x.kthvalue(x.shape[1] // 3 + 1), ("f32", "f64", "i64")),
    "mode": (lambda x: x.mode(-1), ("i64",)),
    "unique": (torch.unique, ("f32", "f64", "i64", "u8")),
    "softmax": (lambda x: x.softmax(-1), ("f64", "f16")),
    "layer_norm": (lambda x: F.layer_norm(x, x.shape[1:]), ("f64", "bf16")),
    "std0": (lambda x: x.std(0), ("f64", "f16", "bf16")),
    "var": (lambda x: x.var(-1), ("f64", "f16", "bf16")),
}
MOVED: Mapping[str, tuple[Function, tuple[str, ...]]] = {
    "flip": (lambda x: x.flip(-1), (*FEW, "i16", "bool")),
    "transposed": (lambda x: x.t().contiguous(), (*FEW, "bool")),
    "roll": (lambda x: x.roll(3, -1), FEW),
    "pad": (lambda x: F.pad(x, (1, 2, 1, 1)), (*FEW, "bool")),
    "cat": (lambda x: torch.cat((x, x[:, :5]), 1), FEW),
    "tril": (torch.tril, FEW),
    "stride3": (lambda x: x[:, ::3].contiguous(), FEW),
    "repeat": (lambda x: x.repeat_interleave(2, 1), FEW),
    "stack3": (lambda x: torch.stack((x, x, x), -1), FEW),
    "nonzero": (lambda x: torch.nonzero(_fifths(x)), FEW),
    "masked_select": (lambda x: torch.masked_select(x, x > 0), FEW),
}
WITH: Mapping[str, tuple[tuple[Any, Any], tuple[str, ...]]] = {
    "add": (_with_other(torch.add), (*INTS, "f16")),
    "mul": (_with_other(torch.mul), INTS),
    "lt": (_with_other(torch.lt), ALL),
    "eq": (_with_other(torch.eq), ("f64", "i64", "u8", "bool")),
    "maximum": (_with_other(torch.maximum), NUMBERS),
    "atan2": (_with_other(torch.atan2), ("f64", "f16")),
    "where": (_with_other(lambda x, y: torch.where(x > y, x, y * 2)), NUMBERS),
    "and": (_with_other(torch.logical_and), ("f32", "i64", "u8", "bool")),
    "pixels": ((lambda x, mean: (x - mean) / 0.3, _pixels), NUMBERS),
    "meshgrid": (_with_other(lambda x, y: torch.stack((x, y), -1)), FEW),
    "gather": (_with_places(lambda x, i: x.gather(1, i)), (*FEW, "bool")),
    "scatter": (_with_places(lambda x, i: torch.zeros_like(x).scatter(1, i, x)), FEW),
    "scatter_add": (_with_places(lambda x, i: x.scatter_add(1, i, x)), ("f32", "f64", "i64")),
}


def _function(name: str) -> tuple[Callable[..., Any], Callable[[Tensor], tuple[Tensor, ...]]]:
    """What is called, and its arguments of a matrix."""
    if name.startswith("to "):
        return lambda x, kind=TYPES[name[3:]]: x.to(kind), lambda x: (x,)
    if name in WITH:
        return WITH[name][0]
    return {**ELEMENTWISE, **ROWS, **MOVED}[name][0], lambda x: (x,)


def names(seed: int) -> Iterator[str]:
    """Every row: the seed, an operator and a type."""
    for kind in ALL:
        yield from (f"{seed} to {other} {kind}" for other in ALL if other != kind)
    for table in (ELEMENTWISE, ROWS, MOVED, WITH):
        for name, (_, kinds) in table.items():
            yield from (f"{seed} {name} {kind}" for kind in kinds)


def shape_of(name: str) -> tuple[int, int]:
    """Of the matrix of a row: between 2^4 and 2^14 columns, of any number."""
    columns = int(2 ** random.Random(name).uniform(4, 14))
    return max(ELEMENTS // columns, 1), columns


def problem(name: str) -> Problem:
    """The row of a name."""
    _, rest = name.split(" ", 1)
    operator, kind = rest.rsplit(" ", 1)
    function, arguments = _function(operator)
    return Problem(name, function, partial(_drawn, shape_of(name), kind, arguments))


def _drawn(
    shape: tuple[int, int],
    kind: str,
    arguments: Callable[[Tensor], tuple[Tensor, ...]],
    device: str,
) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    dtype = TYPES[kind]
    if dtype.is_floating_point:
        drawn = torch.randn(shape, generator=generator).to(dtype)
    elif dtype is torch.bool:
        drawn = torch.randint(0, 2, shape, generator=generator).bool()
    else:
        drawn = torch.randint(0, 100, shape, generator=generator).to(dtype)
    return tuple(each.to(device) for each in arguments(drawn))
