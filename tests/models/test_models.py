"""Architectures of four libraries; `make models` runs them all, `make test` some."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
import torch

from tests.conformance.executors import gpu_target
from tests.models.architecture import Architecture
from tests.models.architectures import ARCHITECTURES, REFUSED
from tests.models.check import CPU, Outcome, check
from tests.models.run import document, notes, oldest_first, read_rows, row_of, start_method

ROOT = Path(__file__).parents[2]

FIXED = (
    *("transformers ModernBert", "transformers Llama", "transformers Llama with a cache"),
    *("transformers Mixtral", "transformers T5", "transformers Mamba", "transformers CLIP"),
    *("timm test_resnet", "timm sequencer2d_s", "torchvision SwinTransformer V2"),
    "torchaudio Conformer",
)
"""In every run of the tests: of each library, and of each way to be different."""

ROTATING = 4
"""How many more each run has: others every day."""


def todays(day: date) -> list[Architecture]:
    """The day's choice, which over a hundred days has met nearly all."""
    return random.Random(day.toordinal()).sample(ARCHITECTURES, ROTATING)


def _matches_or_says_why_not(architecture: Architecture) -> None:
    outcome = check(architecture)
    expected = REFUSED.get(architecture.key, "")
    found = f"{architecture.key}: {outcome.reason}"
    assert outcome.result == ("refused" if expected else "matches"), found
    assert expected in outcome.reason, found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("key", FIXED)
def test_architecture_matches_eager(key: str) -> None:
    (architecture,) = (a for a in ARCHITECTURES if a.key == key)
    _matches_or_says_why_not(architecture)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("position", range(ROTATING))
def test_architecture_of_the_day_matches_eager_or_says_why_not(position: int) -> None:
    # The name of the test says nothing of the day, on which all workers of a run have to agree.
    _matches_or_says_why_not(todays(datetime.now(UTC).date())[position])


def test_choices_rotate() -> None:
    met = {a.key for day in range(300) for a in todays(date.fromordinal(739000 + day))}
    assert len(met) > 0.9 * len(ARCHITECTURES)


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
    (architecture,) = (a for a in ARCHITECTURES if a.key == f"transformers {name}")
    outcome = check(architecture, gpu_target())
    assert outcome.result == "matches", outcome.reason


def test_refused_architectures_exist() -> None:
    assert set(REFUSED) <= {a.key for a in ARCHITECTURES}


def test_names_are_unique() -> None:
    names = [a.key for a in ARCHITECTURES]
    assert len(set(names)) == len(names)


def _rows() -> dict[str, str]:
    return {a.key: row_of(a, Outcome("refused", "a | b", 0, 1.0)) for a in ARCHITECTURES[:3]}


def test_results_are_read_back_as_they_were_written() -> None:
    assert read_rows(document(_rows())) == _rows()


def test_what_stands_below_the_table_is_kept() -> None:
    below = "\n## Runs\n\nOn two cores.\n\n## Others\n"
    text = document(_rows(), below=below)
    assert notes(text) == below and read_rows(text) == _rows()


def test_the_oldest_rows_run_first() -> None:
    rows, today = _rows(), str(datetime.now(UTC).date())
    second = ARCHITECTURES[1].key
    rows[second] = rows[second].replace(today, "2026-01-01")
    order = oldest_first(ARCHITECTURES[:4], rows)
    assert [ARCHITECTURES.index(a) for a in order] == [3, 1, 0, 2]


@pytest.mark.slow
def test_the_process_that_forks_has_one_thread_and_no_gpu() -> None:
    code = "from tests.models.warm import THREADS; import torch; "
    code += "print(THREADS, torch.cuda.is_available(), os.environ['CUDA_VISIBLE_DEVICES'] == '')"
    command = [sys.executable, "-c", f"import os; {code}"]
    # NumPy's library of products starts threads when it is loaded, and knows of forks.
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    told = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=ROOT, env=environ
    )
    assert told.stdout.splitlines()[-1] == "1 False True"


def test_processes_that_use_a_device_are_no_forks() -> None:
    assert start_method(CPU) == "forkserver"
    assert start_method("cuda:sm_90") == "spawn"
