"""A gated layer whose activation is a Triton kernel of the model's own: GPU packages hold it."""

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from torch.library import triton_op, wrap_triton


@triton.jit
def gate_kernel(x, out, n, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row, column = at // COLUMNS, at % COLUMNS
    gate = tl.load(x + row * 2 * COLUMNS + column, mask=at < n).to(tl.float32)
    up = tl.load(x + row * 2 * COLUMNS + COLUMNS + column, mask=at < n)
    tl.store(out + at, gate * tl.sigmoid(gate) * up, mask=at < n)


@triton_op("mine::gate", mutates_args={})
def gate(x: Tensor) -> Tensor:
    """SwiGLU's activation: silu of the first half of each row, times the second half."""
    rows, columns = x.shape[0], x.shape[1] // 2
    out = x.new_empty(rows, columns)
    n = out.numel()
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)  # noqa: E731
    wrap_triton(gate_kernel)[grid](x, out, n, COLUMNS=columns, BLOCK=256)
    return out


class Gated(nn.Module):
    """A linear layer to twice as many columns, gated."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 256)

    def forward(self, x: Tensor) -> Tensor:
        return gate(self.linear(x)) + 1


torch.manual_seed(0)
model = Gated()
example_inputs = (torch.randn(40, 64),)
dynamic_shapes = ({0: torch.export.Dim("rows", min=0, max=1000)},)
