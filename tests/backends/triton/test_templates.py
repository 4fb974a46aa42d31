"""Which calls the templates take."""

from __future__ import annotations

import pytest

from aot.backends.triton.templates import SORT_RUN, TEMPLATES
from aot.ir.dtypes import FLOAT32, FLOAT64, INT64, DType
from aot.ir.hints import Hints
from aot.ir.nests import Buffer
from aot.ir.origin import NO_ORIGIN
from aot.ir.templates import Argsort, Attention, Matmul, TemplateCall
from tests.ir.templates.views import view


def refusal(call: TemplateCall, dtype: DType) -> str:
    """Why the device's template does not take a call of that type."""
    shape = tuple(a.extent for a in call.operands[0][1].axes)
    buffers = {"b": Buffer("b", dtype, shape, None, "temp")}
    return TEMPLATES[type(call)].support.accepts(call, buffers, Hints({}))


def sort(columns: int, kept: int, rows: int = 64) -> Argsort:
    return Argsort("s", view(rows, kept), NO_ORIGIN, view(rows, columns), descending=False)


@pytest.mark.parametrize(
    ("call", "dtype", "taken"),
    [
        (sort(2 * SORT_RUN, 2 * SORT_RUN), FLOAT32, True),
        (sort(3 * SORT_RUN, 3 * SORT_RUN), FLOAT32, False),
        (sort(3 * SORT_RUN, 3 * SORT_RUN, rows=1), FLOAT32, True),
        (sort(3 * SORT_RUN, 8), FLOAT32, True),
        (sort(3 * SORT_RUN, 8), INT64, False),
    ],
    ids=["one program", "long", "one row", "the first few", "the first few of wide keys"],
)
def test_rows_to_sort(call: Argsort, dtype: DType, taken: bool) -> None:
    assert bool(refusal(call, dtype)) is not taken


def test_products_are_of_types_that_tensor_cores_take() -> None:
    call = Matmul("m", view(64, 64), NO_ORIGIN, view(64, 64), view(64, 64))
    assert refusal(call, FLOAT32) == ""
    assert refusal(call, FLOAT64) == ""
    assert refusal(call, INT64).endswith("takes no int64")


@pytest.mark.parametrize(("size", "taken"), [(256, True), (257, False)])
def test_heads_fit_into_a_program(size: int, taken: bool) -> None:
    q = view(1, 2, 8, size)
    call = Attention("a", q, NO_ORIGIN, q, q, q, 1.0, causal=False)
    assert bool(refusal(call, FLOAT32)) is not taken
