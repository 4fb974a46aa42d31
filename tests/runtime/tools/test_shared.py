"""What right results share is the same for all of them, and another for wrong ones."""

from __future__ import annotations

import numpy as np
import pytest
from aot_runtime.format.golden_sets import KINDS, Shared
from aot_runtime.tools.shared import shared_part
from aot_runtime.tools.verify import shared_difference

_RANDOM = np.random.default_rng(0)
VALUES = _RANDOM.standard_normal((3, 8)) + 1j * _RANDOM.standard_normal((3, 8))
SIGNS = np.sign(_RANDOM.standard_normal((1, 8)))
ORDER = _RANDOM.permutation(8)
BASIS = np.linalg.qr(_RANDOM.standard_normal((8, 8)))[0]

RIGHT = {
    Shared(): VALUES.copy(),
    Shared("magnitudes"): VALUES * np.exp(0.3j) * SIGNS,
    Shared("sorted"): VALUES[:, ORDER],
    Shared("sorted", -2): VALUES[::-1],
    Shared("sorted magnitudes"): (VALUES * SIGNS)[:, ORDER],
    Shared("norms"): VALUES @ BASIS,
    Shared("finite"): 2 * VALUES,
}


def _gap(other: np.ndarray, shared: Shared) -> float:
    return shared_difference(other, VALUES, shared, 0.0, 0.0)[0]


@pytest.mark.parametrize("shared", RIGHT, ids=str)
def test_right_results_share_it(shared: Shared) -> None:
    assert _gap(RIGHT[shared], shared) < 1e-12


@pytest.mark.parametrize("shared", RIGHT, ids=str)
def test_a_wrong_element_is_seen(shared: Shared) -> None:
    wrong = RIGHT[shared].copy()
    wrong[1, 3] = np.nan if shared.kind == "finite" else 3 * wrong[1, 3]
    assert _gap(wrong, shared) > 0.1


def test_every_kind_is_tried() -> None:
    assert {shared.kind for shared in RIGHT} == set(KINDS)


def test_sets_that_lie_close_together_are_close() -> None:
    """Complex numbers in order of their real parts would change places here."""
    pair, swapped = np.array([1 + 2j, 1 - 2j]), np.array([1 + 1e-9 - 2j, 1 - 1e-9 + 2j])
    shared = Shared("sorted")
    assert np.abs(shared_part(pair, shared) - shared_part(swapped, shared)).max() < 1e-8


def test_other_shapes_and_types_are_wrong() -> None:
    for other in (VALUES[:, :7], VALUES.astype(np.complex64)):
        assert _gap(other, Shared("finite")) == np.inf
