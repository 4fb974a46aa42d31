"""Operators of torchvision that are compiled code there: boxes, regions, and deformed convolutions.

Regions are sampled at as many points as the region with the most has, a number that the program
measures where torchvision's own code counts for each region; points that one lacks add nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

_untyped: Any = torch
"""torch, for functions of it that have no types."""


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Which boxes stay, by falling score: those that overlap no better one that stays too much.

    Whether a box stays follows from the better ones alone, so rounds over all boxes settle at least
    one more each; most need few.
    """
    order = torch.sort(scores, stable=True, dim=0, descending=True).indices
    count: Any = boxes.shape[0]
    if isinstance(count, int) and count == 0:
        return order
    x1, y1, x2, y2 = (boxes[order, k] for k in range(4))
    area = (x2 - x1) * (y2 - y1)
    width = (torch.minimum(x2[:, None], x2) - torch.maximum(x1[:, None], x1)).clamp(min=0)
    height = (torch.minimum(y2[:, None], y2) - torch.maximum(y1[:, None], y1)).clamp(min=0)
    shared = width * height
    places = torch.arange(count, device=boxes.device)
    worse = places[:, None] < places
    over = (shared / (area[:, None] + area - shared) > iou_threshold) & worse

    def more(stays: Tensor, changes: Tensor) -> Tensor:
        return changes.clone()

    def settle(stays: Tensor, changes: Tensor) -> tuple[Tensor, Tensor]:
        found = (over & stays[:, None]).any(0).logical_not()
        return found, (found != stays).any()

    every = torch.ones_like(order, dtype=torch.bool)
    stays, _ = _untyped.while_loop(more, settle, (every, every.any()))
    kept: Tensor = order[stays]
    return kept


@dataclass(frozen=True)
class _Regions:
    """The bins of all regions along one axis of an image.

    Attributes:
        start: Where each region begins, a column.
        size: How long its bins are, a column.
        bins: How many it has.
        length: Of the axis.
    """

    start: Tensor
    size: Tensor
    bins: int
    length: Any

    def sampled(self, ratio: int) -> tuple[Tensor, Tensor, Tensor]:
        """(regions, bins, points) places; which points a region has; how many that is, a column."""
        dtype = self.start.dtype
        if ratio > 0:
            points: Any = ratio
            counts = torch.full_like(self.size, ratio)
        else:
            counts = torch.ceil(self.size)
            points = _greatest(counts)
        place = torch.arange(points, device=self.start.device)
        of_bin = (torch.arange(self.bins, device=place.device) * self.size + self.start)[..., None]
        step = (place.to(dtype) + 0.5) * self.size / counts.clamp(min=1)
        return of_bin + step[:, None], place < counts, counts

    def covered(self, past: Any) -> tuple[Tensor, Tensor]:
        """(regions, bins, points) whole places that bins cover, and which of these there are.

        `past`: where bins end at the latest.
        """
        number = torch.arange(self.bins, device=self.start.device)
        low = torch.floor(number * self.size).long() + self.start.long()
        high = torch.ceil((number + 1) * self.size).long() + self.start.long()
        low, high = low.clamp(0, past), high.clamp(0, past)
        places = low[..., None] + torch.arange(_greatest(high - low), device=low.device)
        return places, places < high[..., None]


def _greatest(counts: Tensor) -> Any:
    """The greatest of some counts, at least 1, as a number that the program measures."""
    if not counts.numel():
        return 1
    size = counts.amax().clamp(min=1).long().item()
    _untyped._check(size >= 1)
    return size


