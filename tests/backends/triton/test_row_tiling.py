"""Tiles of rows: one or two, and what two compute."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

from aot.backends.triton.context import TileDim
from aot.backends.triton.row_tiling import pieces_of
from aot.ir.nests import Axis
from aot.symbolic import integer, var
from tests.backends.triton.templates import captured, check_close, emitted, tensors


def sizes(points: int, block: int) -> list[tuple[int, int]]:
    """Where the tiles of a row begin, and how wide they are."""
    found = pieces_of(TileDim("r0", (Axis(var("r"), integer(points)),), block, 1))
    return [(piece.start, piece.block) for piece in found]


@pytest.mark.parametrize(
    ("points", "block", "pieces"),
    [
        (1024, 1024, [(0, 1024)]),
        (1104, 2048, [(0, 1024), (1024, 128)]),
        (1025, 2048, [(0, 1024), (1024, 16)]),
        (768, 1024, [(0, 512), (512, 256)]),
        (1000, 1024, [(0, 1024)]),
        (1700, 2048, [(0, 2048)]),
        (0, 1, [(0, 1)]),
        (3, 4, [(0, 4)]),
    ],
)
def test_rows_are_two_tiles_where_one_would_be_half_empty(
    points: int, block: int, pieces: list[tuple[int, int]]
) -> None:
    assert sizes(points, block) == pieces


@pytest.mark.parametrize(
    ("function", "columns", "dtype", "rows"),
    [
        (lambda x: x.mean(-1), 160, torch.bfloat16, 16),
        (lambda x: x.mean(-1), 160, torch.float32, 16),
        (lambda x: x.softmax(-1), 256, torch.float16, 8),
        (lambda x: x.mean(-1), 1024, torch.float32, 2),
        (lambda x: x.logsumexp(-1), 246, torch.bfloat16, 8),
        (lambda x: x.argmax(-1), 64, torch.bfloat16, 16),
        (lambda x: x.argmax(-1), 568, torch.float64, 1),
    ],
)
def test_rows_of_a_program_move_what_memory_moves_while_one_starts(
    function: Callable[..., object], columns: int, dtype: torch.dtype, rows: int
) -> None:
    """But for places of extremes."""
    x = torch.randn(100000, 1, dtype=dtype).expand(100000, columns).contiguous()
    (kernel,) = emitted(captured(function, (x,)), "sm_90").functions
    assert f"* {rows} + tl.arange(0, {rows})" in kernel.text


def norm(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(F.layer_norm(x + 1, (x.shape[-1],)))


@pytest.mark.parametrize(
    "function",
    [
        norm,
        lambda x: x.softmax(-1),
        lambda x: (x.sum(-1), x.amax(-1), x.amin(-1)),
        lambda x: (x > 0).any(-1),
        lambda x: ((x * 8).int().amax(-1), (x * 8).int().amin(-1), (x + 2).prod(-1)),
    ],
    ids=["norm", "softmax", "extrema", "any", "integers"],
)
def test_two_tiles_compute_what_one_does(function: Callable[..., object]) -> None:
    torch.manual_seed(0)
    rows = (torch.rand(5, 1104) * 2 - 1,)
    model = captured(function, rows)
    assert "r0_rest = 1024 + tl.arange(0, 128)" in emitted(model).functions[0].text
    check_close(model, function, rows)


@pytest.mark.parametrize(
    ("columns", "dtype", "near"),
    [
        (40000, torch.float32, True),
        (131072, torch.float32, True),
        (131073, torch.float32, False),
        (20000, torch.bfloat16, False),
        (131072, torch.bfloat16, True),
        (40000, torch.float64, False),
    ],
)
def test_long_rows_that_caches_keep_are_walked_by_few_programs(
    columns: int, dtype: torch.dtype, near: bool
) -> None:
    """What the first walk reads stays; what the last one touches goes."""
    model = captured(lambda x: x.softmax(-1), (torch.empty(512, columns, dtype=dtype),))
    function = emitted(model).functions[-1]
    assert (dict(function.options)["num_warps"] == 32) == near
    assert ("evict_last" in function.text) == near
    last = function.text.split("tl.load(")[-1]
    assert last.count("eviction_policy='evict_first'") == 2 * near
    each = 65536 // dtype.itemsize
    assert (f"range(0, {columns}, {each})" in function.text) == near


def test_what_is_only_reduced_is_walked_as_ever() -> None:
    model = captured(lambda x: x.logsumexp(-1), (torch.empty(4096, 50304),))
    assert all("evict" not in f.text for f in emitted(model).functions)


@pytest.mark.parametrize("columns", [20000, 33000])
def test_values_of_rows_that_caches_keep(columns: int) -> None:
    rows = tensors((2, columns))
    for function in (lambda x: x.softmax(-1), lambda x: F.layer_norm(x, (columns,))):
        check_close(captured(function, rows), function, rows)


def test_places_are_found_in_one_tile() -> None:
    text = emitted(captured(lambda x: x.argmax(-1), (torch.rand(64, 1104),))).functions[0].text
    assert "_rest" not in text


@pytest.mark.parametrize("kind", ["sum", "max", "var"])
@pytest.mark.parametrize("columns", [177, 301])
def test_parts_of_odd_columns_are_programs_of_their_own(kind: str, columns: int) -> None:
    """A tile's rows run along memory: counted through parts, too, no two would be neighbours."""
    rows = tensors((1100, columns))
    function = {"sum": lambda x: x.sum(0), "max": lambda x: x.max(0)[1], "var": lambda x: x.var(0)}
    model = captured(function[kind], rows)
    parts = emitted(model)
    assert any("b0 = (tl.program_id(0) // (" in f.text for f in parts.functions)
    check_close(model, function[kind], rows)


