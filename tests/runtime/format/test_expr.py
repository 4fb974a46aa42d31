"""Values of the plan's expressions."""

import pytest
from aot_runtime.format.errors import CorruptPackage
from aot_runtime.format.expr import evaluate


@pytest.mark.parametrize(
    ("expr", "value"),
    [
        (3, 3),
        ("n", 5),
        (("+", "n", 2, ["*", "m", 3]), 28),
        (("//", ("max", "n", "m"), 2), 3),
        (("%", ("min", "n", "m"), 3), 2),
    ],
)
def test_values(expr, value: int) -> None:
    assert evaluate(expr, {"n": 5, "m": 7}) == value


@pytest.mark.parametrize("expr", ["k", ("^", "n", 2), ("//", "n", 0), (), ("+",)])
def test_what_is_none(expr) -> None:
    with pytest.raises(CorruptPackage, match="no expression"):
        evaluate(expr, {"n": 5})
