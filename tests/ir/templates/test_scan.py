"""Running results as nests, for devices without the template."""

from __future__ import annotations

import numpy as np
import pytest

from aot.ir.dtypes import FLOAT32, INT32, INT64, UINT8, DType
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
