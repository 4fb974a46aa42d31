"""BERT base from transformers, with random weights and a dynamic batch."""

import torch
from torch import nn
from torch.export import Dim
from transformers import BertConfig, BertModel


class Encoder(nn.Module):
    """The last hidden state of BERT base."""

    def __init__(self) -> None:
        super().__init__()
        config = BertConfig(attn_implementation="sdpa")
        self.bert = BertModel(config, add_pooling_layer=False)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.bert(input_ids=input_ids, attention_mask=attention_mask, return_dict=False)[0]


def model() -> nn.Module:
    torch.manual_seed(0)
    return Encoder().eval()


def inputs_of(batch: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(batch)
    ids = torch.randint(0, 30000, (batch, 128), generator=generator)
    mask = torch.ones(batch, 128, dtype=torch.int64)
    mask[:, 112:] = 0
    return ids, mask


def example_inputs() -> tuple[torch.Tensor, ...]:
    return inputs_of(3)


def extra_inputs() -> list[tuple[torch.Tensor, ...]]:
    return [inputs_of(1), inputs_of(8)]


batch = Dim("batch", min=1, max=64)
dynamic_shapes = {"input_ids": {0: batch}, "attention_mask": {0: batch}}
