"""Packed sequences: packages give what eager gives, for any lengths and any number of sequences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aot_runtime
import pytest
import torch
from aot_runtime import InvalidArgument, ShapeMismatch
from torch import nn
from torch.export import Dim
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close

import aot
from tests.settings import level

LAYERS: dict[str, tuple[type[nn.RNNBase], dict[str, Any]]] = {
    "gru": (nn.GRU, {"batch_first": True}),
    "rnn both ways": (nn.RNN, {"bidirectional": True, "nonlinearity": "relu"}),
    "lstm of two layers both ways": (nn.LSTM, {"num_layers": 2, "bidirectional": True}),
    "lstm with projections": (nn.LSTM, {"batch_first": True, "proj_size": 3, "bias": False}),
}


class Reader(nn.Module):
    """A layer that reads sequences of many lengths."""

    def __init__(self, layer: nn.RNNBase, is_sorted: bool = False) -> None:
        super().__init__()
        self.layer = layer
        self.is_sorted = is_sorted

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:
        first = self.layer.batch_first
        packed = pack_padded_sequence(x, lengths, first, enforce_sorted=self.is_sorted)
        seen, state = self.layer(packed)
        padded, count = pad_packed_sequence(seen, first, padding_value=-1.0)
        return padded, count, state, seen.data


def example(layer: nn.RNNBase, lengths: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(len(lengths), 7, 6)
    return x if layer.batch_first else x.transpose(0, 1), torch.tensor(lengths)


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("name", LAYERS)
def test_layers_on_packed_sequences(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    kind, settings = LAYERS[name]
    model = Reader(kind(6, 5, **settings)).eval()
    batch = {0 if settings.get("batch_first") else 1: Dim("sequences", min=2, max=64)}
    aot.package(
        model,
        example(model.layer, [3, 6, 2]),
        path=tmp_path / "m.pkg",
        targets=[f"cpu:{level()}"],
        dynamic_shapes=(batch, {0: batch[next(iter(batch))]}),
        golden=False,
    )
    packaged = aot_runtime.load(tmp_path / "m.pkg")
    for lengths in ([3, 6, 2], [7, 7], [1, 5, 1, 1]):
        inputs = example(model.layer, lengths)
        with torch.no_grad():
            assert_close(packaged(*inputs), model(*inputs))


def test_what_torch_asks_of_lengths_is_asked(tmp_path: Path) -> None:
    model = Reader(nn.GRU(6, 5), is_sorted=True).eval()
    path, target = tmp_path / "m.pkg", f"cpu:{level()}"
    aot.package(model, example(model.layer, [6, 3]), path=path, targets=[target], golden=False)
    packaged = aot_runtime.load(path)
    for lengths, text in (([3, 6], "sorted"), ([8, 3], "no longer"), ([2, 0], "greater than 0")):
        with pytest.raises(InvalidArgument, match=text):
            packaged(*example(model.layer, lengths))


class Padded(nn.Module):
    """Sequences padded again to as many steps as they came with, or as `total` says."""

    def __init__(self, total: int | None = None) -> None:
        super().__init__()
        self.layer = nn.GRU(6, 5, batch_first=True)
        self.total = total

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        total = x.shape[1] if self.total is None else self.total
        return pad_packed_sequence(self.layer(packed)[0], batch_first=True, total_length=total)


@pytest.mark.parametrize("total", [None, 6])
def test_sequences_are_padded_to_a_total(total: int | None, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Padded(total).eval()
    batch, steps = Dim("batch", min=1, max=64), Dim("steps", min=1, max=64)
    aot.package(
        model,
        (torch.randn(3, 7, 6), torch.tensor([3, 6, 2])),
        path=tmp_path / "m.pkg",
        targets=[f"cpu:{level()}"],
        dynamic_shapes=({0: batch, 1: steps}, {0: batch}),
        golden=False,
    )
    packaged = aot_runtime.load(tmp_path / "m.pkg")
    for lengths in ([3, 6, 2], [5], [1, 4]):
        given = torch.randn(len(lengths), 7, 6), torch.tensor(lengths)
        with torch.no_grad():
            for ours, own in zip(packaged(*given), model(*given), strict=True):
                assert_close(ours, own)
    if total is not None:
        with pytest.raises(ShapeMismatch, match="allowed 1 to 6"):
            packaged(torch.randn(1, 9, 6), torch.tensor([9]))
