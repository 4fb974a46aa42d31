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
from torch.export import Dim
from torch.utils import _pytree as pytree

from aot.api import package
from aot.errors import ExportError
from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.frontend.sizes import labels_of
from tests.calls import Calls


@dataclasses.dataclass
class Pair:
    """Two tensors; torch has never seen the class."""

    left: torch.Tensor
    right: Any


@pytest.mark.parametrize(
    "shapes",
    [
        (Pair({0: Dim("n")}, Pair(None, {0: Dim("m")})), {0: Dim("k")}),
        ({"left": {0: Dim("n")}, "right": {"right": {0: Dim("m")}}}, {0: Dim("k")}),
        ([{0: Dim("n")}, [None, {0: Dim("m")}]], {0: Dim("k")}),
    ],
    ids=["objects", "dicts", "lists"],
)
def test_dynamic_shapes_of_objects_are_such_objects_or_dicts(shapes: Any) -> None:
    class Model(torch.nn.Module):
        def forward(self, pair: Pair, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return pair.left + 1, pair.right.left + 1, pair.right.right + 1, y + 1

    example = Pair(torch.ones(3), Pair(torch.ones(4), torch.ones(5))), torch.ones(6)
    graph, _ = ingest(capture_module(Model(), example, dynamic_shapes=shapes))
    labels = labels_of(graph.dims)
    sizes = [graph.types[name].shape[0] for name in graph.inputs]
    assert [str(labels.get(size, size)) for size in sizes] == ["n", "4", "m", "k"]


def test_nothing_is_dynamic_in_a_container_without_shapes() -> None:
    class Model(torch.nn.Module):
        def forward(self, many: Any, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return many["a"][0] + 1, many["a"][1].left + many["a"][1].right, y + 1

    example = {"a": [torch.ones(3), Pair(torch.ones(4), torch.ones(4))]}, torch.ones(6)
    captured = capture_module(Model(), example, dynamic_shapes=(None, {0: Dim("k")}))
    assert [d.label for d in ingest(captured)[0].dims] == ["k"]


@pytest.mark.parametrize("inputs", [1, 2])
def test_shapes_of_collected_inputs_may_be_given_one_by_one(inputs: int) -> None:
    shapes = tuple({0: Dim(name)} for name in "nk"[:inputs])
    example = tuple(torch.ones(3 + k, 2) for k in range(inputs))
    for given in (shapes, (shapes,), {"args": shapes}):
        captured = capture_module(
            Calls(lambda *x: [t + 1 for t in x]), example, dynamic_shapes=given
        )
        graph, _ = ingest(captured)
        labels = labels_of(graph.dims)
        sizes = [graph.types[name].shape[0] for name in graph.inputs]
        assert [str(labels[size]) for size in sizes] == list("nk"[:inputs])


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


class Edge:
    """A class of the model's own, which its author registers with torch without names."""

    def __init__(self, first: torch.Tensor, second: torch.Tensor) -> None:
        self.first, self.second = first, second


pytree.register_pytree_node(
    Edge,
    lambda e: ([e.first, e.second], None),
    lambda parts, _: Edge(*parts),
    serialized_type_name="tests.Edge",
)


def test_registered_classes_go_in_and_come_out_as_tuples(tmp_path: Path) -> None:
    model = loaded(tmp_path, lambda e: Edge(e.first + 1, e.second), Edge(X, X * 2))
    for given in (Edge(X, X * 2), (X, X * 2)):
        np.testing.assert_equal(model(given), (X.numpy() + 1, X.numpy() * 2))
    with pytest.raises(aot_runtime.InvalidArgument, match="must be a tuple of 2 elements, got int"):
        model(3)


def test_model_outputs_of_transformers_go_in_and_out(tmp_path: Path) -> None:
    outputs = pytest.importorskip("transformers.modeling_outputs")

    def applied(given: Any) -> Any:
        return outputs.BaseModelOutput(last_hidden_state=given.last_hidden_state + 1)

    model = loaded(tmp_path, applied, outputs.BaseModelOutput(last_hidden_state=X))
    for given in (outputs.BaseModelOutput(last_hidden_state=X), {"last_hidden_state": X}):
        np.testing.assert_equal(model(given), {"last_hidden_state": X.numpy() + 1})


def test_none_goes_in_and_out(tmp_path: Path) -> None:
    def applied(x: torch.Tensor, mask: torch.Tensor | None) -> Any:
        return x if mask is not None else x + 1, None, {"nothing": None, "x": x}

    found = loaded(tmp_path, applied, X, None)(ONES, None)
    np.testing.assert_equal(found, (ONES + 1, None, {"nothing": None, "x": ONES}))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (slice(0, 2), "slice(0, 2, None)"),
        (slice(None, None, 2), "slice(None, None, 2)"),
        (..., "Ellipsis"),
        (range(2), "range(0, 2)"),
    ],
    ids=str,
)
def test_what_chooses_elements_is_a_constant(tmp_path: Path, value: Any, text: str) -> None:
    model = loaded(tmp_path, lambda x, at: x[list(at) if isinstance(at, range) else at], X, value)
    expected = X.numpy()[list(value) if isinstance(value, range) else value]
    for given in (value, text):
        np.testing.assert_array_equal(model(X.numpy(), given), expected)
    with pytest.raises(aot_runtime.InvalidArgument, match="but the model was packaged with"):
        model(X.numpy(), slice(1, 2))


