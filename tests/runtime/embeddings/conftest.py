"""A small sentence encoder with random weights and a tokenizer made here, packaged together."""

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import nn
from torch.export import Dim
from transformers import BertConfig, BertModel

import aot
from tests.levels import target_of

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    *"a small red blue fox dog runs sleeps and the".split(),
]
MOST_TOKENS = 48


def make_tokenizer() -> Tokenizer:
    """Words of a fixed list, between [CLS] and [SEP]; it would cut and pad, if it were let."""
    made = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    made.enable_truncation(8)
    made.enable_padding(length=8)
    return made


class Sentences(nn.Module):
    """BERT and the mean over the tokens that count."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=len(WORDS),
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=MOST_TOKENS,
            attn_implementation="sdpa",
        )
        self.bert = BertModel(config, add_pooling_layer=False).eval()

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor
    ) -> torch.Tensor:
        x = self.bert(input_ids, attention_mask, token_type_ids).last_hidden_state
        kept = attention_mask[:, :, None].to(x.dtype)
        return nn.functional.normalize((x * kept).sum(1) / kept.sum(1), dim=-1)


@pytest.fixture(scope="session")
def sentences() -> Sentences:
    return Sentences()


@pytest.fixture(scope="session")
def tokenizer_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokenizer") / "mine.json"
    make_tokenizer().save(str(path))
    return path


@pytest.fixture(scope="session")
def encoder_package(
    sentences: Sentences, tokenizer_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    path = tmp_path_factory.mktemp("encoder") / "tiny.pkg"
    ids = torch.tensor([[2, 4, 5, 3], [2, 6, 3, 0], [2, 7, 8, 3]])
    rows, length = Dim("rows", min=1, max=16), Dim("length", min=1, max=MOST_TOKENS)
    aot.package(
        sentences,
        (ids, (ids != 0).long(), torch.zeros_like(ids)),
        path=path,
        targets=[target_of()],
        dynamic_shapes=({0: rows, 1: length},) * 3,
        files={"tokenizer.json": tokenizer_file},
    )
    return path


def eager(sentences: Sentences, row: list[int]) -> torch.Tensor:
    """The vector of one row, by itself and without padding, in float64's place: eager's own."""
    ids = torch.tensor([row])
    with torch.no_grad():
        return sentences(ids, torch.ones_like(ids), torch.zeros_like(ids))[0]