def test_columns_of_whole_vectors_are_counted_through_all_parts() -> None:
    source = emitted(captured(lambda x: x.sum(0), (torch.empty(4096, 256),)))
    assert "i2 = x // (256)" in source.functions[1].text + source.functions[0].text


@pytest.mark.parametrize(("shape", "dim"), [((3000, 65), 0), ((2, 40000), 1)])
def test_the_first_of_equal_infinities_is_found(shape: tuple[int, int], dim: int) -> None:
    rows = (torch.full(shape, -float("inf")),)
    check_close(captured(lambda x: x.argmax(dim), rows), lambda x: x.argmax(dim), rows)
    rows = (torch.full(shape, float("inf")),)
    check_close(captured(lambda x: x.argmin(dim), rows), lambda x: x.argmin(dim), rows)


@pytest.mark.parametrize(
    "function", [lambda x: x.sum(0), lambda x: (x * 2).amax(0), lambda x: x.std(0)]
)
def test_values_of_narrow_columns_that_are_joined(function: Callable[..., object]) -> None:
    """More than a cache holds, in rows of 12 bytes, of which three are over."""
    rows = (torch.rand(400011, 3) + 7,)
    model = captured(function, rows)
    assert "(264)" in emitted(model).functions[0].text
    check_close(model, function, rows)


def test_values_of_columns_at_odd_addresses_that_are_joined() -> None:
    rows = (torch.rand(20003, 265).half(),)
    model = captured(lambda x: x.sum(0), rows)
    text = emitted(model).functions[0].text
    assert re.search(r"tl\.load\(p0 \+ \(2120 \* r0 .*mask", text)
    check_close(model, lambda x: x.sum(0), rows)


