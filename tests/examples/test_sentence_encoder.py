"""One package of the sentence encoder serves every batch and length, without torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from aot import driver, options
from aot.frontend.source import read_model_file
from tests.levels import target_of
from tests.settings import seeded

MODEL = Path(__file__).parents[2] / "examples" / "02_minilm" / "model.py"
BATCHES = (1, 7, 32)
EVERY_LENGTH = tuple(range(5, 257))
SOME_LENGTHS = (5, 6, 17, 64, 131, 256)
TOLERANCE = 1e-5

TORCHLESS = """
import sys
sys.modules["torch"] = None
import numpy, aot_runtime
model = aot_runtime.load(sys.argv[1])
with numpy.load(sys.argv[2]) as given:
    cases = sorted({name.rpartition("/")[0] for name in given.files})
    outputs = {c: model(given[c + "/ids"], given[c + "/mask"]) for c in cases}
numpy.savez(sys.argv[3], **outputs)
"""


def inputs_of(batch: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seeded(batch * 1000 + length))
    ids = torch.randint(1000, 30000, (batch, length), generator=generator)
    kept = torch.randint(1, length + 1, (batch, 1), generator=generator)
    return ids, (torch.arange(length)[None, :] < kept).to(torch.int64)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("encoder") / "encoder.pkg"
    targets = (options.parse_target(target_of()),)
    driver.build(MODEL, options.from_environment(output=output, targets=targets))
    return output


@pytest.mark.slow
@pytest.mark.parametrize("batch", BATCHES)
def test_all_lengths_agree_with_torch(
    package: Path, tmp_path: Path, batch: int, request: pytest.FixtureRequest
) -> None:
    lengths = EVERY_LENGTH if request.config.getoption("--sweeps") else SOME_LENGTHS
    cases = {f"{length}": inputs_of(batch, length) for length in lengths}
    given = {
        f"{c}/{n}": t.numpy()
        for c, pair in cases.items()
        for n, t in zip(("ids", "mask"), pair, strict=True)
    }
    np.savez(tmp_path / "inputs.npz", **given)
    command = [sys.executable, "-c", TORCHLESS, package, "inputs.npz", "outputs.npz"]
    subprocess.run(command, cwd=tmp_path, env=dict(os.environ), check=True)

    module = read_model_file(MODEL).module
    with np.load(tmp_path / "outputs.npz") as ours, torch.no_grad():
        for case, inputs in cases.items():
            expected = module(*inputs).numpy()
            assert np.abs(ours[case] - expected).max() <= TOLERANCE, f"{batch} x {case}"
