"""A Llama-style decoder: RMS norm, rotary embedding, grouped queries, SwiGLU; dynamic length."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

WIDTH, HEADS, KV_HEADS, INNER, LAYERS, VOCABULARY, LONGEST = 512, 8, 2, 1376, 4, 8000, 512


class RMSNorm(nn.Module):
    """x over its root mean square, scaled."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


class Block(nn.Module):
    """Attention and SwiGLU, each with a norm before and a residual around."""

    def __init__(self) -> None:
        super().__init__()
        self.size = WIDTH // HEADS
        self.norm1, self.norm2 = RMSNorm(WIDTH), RMSNorm(WIDTH)
        self.q = nn.Linear(WIDTH, WIDTH, bias=False)
        self.k = nn.Linear(WIDTH, KV_HEADS * self.size, bias=False)
        self.v = nn.Linear(WIDTH, KV_HEADS * self.size, bias=False)
        self.o = nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate = nn.Linear(WIDTH, INNER, bias=False)
        self.up = nn.Linear(WIDTH, INNER, bias=False)
        self.down = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        y = self.norm1(x)
        q = self.q(y).view(batch, length, HEADS, self.size).transpose(1, 2)
        k = self.k(y).view(batch, length, KV_HEADS, self.size).transpose(1, 2)
        v = self.v(y).view(batch, length, KV_HEADS, self.size).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(attended.transpose(1, 2).reshape(batch, length, width))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """Embedding, blocks, norm, output head."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = RMSNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        size = WIDTH // HEADS
        frequency = 10000.0 ** (-torch.arange(0, size, 2) / size)
        angle = torch.arange(LONGEST)[:, None] * frequency[None]
        angle = torch.cat((angle, angle), -1)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        length = tokens.shape[1]
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, self.cos[:length], self.sin[:length])
        return self.head(self.norm(x))


def model() -> nn.Module:
    torch.manual_seed(0)
    return Decoder().eval()


def inputs_of(batch: int, length: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(batch * 1000 + length)
    return (torch.randint(0, VOCABULARY, (batch, length), generator=generator),)


def example_inputs() -> tuple[torch.Tensor, ...]:
    return inputs_of(2, 64)


def extra_inputs() -> list[tuple[torch.Tensor, ...]]:
    return [inputs_of(1, 7), inputs_of(3, 200)]


dynamic_shapes = ({0: Dim("batch", min=1, max=16), 1: Dim("length", min=1, max=LONGEST)},)
