"""Of an output, the most is compared that other right outputs share with the reference."""

from __future__ import annotations

import numpy as np
import pytest
from aot_runtime.format.golden_sets import Shared

from aot.link.judging import judge

_RANDOM = np.random.default_rng(0)
VALUES = _RANDOM.standard_normal((4, 6)).astype(np.float32)
NOISE = 1e-7 * _RANDOM.standard_normal(VALUES.shape).astype(np.float32)
SIGNS = np.array([1, -1, 1, 1, -1, -1], np.float32)


@pytest.mark.parametrize(
    ("other", "shared"),
    [
        (VALUES, Shared()),
        (VALUES * SIGNS, Shared("magnitudes")),
        (VALUES[:, ::-1], Shared("sorted", -1)),
        (VALUES[::-1], Shared("sorted", -2)),
        ((VALUES * SIGNS)[:, ::-1], Shared("sorted magnitudes", -1)),
        (_RANDOM.standard_normal(VALUES.shape).astype(np.float32), Shared("finite")),
    ],
)
def test_the_most_that_is_shared(other: np.ndarray, shared: Shared) -> None:
    (judged,) = judge([VALUES], [[other + NOISE]])
    assert judged.shared == shared


def test_what_one_run_shares_by_chance_the_others_need_not() -> None:
    (judged,) = judge([VALUES], [[VALUES], [VALUES * SIGNS]])
    assert judged.shared == Shared("magnitudes")


def test_without_others_all_is_compared() -> None:
    (judged, whole) = judge([VALUES, np.arange(3)])
    assert judged.shared == whole.shared == Shared()
    assert judged.tolerance == pytest.approx(1e-4 * np.abs(VALUES).max(), rel=1e-2)
    assert whole.tolerance == 0


def test_what_roundings_move_far_may_be_as_far() -> None:
    (judged,) = judge([VALUES], [[VALUES + np.float32(5e-4)]])
    assert judged.shared == Shared()
    assert judged.tolerance == pytest.approx(4 * 5e-4, rel=1e-2)
