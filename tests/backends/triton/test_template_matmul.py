"""Products so large that programs stay and fetch blocks by descriptors, in the interpreter."""

from __future__ import annotations

import pytest
import torch

from aot.frontend.capture import capture_module
from aot.frontend.weights import to_array
from tests.backends.triton.interpret import run_emitted
from tests.backends.triton.templates import kernels_of
from tests.comparing import difference
from tests.conformance import executors
from tests.conformance.executors import interpret_triton
from tests.settings import seeded


class Product(torch.nn.Module):
    """A linear layer with something to do afterwards."""

    def __init__(self, rows: int, columns: int, depth: int) -> None:
        super().__init__()
        torch.manual_seed(seeded())
        self.linear = torch.nn.Linear(depth, columns, dtype=torch.bfloat16)
        self.example = torch.randn(rows, depth, dtype=torch.bfloat16)

    def forward(self, x):
        return torch.nn.functional.gelu(self.linear(x))


@pytest.mark.slow
@pytest.mark.parametrize("size", [(4352, 1024, 64), (4360, 1080, 72), (4500, 1032, 40)])
def test_products_by_descriptors(size, monkeypatch):
    texts = []

    def run(emitted, *rest):
        texts.extend(f.text for f in emitted.functions)
        return run_emitted(emitted, *rest)

    monkeypatch.setattr(executors, "run_emitted", run)
    module = Product(*size)
    captured = capture_module(module, (module.example,))
    (actual,) = interpret_triton(captured, (module.example,))
    assert any("make_tensor_descriptor" in text for text in texts)
    with torch.no_grad():
        eager = module(module.example)
        exact = module.double()(module.example.double())

    assert difference(actual, to_array(eager), torch.bfloat16, to_array(exact)) == ""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_deep_product_is_computed_in_parts(dtype):
    class Deep(torch.nn.Module):
        def forward(self, x, y):
            return (x @ y).relu()

    torch.manual_seed(seeded())
    args = torch.randn(9, 1 << 14, dtype=dtype), torch.randn(1 << 14, 24, dtype=dtype)
    captured = capture_module(Deep(), args)
    assert "8 parts of the depth" in [d.verdict for d in kernels_of(captured).decisions]
    (actual,) = interpret_triton(captured, args)
    x, y = (a.double() for a in args)
    eager, exact = Deep()(*args), Deep()(x, y)
    assert difference(actual, to_array(eager), dtype, to_array(exact)) == ""
