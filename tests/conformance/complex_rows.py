"""Rows of operators on complex tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tests.conformance.harness import Args, Row, ordinary

COMPLEX = (torch.complex64, torch.complex128)
NARROW = (torch.complex32,)
PARTS = {
    torch.complex64: torch.float32,
    torch.complex128: torch.float64,
    torch.complex32: torch.float16,
}


def complexes(dtype: torch.dtype, *shape: int, size: float = 3.0) -> torch.Tensor:
    """Random numbers of a complex type; both parts lie within [-size, size]."""
    part = PARTS[dtype]
    return torch.complex(*(ordinary(part, *shape, low=-size, high=size) for _ in range(2)))


def edges(dtype: torch.dtype) -> torch.Tensor:
    """Zeros of all signs, the axes, points near branch cuts."""
    values = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0]
    parts = torch.tensor(values, dtype=PARTS[dtype])
    return torch.complex(*torch.meshgrid(parts, parts, indexing="ij"))


def _infinite(dtype: torch.dtype) -> torch.Tensor:
    values = [0.0, 1.0, -1.0, math.inf, -math.inf, math.nan]
    parts = torch.tensor(values, dtype=PARTS[dtype])
    return torch.complex(*torch.meshgrid(parts, parts, indexing="ij"))


def _unary(dtype: torch.dtype) -> Sequence[Args]:
    return [
        (complexes(dtype, 4, 9),),
        (edges(dtype),),
        (complexes(dtype),),
        (complexes(dtype, 0, 3),),
        (complexes(dtype, 3, 5).t(),),
        (complexes(dtype, 3, 5).conj(),),
    ]


def _with_infinities(dtype: torch.dtype) -> Sequence[Args]:
    return [*_unary(dtype), (_infinite(dtype),)]


def _binary(dtype: torch.dtype) -> Sequence[Args]:
    part = PARTS[dtype]
    return [
        (complexes(dtype, 4, 9), complexes(dtype, 4, 9)),
        (complexes(dtype, 4, 1), complexes(dtype, 3)),
        (complexes(dtype, 4, 9), ordinary(part, 9)),
        (ordinary(part, 2, 3), complexes(dtype, 2, 3).conj()),
        (complexes(dtype, 2, 3), 1.5),
        (complexes(dtype, 2, 3), 2 - 0.5j),
        (complexes(dtype, 2, 3), complexes(torch.complex128, 2, 3)),
        (complexes(dtype, 0, 3), complexes(dtype, 3)),
    ]


def _away_from_zero(dtype: torch.dtype) -> Sequence[Args]:
    far = complexes(dtype, 3, 4) + 4
    tall = complexes(dtype, 2, 2, size=1.0) * (1e30 if dtype is torch.complex64 else 1e200)
    return [
        (complexes(dtype, 3, 4), far),
        (complexes(dtype, 3, 4), far.conj() * 1j),
        (ordinary(PARTS[dtype], 3, 4), far),
        (complexes(dtype, 3, 4), 2 - 0.5j),
        (tall, tall.flip(0)),
    ]


def _shaped(*shapes: tuple[int, ...]) -> Callable[[torch.dtype], Sequence[Args]]:
    return lambda dtype: [tuple(complexes(dtype, *shape) for shape in shapes)]


def _equal(dtype: torch.dtype) -> Sequence[Args]:
    x = complexes(dtype, 3, 4)
    y = torch.where(x.real > 0, x, x.conj())
    return [(x, y), (x, x.real), (x, 1.0), (_infinite(dtype), _infinite(dtype))]


def _real_only(dtype: torch.dtype) -> Sequence[Args]:
    part = PARTS[dtype]
    return [(ordinary(part, 3, 4), ordinary(part, 3, 4)), (ordinary(part, 4), ordinary(part, 2, 1))]


def _rotary(q: torch.Tensor, freqs: torch.Tensor) -> torch.Tensor:
    """The rotary embedding as Llama's original code writes it."""
    pairs = torch.view_as_complex(q.float().reshape(*q.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * freqs).flatten(3).type_as(q)


def _rotary_samples(dtype: torch.dtype) -> Sequence[Args]:
    freqs = torch.polar(torch.ones(1, 5, 1, 4), ordinary(torch.float32, 1, 5, 1, 4))
    return [(ordinary(PARTS[dtype], 2, 5, 3, 8), freqs)]


FUNCTIONS = """exp expm1 exp2 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh
tanh asinh acosh atanh sigmoid reciprocal square sgn""".split()
"""Of one argument, with results of their own type."""


def _as_parts(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """As the reals that its memory holds, some of these as complex numbers again."""
    reals = x.view(x.real.dtype)
    return reals + 1, reals[:, 2:8].view(x.dtype) * 2


VIEWS: dict[str, Callable[..., Any]] = {
    "view_as_real": lambda x: torch.view_as_real(x.resolve_conj()),
    "view_as_complex": lambda x: torch.view_as_complex(torch.view_as_real(x * 2)),
    "real imag": lambda x: (x.real * 2, x.imag * 3),
    "imag of conj": lambda x: x.conj().imag + 1,
    "conj": lambda x: x.conj(),
    "conj_physical": torch.conj_physical,
    "resolve_conj": lambda x: x.conj().resolve_conj(),
    "resolve_neg": lambda x: torch._neg_view(x).resolve_neg(),
    "adjoint": lambda x: x.mH if x.dim() == 2 else x,
    "transposes": lambda x: x.transpose(-1, 0) if x.dim() else x,
    "flip": lambda x: x.flip(-1) if x.dim() else x,
    "named flips": lambda x: (x.fliplr(), x.flipud()) if x.dim() == 2 else x,
    "scalar tensors": lambda x: x + torch.scalar_tensor(-5 + 2j, dtype=x.dtype),
    "slices": lambda x: x[..., 1:] if x.dim() else x,
    "cat": lambda x: torch.cat([x, x.conj(), x.real]) if x.dim() else x,
    "stack": lambda x: torch.stack([x, x * 2], -1),
    "roll": lambda x: x.roll(1, 0) if x.dim() else x,
    "pad": lambda x: torch.nn.functional.pad(x, (1, 2), value=0.5) if x.dim() else x,
    "where": lambda x: torch.where(x.real > 0, x, x.conj()),
    "where real": lambda x: torch.where(x.real > 0, x, 1.5),
    "masked_fill": lambda x: x.masked_fill(x.imag > 0, 1 - 2j),
    "triangles": lambda x: (x.tril(), x.triu()) if x.dim() == 2 else x,
    "expand": lambda x: x.unsqueeze(0).expand(2, *x.shape) + 1,
    "clone": lambda x: x.clone(),
    "zeros ones full": lambda x: (
        torch.zeros_like(x) + x,
        torch.ones_like(x),
        torch.full_like(x, 1 + 2j),
        torch.full((2, 3), 1 - 2j, dtype=x.dtype) + torch.ones(2, 3, dtype=x.dtype),
    ),
    "casts": lambda x: (x.to(torch.complex64), x.to(torch.complex128), x.real.to(x.dtype)),
    "to bool": lambda x: x.to(torch.bool),
}
"""Functions that move elements and parts of them."""

REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": lambda x: (x.sum(), x.sum(0), x.sum(-1, keepdim=True)),
    "mean": lambda x: (x.mean(), x.mean(1)),
    "cumsum": lambda x: x.cumsum(1),
    "prod": lambda x: (x.prod(), x.prod(0), x.prod(1, keepdim=True)),
    "cumprod": lambda x: (x.cumprod(0), x.cumprod(1)),
    "norm": lambda x: (torch.linalg.vector_norm(x), torch.linalg.vector_norm(x, 1, dim=0)),
    "norms of other orders": lambda x: torch.linalg.vector_norm(x, math.inf, dim=1),
    "var std": lambda x: (x.var(), x.var(0), x.std(1, unbiased=False)),
    "any all": lambda x: (x.any(), (x * 0).any(1), x.all(0)),
    "logsumexp": lambda x: (x.logsumexp(1), (x * 50).logsumexp((0, 1), keepdim=True)),
    "dist": lambda x: (torch.dist(x, x * 0.5, 3), torch.norm(x, 1.5)),
    "log_softmax as reals": lambda x: torch.log_softmax(x, 1, dtype=torch.float64),
    "elements that are not 0": lambda x: (torch.argwhere(x * (x.real > 0)), x[x.real > 0]),
    "count_nonzero": lambda x: torch.count_nonzero(x * (x.real > 0)),
}

PRODUCTS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "mm": (torch.mm, ((5, 7), (7, 3))),
    "mm of conjugates": (lambda a, b: a.conj() @ b.mH, ((5, 7), (3, 7))),
    "bmm": (torch.bmm, ((2, 5, 7), (2, 7, 3))),
    "matmul": (torch.matmul, ((2, 5, 7), (7, 3))),
    "matmul of vectors": (torch.matmul, ((7,), (7,))),
    "mv": (torch.mv, ((5, 7), (7,))),
    "dot": (torch.dot, ((9,), (9,))),
    "vdot": (torch.vdot, ((9,), (9,))),
    "addmm": (lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), ((3,), (5, 7), (7, 3))),
    "addmm complex": (lambda c, a, b: torch.addmm(c, a, b, alpha=1 - 2j), ((3,), (5, 7), (7, 3))),
    "addbmm": (
        lambda c, a, b: torch.addbmm(c, a, b, beta=0.5, alpha=2),
        ((5, 3), (2, 5, 7), (2, 7, 3)),
    ),
    "baddbmm": (torch.baddbmm, ((2, 5, 3), (2, 5, 7), (2, 7, 3))),
    "linear": (torch.nn.functional.linear, ((5, 7), (3, 7), (3,))),
    "einsum": (lambda a, b: torch.einsum("bij,bkj->bik", a, b.conj()), ((2, 5, 7), (2, 3, 7))),
    "outer": (torch.outer, ((5,), (7,))),
}
"""Products of tensors -> the shapes of their samples."""


