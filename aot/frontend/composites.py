"""Functions of torch that look at values while they run, written again so that they can be traced.

torch's own code of these decides on elements: it checks them, or makes as many results as they
say. Here a check is an assertion of the model, which fails when the package runs as eager fails,
and a number of elements is one that the program measures.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations, combinations_with_replacement, pairwise
from typing import Any

import torch
from torch import Tensor

from aot.frontend.differences import gradient
from aot.frontend.element_writes import get_item, set_item
from aot.frontend.frequencies import OF_LENGTHS, fftfreq, rfftfreq
from aot.frontend.instead import Instead
from aot.frontend.losses import ctc_loss
from aot.frontend.quantized import FAKE
from aot.frontend.short_time import istft
from aot.frontend.vision import VISION

_untyped: Any = torch
"""torch, for functions of it that have no types."""

_library = _untyped.library.Library("aot", "FRAGMENT")


class Traceable(Instead):
    """Inside of it, calls of the functions of the table are calls of ours."""

    def instead(
        self, func: Callable[..., Any], args: tuple[Any, ...], given: Mapping[str, Any]
    ) -> Any:
        """The call of our function where there is one."""
        ours = COMPOSITES.get(func) or VISION.get(str(func).removesuffix(".default"))
        if ours is None or given.get("out") is not None or not _takes(ours, args, given):
            return NotImplemented
        return ours(*args, **given)


def _takes(ours: Callable[..., Any], args: tuple[Any, ...], given: Mapping[str, Any]) -> bool:
    """Whether our function has parameters of these names; torch's own may have more forms."""
    try:
        inspect.signature(ours).bind(*args, **given)
    except TypeError:
        return False
    return True


def require(condition: Tensor, message: str) -> None:
    """An assertion of the model: all elements of the condition must hold when it runs."""
    torch.ops.aten._assert_async.msg(condition.all(), message)


def _when(x: Tensor, condition: Tensor, message: str) -> Tensor:
    """A value that exists only where a bool holds: whoever reads it asserts that."""
    return x.clone()


_library.define("when(Tensor x, Tensor condition, str message) -> Tensor")
_library.impl("when", _when, "CompositeExplicitAutograd")
_untyped.library.register_fake("aot::when", _when, lib=_library)


# ---- order statistics ----


def quantile(
    x: Tensor,
    q: Tensor | float,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    skips_nan: bool = False,
) -> Tensor:
    """As torch.quantile, or torch.nanquantile where `skips_nan`."""
    name = "nanquantile" if skips_nan else "quantile"
    if not isinstance(q, Tensor):
        _untyped._check(0 <= q <= 1, lambda: f"{name}() q must be in the range [0, 1] but got {q}")
        wanted = torch.full((), q, dtype=x.dtype, device=x.device)
    else:
        require((q >= 0) & (q <= 1), f"{name}() q values must be in the range [0, 1]")
        wanted = q.clamp(0, 1)  # The assertion shall fail, not an index.
    axis = None if dim is None else dim % max(x.dim(), 1)
    rows = x.reshape(-1) if axis is None or not x.dim() else x.movedim(axis, -1)
    found = _at_ranks(rows, wanted.reshape(-1), interpolation, skips_nan)
    if keepdim:
        sizes = [1 if axis is None or k == axis else s for k, s in enumerate(x.shape)]
        found = found.reshape([*sizes, found.shape[-1]])
    return found.movedim(-1, 0) if wanted.dim() else found.squeeze(-1)


def _at_ranks(rows: Tensor, q: Tensor, interpolation: str, skips_nan: bool) -> Tensor:
    """(…, number of q's): of each row what lies at those shares of its order."""
    ordered, _ = rows.sort(-1)
    last = rows.shape[-1] - 1
    if skips_nan:
        counts = ordered.isnan().logical_not().sum(-1, keepdim=True)
        ranks = (q * (counts - 1)).clamp(min=0)
    else:  # NaN is the greatest: where there is one, it is the result.
        ranks = torch.where(ordered[..., -1:].isnan(), last, q * last)
    rounded = _ROUNDED.get(interpolation)
    ranks = ranks if rounded is None else rounded(ranks)
    below = ranks.long()
    low = ordered.gather(-1, below)
    if rounded is not None:
        return low
    high = ordered.gather(-1, ranks.ceil().long())
    between = interpolation == "midpoint"
    return low.lerp(high, torch.full_like(ranks, 0.5) if between else ranks - below)


