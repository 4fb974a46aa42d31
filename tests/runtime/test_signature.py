"""A plan's signature that is none is refused as a damaged package, whatever it is."""

from __future__ import annotations

from typing import Any

import pytest
from aot_runtime.errors import CorruptPackage
from aot_runtime.signature import Signature

X = {"name": "x", "kind": "positional", "tree": {"input": 0}}


def signature(parameters: Any, result: Any) -> Signature:
    return Signature({"parameters": parameters, "result": result}, 1, 1)


def test_trees_of_every_kind_are_read() -> None:
    tree = {
        "dict": [["a", {"tuple": [{"output": 0}, {"constant": [1, None]}]}], ["b", {"list": []}]]
    }
    read = signature([X], tree)
    assert str(read) == "(x)"
    assert read.unflatten([7]) == {"a": (7, [1, None]), "b": []}


def test_only_positional_inputs_in_their_order_need_no_walk() -> None:
    keyword = {**X, "kind": "keyword"}
    flag = {"name": "flag", "kind": "positional", "tree": {"constant": True}}
    assert signature([X, flag], {"output": 0}).plain == 1
    for parameters in ([flag, X], [keyword], [{**X, "tree": {"list": [{"input": 0}]}}]):
        assert signature(parameters, {"output": 0}).plain == -1


@pytest.mark.parametrize(
    "tree",
    [
        None,
        [],
        "output",
        {},
        {"output": 0, "constant": 1},
        {"output": 1},
        {"output": -1},
        {"output": True},
        {"output": "0"},
        {"set": []},
        {7: []},
        {"tuple": "abc"},
        {"tuple": {"output": 0}},
        {"list": [[]]},
        {"dict": {"a": {"output": 0}}},
        {"dict": [["a"]]},
        {"dict": [["a", {"output": 0}, 1]]},
        {"dict": [[1.5, {"output": 0}]]},
        {"dict": [[True, {"output": 0}]]},
        {"dict": [["a", 3]]},
    ],
    ids=repr,
)
def test_what_is_no_tree_is_refused(tree: Any) -> None:
    for parameters, result in (([X], tree), ([{**X, "tree": tree}], {"output": 0})):
        with pytest.raises(CorruptPackage, match=r"plan\.signature"):
            signature(parameters, result)


@pytest.mark.parametrize(
    "parameters",
    [None, 3, [None], ["x"], [{}], [{**X, "kind": []}], [{**X, "kind": "any"}], [{**X, "name": 1}]],
    ids=repr,
)
def test_what_is_no_parameter_is_refused(parameters: Any) -> None:
    with pytest.raises(CorruptPackage, match=r"plan\.signature"):
        signature(parameters, {"output": 0})
