"""Programs that read once what several points of an outer axis share."""

from __future__ import annotations

import pytest
import torch

from tests.backends.triton.templates import captured, check_close, emitted, tensors

Tensor = torch.Tensor


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    low, high = x.chunk(2, -1)
    return x * cos + torch.cat((-high, low), -1) * sin


def text(heads: int, tokens: int, width: int) -> str:
    table = torch.empty(tokens, width)
    model = captured(turned, (torch.empty(heads, tokens, width), table, table))
    return emitted(model).functions[0].text


def test_tables_that_heads_share_are_read_once_for_several() -> None:
    source = text(32, 16384, 128)
    before, turns = source.split("for turn")
    assert "in tl.static_range(8):" in turns
    assert before.count("tl.load(") == 2 and turns.count("tl.load(") == 3


@pytest.mark.parametrize(
    ("heads", "tokens"), [(31, 16384), (4, 256), (1, 65536)], ids=["odd", "few", "one"]
)
def test_each_point_reads_its_own_otherwise(heads: int, tokens: int) -> None:
    assert "static_range" not in text(heads, tokens, 128)


def test_what_is_small_beside_the_rest_stays() -> None:
    model = captured(lambda x, bias: x * bias, (torch.empty(65536, 1024), torch.empty(1024)))
    assert "static_range" not in emitted(model).functions[0].text


def test_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aot.backends.triton.shared_reads.PROGRAMS", 0)
    monkeypatch.setattr("aot.backends.triton.shared_reads.LEAST_BYTES", 0)
    args = (*tensors((6, 5, 24)), *tensors((5, 24), (5, 24)))
    model = captured(turned, args)
    assert "in tl.static_range(2):" in emitted(model).functions[0].text
    check_close(model, turned, args)


def test_a_number_alone_has_no_axis() -> None:
    args = (torch.tensor(4.0),)
    check_close(captured(torch.reciprocal, args), torch.reciprocal, args)


def test_halves_are_computed_for_two_points() -> None:
    x, table = (torch.empty(*s, dtype=torch.bfloat16) for s in ((32, 16384, 128), (16384, 128)))
    source = emitted(captured(turned, (x, table, table))).functions[0].text
    assert "in tl.static_range(2):" in source


def sampled(x: Tensor, grid: Tensor) -> Tensor:
    return torch.nn.functional.grid_sample(x, grid, align_corners=False)


@pytest.mark.parametrize(("images", "channels", "turns"), [(1, 3, 3), (8, 16, 8), (1, 64, 4)])
def test_places_and_weights_that_channels_share_are_computed_once(
    images: int, channels: int, turns: int
) -> None:
    """For each of `turns` channels four neighbours are loaded, and both coordinates once."""
    side = 128 if channels == 64 else 512
    x, grid = torch.empty(images, channels, 64, 64), torch.empty(images, side, side, 2)
    source = emitted(captured(sampled, (x, grid))).functions[0].text
    before, loop = source.split("for turn")
    assert f"in tl.static_range({turns}):" in loop
    assert before.count("tl.load(") == 2 and loop.count("tl.load(") == 4
    assert "floor" in before and "floor" not in loop


def test_few_places_keep_a_channel_each() -> None:
    """Others would stand idle."""
    x, grid = torch.empty(1, 3, 64, 64), torch.empty(1, 64, 64, 2)
    assert "static_range" not in emitted(captured(sampled, (x, grid))).functions[0].text


def test_values_of_channels_that_share_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aot.backends.triton.shared_reads.LEAST_POINTS", 0)
    x, grid = tensors((2, 6, 9, 11), (2, 7, 5, 2))
    model = captured(sampled, (x, grid))
    assert "in tl.static_range(6):" in emitted(model).functions[0].text
    check_close(model, sampled, (x, grid))
