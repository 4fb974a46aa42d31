"""The interpreter harness itself: right results, and wrong kernels that it must catch."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.backends.triton.interpret import Failed, interpreter
from tests.backends.triton.kernels import add, gather, matmul, row_sum
from tests.settings import seeded


def launch(source, arrays, sizes, grid):
    request = {
        "functions": {source.name: (source.text, source.signature)},
        "buffers": [a.tobytes() for a in arrays],
        "launches": [(source.name, list(range(len(arrays))), sizes, grid)],
    }
    after, fault = interpreter().run(request)
    pairs = zip(arrays, after, strict=True)
    return [np.frombuffer(b, a.dtype).reshape(a.shape) for a, b in pairs], fault


def random(*shape, dtype=np.float32):
    return np.random.default_rng(seeded()).standard_normal(shape).astype(dtype)


def test_pointwise():
    x, y = random(1500), random(1500)[::-1].copy()
    (_, _, o), fault = launch(add(), [x, y, np.zeros_like(x)], [1500], (2, 1, 1))
    assert np.array_equal(o, x + y) and fault == 0


def test_sums_round_to_bfloat16_as_the_device_does():
    x = random(3, 700, dtype=ml_dtypes.bfloat16)
    out = np.zeros(3, ml_dtypes.bfloat16)
    (_, o), _ = launch(row_sum(), [x, out], [700], (3, 1, 1))
    exact = x.astype(np.float64).sum(1)
    assert np.all(np.abs(o.astype(np.float64) - exact) <= np.abs(exact) * 2.0**-8)


def test_matrix_products_of_bfloat16():
    a = random(70, 512, dtype=ml_dtypes.bfloat16)
    b = random(512, 1024, dtype=ml_dtypes.bfloat16)
    out = np.zeros((70, 1024), ml_dtypes.bfloat16)
    (_, _, o), _ = launch(matmul(), [a, b, out], [70], (2, 16, 1))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(o.astype(np.float64) - exact).max() < np.abs(exact).max() * 2.0**-8


def test_wrong_indices_are_flagged():
    x, index = random(10), np.array([3, 9, 0, 2])
    out = np.zeros(4, np.float32)
    (_, _, o), fault = launch(gather(), [x, index, out], [4, 10], (1, 1, 1))
    assert np.array_equal(o, x[index]) and fault == 0
    _, fault = launch(gather(), [x, np.array([3, 10, 0, 2]), out], [4, 10], (1, 1, 1))
    assert fault != 0


def test_an_empty_grid_runs_nothing():
    x = random(4)
    (_, _, o), _ = launch(add(), [x, x, np.zeros_like(x)], [4], (0, 1, 1))
    assert not o.any()


def test_accesses_outside_of_buffers_are_caught():
    x = random(100)
    with pytest.raises(Failed, match="a load outside of every buffer, in 20 lanes"):
        launch(add(), [x, x, np.zeros(120, np.float32)], [120], (1, 1, 1))
    with pytest.raises(Failed, match="a store outside of every buffer"):
        launch(add(), [x, x, np.zeros(90, np.float32)], [100], (1, 1, 1))


def test_a_kernel_that_does_not_run_is_named():
    import dataclasses

    wrong = dataclasses.replace(add(), text=add().text.replace("tl.load(y", "tl.lode(y"))
    x = random(4)
    with pytest.raises(Failed, match=r"(?s)lode.*in add, grid \(1, 1, 1\)"):
        launch(wrong, [x, x, x], [4], (1, 1, 1))
