"""Running results as nests, for devices without the template."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from aot.ir.dtypes import FLOAT32, INT32, INT64, UINT8, DType
from aot.ir.templates.scan import Scan
from aot.lowering.builder import Tensor, identity_view
from aot.passes.expand_templates import expand_templates
from tests.schedule.graphs import BARE, BATCH, S0, interpret, make_graph, scan
from tests.settings import seeded


@pytest.mark.parametrize("combine", ["sum", "prod", "max", "min", "logaddexp"])
@pytest.mark.parametrize("dtype", [FLOAT32, INT64, INT32, UINT8], ids=str)
def test_nests_give_what_the_template_means(combine: str, dtype: DType) -> None:
    if combine == "logaddexp" and not dtype.is_float:
        pytest.skip("of floats only")
    graph = make_graph(lambda _, x: [scan(x, combine)], {"x": (3, S0)}, {}, (BATCH,), {"x": dtype})
    expanded = expand_templates(graph, BARE)
    rng = np.random.default_rng(seeded())
    for size in (0, 1, 7):
        x = rng.integers(0, 3, (3, size)).astype(dtype.numpy)
        if dtype.is_float and size > 4:
            x[0, 2], x[1, 1], x[2, 0] = np.nan, np.inf, -np.inf
        (expected,) = interpret(graph, {"x": x}, {}, {"s0": size})
        (found,) = interpret(expanded, {"x": x}, {}, {"s0": size})
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def _places(x: Tensor, combine: str) -> Tensor:
    views = {"x": identity_view(x), "found": identity_view(scan(x, combine))}
    call = partial(Scan, combine=combine, places=True, **views)
    return x.builder.template(call, x.shape, INT64)


@pytest.mark.parametrize("combine", ["max", "min"])
@pytest.mark.parametrize("dtype", [FLOAT32, INT32], ids=str)
def test_places_are_maxima_of_places(combine: str, dtype: DType) -> None:
    graph = make_graph(
        lambda _, x: [_places(x, combine)], {"x": (3, S0)}, {}, (BATCH,), {"x": dtype}
    )
    expanded = expand_templates(graph, BARE)
    x = np.array([[1, 3, 2, 3, 0], [2, 1, 1, 4, 1], [0, 0, 5, 5, 4]]).astype(dtype.numpy)
    expected = [[0, 1, 1, 3, 3], [0, 0, 0, 3, 3], [0, 1, 2, 3, 3]]
    if combine == "min":
        expected = [[0, 0, 0, 0, 4], [0, 1, 2, 2, 4], [0, 1, 1, 1, 1]]
    if dtype.is_float:
        x[2, 2], expected[2] = np.nan, [0, 1, 2, 2, 2]
    for each in (graph, expanded):
        np.testing.assert_array_equal(interpret(each, {"x": x}, {}, {"s0": 5})[0], expected)
