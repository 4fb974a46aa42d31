"""The page of kernels that memory bounds: what a row must move, and its share of a copy."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import torch

from benchmarks.problems import Timed
from benchmarks.shapes.bandwidth import ABOUT, every, nbytes, page, share


def timed(name: str, **seconds: float) -> Timed:
    """A row of these times."""
    return Timed(name, [], seconds)


def test_arguments_and_results_are_moved_once() -> None:
    rows = every()
    assert nbytes(rows["softmax 512x131072 bf16"]) == 2 * 2 * 512 * 131072
    assert nbytes(rows["variance down 65536x1024 f32"]) == 4 * 1024 * (65536 + 1)
    masked = 16 * 1024 * 1024 * 2
    assert nbytes(rows["masked softmax 16x12x1024x1024 f16"]) == masked * (12 + 1 + 12)
    before, after = 4 * 3 * 2000 * 2000 * 4, 4 * 3 * 224 * 224 * 4
    assert nbytes(rows["A aa 4 MP to 224x224 cl"]) == before + after


def test_rows_are_functions_of_their_arguments() -> None:
    for name in ("norm chain 60787x1104 bf16", "rotary 32x16384x64 f16", "A aa 1 MP to 224x224 cf"):
        problem = every()[name]
        assert problem.draw("meta")[0].device.type == "meta"
        assert every(compiles=True)[name].name == name
    results = every()["norm chain 60787x1104 bf16"].function(
        *(torch.ones(shape) for shape in ((2, 8), (2, 8), (8,), (8,)))
    )
    assert [tuple(r.shape) for r in results] == [(2, 8), (2, 8)]


def test_the_page_has_shares_of_a_copy(tmp_path: Path) -> None:
    rows = [
        timed("softmax 512x131072 bf16", ours=1e-4, copy=9.5e-5, eager=4e-4, compile=2e-4),
        timed("A aa 1 MP to 224x224 cf", ours=2e-5, copy=1e-5, eager=1e-4),
        timed("rotary 32x16384x64 f16"),
    ]
    rows[2].notes.append("no package")
    text = json.dumps({"about": "one GPU", "rows": [asdict(row) for row in rows]})
    (tmp_path / "bandwidth_cuda.json").write_text(text)
    found = page(tmp_path, "bandwidth", ABOUT)
    line = "| softmax 512x131072 bf16 | 268 | 100.0 | 95.0 | 95% | 400.0 | 200.0 | 0.25 |"
    assert line in found
    assert "1 of 1 at 90 % of the copy or more; least 95%" in found
    assert "| A aa 1 MP to 224x224 cf | 50 | 20.0 | 10.0 | 50% | 100.0 | – | 0.20 |" in found
    assert "no package |" in found
    assert share(rows[2]) is None