def _weighed(places: Tensor, length: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The elements below and above each place, and the share of the one above."""
    inside = places.clamp(min=0)
    last = length - 1
    low = inside.long().clamp(0, last)
    share = torch.where(low >= last, 0, inside - low)
    return low, (low + 1).clamp(max=last), share


def _within(places: Tensor, length: Any) -> Tensor:
    inside: Tensor = (places >= -1) & (places <= length)
    return inside


def _averages(x: Tensor, rois: Tensor, vertical: _Regions, across: _Regions, ratio: int) -> Any:
    """Sums of what lies at the points of each bin, and how many these are.

    The first is (regions, channels, bins, bins).
    """
    y, has_y, rows = vertical.sampled(ratio)
    x_, has_x, columns = across.sampled(ratio)
    y, has_y = y[:, None, :, None, :, None], has_y[:, None, None, None, :, None]
    x_, has_x = x_[:, None, None, :, None, :], has_x[:, None, None, None, None, :]
    image = rois[:, 0].long().reshape(-1, 1, 1, 1, 1, 1)
    top, bottom, down = _weighed(y, vertical.length)
    left, right, along = _weighed(x_, across.length)
    values: Any = 0
    for row, share in ((top, 1 - down), (bottom, down)):
        for column, other in ((left, 1 - along), (right, along)):
            values = values + share * other * _at(x, image, row, column, vertical, across)
    counts = has_y & has_x & _within(y, vertical.length) & _within(x_, across.length)
    total = torch.where(counts, values, 0).sum((-2, -1))
    return total, (rows * columns).reshape(-1, 1, 1, 1)


def _split(x: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """x with dimensions of those sizes for its channels."""
    return x.reshape(x.shape[0], *sizes, *x.shape[2:])


def _at(
    x: Tensor, image: Tensor, row: Tensor, column: Tensor, vertical: _Regions, across: _Regions
) -> Tensor:
    """Every channel at places; of an image with dimensions for bins, each bin's own."""
    channel = torch.arange(x.shape[1], device=x.device).reshape(1, -1, 1, 1, 1, 1)
    if x.dim() == 4:
        return x[image, channel, row, column]
    own = torch.arange(vertical.bins, device=x.device).reshape(1, 1, -1, 1, 1, 1)
    other = torch.arange(across.bins, device=x.device).reshape(1, 1, 1, -1, 1, 1)
    return x[image, channel, own, other, row, column]


def _continuous(
    x: Tensor, rois: Tensor, scale: float, bins: tuple[int, int], offset: float, least: float | None
) -> tuple[_Regions, _Regions]:
    """Regions between any places; `least`: of their sizes."""
    found = []
    for begin, count, length in ((2, bins[0], x.shape[-2]), (1, bins[1], x.shape[-1])):
        start = rois[:, begin, None] * scale - offset
        size = rois[:, begin + 2, None] * scale - offset - start
        size = size if least is None else size.clamp(min=least)
        found.append(_Regions(start, size / count, count, length))
    return found[0], found[1]


def _whole(
    x: Tensor, rois: Tensor, scale: float, bins: tuple[int, int], last: int
) -> tuple[_Regions, _Regions]:
    """Regions between whole places; `last`: 1 where the last place belongs to them."""
    found = []
    for begin, count, length in ((2, bins[0], x.shape[-2]), (1, bins[1], x.shape[-1])):
        start, end = (_rounded(rois[:, k, None] * scale) for k in (begin, begin + 2))
        size = (end - start + last).clamp(min=1)
        found.append(_Regions(start, size / count, count, length))
    return found[0], found[1]


def _rounded(x: Tensor) -> Tensor:
    """To whole numbers, halves away from zero."""
    return torch.copysign(torch.floor(x.abs() + 0.5), x)


def roi_align(
    x: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    """As torchvision.ops.roi_align."""
    bins = (pooled_height, pooled_width)
    offset, least = (0.5, None) if aligned else (0.0, 1.0)
    regions = _continuous(x, rois, spatial_scale, bins, offset, least)
    total, counts = _averages(x, rois, *regions, sampling_ratio)
    mean: Tensor = total / counts.clamp(min=1)
    return mean


def ps_roi_align(
    x: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
) -> tuple[Tensor, Tensor]:
    """As torchvision.ops.ps_roi_align, with the channels that it takes."""
    bins = (pooled_height, pooled_width)
    regions = _continuous(x, rois, spatial_scale, bins, 0.5, None)
    total, counts = _averages(_split(x, (-1, *bins)), rois, *regions, sampling_ratio)
    mean = total / counts
    return mean, _own_channels(mean)


def _own_channels(result: Tensor) -> Tensor:
    """Which channel of the input each result is of, where each bin has channels of its own."""
    numbers = torch.arange(result[0].numel(), dtype=torch.int32, device=result.device)
    return numbers.reshape(result.shape[1:]).expand(result.shape).contiguous()


def _bins(x: Tensor, rois: Tensor, vertical: _Regions, across: _Regions, cut: int) -> Any:
    """What lies at whole places, which of these there are, their rows and their columns.

    All are (regions, channels, bins, bins, rows, columns). `cut`: of the image's end.
    """
    row, has_row = vertical.covered(vertical.length - cut)
    column, has_column = across.covered(across.length - cut)
    row, has_row = row[:, None, :, None, :, None], has_row[:, None, :, None, :, None]
    column, has_column = column[:, None, None, :, None, :], has_column[:, None, None, :, None, :]
    image = rois[:, 0].long().reshape(-1, 1, 1, 1, 1, 1)
    inside = (row.clamp(max=vertical.length - 1), column.clamp(max=across.length - 1))
    return _at(x, image, *inside, vertical, across), has_row & has_column, row, column


def roi_pool(
    x: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """As torchvision.ops.roi_pool, with the places of the greatest elements; -1 for none."""
    regions = _whole(x, rois, spatial_scale, (pooled_height, pooled_width), 1)
    values, there, row, column = _bins(x, rois, *regions, 0)
    least = torch.finfo(torch.float32).min
    counted = there & (values > least)
    flat = torch.where(counted, values, least).flatten(-2)
    most, where = flat.max(-1)
    place = (row * x.shape[-1] + column).expand(values.shape).flatten(-2)
    found = torch.where(counted.flatten(-2).any(-1), place.gather(-1, where[..., None])[..., 0], -1)
    some = there.expand(values.shape).flatten(-2).any(-1)
    return torch.where(some, most, 0), found.to(torch.int32)


def ps_roi_pool(
    x: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """As torchvision.ops.ps_roi_pool, with the channels that it takes.

    The last row and column belong to no bin, as there.
    """
    bins = (pooled_height, pooled_width)
    regions = _whole(x, rois, spatial_scale, bins, 0)
    values, there, _, _ = _bins(_split(x, (-1, *bins)), rois, *regions, 1)
    total = torch.where(there, values, 0).sum((-2, -1))
    mean = total / there.sum((-2, -1)).clamp(min=1)
    return mean.to(x.dtype), _own_channels(mean)


def deform_conv2d(
    x: Tensor,
    weight: Tensor,
    offset: Tensor,
    mask: Tensor,
    bias: Tensor,
    *numbers: Any,
) -> Tensor:
    """As torchvision.ops.deform_conv2d.

    `numbers`: strides, padding, dilation, groups of channels, groups of offsets, and whether there
    is a mask.
    """
    strides, padding, dilation = numbers[0:2], numbers[2:4], numbers[4:6]
    groups, offset_groups, use_mask = numbers[6:9]
    batch, channels = x.shape[:2]
    taps = weight.shape[2:]
    out = offset.shape[2:]
    moved = offset.reshape(batch, offset_groups, *taps, 2, *out)
    places = []
    for k, view in enumerate(((-1, 1, 1, 1), (1, -1, 1, 1))):
        tap = torch.arange(taps[k], device=x.device).reshape(view) * dilation[k]
        at = torch.arange(out[k], device=x.device).reshape((-1, 1) if k == 0 else (1, -1))
        places.append(moved[:, :, :, :, k] + (at * strides[k] - padding[k] + tap).to(x.dtype))
    values = _corners(_split(x, (offset_groups, -1)), *places)
    if use_mask:
        values = values * mask.reshape(batch, offset_groups, 1, *taps, *out)
    columns = values.reshape(batch, groups, channels // groups * taps[0] * taps[1], -1)
    rows = weight.reshape(groups, weight.shape[0] // groups, -1)
    made = torch.matmul(rows, columns).reshape(batch, weight.shape[0], *out)
    return made + bias.reshape(-1, 1, 1)


def _corners(x: Tensor, y: Tensor, x_: Tensor) -> Tensor:
    """(images, groups, channels, taps, taps, rows, columns) of bilinear samples, zeros outside."""
    height, width = x.shape[-2:]
    y, x_ = y[:, :, None], x_[:, :, None]
    image = torch.arange(x.shape[0], device=x.device).reshape(-1, 1, 1, 1, 1, 1, 1)
    group = torch.arange(x.shape[1], device=x.device).reshape(1, -1, 1, 1, 1, 1, 1)
    channel = torch.arange(x.shape[2], device=x.device).reshape(1, 1, -1, 1, 1, 1, 1)
    top, left = torch.floor(y), torch.floor(x_)
    values: Any = 0
    for row, share in ((top, top + 1 - y), (top + 1, y - top)):
        for column, other in ((left, left + 1 - x_), (left + 1, x_ - left)):
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            at = (row.clamp(0, height - 1).long(), column.clamp(0, width - 1).long())
            found = x[image, group, channel, *at]
            values = values + torch.where(inside, share * other * found, 0)
    sampled: Tensor = values
    return sampled


VISION: Mapping[str, Callable[..., Any]] = {
    f"torchvision.{ours.__name__}": ours
    for ours in (nms, roi_align, roi_pool, ps_roi_align, ps_roi_pool, deform_conv2d)
}
"""Operators, by name without overload, which need not be there."""