_ROUNDED: Mapping[str, Callable[[Tensor], Tensor]] = {
    "lower": torch.floor,
    "higher": torch.ceil,
    "nearest": torch.round,
}
"""How the other interpolations than between two elements choose one."""


# ---- statistics ----


def cov(
    x: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """As torch.cov."""
    _untyped._check(x.dim() <= 2, lambda: f"cov(): the input has {x.dim()} dimensions, not 1 or 2")
    rows = x if x.dim() == 2 else x.reshape(1, -1)
    given = [w for w in (fweights, aweights) if w is not None]
    for name, weights in (("fweights", fweights), ("aweights", aweights)):
        if weights is not None:
            _check_weights(name, weights, rows.shape[1])
            require(weights >= 0, f"cov(): {name} cannot be negative")
    weights = given[0] if len(given) == 1 else given[0] * given[1] if given else None
    if weights is None:
        total = torch.full((), rows.shape[1], dtype=torch.int64, device=x.device)
        weighed = rows
    else:
        total = weights.sum()
        require(total != 0, "cov(): weights sum to zero, can't be normalized")
        weighed = rows * weights
    factor = total - correction
    if weights is not None and aweights is not None and correction != 0:
        factor = total - correction * (weights * aweights).sum() / total
    factor = torch.where(factor > 0, factor, torch.zeros_like(factor))
    apart = rows - (weighed.sum(1) / total).unsqueeze(1)
    other = apart if weights is None else apart * weights
    return torch.true_divide(torch.mm(apart, other.t().conj()), factor).squeeze()


def _check_weights(name: str, weights: Tensor, observations: int) -> None:
    whole = name == "fweights"
    of_type = (not weights.is_floating_point() and not weights.is_complex()) == whole
    kind = "whole numbers" if whole else "floats"
    _untyped._check(weights.dim() <= 1, lambda: f"cov(): {name} has more than one dimension")
    _untyped._check(of_type, lambda: f"cov(): {name} must be {kind}, not {weights.dtype}")
    _untyped._check(
        weights.numel() == observations,
        lambda: f"cov(): {name} has {weights.numel()} elements for {observations} observations",
    )


def corrcoef(x: Tensor) -> Tensor:
    """As torch.corrcoef."""
    c = cov(x)
    if not c.dim():
        return c / c
    spread = torch.sqrt(c.diag().real if c.is_complex() else c.diag())
    c = c / spread.reshape(-1, 1) / spread.reshape(1, -1)
    if c.is_complex():
        return torch.complex(c.real.clamp(-1, 1), c.imag.clamp(-1, 1))
    return c.clamp(-1, 1)


# ---- random numbers ----


def multinomial(
    x: Tensor, num_samples: Any, replacement: bool = False, *, generator: Any = None
) -> Any:
    """As torch.multinomial, with the checks that torch makes when it runs."""
    check, columns = _untyped._check, x.shape[-1] if x.dim() else 0
    check(x.is_floating_point(), lambda: f"multinomial(): weights are floats, not {x.dtype}")
    if isinstance(num_samples, int):
        check(num_samples > 0, lambda: f"multinomial(): cannot draw {num_samples} samples")
    if not replacement and isinstance(num_samples, int) and isinstance(columns, int):
        check(
            num_samples <= columns,
            lambda: f"multinomial(): {num_samples} samples of {columns} without replacement",
        )
    return NotImplemented


def binomial(count: Tensor, prob: Tensor, generator: Any = None) -> Any:
    """As torch.binomial: each trial is drawn, as many as the greatest count says."""
    if generator is not None or not count.numel():
        return NotImplemented
    require(count >= 0, "binomial(): counts must be non-negative")
    most: Any = count.max().to(torch.int64).item()
    _untyped._check(most >= 0)
    shape = _untyped.broadcast_shapes(count.shape, prob.shape)
    drawn = torch.rand((most, *shape), dtype=torch.float64, device=count.device)
    trials = torch.arange(most, device=count.device).reshape(-1, *(1 for _ in shape))
    return ((drawn < prob) & (trials < count)).sum(0).to(count.dtype)


def poisson(rates: Tensor, generator: Any = None) -> Any:
    """As torch.poisson, with its check as an assertion."""
    if generator is not None:
        return NotImplemented
    require(rates >= 0, "invalid Poisson rate, expected rate to be non-negative")
    drawn: Tensor = _untyped.ops.aten.poisson.default(rates)
    return drawn


# ---- answers of one bool ----


def are_same(x: Tensor, other: Tensor) -> Tensor | None:
    """What torch.equal asks, as a tensor; None where types or sizes say it."""
    alike = x.dtype == other.dtype and x.shape == other.shape
    return (x == other).all() if alike else None


def are_close(
    x: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """What torch.allclose asks, as a tensor."""
    return torch.isclose(x, other, rtol, atol, equal_nan).all()


def _equal(x: Tensor, other: Tensor) -> Any:
    if x.dtype != other.dtype:
        return NotImplemented
    same = are_same(x, other)
    return False if same is None else same.item()


def _allclose(*args: Any, **kwargs: Any) -> Any:
    return are_close(*args, **kwargs).item()


# ---- linear algebra ----


def cholesky(a: Tensor, upper: bool = False) -> Tensor:
    """As torch.cholesky, the older name."""
    factor: Tensor = torch.linalg.cholesky(a, upper=upper)
    return factor


def matrix_norm(
    a: Tensor,
    ord: Any = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Any:
    """As torch.linalg.matrix_norm of open sizes, which torch takes for constants."""
    fixed = all(isinstance(size, int) for size in a.shape)
    if fixed or isinstance(ord, str) or abs(ord) not in (1, 2, math.inf):
        return NotImplemented
    a = a if dtype is None else a.to(dtype)
    rows, columns = (place % a.dim() for place in dim)
    pick = torch.amax if ord > 0 else torch.amin
    if abs(ord) == 2:
        values = torch.linalg.svdvals(a.movedim((rows, columns), (-2, -1)))
        chosen = pick(values, -1)[..., None, None].movedim((-2, -1), (rows, columns))
    else:
        summed, other = (rows, columns) if abs(ord) == 1 else (columns, rows)
        chosen = pick(a.abs().sum(summed, keepdim=True), other, keepdim=True)
    return chosen if keepdim else chosen.squeeze((rows, columns))


def norm(a: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, **given: Any) -> Any:
    """As torch.linalg.norm, where it is that of matrices of open sizes."""
    axes = (-2, -1) if dim is None and a.dim() == 2 else dim
    if ord is None or not isinstance(axes, Sequence) or len(axes) != 2:
        return NotImplemented
    return matrix_norm(a, ord, axes, keepdim, **given)


def lstsq(a: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """As torch.linalg.lstsq: by QR, but for small wide matrices by singular values.

    By singular values eager gives residuals only where no matrix lacks rank: a program that reads
    them asserts that.
    """
    m, n = a.shape[-2:]
    by_values = driver in ("gelsd", "gelss")
    single = b.dim() == 1 or (b.dim() == a.dim() - 1 and b.shape == a.shape[:-1])
    wanted = b.unsqueeze(-1) if single else b
    values = none = torch.empty(0, dtype=a.real.dtype, device=a.device)
    if rcond is None and driver in (None, "gels", "gelsy") and _has_plain_systems(a, wanted):
        solution, ranks = torch.ops.aot.lstsq.default(a, wanted)
    else:
        u, values, vh = torch.linalg.svd(a, full_matrices=False)
        least = torch.finfo(a.dtype).eps * max(m, n) if rcond is None else rcond
        counts = values > least * values[..., :1]
        inverse = torch.where(counts, values.reciprocal(), 0)
        solution = vh.mH @ (inverse.unsqueeze(-1) * (u.mH @ wanted))
        ranks = counts.sum(-1)
    residuals = none
    if (by_values or driver == "gels") and m > n:
        residuals = (a @ solution - wanted).abs().square().sum(-2)
        if by_values:
            residuals = torch.ops.aot.when.default(residuals, (ranks == n).all(), _NO_RESIDUALS)
    ranked = driver != "gels"
    rank = ranks if ranked else torch.empty(0, dtype=torch.int64, device=a.device)
    found = solution.squeeze(-1) if single else solution
    seen = values if by_values else none
    return _untyped.return_types.linalg_lstsq((found, residuals, rank, seen))


_NO_RESIDUALS = "linalg.lstsq: a matrix lacks rank, so there are no residuals"

_LARGE = 64
"""Sizes beyond which matrices are no longer computed side by side on any device."""


def _has_plain_systems(a: Tensor, b: Tensor) -> bool:
    """Whether sizes are known, wide matrices large, and nobody asks for derivatives."""
    sizes: Sequence[Any] = a.shape[-2:]
    if not all(isinstance(size, int) for size in sizes):
        return False
    m, n = sizes
    fits = 0 < n <= m or min(m, n) > _LARGE
    return fits and a.shape[:-2] == b.shape[:-2] and not (a.requires_grad or b.requires_grad)


def _solved(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    found = torch.linalg.lstsq(a, b)
    return found.solution, found.rank


def _solved_size(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    shape = (*a.shape[:-2], a.shape[-1], b.shape[-1])
    return b.new_empty(shape), a.new_empty(a.shape[:-2], dtype=torch.int64)


_library.define("lstsq(Tensor a, Tensor b) -> (Tensor, Tensor)")
_library.impl("lstsq", _solved, "CompositeExplicitAutograd")
_untyped.library.register_fake("aot::lstsq", _solved_size, lib=_library)


# ---- sizes ----


def div(x: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """As torch.div of two sizes, of which torch makes a tensor: a size."""
    if not isinstance(x, torch.SymInt) or not isinstance(other, int | torch.SymInt):
        return NotImplemented
    if rounding_mode not in ("floor", "trunc") or not (x >= 0 and other > 0):
        return NotImplemented
    return x // other


def linspace(start: Any, end: Any, steps: Any, **given: Any) -> Any:
    """As torch.linspace, of a number of steps that is open; torch takes it for a constant.

    Counted from the nearer end, as torch's.
    """
    dtype = given.get("dtype") or torch.get_default_dtype()
    ends = [x for x in (start, end) if isinstance(x, complex | Tensor)]
    if not isinstance(steps, torch.SymInt) or ends or not dtype.is_floating_point:
        return NotImplemented
    at = _untyped.arange(steps, device=given.get("device")).double()
    last = _untyped.full((), steps - 1, dtype=torch.float64, device=at.device)
    width = (end - start) / last.clamp(min=1)
    near, far = start + at * width, end - (last - at) * width
    return torch.where(2 * at < last + 1, near, far).to(dtype)


def arange(*ends: Any, **given: Any) -> Any:
    """As torch.arange of int64 between float tensors of one number, which torch makes whole first.

    Of what is made whole before its number is asked for the size is one that a run computes.
    """
    own = [x for x in ends if isinstance(x, Tensor) and x.dim() == 0 and x.is_floating_point()]
    if not own or given.get("dtype") != torch.int64:
        return NotImplemented
    whole = [x.to(torch.int64) if isinstance(x, Tensor) else x for x in ends]
    return _untyped.arange(*whole, **given)


def affine_grid(theta: Tensor, size: Any, align_corners: bool | None = None) -> Any:
    """As torch.nn.functional.affine_grid, of a grid whose size is open."""
    spatial = list(size[2:])
    if not any(isinstance(s, torch.SymInt) for s in spatial):
        return NotImplemented
    axes = [_places(s, bool(align_corners), theta) for s in spatial]
    grid = torch.meshgrid(*axes, indexing="ij")
    points = torch.stack([*reversed(grid), torch.ones_like(grid[0])], -1)
    rows: Any = points.reshape(-1, len(spatial) + 1) @ theta.transpose(1, 2)
    return rows.reshape(theta.shape[0], *spatial, len(spatial))


def _places(count: Any, corners: bool, like: Tensor) -> Any:
    """Of the points along an axis from -1 to 1, of which one alone is in the middle."""
    given = {"dtype": like.dtype, "device": like.device}
    is_open = isinstance(count, torch.SymInt)
    places: Any = (linspace if is_open else _untyped.linspace)(-1, 1, count, **given)
    if corners:
        return places * _untyped.full((), count - 1, device=like.device).clamp(max=1)
    return places * ((count - 1) / count)


# ---- as many results as there are elements, or as these say ----


def all_combinations(x: Tensor, r: int = 2, with_replacement: bool = False) -> Any:
    """As torch.combinations, of a vector whose length is known."""
    length: Any = x.shape[0]
    if not isinstance(length, int) or r < 1:
        return NotImplemented
    choose = combinations_with_replacement if with_replacement else combinations
    places = torch.tensor(list(choose(range(length), r)), dtype=torch.int64, device=x.device)
    return x[places.reshape(-1, r)]


def one_hot(x: Tensor, num_classes: Any = -1) -> Any:
    """As torch.nn.functional.one_hot, of as many classes as the greatest element or a size says."""
    is_open = isinstance(num_classes, torch.SymInt)
    if not is_open and (num_classes != -1 or not x.numel()):
        return NotImplemented
    require(x >= 0, "Class values must be non-negative.")
    size: Any = num_classes
    if is_open:
        require(x < size, "Class values must be smaller than num_classes.")
    else:
        size = (x.max() + 1).item()
        _untyped._check(size >= 1)
    return (x.unsqueeze(-1) == torch.arange(size, device=x.device)).to(x.dtype)


def tensor_split(x: Tensor, indices_or_sections: Any, dim: int = 0) -> Any:
    """As torch.tensor_split at positions that a tensor holds."""
    places = indices_or_sections
    if not isinstance(places, Tensor) or places.dim() != 1:
        return NotImplemented
    cuts: list[Any] = [None, *(places[k].item() for k in range(places.shape[0])), None]
    before = (slice(None),) * (dim % x.dim())
    return tuple(x[(*before, slice(low, high))] for low, high in pairwise(cuts))


def take_along_dim(x: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """As torch.take_along_dim, of open sizes, which torch takes for constants.

    Along a dimension indices count from either end; all of them wrap around, as torch's do.
    """
    if dim is None:
        return x.reshape(-1).gather(0, indices.reshape(-1))
    axis = dim % x.dim()
    own, wanted = list(x.shape), list(indices.shape)
    own[axis] = wanted[axis] = 1
    common = list(_untyped.broadcast_shapes(own, wanted))
    own, wanted = common.copy(), common
    own[axis], wanted[axis] = x.shape[axis], indices.shape[axis]
    return x.expand(own).gather(axis, indices.expand(wanted) % x.shape[axis])


def narrow(x: Tensor, dim: int, start: Any, length: int) -> Any:
    """As torch.narrow from a place that a tensor holds."""
    if not isinstance(start, Tensor):
        return NotImplemented
    size = x.shape[dim]
    first = torch.where(start < 0, start + size, start)
    require((first >= 0) & (first + length <= size), "narrow(): start is out of range")
    places = first.clamp(0, size - length) + torch.arange(length, device=x.device)
    return x.index_select(dim, places.reshape(-1))


def unique_consecutive(x: Tensor, *args: Any, **kwargs: Any) -> Any:
    """As torch.unique_consecutive, whose dimension torch traces wrongly where it counts back."""
    names = ("return_inverse", "return_counts", "dim")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    dim = given.get("dim")
    if dim is None or dim >= 0:
        return NotImplemented
    return torch.unique_consecutive(x, **{**given, "dim": dim + x.dim()})


def bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """As torch.bincount, whose type of sums some versions of torch trace wrongly.

    And whose least number of bins may not be a dynamic size.
    """
    counted: Tensor = torch.ops.aot.bincount.default(x, weights, minlength)
    return counted


def _bincount_size(x: Tensor, weights: Tensor | None, minlength: int) -> Tensor:
    size = _untyped.library.get_ctx().new_dynamic_size()
    _untyped._check(size >= minlength)
    if weights is None:
        return x.new_empty((size,), dtype=torch.int64)
    kept = weights.dtype if weights.dtype == torch.float32 else torch.float64
    return x.new_empty((size,), dtype=kept)


_library.define("bincount(Tensor x, Tensor? weights, SymInt minlength) -> Tensor")
_library.impl("bincount", torch.bincount, "CompositeExplicitAutograd")
_untyped.library.register_fake("aot::bincount", _bincount_size, lib=_library)


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = None) -> Any:
    """As torch.cdist, whatever the numbers of rows.

    torch's own takes a product of matrices above 25 rows, and so no number of rows that is open.
    """
    if not any(isinstance(x.shape[-2], torch.SymInt) for x in (x1, x2)):
        return NotImplemented
    return _aten._cdist_forward(x1, x2, p, _WITHOUT_PRODUCT)


_WITHOUT_PRODUCT = 2
"""cdist's `compute_mode`: each distance by itself."""

_OURS: Mapping[str, Callable[..., Any]] = {
    "quantile": quantile,
    "nanquantile": partial(quantile, skips_nan=True),
    "cov": cov,
    "corrcoef": corrcoef,
    "cholesky": cholesky,
    "equal": _equal,
    "allclose": _allclose,
    "tensor_split": tensor_split,
    "narrow": narrow,
    "bincount": bincount,
    "binomial": binomial,
    "multinomial": multinomial,
    "poisson": poisson,
    "unique_consecutive": unique_consecutive,
    "div": div,
    "linspace": linspace,
    "arange": arange,
    "istft": istft,
    "gradient": gradient,
    "take_along_dim": take_along_dim,
}
COMPOSITES: Mapping[Any, Callable[..., Any]] = {
    **{getattr(torch, name): ours for name, ours in _OURS.items()},
    **{getattr(torch.Tensor, n): ours for n, ours in _OURS.items() if hasattr(torch.Tensor, n)},
    torch.fft.fftfreq: fftfreq,
    torch.fft.rfftfreq: rfftfreq,
    **OF_LENGTHS,
    torch.linalg.lstsq: lstsq,
    torch.linalg.matrix_norm: matrix_norm,
    torch.linalg.norm: norm,
    torch.cdist: cdist,
    torch.ctc_loss: ctc_loss,
    torch.nn.functional.ctc_loss: ctc_loss,
    torch.combinations: all_combinations,
    torch.nn.functional.one_hot: one_hot,
    torch.nn.functional.affine_grid: affine_grid,
    torch.Tensor.__getitem__: get_item,
    torch.Tensor.__setitem__: set_item,
    **FAKE,
}
"""What is called -> ours, which may give NotImplemented: then torch's own is called."""

_aten: Any = torch.ops.aten

EXPORTED: Mapping[Any, Callable[..., Any]] = {
    _aten.quantile.default: quantile,
    _aten.quantile.scalar: quantile,
    _aten.nanquantile.default: partial(quantile, skips_nan=True),
    _aten.nanquantile.scalar: partial(quantile, skips_nan=True),
    _aten.cov.default: cov,
    _aten.corrcoef.default: corrcoef,
    _aten.combinations.default: all_combinations,
}
"""Those that programs hold which users exported, as decompositions."""
