"""Template calls in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from aot.errors import InternalError
from aot.ir.interpreter_access import Array, Space
from aot.ir.loops import TemplateCall, View
from aot.symbolic import dim, evaluate

Sizes = Mapping[Any, int]


def _space(view: View, sizes: Sizes) -> Space:
    box = tuple((0, int(evaluate(a.extent, sizes))) for a in view.axes)
    return Space(view.axes, box, sizes)


def look(view: View, arrays: Mapping[str, Array], sizes: Sizes) -> Array:
    """The array that a view shows, in the buffer's own dtype."""
    space = _space(view, sizes)
    array = arrays[view.buffer]
    if 0 in space.shape:
        return np.zeros(space.shape, array.dtype)
    strided = space.strided(array, view.index, view.buffer)
    if strided is not None:
        return strided
    positions = [np.broadcast_to(space.value(e, {}), space.shape) for e in view.index]
    return np.asarray(array[tuple(positions)])


def run_template(
    call: TemplateCall, arrays: MutableMapping[str, Array], dims: Mapping[str, int]
) -> None:
    """Computes a template call in float64 (integers in int64) and stores its output.

    Raises InternalError for an unknown kind.
    """
    sizes: dict[Any, int] = {dim(name): value for name, value in dims.items()}
    if call.kind not in TEMPLATES:
        raise InternalError(f"{call.name}: no interpreter for the template {call.kind!r}")
    operands = {role: look(view, arrays, sizes) for role, view in call.operands}
    wide = {role: _widened(a) for role, a in operands.items()}
    with np.errstate(all="ignore"):
        result = TEMPLATES[call.kind](wide, dict(call.attrs))
    space = _space(call.output, sizes)
    if call.kind == "argsort":
        result = result[..., : space.shape[-1]]
    if result.shape != space.shape:
        raise InternalError(f"{call.name}: {result.shape} for an output of {space.shape}")
    if result.size == 0:
        return
    target = arrays[call.output.buffer]
    strided = space.strided(target, call.output.index, call.output.buffer)
    if strided is not None:
        strided[...] = result.astype(target.dtype)
        return
    positions = tuple(np.broadcast_to(space.value(e, {}), result.shape) for e in call.output.index)
    target[positions] = result.astype(target.dtype)


def _widened(a: Array) -> Array:
    if a.dtype == np.bool_:
        return a
    return a.astype(np.int64 if np.issubdtype(a.dtype, np.integer) else np.float64)


def matmul(operands: Mapping[str, Array], attrs: Mapping[str, Any]) -> Array:
    """a @ b."""
    return np.asarray(np.matmul(operands["a"], operands["b"]))


def conv(operands: Mapping[str, Array], attrs: Mapping[str, Any]) -> Array:
    """Cross-correlation, `groups` at a time."""
    x, w = operands["x"], operands["w"]
    spatial = x.ndim - 2
    padding, stride, dilation = attrs["padding"], attrs["stride"], attrs["dilation"]
    padded = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, w.shape[2:], strict=True)]
    windows = sliding_window_view(padded, reach, axis=tuple(range(2, x.ndim)))
    every = tuple(slice(None, None, s) for s in stride)
    inside = tuple(slice(None, None, d) for d in dilation)
    windows = windows[(slice(None), slice(None), *every, *inside)]
    groups = attrs["groups"]
    channels, outputs = x.shape[1] // groups, w.shape[0] // groups
    taps = [1, *range(2 + spatial, 2 + 2 * spatial)]
    parts = []
    for g in range(groups):
        part = windows[:, g * channels : (g + 1) * channels]
        weight = w[g * outputs : (g + 1) * outputs]
        dotted = np.tensordot(part, weight, axes=(taps, list(range(1, 2 + spatial))))
        parts.append(np.moveaxis(dotted, -1, 1))
    return np.concatenate(parts, axis=1)


