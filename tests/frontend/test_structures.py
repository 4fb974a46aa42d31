"""Containers and constants among arguments and results: what packages hold, and what they say."""

import collections
import dataclasses
import enum
from pathlib import Path
from typing import Any

import aot_runtime
import numpy as np
import pytest
import torch

from aot.api import package
from aot.errors import ExportError
from tests.calls import Calls


@dataclasses.dataclass
class Pair:
    """Two tensors; torch has never seen the class."""

    left: torch.Tensor
    right: Any


class Mode(enum.Enum):
    """A constant of the model's own."""

    ADD = 1
    MULTIPLY = 2


def loaded(folder: Path, function: Any, *args: Any, **options: Any) -> Any:
    path = folder / "m.pkg"
    package(Calls(function), args, path=path, **options)
    return aot_runtime.load(path)


X = torch.arange(3.0)
ONES = np.ones(3, np.float32)


def test_dataclasses_go_in_and_out(tmp_path: Path) -> None:
    def swapped(pair: Pair) -> Pair:
        return Pair(pair.right.left + 1, Pair(pair.left, pair.right.right))

    model = loaded(tmp_path, swapped, Pair(X, Pair(X * 2, X * 3)))
    expected = {"left": X.numpy() * 2 + 1, "right": {"left": X.numpy(), "right": X.numpy() * 3}}
    nested = {"left": X, "right": {"left": X * 2, "right": X * 3}}
    for given in (Pair(X, Pair(X * 2, X * 3)), nested):
        np.testing.assert_equal(model(given), expected)
    with pytest.raises(aot_runtime.InvalidArgument, match=r"keys \['left', 'right'\], got"):
        model({"left": X})


def test_named_tuples_of_a_function_are_tuples(tmp_path: Path) -> None:
    point = collections.namedtuple("point", "x y")
    model = loaded(tmp_path, lambda p: point(p.y, p.x + 1), point(X, X * 2))
    np.testing.assert_equal(model((X, X * 2)), (X.numpy() * 2, X.numpy() + 1))


def test_keys_of_dicts_may_be_numbers(tmp_path: Path) -> None:
    model = loaded(tmp_path, lambda d: {7: d[1] + 1, "sum": d[1] + d[2]}, {1: X, 2: X})
    np.testing.assert_equal(model({1: X, 2: X}), {7: X.numpy() + 1, "sum": X.numpy() * 2})


def test_members_of_enumerations_are_constants(tmp_path: Path) -> None:
    def applied(x: torch.Tensor, mode: Mode) -> torch.Tensor:
        return x + 1 if mode is Mode.ADD else x * 2

    model = loaded(tmp_path, applied, X, Mode.MULTIPLY)
    for mode in (Mode.MULTIPLY, "MULTIPLY"):
        np.testing.assert_array_equal(model(ONES, mode), ONES * 2)
    with pytest.raises(aot_runtime.InvalidArgument, match="packaged with 'MULTIPLY'"):
        model(ONES, Mode.ADD)


@pytest.mark.parametrize(
    ("value", "kind"), [(slice(0, 2), "slice"), (torch.float64, "dtype"), (object(), "object")]
)
def test_an_argument_that_no_package_holds_is_named(
    tmp_path: Path, value: object, kind: str
) -> None:
    with pytest.raises(ExportError, match=rf"args_1\['k'\]\[0\] is a {kind}, which"):
        loaded(tmp_path, lambda x, d: x * len(d), X, {"k": [value]})
