"""GPT-2 (124 M parameters, tied embeddings) from transformers, with random weights."""

import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel


class LanguageModel(nn.Module):
    """Next-token logits of GPT-2 for a prompt of 64 tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.gpt2 = GPT2LMHeadModel(GPT2Config(use_cache=False, attn_implementation="sdpa"))

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return self.gpt2(input_ids=input_ids, use_cache=False, return_dict=False)[0]


def model() -> nn.Module:
    torch.manual_seed(0)
    return LanguageModel().eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    torch.manual_seed(1)
    return (torch.randint(0, 50000, (1, 64)),)
