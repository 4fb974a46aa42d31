"""A GPT that makes one token a call: its cache of keys and values is state of the session.

aot-package examples/gpt_generate/model.py -o gpt.pkg
"""

import torch
from torch import nn
from torch.nn import functional

VOCABULARY, WIDTH, HEADS, LAYERS, LENGTH = 4096, 256, 8, 4, 128


class Block(nn.Module):
    """Attention over the cache, then a multilayer perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, HEADS, LENGTH, WIDTH // HEADS))

    def forward(self, x: torch.Tensor, at: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        heads = self.qkv(self.norms[0](x)).view(1, 1, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        query, key, value = heads.unbind(0)
        self.keys.index_copy_(2, at, key)  # writes one position of the cache, no more
        self.values.index_copy_(2, at, value)
        found = functional.scaled_dot_product_attention(
            query, self.keys, self.values, attn_mask=seen
        )
        x = x + self.proj(found.transpose(1, 2).reshape(1, 1, WIDTH))
        return x + self.down(functional.gelu(self.up(self.norms[1](x))))


class Generator(nn.Module):
    """The token that follows `token`, given all tokens of the calls before."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.register_buffer("position", torch.zeros(1, dtype=torch.int64))

    def forward(self, token: torch.Tensor) -> torch.Tensor:
        seen = (torch.arange(LENGTH) <= self.position)[None]
        x = (self.tokens(token) + self.places(self.position))[None]
        for block in self.blocks:
            x = block(x, self.position, seen)
        self.position += 1
        return self.head(self.norm(x)[0]).argmax(-1)


def model() -> nn.Module:
    torch.manual_seed(0)
    return Generator().eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    return (torch.tensor([7]),)
