"""Architectures of `transformers`; `make models` runs them all, `make test` a tenth."""

from __future__ import annotations

import pytest
import torch

from tests.conformance.executors import gpu_target
from tests.models.architectures import ARCHITECTURES, REFUSED, Architecture
from tests.models.check import check
from tests.models.run import document, read_rows, row_of


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda a: a.name)
def test_architecture_matches_eager_or_says_why_not(architecture: Architecture) -> None:
    outcome = check(architecture)
    expected = REFUSED.get(architecture.name, "")
    assert outcome.result == ("refused" if expected else "matches"), outcome.reason
    assert expected in outcome.reason


ON_GPU = (
    *("ModernBert", "DebertaV2", "Llama", "Mixtral", "Llama with a cache", "Gemma with a cache"),
    *("T5", "Bart", "Mamba", "Mamba2", "ViT", "Swin", "ConvNext", "Wav2Vec2", "Whisper", "CLIP"),
)
"""Some of every kind."""


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ON_GPU)
def test_architecture_matches_eager_on_the_gpu(name: str) -> None:
    (architecture,) = (a for a in ARCHITECTURES if a.name == name)
    outcome = check(architecture, gpu_target())
    assert outcome.result == "matches", outcome.reason


def test_refused_architectures_exist() -> None:
    assert set(REFUSED) <= {a.name for a in ARCHITECTURES}


def test_names_are_unique() -> None:
    names = [a.key for a in ARCHITECTURES]
    assert len(set(names)) == len(names)


def test_results_are_read_back_as_they_were_written() -> None:
    from tests.models.check import Outcome

    rows = {a.key: row_of(a, Outcome("refused", "a | b", 0, 1.0)) for a in ARCHITECTURES[:3]}
    assert read_rows(document(rows)) == rows
