"""Requests and answers of the protocol, and what is said of wrong ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aot_runtime
import numpy as np
import pytest
from aot_runtime.integrations.open_inference import DTYPES, metadata, read_request, write_answer

ONE = {"name": "x", "datatype": "FP32", "shape": [2, 2], "data": [1, 2, 3, 4]}


@pytest.mark.parametrize("datatype", DTYPES)
def test_a_request_comes_back_as_an_answer(datatype: str) -> None:
    values = [True, False] if datatype == "BOOL" else [0, 100]
    given = {"name": "x", "datatype": datatype, "shape": [2, 1], "data": values}
    arrays = read_request({"inputs": [given]})
    assert arrays["x"].dtype == DTYPES[datatype]
    answer = json.loads(json.dumps(write_answer("m", arrays, "7")))
    assert answer == {"model_name": "m", "id": "7", "outputs": [given]}


def test_data_may_be_nested() -> None:
    arrays = read_request({"inputs": [{**ONE, "data": [[1, 2], [3, 4]]}]})
    np.testing.assert_array_equal(arrays["x"], [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (None, "array 'inputs'"),
        ({"inputs": "x"}, "array 'inputs'"),
        ({"inputs": [3]}, r"inputs\[0\] has no name"),
        ({"inputs": [{**ONE, "datatype": "BF16"}]}, "'BF16' is none of BOOL"),
        ({"inputs": [{**ONE, "datatype": None}]}, "None is none of"),
        ({"inputs": [{**ONE, "shape": [3, 2]}]}, "input 'x': cannot reshape"),
        ({"inputs": [{**ONE, "shape": 4}]}, "needs 'shape' and 'data'"),
        ({"inputs": [{**ONE, "data": ["a", 1, 2, 3]}]}, "input 'x': could not convert"),
        ({"inputs": [{k: v for k, v in ONE.items() if k != "data"}]}, "needs 'shape' and 'data'"),
        ({"inputs": [{**ONE, "datatype": "INT8", "data": [300, 0, 0, 0]}]}, "input 'x'"),
    ],
)
def test_what_is_no_request_is_said(body: Any, message: str) -> None:
    with pytest.raises(aot_runtime.InvalidArgument, match=message):
        read_request(body)


def test_metadata_is_the_contract(package: Path) -> None:
    told = metadata("relu", aot_runtime.load(package))
    assert told["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    assert told["outputs"][0]["shape"] == [-1, 4]
