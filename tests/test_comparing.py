"""The comparison itself: passes what rounding does, fails what it cannot do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from aot.frontend.weights import to_array
from tests.comparing import TOLERANCE, Array, complaint, difference, roundings_of_sums
from tests.rounding import reordered, slack
from tests.settings import seeded

DOUBLE = torch.float64
ULP = 2.0**-52
"""Of float64, relative."""


def _normal(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seeded(len(shape)))
    return torch.randn(shape, generator=generator, dtype=DOUBLE)


def _difference(
    actual: torch.Tensor, function: Callable[..., torch.Tensor], *args: torch.Tensor
) -> str:
    """As a row is compared: the arguments in their own type, and in float64."""
    eager, wide = function(*args), [a.double() for a in args]

    def slack() -> np.ndarray:
        (moved,) = reordered(lambda: [function(*wide)], roundings_of_sums(eager.dtype))
        return moved.double().numpy()

    exact = function(*wide).numpy()
    return difference(to_array(actual), to_array(eager), eager.dtype, exact, slack=slack)


def _cancelling() -> tuple[torch.Tensor, float]:
    """Terms whose sum is a millionth of what they add up to, and what they add up to."""
    terms = _normal(4000)
    terms = torch.cat([terms, -terms, torch.tensor([1e-3], dtype=DOUBLE)])
    return terms[torch.randperm(len(terms), generator=torch.Generator().manual_seed(seeded()))], (
        float(terms.abs().sum())
    )


def _in_turn(terms: torch.Tensor) -> torch.Tensor:
    total = 0.0
    for term in terms.tolist():
        total += term
    return torch.tensor(total, dtype=DOUBLE)


def test_a_sum_in_another_order_is_right():
    terms, _ = _cancelling()
    for order in (terms, terms.flip(0), terms.sort().values):
        assert _difference(_in_turn(order), torch.sum, terms) == ""
    assert _in_turn(terms) != terms.sum()


def test_an_error_of_the_summed_magnitude_is_found():
    terms, magnitude = _cancelling()
    for ulps in (24, -24):
        planted = terms.sum() + ulps * ULP * magnitude
        assert "1 wrong" in _difference(planted, torch.sum, terms)


SUMMING: dict[str, tuple[Callable[..., torch.Tensor], Sequence[tuple[int, ...]]]] = {
    "product": (torch.mm, [(7, 40), (40, 9)]),
    "convolution": (lambda x, w: F.conv2d(x, w, padding=1), [(2, 4, 9, 10), (6, 4, 3, 3)]),
    "mean": (lambda x: x.mean(1), [(5, 60)]),
    "cumulated": (lambda x: x.cumsum(1), [(5, 60)]),
    "layer norm": (lambda x: F.layer_norm(x, (60,)), [(5, 60)]),
    "attention": (F.scaled_dot_product_attention, [(2, 5, 8), (2, 7, 8), (2, 7, 4)]),
}


@pytest.mark.parametrize("name", SUMMING)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_an_error_of_some_dozen_roundings_is_found(name: str, dtype: torch.dtype):
    function, shapes = SUMMING[name]
    args = [_normal(*shape).to(dtype) for shape in shapes]
    right = function(*args)
    assert _difference(right, function, *args) == ""
    # No sum here adds up to ten times its greatest result; the smallest is what its terms left.
    smallest = right.abs().min()
    planted = 100 * torch.finfo(dtype).eps * right.abs().max() + TOLERANCE[dtype] * smallest
    for sign in (1, -1):
        wrong = right.clone()
        wrong.view(-1)[right.abs().argmin()] += sign * planted
        assert "1 wrong" in _difference(wrong, function, *args)


def test_what_follows_a_sum_carries_its_roundings():
    x = _normal(3000)
    exact = torch.exp(x.sum() / 10)
    moved = torch.exp((x.sum() + 2 * ULP * x.abs().sum()) / 10)
    assert _difference(moved, lambda t: torch.exp(t.sum() / 10), x) == ""
    assert "1 wrong" in _difference(exact * (1 + 1e-10), lambda t: torch.exp(t.sum() / 10), x)


def test_an_exponential_may_be_that_of_a_matrix_close_by():
    """Its squarings are products of products: they magnify what rounding does to the matrix."""
    turn = torch.tensor([[0.0, -1e5], [1e5, 0.0]], dtype=DOUBLE)
    moved = torch.linalg.matrix_exp(turn * (1 + 2 * ULP))
    assert _difference(moved, torch.linalg.matrix_exp, turn) == ""
    wrong = torch.linalg.matrix_exp(turn * (1 + 100 * ULP))
    assert "4 wrong" in _difference(wrong, torch.linalg.matrix_exp, turn)


def test_functions_without_sums_have_no_slack():
    x = _normal(50)
    for function in (torch.exp, torch.sin, lambda t: t - 0.25, lambda t: t.sort().values):
        (moved,) = reordered(lambda function=function: [function(x)], 2.0**-50)
        assert not moved.any()


def test_slack_is_of_the_magnitudes_that_were_summed():
    x = torch.tensor([1.0, -1.0, 0.5], dtype=DOUBLE)
    (total,) = reordered(lambda: [x.sum()], 2.0**-20)
    assert float(total) == pytest.approx(2.5 * 2.0**-20)
    (added,) = reordered(lambda: [torch.addmv(x[:1], x[None], x, beta=-1.0, alpha=-2.0)], 2.0**-20)
    assert float(added) == pytest.approx((1.0 + 2 * 2.25) * 2.0**-20)


@pytest.mark.parametrize(
    "function",
    [lambda x: torch.fft.fft(x)[..., 3:4], lambda x: x @ x.new_ones(64, 1), lambda x: x.sum(-1)],
    ids=["fft", "mm", "sum"],
)
def test_complex_sums_may_be_in_another_order(function: Callable[..., torch.Tensor]):
    """Terms of a thousand that leave 1e-3 or less, and a result that is off by 1e-2 of that."""
    terms = torch.complex(_normal(4, 64), _normal(3, 4, 64)[0]) * 1e3
    terms = terms - terms.mean(-1, keepdim=True)
    kept = torch.full((4, 64), 1e-3 / 64, dtype=torch.complex128)
    waves = torch.exp(2j * torch.pi * 3 * torch.arange(64, dtype=DOUBLE) / 64)
    terms = terms - torch.fft.fft(terms)[:, 3:4] * waves / 64 + kept
    exact = to_array(function(terms))
    eager = exact.astype(np.complex64)
    off = (exact + 1e-5j).astype(np.complex64)
    wrong = (exact + 10.0).astype(np.complex64)

    def moved() -> Array:
        return slack(lambda: [function(terms)], 0, torch.complex64)

    assert difference(off, eager, torch.complex64, exact)
    assert not difference(off, eager, torch.complex64, exact, slack=moved)
    assert difference(wrong, eager, torch.complex64, exact, slack=moved)


def test_infinities_and_loops_are_left_alone():
    x = torch.tensor([torch.inf, 1.0], dtype=DOUBLE)
    (total,) = reordered(lambda: [x.sum()], 2.0**-50)
    assert float(total) == 0.0

    def looped() -> list[torch.Tensor]:
        return list(torch.while_loop(lambda n: n.sum() < 9, lambda n: (n * 2,), (x[1:],)))

    assert [float(r) for r in reordered(looped, 2.0**-50)] == [0.0]
    assert float(looped()[0]) == 16.0  # torch still runs loops


@pytest.mark.parametrize(
    ("actual", "eager"),
    [
        (np.array([1, 2]), np.array([1, 3])),
        (np.array([True]), np.array([False])),
        (np.array([1.0], np.float32), np.array([1.0])),
        (np.array([1.0]), np.array([[1.0]])),
        (np.array([np.nan]), np.array([1.0])),
        (np.array([1.0]), np.array([np.inf])),
        (np.array([np.inf]), np.array([-np.inf])),
        (np.array([1.0 + 1e-11]), np.array([1.0])),
    ],
    ids=["int", "bool", "type", "shape", "nan", "infinity", "sign", "value"],
)
def test_other_values_types_and_shapes_are_found_by_both_rules(actual, eager):
    assert complaint(actual, eager, eager) != ""
    dtype = torch.from_numpy(eager).dtype
    assert difference(actual, eager, dtype, eager) != ""
    assert complaint(eager, eager, eager) == difference(eager, eager, dtype, eager) == ""


def test_eagers_own_error_counts_three_times():
    exact, eager = np.array([1.0, 2.0]), np.array([1.0 + 1e-4, 2.0], np.float32)
    off = np.float32(2.0 + 2.5e-4), np.float32(2.0 + 4e-4)
    for rule in (complaint, lambda a, e, x: difference(a, e, torch.float32, x)):
        assert rule(np.array([1.0, off[0]], np.float32), eager, exact) == ""
        assert rule(np.array([1.0, off[1]], np.float32), eager, exact) != ""


def test_an_output_may_be_off_by_what_moves_its_sums():
    exact = np.array([3.0, -1.0])
    eager = exact.astype(np.float32)
    off = (exact + 5e-6).astype(np.float32)
    assert complaint(off, eager, exact)
    assert complaint(off, eager, exact, slack=lambda: 1e-6)
    assert complaint(off, eager, exact, slack=lambda: 5e-6) == ""
    # Asked only where the answer matters.
    assert complaint(eager, eager, exact, slack=lambda: 1 / 0) == ""
