"""torchvision's compiled operators against what its own kernels have given, without torchvision.

`torchvision.json` holds inputs and results of its CPU kernels. Where torchvision is not installed,
its operators are declared here: capturing a model takes them apart before they run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from aot.frontend.capture import capture_module
from aot.frontend.vision import VISION
from tests.calls import Calls
from tests.conformance.executors import EXECUTORS, Args
from tests.settings import level

KEPT = json.loads(Path(__file__).with_name("torchvision.json").read_text(encoding="utf-8"))


def _tensor(kept: dict[str, Any]) -> torch.Tensor:
    dtype = getattr(torch, kept["dtype"])
    return torch.tensor(kept["values"], dtype=dtype).reshape(kept["shape"])


TENSORS = [_tensor(kept) for kept in KEPT["tensors"]]
_library = torch.library.Library("torchvision", "FRAGMENT")


def operator(name: str) -> Any:
    """An operator of torchvision's, declared if it is not there."""
    if not hasattr(torch.ops.torchvision, name):
        (schema,) = (s for s in KEPT["schemas"] if s.startswith(f"{name}("))
        _library.define(schema)
    return getattr(torch.ops.torchvision, name)


def _called(cases: Sequence[dict[str, Any]]) -> tuple[Any, Args]:
    """Cases as one function of all their tensors, and these."""
    places = [a["tensor"] for case in cases for a in case["args"] if isinstance(a, dict)]

    def call(*tensors: torch.Tensor) -> Any:
        rest = iter(tensors)
        return [
            operator(c["op"])(*(next(rest) if isinstance(a, dict) else a for a in c["args"]))
            for c in cases
        ]

    return call, tuple(TENSORS[p].clone() for p in places)


def _same(found: np.ndarray, wanted: torch.Tensor) -> None:
    assert (found.dtype, found.shape) == (wanted.numpy().dtype, tuple(wanted.shape))
    np.testing.assert_allclose(found, wanted.numpy(), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("executor", [f"cpu:{level()}", "triton"])
@pytest.mark.parametrize("op", sorted({case["op"] for case in KEPT["cases"]}))
def test_results_are_those_of_torchvision(op: str, executor: str) -> None:
    cases = [case for case in KEPT["cases"] if case["op"] == op]
    operator(op)
    call, tensors = _called(cases)
    found = EXECUTORS[executor](capture_module(Calls(call), tensors), tensors)
    wanted = [TENSORS[place["tensor"]] for case in cases for place in case["results"]]
    for array, kept in zip(found, wanted, strict=True):
        _same(array, kept)


def test_regions_without_any_are_no_results() -> None:
    none = TENSORS[KEPT["cases"][2]["args"][1]["tensor"]][:0]
    x = TENSORS[KEPT["cases"][2]["args"][0]["tensor"]]
    assert VISION["torchvision.roi_align"](x, none, 1.0, 2, 2, -1, True).shape == (0, 4, 2, 2)
    assert VISION["torchvision.roi_pool"](x, none, 1.0, 2, 2)[0].shape == (0, 4, 2, 2)
    kept = VISION["torchvision.nms"](torch.zeros(0, 4), torch.zeros(0), 0.5)
    assert (kept.shape, kept.dtype) == ((0,), torch.int64)


def test_every_operator_has_kept_results() -> None:
    assert {f"torchvision.{case['op']}" for case in KEPT["cases"]} == set(VISION)
