import json
from typing import Any

import numpy as np
import pytest
from aot_runtime.embeddings.protocol import ApiError, answer, read_request


def read(**fields: Any) -> Any:
    return read_request(json.dumps({"model": "m", "input": "a", **fields}).encode())


def test_inputs_of_every_kind() -> None:
    assert read(input="a b").texts == ("a b",)
    assert read(input=["a", "b"]).texts == ("a", "b")
    assert read(input=[1, 2]).tokens == ((1, 2),)
    assert read(input=[[1, 2], [3]]).tokens == ((1, 2), (3,))
    assert read(encoding_format="base64", dimensions=4).base64
    assert not read(user="someone").base64


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": None}, "model"),
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": ""}, "input"),
        ({"input": ["a", ""]}, "input"),
        ({"input": ["a", 1]}, "input"),
        ({"input": [[1], []]}, "input"),
        ({"input": [True]}, "input"),
        ({"input": ["a"] * 2049}, "input"),
        ({"encoding_format": "hex"}, "encoding_format"),
        ({"dimensions": 0}, "dimensions"),
        ({"dimensions": True}, "dimensions"),
    ],
)
def test_the_field_at_fault_is_named(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as caught:
        read(**fields)
    told = json.loads(caught.value.body())["error"]
    assert caught.value.status == 400
    assert (told["type"], told["param"]) == ("invalid_request_error", param) and told["message"]


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"\xff", b"[" * 100_000])
def test_bodies_that_are_no_request(body: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        read_request(body)
    assert caught.value.status == 400


def test_answers() -> None:
    vectors = np.array([[1, 0.5], [0, -1]], np.float32)
    told = json.loads(answer(read(), vectors, [3, 4]))
    assert [row["embedding"] for row in told["data"]] == vectors.tolist()
    assert told["usage"] == {"prompt_tokens": 7, "total_tokens": 7}
    told = json.loads(answer(read(encoding_format="base64"), vectors, [3, 4]))
    assert told["data"][0]["embedding"] == "AACAPwAAAD8="
