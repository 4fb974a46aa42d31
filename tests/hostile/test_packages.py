"""The packages that the mutator changes are what their models compute, before it changes them."""

from __future__ import annotations

from pathlib import Path

import aot_runtime
import numpy as np
import pytest
import torch

from tests.hostile.packages import build, cases


@pytest.mark.parametrize("name", ["mlp_batch", "scan_rows", "nonzero"])
def test_packages_run(name: str, tmp_path: Path) -> None:
    (path,) = build(tmp_path, (name,))
    case = cases()[name]
    torch.manual_seed(0)
    expected = case.model().eval()(*case.inputs)
    found = aot_runtime.load(path)(*(x.numpy() for x in case.inputs))
    flat = expected if isinstance(expected, tuple) else (expected,)
    for left, right in zip(found if isinstance(found, tuple) else (found,), flat, strict=True):
        np.testing.assert_allclose(left, right.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_packages_that_are_there_are_not_built_again(tmp_path: Path) -> None:
    (tmp_path / "mlp.pkg").write_bytes(b"as it is")
    (path,) = build(tmp_path, ("mlp",))
    assert path.read_bytes() == b"as it is"