def attention(operands: Mapping[str, Array], attrs: Mapping[str, Any]) -> Array:
    """softmax(scale * q @ k^T + mask) @ v; rows that see nothing give 0. Or what its parts give."""
    q, k, v = operands["q"], operands["k"], operands["v"]
    shared = q.shape[1] // max(k.shape[1], 1)
    k, v = np.repeat(k, shared, axis=1), np.repeat(v, shared, axis=1)
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) * attrs["scale"]
    mask = operands.get("mask")
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == np.bool_ else scores + mask
    if attrs.get("causal"):
        seen = np.tril(np.ones(scores.shape[-2:], bool))
        scores = np.where(seen, scores, -np.inf)
    if "parts" not in attrs:
        sums, _, total = _weighted(scores, v)
        return np.asarray(sums / np.where(total == 0.0, 1.0, total))
    size = -(-scores.shape[-1] // attrs["parts"])
    runs = [slice(p * size, (p + 1) * size) for p in range(attrs["parts"])]
    return np.stack(
        [np.concatenate(_weighted(scores[..., run], v[..., run, :]), axis=-1) for run in runs]
    )


def _weighted(scores: Array, v: Array) -> tuple[Array, Array, Array]:
    """Sums of values by exp(score - maximum); the maximum, and the sum of those factors."""
    top = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isinf(top), 0.0, top))
    return np.matmul(weights, v), top, weights.sum(axis=-1, keepdims=True)


_COMBINE: Mapping[str, np.ufunc] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "logaddexp": np.logaddexp,
}


def scan(operands: Mapping[str, Array], attrs: Mapping[str, Any]) -> Array:
    """Running results along the last dimension."""
    return np.asarray(_COMBINE[attrs["combine"]].accumulate(operands["x"], axis=-1))


def argsort(operands: Mapping[str, Array], attrs: Mapping[str, Any]) -> Array:
    """Positions of the elements in sorted order, stable, NaN greatest."""
    x = operands["x"]
    if not attrs["descending"]:
        return np.asarray(np.argsort(x, axis=-1, kind="stable"))
    # Sorting the reversed row and reversing again keeps the order of equal elements.
    last = np.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    return np.asarray(x.shape[-1] - 1 - last)


def resample(operands: Mapping[str, Array], attrs: Mapping[str, Any]) -> Array:
    """Weighted sums of neighbours along an axis; for bytes in eager's fixed point."""
    starts, weights = operands["starts"], operands["weights"]
    x = np.moveaxis(operands["x"], attrs["axis"], -1) - attrs["subtract"]
    taps = starts[:, None] + np.arange(weights.shape[1])
    total = (x[..., taps] * weights).sum(axis=-1)
    if "bits" in operands:
        if np.issubdtype(weights.dtype, np.integer):
            bits = int(operands["bits"])
            total = np.clip((total + (1 << (bits - 1))) >> bits, 0, 255)
        else:  # signed bytes, and 128 for what their weights are more than 1
            shift = 0.5 + 128.0 * (weights.sum(axis=1) - 1.0)
            total = np.clip(np.floor(total + shift), -128.0, 127.0) + attrs["add"]
    return np.asarray(np.moveaxis(total, -1, attrs["axis"]))


def resample2(operands: Mapping[str, Array], attrs: Mapping[str, Any]) -> Array:
    """Weighted sums of neighbours along two axes, the one that is to be first."""
    outer = (operands["starts"], operands["weights"], attrs["axis"])
    inner = (operands["inner_starts"], operands["inner_weights"], attrs["inner"])
    x = operands["x"]
    for starts, weights, axis in (outer, inner) if attrs["first"] == "outer" else (inner, outer):
        once = {"x": x, "starts": starts, "weights": weights}
        x = resample(once, {"axis": axis, "subtract": 0})
    return x


TEMPLATES: dict[str, Callable[[Mapping[str, Array], Mapping[str, Any]], Array]] = {
    "matmul": matmul,
    "conv": conv,
    "attention": attention,
    "scan": scan,
    "argsort": argsort,
    "resample": resample,
    "resample2": resample2,
}
