"""Products by groups of warps: when they are taken, their machine code, and their values on a GPU.

Gluon has no interpreter: what the kernel computes is compared where there is a GPU.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from aot.backends.triton import dot_tiling, templates
from aot.backends.triton.backend import TritonBackend
from aot.backends.triton.dot_parts import shares_blocks
from aot.backends.triton.dot_tiling import DotTile, Size
from aot.backends.triton.gpu import GPUS
from aot.frontend.weights import to_array
from aot.ir.dtypes import BFLOAT16, FLOAT32
from aot.ir.verify import verify_kernels
from aot.options import Target
from tests.backends.triton.templates import captured, emitted, kernels_of, machine_code
from tests.comparing import complaint
from tests.conformance.executors import GPU, executor_named
from tests.launches import template_kernels

BF16 = torch.bfloat16
TILES = (DotTile(128, 160, 64, 4, 5, groups=2), DotTile(192, 128, 64, 4, 4, groups=3))
SHARED = tuple(replace(tile, shared=4) for tile in (*TILES, DotTile(192, 144, 64, 4, 4, groups=3)))


@pytest.fixture(params=TILES, ids=lambda t: f"{t.rows}x{t.columns}")
def tile(request, monkeypatch):
    """The tile of all products that groups of warps can compute."""

    def tiles(size, gpu):
        return (request.param,) if size.grouped else dot_tiling._SHARED

    monkeypatch.setattr(dot_tiling, "tiles_of", tiles)
    return request.param


@pytest.fixture(params=SHARED, ids=lambda t: f"{t.rows}x{t.columns}")
def shared_tile(request, monkeypatch):
    """The tile of all products that groups of warps can compute, whose last blocks are shared."""

    def tiles(size, gpu):
        return (request.param,) if size.grouped and size.marked else dot_tiling._SHARED

    monkeypatch.setattr(dot_tiling, "tiles_of", tiles)
    monkeypatch.setattr(templates, "shares_blocks", lambda size, gpu: True)
    return request.param


def linear(x, w, b):
    return F.gelu(F.linear(x, w, b))


def gated(x, w, gate):
    return F.silu(F.linear(x, w)) * gate


def turned(x, w):
    return x.transpose(1, 2) @ w


def integers(x, w):
    return F.linear(x, w) + torch.arange(w.shape[0], device=x.device)


def halves(*shape):
    return torch.randn(*shape).to(BF16)


X, W = halves(1000, 264), halves(424, 264)
DEEP = {
    "linear": (linear, (halves(1000, 1032), halves(424, 1032), halves(424))),
    "few rows": (linear, (halves(200, 1032), halves(424, 1032), halves(424))),
    "fewer steps than parts": (linear, (halves(1000, 128), halves(424, 128), halves(424))),
    "many lines": (linear, (halves(26000, 520), halves(264, 520), halves(264))),
    "turned": (turned, (halves(3, 1024, 328), halves(3, 1024, 424))),
}
CASES = {
    "linear": (linear, (X, W, halves(424))),
    "gated": (gated, (X, W, halves(1000, 424))),
    "turned": (turned, (halves(3, 128, 328), halves(3, 128, 424))),
    "planes": (turned, (halves(3, 280, 328), halves(3, 280, 424))),
    "depths that end together": (torch.matmul, (halves(3, 328, 200), halves(3, 424, 200).mT)),
}


def is_by_groups(model):
    return any("matmul_by_groups(" in f.text for f in emitted(model, "sm_90").functions)


@pytest.mark.parametrize("case", CASES)
def test_machine_code(case, tile):
    model = captured(*CASES[case])
    code = machine_code(model, "matmul", "sm_90")
    names = " ".join(code.instructions)
    # Epilogues of three groups may lack a few registers once a block; sums never do.
    assert code.local_bytes <= (32 if tile.groups == 3 else 0)
    assert "HGMMA" in names
    assert "UTMALDG" in names
    assert "USETMAXREG" in names
    # Eight columns at once.
    assert "STG.E.128" in names
    assert code.registers <= 65536 // (128 * (tile.groups + 1))


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (integers, (X, W)),
        (F.linear, (X.float(), W.float())),
        (F.linear, (X, halves(423, 264))),
        (F.linear, (halves(1000, 263), halves(424, 263))),
    ],
    ids=["integers", "float32", "results in odd rows", "odd rows"],
)
def test_other_products_are_by_programs(function, args, tile):
    """What Gluon has no words for, what descriptors cannot copy, and results in odd rows."""
    assert is_by_groups(captured(F.linear, (X, W)))
    assert not is_by_groups(captured(function, args))


@pytest.mark.parametrize(("case", "planes"), [("turned", False), ("planes", True)])
def test_matrices_are_planes_where_a_step_would_reach_into_the_next_one(case, planes, tile):
    text = "".join(f.text for f in emitted(captured(*CASES[case]), "sm_90").functions)
    assert f"PLANES={planes}" in text


def test_zeros_are_read_where_all_depths_end_together(tile):
    text = "".join(f.text for f in emitted(captured(*CASES["depths that end together"])).functions)
    assert "PLANES=False" in text


def test_other_devices_have_none():
    for arch in ("sm_80", "sm_100"):
        model = captured(F.linear, (X, W))
        assert not any("matmul_by_groups(" in f.text for f in emitted(model, arch).functions)


def test_programs_that_share_blocks_have_marks_and_room_for_sums(shared_tile):
    function, args = DEEP["linear"]
    model = captured(function, args)
    (source,) = [f.text for f in emitted(model, "sm_90").functions if "matmul_by" in f.text]
    assert "PARTS=4" in source and "marks=None" not in source
    graph = TritonBackend().prepare(kernels_of(model), Target("cuda", ("sm_90",)))
    verify_kernels(graph)
    (kernel,) = template_kernels(graph)
    rows, sums = graph.buffers[kernel.workspace].shape
    assert (rows, sums) == (132, shared_tile.rows * shared_tile.columns)
    assert kernel.template.marks.buffer in kernel.reads
    code = machine_code(model, "matmul", "sm_90")
    assert code.local_bytes <= (32 if shared_tile.groups == 3 else 0)
    assert "ATOM" in " ".join(code.instructions)


def test_blocks_are_shared_where_few_lines_are_left(monkeypatch):
    """97 lines of two blocks of 192 x 144 for 66 teams: 31 are left, of two parts each."""
    sizes = {(18604, 272, 8192): True, (8192, 4096, 4096): False, (4096, 184, 8192): False}
    for (rows, columns, depth), shared in sizes.items():
        size = Size(rows, columns, depth, 1, BFLOAT16, grouped=True)
        assert shares_blocks(size, GPUS["sm_90"]) == shared
        assert not shares_blocks(size, GPUS["sm_80"])
        assert not shares_blocks(replace(size, dtype=FLOAT32), GPUS["sm_90"])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("case", DEEP)
def test_shared_blocks_on_a_gpu(case, shared_tile):
    check_on_gpu(*DEEP[case])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("case", CASES)
def test_on_a_gpu(case, tile):
    check_on_gpu(*CASES[case])


def check_on_gpu(function, args):
    """Twice, as marks of the first run must not be there in the second one."""
    model = captured(function, args)
    assert is_by_groups(model)
    executor = executor_named(GPU)
    assert executor is not None
    (found,), (again,) = executor(model, args), executor(model, args)
    assert (found == again).all()
    eager, exact = function(*(x.cuda() for x in args)), function(*(x.double() for x in args))
    assert not complaint(found, to_array(eager.cpu()), to_array(exact))
