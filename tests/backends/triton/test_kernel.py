"""The text of kernels without a template, and what their tiles are made of."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from aot.backends.base import EmittedGraph
from aot.backends.triton.backend import TritonBackend
from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.ir.kernels import KernelGraph
from aot.ir.verify import verify_kernels
from aot.lowering.lower import lower
from aot.options import Target
from aot.schedule.fusion import fuse
from aot.symbolic import decode, dim
from tests.backends.emitting import emit
from tests.backends.triton.interpret import run_emitted
from tests.calls import Calls
from tests.conftest import GoldenCheck
from tests.launches import grid_of
from tests.schedule.graphs import run_passes

TARGET = Target("cuda", ("sm_90",))
BACKEND = TritonBackend()


def kernels_of(function: Callable[..., Any], *args: torch.Tensor, **options: Any) -> KernelGraph:
    graph, _ = ingest(capture_module(Calls(function), args, **options))
    kernels = fuse(run_passes(lower(graph), BACKEND.machine(TARGET)), BACKEND.machine(TARGET))
    verify_kernels(kernels)
    return kernels


def emitted(function: Callable[..., Any], *args: torch.Tensor, **options: Any) -> EmittedGraph:
    return emit(BACKEND, kernels_of(function, *args, **options), TARGET)


def only(source: EmittedGraph) -> str:
    (function,) = source.functions
    return function.text


ROWS = torch.zeros(64, 1000)
BATCH = torch.export.Dim("batch", min=1, max=4096)

TEXTS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "pointwise": (lambda x, y: x.relu() * y + 1, (ROWS, ROWS[0])),
    "half": (lambda x: torch.exp(x) - x, (ROWS.to(torch.bfloat16),)),
    "transposed": (lambda x, y: x.t() + y, (torch.zeros(96, 64), torch.zeros(64, 96))),
    "interleaved": (
        lambda x: x.view(99, 2, 40).flip(1).permute(2, 0, 1).contiguous(),
        (torch.zeros(99, 80),),
    ),
    "softmax": (lambda x: x.softmax(-1), (ROWS,)),
    "long_rows": (lambda x: x.softmax(-1), (torch.zeros(2048, 50000),)),
    "columns": (lambda x: x.sum(0), (torch.zeros(512, 4096),)),
    "argmax": (lambda x: x.argmax(-1), (ROWS,)),
    "gather": (lambda x, i: F.embedding(i, x), (ROWS, torch.zeros(7, dtype=torch.int64))),
    "index_add": (
        lambda x, i, y: x.index_add(0, i, y),
        (ROWS, torch.zeros(7, dtype=torch.int64), torch.zeros(7, 1000)),
    ),
    "scatter_product": (
        lambda x, i, y: x.scatter_reduce(0, i, y, "prod"),
        (ROWS[0], torch.zeros(7, dtype=torch.int64), torch.zeros(7)),
    ),
    "concatenation": (lambda x, y: torch.cat([x[:, :10], y * 2], 1), (ROWS, ROWS)),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text(name: str, golden: GoldenCheck) -> None:
    function, args = TEXTS[name]
    source = emitted(function, *args)
    parts = [
        f"# {f.signature} {dict(f.options)} faults={f.faults}\n{f.text}" for f in source.functions
    ]
    launches = [
        f"# {la.kernel}: {la.function}{la.buffers} grid {grid_of(la)}\n" for la in source.launches
    ]
    golden(f"{name}.txt", "\n".join([*launches, *parts]))


def test_rows_that_fit_are_read_once() -> None:
    text = only(emitted(lambda x: F.layer_norm(x, (1000,)), ROWS))
    assert text.count("tl.load(p0") == 1
    assert "for " not in text.split("@triton.jit")[-1]


def test_long_rows_are_walked_in_loops_and_computed_again() -> None:
    text = only(emitted(lambda x: x.softmax(-1), torch.zeros(2048, 50000)))
    heads = [line.partition(" in ")[2] for line in text.splitlines() if "for start" in line]
    assert heads == [f"range({walk}, 16384):" for walk in ("0, 49152", "49152, 50000", "0, 50000")]
    assert text.count("tl.load(p0") == 3


def test_walks_begin_where_the_last_one_ended_unless_they_find_places() -> None:
    def backwards(model: Callable[[torch.Tensor], object], rows: int) -> int:
        text = only(emitted(model, torch.zeros(rows, 65536)))
        return len(re.findall(r"// (\d+) \* \1 - start", text))

    assert backwards(lambda x: x.softmax(-1), 2048) == 1
    assert backwards(lambda x: x - x.mean(-1, keepdim=True), 2048) == 1
    assert backwards(lambda x: (x - x.mean(-1, keepdim=True)).argmax(-1), 2048) == 0


def test_columns_that_are_reduced_twice_are_held() -> None:
    """Of a variance down columns a part is read once; its tile has 32 KB."""
    for dtype, columns, warps in ((torch.float32, 32, 4), (torch.float64, 16, 4)):
        source = emitted(lambda x: x.var(0), torch.zeros(65536, 1024, dtype=dtype))
        first = source.functions[0]
        assert len(source.launches) == 2
        assert first.text.count("tl.load(") == 1
        assert f"tl.arange(0, {columns})[:, None]" in first.text
        assert dict(first.options)["num_warps"] == warps


def test_tiles_of_whole_rows_have_few_warps_where_there_are_many() -> None:
    def warps(rows: int, columns: int) -> int:
        source = emitted(lambda x: x.softmax(-1), torch.zeros(rows, columns))
        return dict(source.functions[0].options)["num_warps"]

    assert warps(65536, 1024) == 2
    assert warps(65536, 4096) == 2
    assert warps(8, 4096) == 16


def test_what_is_reduced_from_many_operands_has_few_points_a_thread() -> None:
    rows = [torch.zeros(65536, 1024, dtype=torch.float64) for _ in range(4)]
    source = emitted(lambda a, b, c, d: (a * b + c * d).softmax(-1), *rows)
    assert dict(source.functions[0].options)["num_warps"] == 4


def test_few_long_rows_are_reduced_in_two_steps() -> None:
    source = emitted(lambda x: x.sum(), torch.zeros(1 << 22))
    assert len(source.launches) == 2
    first = grid_of(source.launches[0])
    assert int(first[0]) >= 512


def test_enough_long_rows_for_all_processors_stay_whole() -> None:
    source = emitted(lambda x: x.softmax(-1), torch.empty(300, 70_000))
    assert len(source.launches) == 1
    assert len(emitted(lambda x: x.softmax(-1), torch.empty(200, 70_000)).launches) > 1


def test_a_row_of_few_turns_is_one_program() -> None:
    assert len(emitted(lambda x: x.sum(), torch.zeros(16_000)).launches) == 1
    assert len(emitted(lambda x: x.sum(), torch.zeros(40_001)).launches) == 2


def test_what_is_reduced_twice_stays_in_registers() -> None:
    """64 points a result: two results a thread for a variance, eight for a sum."""
    columns = torch.zeros(64, 1 << 20)
    assert "tl.arange(0, 256)" in only(emitted(lambda x: x.var(0), columns))
    assert "tl.arange(0, 1024)" in only(emitted(lambda x: x.sum(0), columns))


def test_functions_of_many_points_are_not_written_out() -> None:
    """They would outgrow the instruction cache, and what they read would fit no registers."""
    few, many = (torch.zeros(n, 1 << 20) for n in (8, 64))
    norm = partial(torch.linalg.vector_norm, ord=2.5, dim=0)
    assert only(emitted(norm, few)).count("libdevice.pow(") == 8 + 1
    assert only(emitted(norm, many)).count("libdevice.pow(") == 2
    assert "tl.arange(0, 512)" in only(emitted(norm, few))
    assert only(emitted(lambda x: x.exp().sum(0), many)).count("libdevice.exp(") == 64


def test_powers_that_are_products_are_no_functions() -> None:
    text = only(emitted(lambda x: torch.linalg.vector_norm(x, 3, 0), torch.zeros(64, 1 << 20)))
    assert text.count("libdevice.pow(") == 1
    assert "tl.arange(0, 1024)" in text


def test_equal_kernels_share_a_function() -> None:
    square = torch.zeros(1024, 1024)  # whole lines: what a product reads lies as anything else
    source = emitted(lambda x, y: (x.softmax(-1) @ y).softmax(-1), square, square)
    names = [launch.function for launch in source.launches]
    assert len(names) == len(source.functions) + 1


def test_sizes_that_divide_need_no_masks() -> None:
    assert "mask" not in only(emitted(lambda x: x + 1, torch.zeros(1024, 1024)))
    assert "mask" in only(emitted(lambda x: x + 1, torch.zeros(1023, 1023)))


def test_indices_have_64_bits_where_sizes_demand_it() -> None:
    narrow = emitted(lambda x: x + 1, ROWS, dynamic_shapes={"args": ({0: BATCH},)})
    assert not any("tl.int64" in f.text for f in narrow.functions)
    unbounded = torch.export.Dim("batch", min=1)
    wide = emitted(lambda x: x + 1, ROWS, dynamic_shapes={"args": ({0: unbounded},)})
    found = {f.name: "tl.int64" in f.text for f in wide.functions}
    assert found == {name: name.endswith("_wide") for name in found} and any(found.values())


@pytest.mark.parametrize("dim", [0, 1])
def test_an_extreme_is_what_the_search_for_its_place_finds(dim: int) -> None:
    both = emitted(lambda x: x.max(dim), torch.zeros(3000, 4096)).functions[0].text
    assert len(re.findall(r"tl.reduce\(acc\d+, 1, max_nan\)", both)) == 1
    assert "= max_nan(acc" not in both
    other = emitted(lambda x: (x.amin(dim), x.argmax(dim)), torch.zeros(3000, 4096))
    assert "min_nan" in other.functions[0].text


@pytest.mark.parametrize(
    ("kind", "rows", "columns", "deep"),
    [
        ("sum", 400, 140000, 16),
        ("sum", 600, 140001, 16),  # eight rows at odd addresses together
        ("prod", 400, 140001, 32),  # at odd addresses
        ("sum", 400, 20000, 64),  # few programs
        ("sum", 4000, 35090, 16),  # four rows together
        ("prod", 4000, 35090, 64),  # in parts, read one by one
    ],
)
def test_columns_of_many_programs_are_walked_in_small_tiles(
    kind: str, rows: int, columns: int, deep: int
) -> None:
    half = torch.empty(rows, columns, dtype=torch.float16)
    text = emitted(lambda x: getattr(x, kind)(0), half).functions[0].text
    assert f", {deep}):" in text
    assert f"tl.arange(0, {deep})[None, :]" in text


def test_wrong_indices_are_reported() -> None:
    (function,) = emitted(lambda x, i: x[i], ROWS, torch.zeros(7, dtype=torch.int64)).functions
    assert function.faults
    assert "tl.store(fault" in function.text


def test_nothing_is_touched_in_an_empty_dimension() -> None:
    def changed(x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x[i] * 2, x.index_put((i,), x.new_ones(()))

    index = torch.zeros(7, dtype=torch.int64)
    for least, test in ((0, True), (1, False)):
        rows = torch.export.Dim("rows", min=least, max=4096)
        source = emitted(changed, ROWS, index, dynamic_shapes={"args": ({0: rows}, None)})
        text = "".join(f.text for f in source.functions)
        assert ("(d0 + tl.full([], 0, tl.int64) > 0)" in text) == test
        if test:
            (read, _), fault = run_emitted(
                source,
                dict(zip(source.graph.inputs, (ROWS[:0].numpy(), index.numpy()), strict=True)),
                lambda fqn: np.zeros(()),
                {d.name: 0 for d in source.graph.dims},
            )
            # Behind the empty tensor the memory is full of 0x55.
            assert fault and not read.any()


def test_functions_declare_their_arguments() -> None:
    most = torch.export.Dim("batch", min=60, max=70)
    source = emitted(lambda x, y: x + y, ROWS, ROWS + 1, dynamic_shapes={"args": ({0: most},) * 2})
    (declared,) = [f.declaration for f in source.functions]
    (launch,) = source.launches
    assert declared is not None
    assert [v.minimum for v in declared.variables] == [60]
    assert [(b.dtype, b.bytes, b.access) for b in declared.buffers] == [
        ("float32", ("*", 4000, "v0"), access) for access in ("read", "read", "write")
    ]
    assert declared.sizes == ("v0",) and (declared.work, declared.scratch) == (0, 0)
    values = dict(zip([dim("v0")], launch.values, strict=True))
    assert [decode(g).xreplace(values) for g in declared.grid or ()] == list(grid_of(launch))


def test_a_variable_says_which_of_several_functions_runs() -> None:
    source = emitted(lambda x, y: x + y, ROWS, ROWS + 1, dynamic_shapes={"args": ({0: BATCH},) * 2})
    assert len(source.functions) == len(source.launches) == 2
    for function, launch in zip(source.functions, source.launches, strict=True):
        declared = function.declaration
        assert declared is not None and declared.grid is not None
        (choice,) = [
            k for k, v in enumerate(declared.variables) if (v.minimum, v.maximum) == (0, 1)
        ]
        assert launch.values[choice] == launch.when
        values = {dim(f"v{k}"): value for k, value in enumerate(launch.values)}
        wanted = (grid_of(launch)[0] * launch.when, *grid_of(launch)[1:])
        assert [decode(g).xreplace(values) for g in declared.grid] == list(wanted)


def test_short_reductions_cross_no_threads_and_share_addresses() -> None:
    text = only(emitted(lambda x: F.max_pool2d(x, 3, 2, 1), torch.zeros(2, 8, 32, 32)))
    assert "tl.reduce(" not in text
    assert text.count("tl.load(") == 9
    assert text.count("= p0 + (") == 1


@pytest.mark.parametrize("width", (3, 11))
def test_short_odd_rows_are_reduced_by_a_lane_each(width: int) -> None:
    """And stored in the order of memory; the last program has more lanes than rows."""
    rows = torch.randn(5001, width)
    source = emitted(lambda x: x.log_softmax(-1), rows)
    text = only(source)
    assert "tl.reduce(" not in text and "tl.sum(" not in text
    assert text.count("tl.load(") == width + 1
    (found,), _ = run_emitted(source, {source.graph.inputs[0]: rows.numpy()}, lambda _: 0, {})
    np.testing.assert_allclose(found, rows.log_softmax(-1).numpy(), atol=1e-6)


@pytest.mark.parametrize("shape", ((5000, 12), (5000, 17), (100, 11)))
def test_other_short_rows_have_lanes_of_their_own(shape: tuple[int, int]) -> None:
    """Rows of vectors, longer ones, and so few that a lane each would leave the device idle."""
    assert "tl.sum(" in only(emitted(lambda x: x.log_softmax(-1), torch.zeros(shape)))


def test_zero_negated_is_negative() -> None:
    """Triton 3.6 takes what a minus sign negates from 0."""
    assert " = v1 * -1.0" in only(emitted(lambda x: (-x).exp(), ROWS))


def test_resizing_gathers_taps_alone() -> None:
    image = torch.zeros(2, 3, 64, 80)
    for size in ((100, 80), (64, 90)):
        source = emitted(lambda x, s=size: F.interpolate(x, size=s, mode="bicubic"), image)
        (function,) = source.functions
        # Four taps, their weights, and where they start.
        assert function.text.count("tl.load(") == 9
        assert "tl.sum(" not in function.text
        assert not function.faults


def test_columns_of_two_axes_that_nothing_tells_apart_are_one() -> None:
    image = torch.zeros(2, 3, 64, 80).contiguous(memory_format=torch.channels_last)
    vertical = only(emitted(lambda x: F.interpolate(x, size=(100, 80), mode="bicubic"), image))
    assert "y // " not in vertical
    assert "max_contiguous" not in vertical


def tile_of(function: Callable[..., Any], *args: torch.Tensor) -> tuple[int, int]:
    """Rows and warps of the only program."""
    (source,) = emitted(function, *args).functions
    (rows,) = re.findall(r"x = tl.program_id\(0\) \* (\d+) \+", source.text)
    return int(rows), dict(source.options)["num_warps"]


@pytest.mark.parametrize(
    ("shape", "tile"),
    [
        ((1 << 17, 147), (16, 4)),
        ((1 << 14, 1011), (2, 1)),
        ((1 << 14, 1104), (2, 2)),
        ((4096, 16384), (1, 8)),
        ((16, 4096), (1, 16)),
    ],
    ids=str,
)
def test_threads_hold_much_of_a_row_where_there_are_many(
    shape: tuple[int, int], tile: tuple[int, int]
) -> None:
    assert tile_of(lambda x: x.softmax(-1), torch.empty(shape, dtype=torch.bfloat16)) == tile


def test_threads_hold_less_where_rows_of_several_inputs_stay_in_registers() -> None:
    def function(*rows: torch.Tensor) -> torch.Tensor:
        total = rows[0] * rows[1] + rows[2] * rows[3]
        return (total - total.sum(-1, keepdim=True)) * rows[0] * rows[1] * rows[2] * rows[3]

    row = torch.empty(4096, 4096, dtype=torch.bfloat16)
    _, few = tile_of(lambda x: x.softmax(-1), row)
    _, many = tile_of(function, *[row.clone() for _ in range(4)])
    assert many == 2 * few


def test_one_result_of_some_thousand_points_is_summed_in_parts() -> None:
    scores, targets = torch.empty(62342, 64), torch.zeros(62342, dtype=torch.int64)
    verdicts = [d.verdict for d in kernels_of(F.cross_entropy, scores, targets).decisions]
    assert "two steps" in verdicts


@pytest.mark.parametrize(("count", "both"), [(70001, True), (70016, False)])
def test_tiles_before_one_that_ends_within_a_vector_need_no_mask(count: int, both: bool) -> None:
    x = torch.randn(count)
    source = emitted(lambda x: x * 2 + 1, x)
    text = only(source)
    assert ("if tl.program_id(0) < " in text and "else:" in text) == both
    assert re.search(r"tl.load\(p0 \+ \(x\)\)", text) or not both
    (found,), _ = run_emitted(source, {source.graph.inputs[0]: x.numpy()}, lambda _: 0, {})
    np.testing.assert_allclose(found, x.numpy() * 2 + 1, rtol=1e-6)


@pytest.mark.parametrize("length", [1001, 98], ids=["two rows a tile", "many"])
def test_rows_that_lie_one_behind_the_other_are_one(length: int) -> None:
    """The compiler sees neighbours along them, whatever their length."""
    x, scale = torch.randn(70, length), torch.rand(70)
    source = emitted(lambda x, s: x * s[:, None], x, scale)
    text = only(source)
    assert "tl.load(p0 + (x)" in text and "tl.store(p2 + (x)" in text
    assert ("tl.where(x >= (first" in text) == (length == 1001)
    arrays = dict(zip(source.graph.inputs, (x.numpy(), scale.numpy()), strict=True))
    (found,), _ = run_emitted(source, arrays, lambda _: 0, {})
    np.testing.assert_allclose(found, (x * scale[:, None]).numpy(), rtol=1e-6)
