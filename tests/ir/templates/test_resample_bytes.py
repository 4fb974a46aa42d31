"""Two resizings of bytes in one call: its meaning, which calls it takes, which images it reads."""

import numpy as np
import pytest

from aot.ir.hints import Hints
from aot.ir.nests import View, numbered_axes
from aot.ir.origin import Origin
from aot.ir.templates import ResampleBytes, Support
from aot.ir.templates.resample import Resample
from aot.ir.templates.resample_bytes import Images
from aot.ir.templates.windows import AxisWindows
from aot.symbolic import integer

SUPPORT = Support(ResampleBytes)


def view(buffer: str, *shape: int) -> View:
    axes = tuple(numbered_axes("i", [integer(n) for n in shape]))
    return View(buffer, axes, tuple(axis.symbol for axis in axes))


def call(name: str, x: View, output: View, axis: int, *, bits: bool = True) -> Resample:
    size, out = (int(v.axes[axis].extent) for v in (x, output))
    windows = AxisWindows(integer(size), integer(2), integer(3))
    tables = (view(f"{name}_starts", out), view(f"{name}_weights", out, 2))
    place = view(f"{name}_bits") if bits else None
    return Resample(name, output, Origin(), x, *tables, axis, windows, bits=place)


X, BETWEEN, Y = view("x", 2, 3, 8, 6), view("between", 2, 3, 8, 4), view("y", 2, 3, 5, 4)


def pair(*, bits: bool = True) -> tuple[Resample, Resample]:
    return call("a", X, BETWEEN, 3, bits=bits), call("b", BETWEEN, Y, 2, bits=bits)


def joined() -> ResampleBytes:
    found = ResampleBytes.joined(*pair(), SUPPORT, lambda _: None)
    assert isinstance(found, ResampleBytes)
    return found


def test_the_inner_axis_first_is_one_call() -> None:
    found = joined()
    assert (found.axis, found.inner, found.x, found.output) == (2, 3, X, Y)
    assert found.inner_weights.buffer == "a_weights"


def test_other_pairs_are_not() -> None:
    assert ResampleBytes.joined(*pair(bits=False), SUPPORT, lambda _: None) is None
    turned = (call("a", X, view("t", 2, 3, 5, 6), 2), call("b", view("t", 2, 3, 5, 6), Y, 3))
    assert "inner axis" in str(ResampleBytes.joined(*turned, SUPPORT, lambda _: None))
    shapes = ((2, 3, 7, 8, 6), (2, 3, 7, 8, 4), (2, 3, 7, 5, 4))
    x, between, y = (view(name, *shape) for name, shape in zip("xby", shapes, strict=True))
    deep = (call("a", x, between, 4), call("b", between, y, 3))
    assert "5 axes" in str(ResampleBytes.joined(*deep, SUPPORT, lambda _: None))


@pytest.mark.parametrize("whole", [True, False], ids=["numerators", "fractions"])
def test_meaning_is_that_of_both_calls(whole: bool) -> None:
    random, bits = np.random.default_rng(1), 9
    x = random.integers(0, 256, (2, 3, 8, 6))
    tables = {}
    for role, size, out in (("inner_", 6, 4), ("", 8, 5)):
        numerators = random.integers(-100, 500, (out, 2))
        tables[f"{role}starts"] = np.sort(random.integers(0, size - 1, out))
        tables[f"{role}weights"] = numerators if whole else numerators / 2.0**bits
        tables[f"{role}bits"] = np.array(bits)
    found = joined().interpret({"x": x, **tables}, (2, 3, 5, 4))
    between = np.zeros((2, 3, 8, 4), np.int64)
    for o, start in enumerate(tables["inner_starts"]):
        weights = np.rint(tables["inner_weights"][o] * (1 if whole else 2**bits)).astype(int)
        between[..., o] = x[..., start : start + 2] @ weights
    between = np.clip((between + 256) >> 9, 0, 255)
    for o, start in enumerate(tables["starts"]):
        weights = np.rint(tables["weights"][o] * (1 if whole else 2**bits)).astype(int)
        rows = np.einsum("nchw,h->ncw", between[:, :, start : start + 2], weights)
        np.testing.assert_array_equal(found[:, :, o], np.clip((rows + 256) >> 9, 0, 255))


@pytest.mark.parametrize(
    ("strides", "expected"),
    [
        ((144, 48, 6, 1), Images(1, None, (0, 1))),
        ((144, 1, 18, 3), Images(3, 1, (0,))),
        ((1, 2, 36, 6), None),  # images side by side: a pixel is of two and of three
        ((144, 48, 1, 8), None),
    ],
)
def test_images_in_memory(strides: tuple[int, ...], expected: Images | None) -> None:
    own = [integer(s) for s in strides]
    assert joined().images(own) == expected
    assert bool(joined().misfit("x", SUPPORT, {"x": own}, Hints({}))) == (expected is None)


def test_tables_are_whole_rows() -> None:
    found = joined()
    assert not found.misfit("weights", SUPPORT, {"weights": (integer(2), integer(1))}, Hints({}))
    assert found.misfit("weights", SUPPORT, {"weights": (integer(3), integer(1))}, Hints({}))
    assert found.misfit("starts", SUPPORT, {"starts": (integer(2),)}, Hints({}))
    assert not found.misfit("bits", SUPPORT, {"bits": ()}, Hints({}))
