"""Results of templates that every reader rounds are stored rounded."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from aot.backends.triton.backend import TritonBackend
from aot.ir.dtypes import BFLOAT16
from aot.ir.verify import verify_kernels
from aot.options import Target
from tests.backends.triton.templates import captured, check_close, kernels_of
from tests.launches import template_kernels

TARGET = Target("cuda", ("sm_90",))
BF16 = torch.bfloat16


def halves(*shape):
    return torch.randn(*shape).to(BF16)


def prepared(function, *args):
    graph = TritonBackend().prepare(kernels_of(captured(function, args)), TARGET)
    verify_kernels(graph)
    return graph


def gated(x, gate, up):
    return F.silu(F.linear(x, gate)) * F.linear(x, up)


def normed(x, w):
    y = F.linear(x, w)
    return y / y.float().square().mean(-1, keepdim=True).to(BF16)


X, GATE, UP = halves(64, 48), halves(80, 48), halves(80, 48)
CASES = {
    "a product that another one's epilogue reads": (gated, (X, GATE, UP)),
    "a product whose rows are reduced": (normed, (X, GATE)),
}


@pytest.mark.parametrize("case", CASES)
def test_a_product_is_stored_as_its_readers_round_it(case):
    function, args = CASES[case]
    graph = prepared(function, *args)
    (decision,) = [d for d in graph.decisions if d.stage == "rounding"]
    assert decision.verdict == "bfloat16"
    made = {k.name: k for k in template_kernels(graph)}[decision.subject[0]]
    (name,) = made.writes
    assert graph.buffers[name].dtype == BFLOAT16
    assert made.template.output.buffer in made.local
    assert all(made.template.output.buffer not in k.reads for k in graph.kernels)


@pytest.mark.parametrize("case", CASES)
def test_values(case):
    function, args = CASES[case]
    check_close(captured(function, args), function, args)


def exact(x, w):
    """What eager keeps in float32 stays so."""
    return (x.float() @ w.float().t()).softmax(-1)


def result(x, w):
    return F.linear(x, w)


@pytest.mark.parametrize("function", (exact, result))
def test_others_stay(function):
    assert not [d for d in prepared(function, X, GATE).decisions if d.stage == "rounding"]
