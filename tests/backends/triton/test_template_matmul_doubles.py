"""Products of float64 by groups of warps: when they are taken, machine code, values on a GPU.

Gluon has no interpreter: what the kernel computes is compared where there is a GPU.
"""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from aot.backends.triton import dot_tiling
from aot.backends.triton.dot_tiling import DotTile
from aot.frontend.weights import to_array
from tests.backends.triton.templates import captured, emitted, machine_code
from tests.comparing import complaint
from tests.conformance.executors import GPU, executor_named

TILES = dot_tiling._DOUBLE_GROUPED


@pytest.fixture(params=TILES, ids=lambda t: f"{t.rows}x{t.columns}")
def tile(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> DotTile:
    """The tile of all products that groups of warps can compute."""
    found: DotTile = request.param

    def tiles(size, gpu):
        taken = size.grouped and size.copied and gpu.async_dots
        return (found,) if taken else dot_tiling._DOUBLE

    monkeypatch.setattr(dot_tiling, "tiles_of", tiles)
    return found


def doubles(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def gated(x, w, b):
    return F.silu(F.linear(x, w, b))


def product(a, b):
    return a @ b


def turned(a, b):
    return a.transpose(-1, -2) @ b


def both_turned(a, b):
    return a.transpose(-1, -2) @ b.transpose(-1, -2)


CASES = {
    "linear": (gated, (doubles(500, 264), doubles(424, 264), doubles(424))),
    "product": (product, (doubles(500, 256), doubles(256, 424))),
    "turned": (turned, (doubles(264, 500), doubles(264, 424))),
    "both turned": (both_turned, (doubles(3, 200, 330), doubles(3, 344, 200))),
    "a last step that reaches into another matrix": (
        product,
        (doubles(5, 200, 150), doubles(5, 150, 128)),
    ),
}


CUT = ("both turned", "a last step that reaches into another matrix")
"""Cases whose last step of a matrix is one by itself."""


def is_by_groups(model, arch="sm_90"):
    return any("matmul_of_doubles(" in f.text for f in emitted(model, arch).functions)


@pytest.mark.parametrize("case", CASES)
def test_machine_code(case, tile):
    code = machine_code(captured(*CASES[case]), "matmul", "sm_90")
    names = " ".join(code.instructions)
    # What a thread lacks registers for it does once a block.
    assert code.local_bytes <= 256
    assert any("DMMA" in name and "8x8x4" not in name for name in code.instructions)
    assert "UTMALDG" in names
    # No loop over steps is unrolled: what a turn of it has multiplied has been read by the next.
    units = tile.groups * (tile.rows // tile.groups // 64) * (tile.columns // 64)
    steps = 2 if case in CUT else 1
    assert sum(n for name, n in code.instructions.items() if "DMMA" in name) == 8 * units * steps
    assert code.registers <= 65536 // (128 * (tile.groups + 1))


def test_what_descriptors_cannot_copy_is_by_programs(tile):
    assert is_by_groups(captured(F.linear, (doubles(500, 264), doubles(424, 264))))
    assert not is_by_groups(captured(F.linear, (doubles(500, 263), doubles(424, 263))))
    assert not is_by_groups(captured(F.linear, (doubles(500, 264), doubles(424, 264))), "sm_80")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("case", CASES)
def test_on_a_gpu(case, tile):
    function, args = CASES[case]
    model = captured(function, args)
    assert is_by_groups(model)
    executor = executor_named(GPU)
    assert executor is not None
    (found,), (again,) = executor(model, args), executor(model, args)
    assert (found == again).all()
    eager = function(*(x.cuda() for x in args))
    assert not complaint(found, to_array(eager.cpu()), to_array(function(*args)))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_what_a_last_step_reads_of_another_matrix_does_not_count(tile):
    """Infinities behind a matrix are no part of its product."""
    args = doubles(2, 200, 150), doubles(2, 150, 128)
    args[1][1, :16] = float("inf")
    executor = executor_named(GPU)
    assert executor is not None
    (found,) = executor(captured(product, args), args)
    assert abs(found[0] - to_array((args[0] @ args[1])[0])).max() < 1e-10


@pytest.mark.parametrize(("head", "groups"), [(42, True), (41, False)])
def test_matrices_that_begin_within_vectors_are_by_programs(head, groups):
    """Heads side by side: copies of such blocks ended in an illegal instruction on an H200."""
    values = doubles(2, 1024, 8, head).transpose(1, 2)
    assert is_by_groups(captured(product, (doubles(2, 8, 1024, 1024), values))) == groups