def test_slices_and_numbers_in_containers_are_constants(tmp_path: Path) -> None:
    def applied(x: torch.Tensor, d: dict[str, Any]) -> torch.Tensor:
        return x[d["where"][0]] * d["factor"] + (1 if d["more"] else 0)

    where = {"where": [slice(1, 3)], "factor": 2.5, "more": True}
    model = loaded(tmp_path, applied, X, where)
    np.testing.assert_array_equal(model(X.numpy(), where), X.numpy()[1:3] * 2.5 + 1)
    with pytest.raises(aot_runtime.InvalidArgument, match="packaged with True"):
        model(X.numpy(), {**where, "more": False})


def test_complex_numbers_go_in_as_constants_and_out_as_tensors(tmp_path: Path) -> None:
    model = loaded(tmp_path, lambda x, c: (x * c, c * 2), X, 1 + 2j)
    product, double = model(X.numpy(), 1 + 2j)
    np.testing.assert_allclose(product, X.numpy() * (1 + 2j))
    assert (double.dtype, double.shape, double[()]) == (np.complex128, (), 2 + 4j)
    with pytest.raises(aot_runtime.InvalidArgument, match=r"packaged with '\(1\+2j\)'"):
        model(X.numpy(), 2 + 2j)


def test_types_enumerations_and_text_come_out_as_text(tmp_path: Path) -> None:
    def applied(x: torch.Tensor, dtype: torch.dtype) -> Any:
        return x.to(dtype), dtype, Mode.ADD, "done", True, 2.5, slice(0, 1)

    found = loaded(tmp_path, applied, X, torch.float64)(ONES, torch.float64)
    assert found[0].dtype == np.float64
    assert found[1:] == ("torch.float64", "ADD", "done", True, 2.5, "slice(0, 1, None)")


def test_bools_and_complex_numbers_may_be_tensors_without_dimensions(tmp_path: Path) -> None:
    def applied(x: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> Any:
        return torch.where(b, x, -x), b.logical_not(), c * 1j

    model = loaded(tmp_path, applied, X, torch.tensor(True), torch.tensor(1 + 2j))
    found = model(X.numpy(), np.array(False), np.array(3j, np.complex64))
    np.testing.assert_equal(found, (-X.numpy(), np.array(True), np.array(-3, np.complex64)))


def test_the_module_is_left_as_it_was(tmp_path: Path) -> None:
    module = Calls(lambda x, at: x[at])
    package(module, (X, slice(0, 2)), path=tmp_path / "m.pkg")
    assert "forward" not in vars(module)


def test_an_argument_that_no_package_holds_is_named(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"args_1\['k'\]\[0\] is a object, which"):
        loaded(tmp_path, lambda x, d: x * len(d), X, {"k": [object()]})