@pytest.mark.parametrize(
    ("rows", "columns", "dtype", "deep"),
    [
        (324200, 208, torch.bfloat16, 16),
        (40000, 1656, torch.float32, 32),
        (4100, 512, torch.float32, 64),  # few programs
    ],
)
def test_parts_of_columns_are_small_where_they_are_many(
    rows: int, columns: int, dtype: torch.dtype, deep: int
) -> None:
    x = torch.empty(1, 1, dtype=dtype).expand(rows, columns).contiguous()
    text = emitted(captured(lambda x: x.sum(0), (x,))).functions[0].text
    assert f"tl.arange(0, {deep})[None, :]" in text


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_that_searches_find_are_those_of_numbers_and_of_none(name: str, dim: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(1500, 70)
    x[3, 4], x[7:9, 5], x[:, 6] = float("nan"), float("inf"), -float("inf")
    model = captured(lambda x: getattr(x, name)(dim), (x,))
    check_close(model, lambda x: getattr(x, name)(dim), (x,))


@pytest.mark.parametrize("columns", [4, 6, 15])
def test_values_of_short_rows_that_are_turned(columns: int) -> None:
    rows = tensors((2, 1000, columns))
    turned = lambda x: x.transpose(1, 2).contiguous() + 1  # noqa: E731
    check_close(captured(turned, rows), turned, rows)


def warps_of(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> int:
    (kernel,) = emitted(captured(function, (x,))).functions
    return dict(kernel.options)["num_warps"]


def test_threads_have_many_points_of_columns_whose_places_are_wanted() -> None:
    """32 of a column that a tile holds: four warps of 64 x 64, where 16 were eight warps."""
    assert warps_of(lambda x: x.argmax(0), torch.empty(64, 1 << 18)) == 4


@pytest.mark.parametrize(("columns", "rows"), [(4096, 64), (4624, 32)])
def test_parts_of_columns_that_tiles_would_cross_have_small_tiles(columns: int, rows: int) -> None:
    x = torch.empty(14513, 1, dtype=torch.float64).expand(14513, columns)
    text = emitted(captured(lambda x: x.max(0), (x.contiguous(),)), "sm_90").functions[0].text
    assert f"tl.arange(0, {rows})[:, None]" in text


def test_places_of_extremes_of_halves_are_found_in_two_rows_a_program() -> None:
    """Of float64 in one: 111346 programs would take 137 us to start, whatever they do."""
    for dtype, rows in ((torch.float16, 2), (torch.float64, 1)):
        model = captured(lambda x: x.max(-1), (torch.empty(111346, 563, dtype=dtype),))
        assert f"tl.program_id(0) * {rows} +" in emitted(model, "sm_90").functions[0].text


def test_columns_of_halves_that_are_held_are_a_line_and_few_of_sums_are_shared_out() -> None:
    model = captured(lambda x: x.var(0), (torch.empty(65536, 1024, dtype=torch.bfloat16),))
    parts, joined = emitted(model, "sm_90").functions
    assert "tl.program_id(0) * 64 +" in parts.text
    assert dict(parts.options)["num_warps"] == 2
    assert "tl.program_id(0) * 8 +" in joined.text


@pytest.mark.parametrize(("columns", "rows", "warps"), [(128, 4, 1), (200, 2, 1), (512, 2, 2)])
def test_a_warp_has_short_rows_of_float64_to_itself(columns: int, rows: int, warps: int) -> None:
    """Two warps with a row would tell each other through shared memory what they reduced."""
    x = torch.empty(495909, 1, dtype=torch.float64).expand(495909, columns)
    (function,) = emitted(captured(lambda x: x.softmax(-1), (x,)), "sm_90").functions
    assert f"tl.program_id(0) * {rows} +" in function.text
    assert dict(function.options)["num_warps"] == warps


def test_dear_rows_have_twice_the_warps() -> None:
    def dear(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(F.gelu(x + 1) + F.gelu(x - 1), (x.shape[-1],))

    def cheap(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (x.shape[-1],))

    x = torch.empty(8192, 4096)
    assert warps_of(dear, x) == 2 * warps_of(cheap, x)


ODD_TILES = [
    ("amax", 563, (4, 1)),
    ("amax", 55, (32, 1)),
    ("amax", 43, (64, 1)),
    ("argmax", 201, (8, 1)),
    ("softmax", 197, (4, 1)),
    ("softmax", 85, (8, 1)),
    ("softmax", 651, (2, 1)),
    ("softmax", 149, (16, 4)),
]


@pytest.mark.parametrize(("name", "columns", "tile"), ODD_TILES)
def test_a_warp_has_rows_that_begin_within_words_to_itself(
    name: str, columns: int, tile: tuple[int, int]
) -> None:
    """All but those of which two tiles leave much out (149: 160 of 256 lanes)."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return getattr(x, name)(-1)

    x = torch.empty(1 << 18, columns, dtype=torch.bfloat16)
    (kernel,) = emitted(captured(function, (x,)), "sm_90").functions
    assert (
        f"tl.program_id(0) * {tile[0]} +" in kernel.text,
        dict(kernel.options)["num_warps"],
    ) == (
        True,
        tile[1],
    )


def test_few_rows_have_more_warps() -> None:
    assert warps_of(lambda x: x.softmax(-1), torch.empty(64, 651, dtype=torch.bfloat16)) > 1


def test_odd_rows_beside_rows_of_a_dynamic_length_are_packaged() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.softmax(-1).sum(-1) + y.softmax(-1).sum(-1)

    x, y = tensors((9, 651), (9, 40))
    halves = x.to(torch.bfloat16), y.to(torch.bfloat16)
    open_length = {0: Dim("rows"), 1: Dim("length", max=100)}
    model = captured(function, halves, ({0: Dim("rows")}, open_length))
    check_close(model, function, halves)


@pytest.mark.parametrize("columns", [43, 85, 651])
def test_values_of_rows_that_begin_within_words(columns: int) -> None:
    x = tensors((300, columns))[0].to(torch.bfloat16)
    for name in ("amax", "argmax", "softmax"):
        function = lambda x, name=name: getattr(x, name)(-1)  # noqa: E731
        check_close(captured(function, (x,)), function, (x,))


MANY_COLUMNS = {"float64": (8, 16), "float32": (4, 32), "bfloat16": (4, 16)}
"""By type: warps of a program down many columns, and rows of a turn."""


@pytest.mark.parametrize("name", MANY_COLUMNS)
def test_turns_down_many_columns_keep_memory_busy(name: str) -> None:
    """And only the last one has a mask."""
    warps, rows = MANY_COLUMNS[name]
    x = torch.empty(970, 65536, dtype=getattr(torch, name))  # no page of it is touched
    (function,) = emitted(captured(lambda x: x.sum(0), (x,))).functions
    assert dict(function.options)["num_warps"] == warps
    heads = re.findall(r"range\((\d+), (\d+), (\d+)\)", function.text)
    full = 970 // rows * rows
    assert [tuple(map(int, head)) for head in heads] == [(0, full, rows), (full, 970, rows)]
    first, last = function.text.split("for ")[1:]
    assert "mask" not in first and "mask" in last


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_values_down_columns_whose_last_turn_is_not_whole(dtype: torch.dtype) -> None:
    rows = (torch.rand(83, 20001).to(dtype),)
    for function in (lambda x: x.sum(0), lambda x: x.amax(0)):
        check_close(captured(function, rows), function, rows)
