"""Products by groups of warps: when they are taken, their machine code, and their values on a GPU.

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

BF16 = torch.bfloat16
TILES = (DotTile(128, 160, 64, 4, 5, groups=2), DotTile(192, 128, 64, 4, 4, groups=3))


@pytest.fixture(params=TILES, ids=lambda t: f"{t.rows}x{t.columns}")
def tile(request, monkeypatch):
    """The tile of all products that groups of warps can compute."""

    def tiles(size, gpu):
        return (request.param,) if size.grouped else dot_tiling._SHARED

    monkeypatch.setattr(dot_tiling, "_tiles", tiles)
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
CASES = {
    "linear": (linear, (X, W, halves(424))),
    "gated": (gated, (X, W, halves(1000, 424))),
    "turned": (turned, (halves(3, 128, 328), halves(3, 128, 424))),
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


def test_other_devices_have_none():
    for arch in ("sm_80", "sm_100"):
        model = captured(F.linear, (X, W))
        assert not any("matmul_by_groups(" in f.text for f in emitted(model, arch).functions)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("case", CASES)
def test_on_a_gpu(case, tile):
    function, args = CASES[case]
    model = captured(function, args)
    assert is_by_groups(model)
    executor = executor_named(GPU)
    assert executor is not None
    (found,) = executor(model, args)
    eager, exact = function(*(x.cuda() for x in args)), function(*(x.double() for x in args))
    assert not complaint(found, to_array(eager.cpu()), to_array(exact))
