"""Convolutions of dynamic sizes round to TF32 where eager does: each size has its own function."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

from aot import package
from aot.backends.base import EmittedGraph
from aot.frontend.capture import Captured
from aot.symbolic import dim, evaluate
from tests.backends.triton.templates import captured, emitted
from tests.backends.triton.test_template_conv import nearest
from tests.calls import Calls
from tests.conformance.executors import interpret_triton
from tests.settings import seeded

SIDES = 8, 9
ROUNDED_FROM = 4
"""Images."""


@pytest.fixture(autouse=True)
def rounding(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As torch is set by default, and small problems rounded: those of so many images."""
    each = 2 * 40 * 6 * 7 * 24 * 9
    monkeypatch.setattr("aot.ir.templates.conv_rounding.ROUNDED_FLOPS", ROUNDED_FROM * each)
    torch.backends.cudnn.allow_tf32 = True
    yield
    torch.backends.cudnn.allow_tf32 = False


def weight() -> torch.Tensor:
    return torch.randn(40, 24, 3, 3, generator=torch.Generator().manual_seed(seeded()))


def images(count: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seeded(count))
    return torch.randn(count, 24, *SIDES, generator=generator)


def model(hint: int) -> Captured:
    """A convolution packaged for so many images."""
    kept, dims = weight(), ({0: Dim("n", min=1, max=1 << 12)},)
    return captured(lambda x: F.conv2d(x, kept), (images(hint),), dims)


def rounded_functions(source: EmittedGraph) -> set[str]:
    return {f.name for f in source.functions if "PRECISION='tf32'" in f.text.replace('"', "'")}


def ran(source: EmittedGraph, count: int) -> list[str]:
    (n,) = (dim(d.name) for d in source.graph.dims)
    kernels = [la for la in source.launches if evaluate(la.when, {n: count})]
    assert len(kernels) == len({la.kernel for la in source.launches})
    return [la.function for la in kernels]


@pytest.mark.parametrize("hint", [2, 16])
def test_each_size_is_as_exact_as_eager(hint: int) -> None:
    """Wherever the example is; a weight and an input in memory serve both."""
    program = model(hint)
    source = emitted(program)
    (decision,) = [d for d in source.graph.decisions if d.stage == "precision"]
    assert decision.verdict.startswith("tf32 where ")
    assert any("x and w nearly rounded before" in d.verdict for d in source.graph.decisions)
    rounded = rounded_functions(source)
    exactly = weight().double()
    for count in (1, ROUNDED_FROM - 1, ROUNDED_FROM, 9):
        x = images(count)
        (found,) = interpret_triton(program, (x,))
        near = F.conv2d(nearest(x), nearest(weight())).numpy()
        exact = F.conv2d(x.double(), exactly).numpy()
        scale = np.abs(exact).max()
        many = count >= ROUNDED_FROM
        assert bool(rounded.intersection(ran(source, count))) == many
        wanted, other = (near, exact) if many else (exact, near)
        assert np.abs(found - wanted).max() < 2e-6 * scale < np.abs(found - other).max()


def test_functions_of_either_kind_are_packaged(tmp_path: Path) -> None:
    """Conditions of launches are shown to be 1 or 0, and assemblers take what lowers operands."""
    kept, dims = weight(), (({0: Dim("n", min=1)},),)
    module, path = Calls(lambda x: F.conv2d(x, kept)), tmp_path / "model.pkg"
    for hint in (2, 16):
        example = (images(hint),)
        source = emitted(captured(module, example, dims[0]))
        names = {launch.function for launch in source.launches}
        assert names > rounded_functions(source) > set()
        package(
            module, example, path=path, targets=["cuda:sm_90"], dynamic_shapes=dims, golden=False
        )


def test_infinity_survives_in_both() -> None:
    program = model(2)
    for count in (1, 9):
        x = images(count)
        x[0, 3, 4, 4] = float("inf")
        x[0, 5, 1, 1] = float("nan")
        (found,) = interpret_triton(program, (x,))
        expected = F.conv2d(x, weight()).numpy()
        np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
        np.testing.assert_array_equal(np.isinf(found), np.isinf(expected))


def test_static_sizes_have_one_kind() -> None:
    for count, kind in ((1, set()), (9, {"tf32"})):
        kept = weight()
        source = emitted(captured(lambda x, w=kept: F.conv2d(x, w), (images(count),)))
        found = {d.verdict for d in source.graph.decisions if d.stage == "precision"}
        assert found == kind
        assert not any("nearly" in d.verdict for d in source.graph.decisions)