def _indices(dtype: torch.dtype) -> Sequence[Args]:
    return [(complexes(dtype, 5, 4), torch.tensor([0, 3, 3, -1]))]


def _indexed(x: torch.Tensor, at: torch.Tensor) -> tuple[torch.Tensor, ...]:
    positive = at % 4
    return (
        x[at],
        x.index_select(0, positive),
        x.gather(1, positive.expand(5, 4)),
        torch.zeros_like(x).scatter(1, positive[:1].expand(5, 1), x),
        x.scatter(1, positive.expand(5, 4), x * 1j, reduce="add"),
        x.scatter(1, positive.expand(5, 4), 2 - 1j, reduce="add"),
        x.scatter(1, positive.expand(5, 4), 0.5, reduce="add"),
        torch.nn.functional.embedding(positive, x),
        x.index_put((positive[:2],), x[:2] * 1j),
    )


def _lines(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    between = [(1 + 2j, 3 - 1j), (x[0], x[1]), (x[0], 3 - 1j), (1 + 2j, x[1])]
    return tuple(x + torch.linspace(*ends, 7, dtype=x.dtype) for ends in between)


def _strided(x: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
    return torch.as_strided_scatter(x, part, (2, 2), (1, 2))


def _stored(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What eager has of complex32: memory, conversions, arithmetic that is rounded once."""
    wide = x.to(torch.complex64)
    parts = (x.real, x.imag, torch.view_as_real(x), x.t(), x[1:], x.conj(), -x)
    back = (wide * 2).to(torch.complex32)
    return (*parts, wide, back, x * x, x * (1 - 2j), x + 1, x.abs(), torch.cat((x, x)))


ROWS: tuple[Row, ...] = (
    Row("complex32", _stored, _shaped((4, 6)), NARROW, against_eager=True),
    *(Row(f"complex {n}", getattr(torch, n), _unary, COMPLEX) for n in FUNCTIONS),
    *(Row(f"complex {n}", f, _unary, COMPLEX) for n, f in VIEWS.items()),
    Row("complex view as real ones", _as_parts, _shaped((5, 6)), COMPLEX),
    *(Row(f"complex {n}", f, _shaped((5, 6)), COMPLEX) for n, f in REDUCTIONS.items()),
    *(Row(f"complex {n}", f, _shaped(*s), COMPLEX) for n, (f, s) in PRODUCTS.items()),
    *(
        Row(f"complex {n}", getattr(torch, n), _with_infinities, COMPLEX)
        for n in "abs angle neg isnan isinf isfinite isreal".split()
    ),
    *(Row(f"complex {n}", getattr(torch, n), _binary, COMPLEX) for n in "add sub mul".split()),
    Row("complex add alpha", lambda a, b: torch.add(a, b, alpha=2 - 1j), _binary, COMPLEX),
    Row("complex div", torch.div, _away_from_zero, COMPLEX),
    Row("complex div of edges", lambda x: x / (2 - 1j), _with_infinities, COMPLEX),
    Row("complex pow", torch.pow, _away_from_zero, COMPLEX),
    *(
        Row(f"complex pow {p}", lambda x, p=p: torch.pow(x, p), _shaped((5, 6)), COMPLEX)
        for p in (0, 1, 2, 3, -1, -2, 0.5, -0.5, 2.5, 1 + 2j)
    ),
    Row("complex pow of zero", lambda x: torch.pow(x, 2.5), lambda d: [(edges(d),)], COMPLEX),
    Row("complex pow of a number", lambda x: torch.pow(2.5, x), _shaped((5, 6)), COMPLEX),
    *(Row(f"complex {n}", getattr(torch, n), _equal, COMPLEX) for n in ("eq", "ne")),
    Row("complex of parts", torch.complex, _real_only, COMPLEX),
    Row("polar", torch.polar, _real_only, COMPLEX),
    Row("complex lerp", torch.lerp, _shaped((4, 3), (4, 3), (4, 3)), COMPLEX),
    Row("complex addcmul", torch.addcmul, _shaped((4, 3), (4, 3), (3,)), COMPLEX),
    Row("complex float_power", torch.float_power, _away_from_zero, COMPLEX),
    Row("complex ldexp", torch.ldexp, _shaped((4, 3), (4, 3)), COMPLEX),
    Row("complex linspace", _lines, _shaped((7,)), COMPLEX),
    Row("complex as_strided_scatter", _strided, _shaped((4, 4), (2, 2)), COMPLEX),
    Row("complex indices", _indexed, _indices, COMPLEX),
    Row("rotary of complex numbers", _rotary, _rotary_samples, COMPLEX),
)
