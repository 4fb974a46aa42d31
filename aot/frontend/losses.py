"""Losses written again: one whose code in torch reads lengths, and one that torch has wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

_untyped: Any = torch
"""torch, for functions of it that have no types."""

Lengths = Tensor | Sequence[int]


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: str | int = "mean",
    zero_infinity: bool = False,
) -> Any:
    """As torch.nn.functional.ctc_loss, and torch.ctc_loss, a loop over the steps."""
    single = log_probs.dim() == 2
    probs = log_probs.unsqueeze(1) if single else log_probs
    seen, wanted = (_lengths(n, probs.device) for n in (input_lengths, target_lengths))
    labels = _labels(_rows(targets, target_lengths, wanted, probs.shape[1]), blank)
    found = _likelihoods(probs, labels, seen)
    last = 2 * wanted.unsqueeze(1)
    ends = torch.cat([last, (last - 1).clamp(min=0)], 1)
    both = found.gather(1, ends)
    losses = -torch.where(wanted > 0, torch.logaddexp(both[:, 0], both[:, 1]), both[:, 0])
    if zero_infinity:
        losses = torch.where(losses.isinf(), 0, losses)
    if reduction in ("sum", 2):
        return losses.sum()
    if reduction in ("mean", 1):
        return (losses / wanted.clamp(min=1)).mean()
    return losses.squeeze(0) if single else losses


def _lengths(given: Lengths, device: torch.device) -> Tensor:
    whole = given if isinstance(given, Tensor) else torch.tensor(given, dtype=torch.int64)
    return whole.to(device, torch.int64).reshape(-1)


def _rows(targets: Tensor, given: Lengths, lengths: Tensor, count: int) -> Tensor:
    """The targets of each sequence as a row, with anything behind its end."""
    if targets.dim() == 2:
        return targets.long()
    if count == 1:
        return targets.long().unsqueeze(0)
    most = targets.shape[0] if isinstance(given, Tensor) else max(given)
    first = lengths.cumsum(0) - lengths
    places = first.unsqueeze(1) + torch.arange(most, device=targets.device)
    # One more, so that there is something to read where there are no targets at all.
    known = torch.nn.functional.pad(targets.long(), (0, 1))
    return known[places.clamp(max=targets.shape[0])]


def _labels(rows: Tensor, blank: int) -> Tensor:
    """(sequences, states): the targets with blanks between, before and behind."""
    blanks = torch.full_like(rows, blank)
    pairs = torch.stack([blanks, rows], -1).flatten(1)
    return (
        torch.cat([pairs, torch.full_like(rows[:, :1], blank)], 1)
        if rows.shape[1]
        else (torch.full((rows.shape[0], 1), blank, device=rows.device))
    )


def _likelihoods(probs: Tensor, labels: Tensor, seen: Tensor) -> Tensor:
    """(sequences, states): the logarithm of what all ways to a state at the last step are."""
    steps, count, states = probs.shape[0], *labels.shape
    each = probs.gather(2, labels.expand(steps, count, states))
    none = -torch.inf
    at = torch.arange(states, device=probs.device)
    before = torch.nn.functional.pad(labels, (2, 0), value=-1)[:, :states]
    skips = (at % 2 == 1) & (labels != before)
    first = torch.where(at < 2, each[0], none)

    def goes_on(step: Tensor, found: Tensor) -> Tensor:
        return step < each.shape[0]

    def walk(step: Tensor, found: Tensor) -> tuple[Tensor, Tensor]:
        one, two = (torch.nn.functional.pad(found, (k, 0), value=none)[:, :states] for k in (1, 2))
        ways = torch.stack([found, one, torch.where(skips, two, none)])
        most = ways.amax(0)
        shift = torch.where(most > none, most, 0)
        way = (
            (ways - shift).exp().sum(0).log()
            + shift
            + each.index_select(0, step.reshape(1)).squeeze(0)
        )
        return step + 1, torch.where((step < seen).unsqueeze(1), way, found)

    start = torch.ones((), dtype=torch.int64, device=probs.device)
    reached: Tensor = _untyped.while_loop(goes_on, walk, (start, first))[1]
    return reached


def multilabel_margin_loss_forward(
    x: Tensor, target: Tensor, reduction: int
) -> tuple[Tensor, Tensor]:
    """As torch.nn.functional.multilabel_margin_loss, and which classes are a row's targets.

    A row's targets end at its first -1. torch's own decomposition (2.13) takes what is behind it
    for targets of class 0.
    """
    rows, wanted = torch.atleast_2d(x), torch.atleast_2d(target)  # type: ignore[no-untyped-call]
    classes = rows.shape[-1]
    given = (wanted != -1).to(torch.int64).cumprod(-1).bool()
    chosen = torch.where(given, wanted, 0)
    margins = (1 - rows.gather(-1, chosen).unsqueeze(-1) + rows.unsqueeze(-2)).clamp(min=0)
    places = torch.arange(classes, device=x.device)
    hits = (given.unsqueeze(-1) & (chosen.unsqueeze(-1) == places)).any(-2)
    counted = given.unsqueeze(-1) & ~hits.unsqueeze(-2)
    terms = torch.where(counted, margins, torch.zeros_like(margins))
    wide = torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype
    losses = terms.sum((-2, -1), dtype=wide) / classes
    if reduction:
        losses = losses.mean() if reduction == 1 else losses.sum()
    elif x.dim() < 2:
        losses = losses.squeeze(0)
    return losses.to(x.dtype), hits.to(x.dtype).reshape(target.shape)


def multilabel_margin_loss(x: Tensor, target: Tensor, reduction: int = 1) -> Tensor:
    """As the operator: torch takes it apart by itself, past a table's way for the one above."""
    return multilabel_margin_loss_forward(x, target, reduction)[0]
