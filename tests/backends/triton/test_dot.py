"""What products on tensor cores share: columns that are stored beyond the last one."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from aot.frontend.capture import capture_module
from aot.frontend.weights import to_array
from tests.backends.triton.templates import captured, emitted, tensors
from tests.comparing import difference
from tests.conformance.executors import interpret_triton
from tests.settings import seeded


class Gated(torch.nn.Module):
    """A SwiGLU block of an odd width."""

    def __init__(self, bias: bool) -> None:
        super().__init__()
        torch.manual_seed(seeded())
        linear = partial(torch.nn.Linear, bias=bias, dtype=torch.bfloat16)
        self.gate, self.up, self.down = linear(64, 611), linear(64, 611), linear(611, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.down(torch.nn.functional.silu(self.gate(x)) * self.up(x))
        return result


@pytest.mark.parametrize("bias", [False, True], ids=["room", "none in a bias"])
def test_columns_that_rows_have_room_for_are_stored(bias: bool) -> None:
    """Masks that end within a vector would store the whole block by the element."""
    args = tensors((72, 64), dtype=torch.bfloat16)
    model = capture_module(Gated(bias), args)
    first, second, _ = (f.text for f in emitted(model).functions)
    # Biases are added where both halves meet.
    for text, columns in ((first, 616), (second, 611 if bias else 616)):
        finish, load = text.split("_finish(")[1], text.split("_load_right(")[1]
        assert f"n < {columns}" in finish.split("@triton.jit")[0]
        assert "n < 611" in load
    (actual,) = interpret_triton(model, args)
    eager, exact = Gated(bias)(*args), Gated(bias).double()(args[0].double())
    assert difference(actual, to_array(eager), torch.bfloat16, to_array(exact)) == ""


def test_results_of_a_model_have_no_room() -> None:
    args = tensors((72, 64), (64, 611), dtype=torch.bfloat16)
    (function,) = emitted(captured(torch.matmul, args)).functions
    assert "n < 611" in function.text
    assert "n < 616" not in function.text
