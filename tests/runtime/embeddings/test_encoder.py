from pathlib import Path

import aot_runtime
import numpy as np
import pytest
import torch
from aot_runtime.embeddings import Encoder
from aot_runtime.embeddings.encoder import least_size, tokenizer_of
from aot_runtime.tensors import Dim
from torch import nn

import aot
from tests.levels import target_of
from tests.runtime.embeddings.conftest import MOST_TOKENS, Sentences, eager

TEXTS = ["A small red fox", "the dog", "a", "unknown words and the blue dog " * 6]


def test_mixed_lengths_have_the_vectors_of_each_alone(
    encoder_package: Path, sentences: Sentences
) -> None:
    encoder = Encoder.load(encoder_package)
    assert (encoder.name, encoder.width, encoder.most_tokens) == ("tiny", 32, MOST_TOKENS)
    rows = encoder.tokens(TEXTS * 9)
    assert rows[0] == [2, 4, 5, 6, 8, 3] and len(rows[3]) == 38  # neither cut nor padded
    vectors = encoder.embed(rows)
    for row, vector in zip(rows, vectors, strict=True):
        torch.testing.assert_close(torch.tensor(vector), eager(sentences, row))
    np.testing.assert_array_equal(encoder.session().embed(rows[:2]), encoder.embed(rows[:2]))


@pytest.mark.parametrize("threads", [1, 3])
def test_its_sessions_run_with_as_many_threads(encoder_package: Path, threads: int) -> None:
    model = aot_runtime.load(encoder_package, num_threads=threads)
    session = Encoder(model, tokenizer_of(model), "tiny").session()
    assert session._model.num_threads == threads
    assert model.session(num_threads=2).num_threads == 2


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ([2] * (MOST_TOKENS + 1), "49 tokens, this model takes at most 48"),
        ([2, 14, 3], "14 is no token: they are 0 to 13"),
        ([-1], "-1 is no token"),
        ([], "it has no tokens"),
    ],
)
def test_what_has_no_vector(encoder_package: Path, row: list[int], words: str) -> None:
    encoder = Encoder.load(encoder_package)
    with pytest.raises(aot_runtime.InvalidArgument, match=f"row 1: .*{words}"):
        encoder.embed([[2, 3], row])


class Other(nn.Module):
    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return input_ids[:, :, None] * attention_mask[:, :, None].float()


class Unlike(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


def test_other_models_are_refused(tmp_path: Path, tokenizer_file: Path) -> None:
    path = tmp_path / "other.pkg"
    ids = torch.ones(2, 3, dtype=torch.long)
    aot.package(Other(), (ids, ids), path=path, targets=[target_of()])
    with pytest.raises(aot_runtime.NotFound, match=r"no file 'tokenizer\.json'; it carries none"):
        Encoder.load(path)
    wrong = tmp_path / "wrong"
    wrong.write_text("{}")
    aot.package(
        Other(), (ids, ids), path=path, targets=[target_of()], files={"tokenizer.json": wrong}
    )
    with pytest.raises(aot_runtime.InvalidArgument, match="is no tokenizer"):
        Encoder.load(path)
    files = {"tokenizer.json": tokenizer_file}
    aot.package(Other(), (ids, ids), path=path, targets=[target_of()], files=files)
    with pytest.raises(aot_runtime.InvalidArgument, match="Package it with its pooling"):
        Encoder.load(path)
    aot.package(Unlike(), (ids,), path=path, targets=[target_of()], files=files)
    with pytest.raises(aot_runtime.InvalidArgument, match="this model takes x"):
        Encoder.load(path)


def test_sizes_that_a_dimension_may_have() -> None:
    assert least_size(3, Dim(None, 1, 8, 1, "")) == 3
    assert least_size(3, Dim(None, 4, 8, 1, "")) == 4
    assert least_size(5, Dim(None, 1, 64, 8, "")) == 8
    assert least_size(5, Dim(7, 7, 7, 1, "")) == 7
