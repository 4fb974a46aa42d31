"""Functions that look at values are traced, their checks as assertions that fail at run time."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.export import Dim
from torch.nn import functional as F

from aot.errors import AotError
from aot.frontend.capture import Captured, capture_file, capture_module
from aot.frontend.ingest import ingest
from aot.ir.tensors import Assertion
from tests.calls import Calls
from tests.conformance.executors import interpret_lowered

THETA = torch.arange(12.0).reshape(2, 2, 3)
IDS, LAST = torch.tensor([5, 0, 1]), {"include_last_offset": True}
TABLE = torch.arange(12.0).reshape(6, 2)
ENDS = torch.tensor([0, 0, 1, 2, 4, 6])
Q = torch.tensor([0.25, 0.75])


def len_of(x: torch.Tensor) -> Any:
    return x.shape[0]


def _captured(function: Callable[..., Any], *args: torch.Tensor) -> Captured:
    return capture_module(Calls(function), args)


def _assertions(captured: Captured) -> list[str]:
    return [op.message for op in ingest(captured)[0].ops if isinstance(op, Assertion)]


@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
def test_shares_of_a_tensor_are_checked_when_it_runs(name: str) -> None:
    function = getattr(torch, name)
    captured = _captured(function, torch.ones(8), Q)
    assert _assertions(captured) == [f"{name}() q values must be in the range [0, 1]"]
    assert not _assertions(_captured(lambda x: function(x, 0.5), torch.ones(8)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, w: torch.cov(x, aweights=w), "cov(): aweights cannot be negative"),
        (lambda x, w: torch.cov(x, aweights=w), "cov(): weights sum to zero"),
    ],
)
def test_weights_are_checked_when_it_runs(call: Callable[..., Any], message: str) -> None:
    found = _assertions(_captured(call, torch.ones(2, 3), torch.ones(3)))
    assert any(said.startswith(message) for said in found)


def test_a_share_out_of_range_fails_as_in_eager() -> None:
    captured = _captured(torch.quantile, torch.arange(8.0), Q)
    wrong = torch.tensor([0.25, 1.5])
    with pytest.raises(RuntimeError, match=r"q values must be in the range"):
        torch.quantile(torch.arange(8.0), wrong)
    with pytest.raises(Exception, match=r"q values must be in the range"):
        interpret_lowered(captured, (torch.arange(8.0), wrong))


def test_a_number_out_of_range_is_an_error_when_it_is_packaged() -> None:
    with pytest.raises(AotError, match="in the range"):
        _captured(lambda x: torch.quantile(x, 1.5), torch.ones(8))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.cov(x[None, None]),
        lambda x: torch.cov(x, fweights=x),
        lambda x: torch.cov(x, aweights=x[:2]),
        lambda x: torch.multinomial(x.long(), 2),
        lambda x: torch.multinomial(x, 0),
        lambda x: torch.multinomial(x, 9),
    ],
)
def test_wrong_arguments_are_refused_in_eagers_words(call: Callable[..., Any]) -> None:
    with pytest.raises(RuntimeError) as eager:
        call(torch.ones(8))
    with pytest.raises(AotError, match=re.escape(str(eager.value).partition("\n")[0])):
        _captured(call, torch.ones(8))


def test_methods_are_the_functions() -> None:
    captured = _captured(lambda x, q: x.quantile(q), torch.arange(8.0), Q)
    (found,) = interpret_lowered(captured, (torch.arange(8.0), Q))
    np.testing.assert_array_equal(found, [1.75, 5.25])


def test_programs_that_users_exported_have_them_too(tmp_path: Path) -> None:
    model, args = Calls(torch.quantile), (torch.arange(8.0), Q)
    torch.export.save(torch.export.export(model, args, strict=False), tmp_path / "model.pt2")
    captured = capture_file(tmp_path / "model.pt2")
    (found,) = interpret_lowered(captured, args)
    np.testing.assert_array_equal(found, [1.75, 5.25])
    assert len(_assertions(captured)) == 1


def test_the_type_of_sums_is_ours_to_say() -> None:
    """Some versions of torch say int64 of all counts."""
    for weights in (torch.ones(3), torch.ones(3, dtype=torch.float64), torch.ones(3).int()):
        x = torch.tensor([1, 2, 2])
        program = _captured(torch.bincount, x, weights).program
        (node,) = (n for n in program.graph.nodes if str(n.target) == "aot.bincount.default")
        assert node.meta["val"].dtype == torch.bincount(x, weights).dtype


def test_a_dynamic_size_may_be_the_least_number_of_bins() -> None:
    """As degrees are counted: a bin a node, and more where a number is greater."""

    def degrees(x: torch.Tensor, to: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        counts = torch.bincount(to, minlength=x.shape[0])
        return x / counts[: x.shape[0]].clamp(min=1), counts

    nodes, edges = Dim("nodes", min=2, max=99), Dim("edges", min=2, max=99)
    spec = {"args": ({0: nodes}, {0: edges})}
    example = (torch.rand(5), torch.tensor([0, 0, 3]))
    captured = capture_module(Calls(degrees), example, dynamic_shapes=spec)
    for size, to in ((5, [0, 0, 3]), (7, [1, 1]), (2, [0, 6, 6, 1])):
        args = torch.rand(size), torch.tensor(to)
        found = interpret_lowered(captured, args)
        for ours, theirs in zip(found, degrees(*args), strict=True):
            np.testing.assert_array_equal(ours, theirs.numpy())


def test_parts_at_negative_positions_of_other_values() -> None:
    captured = _captured(torch.tensor_split, torch.arange(6.0), torch.tensor([1, 3]))
    found = interpret_lowered(captured, (torch.arange(6.0), torch.tensor([2, -1])))
    np.testing.assert_equal([list(part) for part in found], [[0, 1], [2, 3, 4], [5]])


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.tensor_split(x, indices=(2, 3)),
        lambda x: torch.tensor_split(input=x, sections=2),
    ],
)
def test_forms_that_ours_has_not_are_torchs_own(call: Callable[..., Any]) -> None:
    x = torch.arange(6.0)
    found = interpret_lowered(_captured(call, x), (x,))
    np.testing.assert_equal([list(part) for part in found], [p.tolist() for p in call(x)])


def test_as_many_classes_as_the_values_say() -> None:
    captured = _captured(torch.nn.functional.one_hot, torch.tensor([1, 2]))
    (found,) = interpret_lowered(captured, (torch.tensor([4, 0]),))
    np.testing.assert_array_equal(found, [[0, 0, 0, 0, 1], [1, 0, 0, 0, 0]])
    assert "Class values must be non-negative." in _assertions(captured)


def test_a_quotient_of_sizes_is_a_size() -> None:
    def halves(x: torch.Tensor) -> torch.Tensor:
        rows = torch.div(x.shape[0], 2, rounding_mode="trunc")
        return x[: 2 * rows].view(rows, 2, 3)

    rows = torch.export.Dim("rows", min=4)
    captured = capture_module(Calls(halves), (torch.ones(8, 3),), dynamic_shapes=(({0: rows},),))
    x = torch.arange(15.0).reshape(5, 3)
    (found,) = interpret_lowered(captured, (x,))
    np.testing.assert_array_equal(found, halves(x))


def test_whole_numbers_between_floats_that_tensors_hold() -> None:
    def between(x: torch.Tensor) -> torch.Tensor:
        return torch.arange(x[0], x[-1] - 1, -2, dtype=torch.int64) * 2

    captured = _captured(between, torch.tensor([7.5, 1.0, -3.5]))
    for ends in ((7.5, -3.5), (2.9, 0.5), (-0.5, -6.0)):
        x = torch.tensor([ends[0], 1.0, ends[1]])
        (found,) = interpret_lowered(captured, (x,))
        np.testing.assert_array_equal(found, between(x))


@pytest.mark.parametrize(
    ("call", "least"),
    [
        (lambda x: torch.linspace(-1, 1, x.shape[0]), 1),
        (lambda x: torch.linspace(0.1, x.shape[0] - 1, steps=x.shape[0]).double(), 1),
        (lambda x: F.affine_grid(THETA, [2, 1, x.shape[0], 3], align_corners=True), 1),
        (lambda x: F.affine_grid(THETA, [2, 1, 3, x.shape[0]], align_corners=False), 1),
        (lambda x: F.embedding_bag(x.long(), TABLE, ENDS[: x.shape[0]]), 1),
        (lambda x: F.embedding_bag(IDS, TABLE, x.long() * 3 // (len_of(x) - 1), **LAST), 2),
        (lambda x: x[1:] - x[:-1], 2),
        (lambda x: x[1:].cumsum(0), 2),
        (lambda x: torch.take_along_dim(x.expand(2, -1), x.long().flip(0)[None] // 2, 1), 1),
        (lambda x: torch.take_along_dim(x, x.long().flip(0)), 1),
        (lambda x: torch.take_along_dim(x[None], -1 - x.long().flip(0)[None] // 2, 1), 1),
        (lambda x: F.interpolate(x.expand(1, 2, 3, -1), scale_factor=2, mode="area"), 1),
        (lambda x: F.one_hot(x.long(), len_of(x)).float(), 2),
    ],
)
@pytest.mark.filterwarnings("ignore:Since version 1.3.0:UserWarning")
def test_sizes_that_torch_fixes_are_open(call: Callable[..., Any], least: int) -> None:
    spec = {"args": ({0: Dim("n", min=least, max=6)},)}
    captured = capture_module(Calls(call), (torch.arange(4.0),), dynamic_shapes=spec)
    for n in range(least, 7):
        x = torch.arange(float(n))
        (found,) = interpret_lowered(captured, (x,))
        np.testing.assert_allclose(found, call(x), 1e-6, 1e-6)


NORMS = [(order, (-2, -1), False) for order in (1, -1, 2, -2, math.inf, -math.inf)]
NORMS += [
    (order, dims, keep)
    for order in (1, -math.inf)
    for dims, keep in [((0, 2), True), ((2, 0), False)]
]


@pytest.mark.parametrize(("order", "dims", "keep"), [*NORMS, (2, (1, 2), True)])
def test_norms_of_matrices_of_open_sizes(order: float, dims: tuple[int, int], keep: bool) -> None:
    """torch fixes the sizes of a batch, and those of the matrices."""

    def norms(x: torch.Tensor) -> Any:
        whole = torch.linalg.norm(x[0], order)
        return torch.linalg.matrix_norm(x, order, dims, keep, dtype=torch.float64), whole

    spec = {"args": ({0: Dim("n", min=1, max=9)},)}
    captured = capture_module(Calls(norms), (torch.randn(4, 3, 2),), dynamic_shapes=spec)
    for n in (1, 4, 7):
        x = torch.randn(n, 3, 2, generator=torch.Generator().manual_seed(n))
        for found, expected in zip(interpret_lowered(captured, (x,)), norms(x), strict=True):
            np.testing.assert_allclose(found, expected, 1e-5, 1e-6)
