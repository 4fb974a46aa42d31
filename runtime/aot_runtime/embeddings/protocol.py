"""OpenAI's messages: what a request asks for, what an answer and an error look like."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_INPUTS = 2048
"""Texts of one request, as OpenAI has it."""

ENCODINGS = ("float", "base64")


class ApiError(Exception):
    """An answer other than 200.

    Attributes:
        status: Of HTTP.
        message: What is wrong, and what to do.
        param: The field at fault, if it is one.
        code: A word for programs.
        kind: OpenAI's `type` of the error.
    """

    def __init__(
        self,
        status: int,
        message: str,
        param: str | None = None,
        code: str | None = None,
        kind: str = "invalid_request_error",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code
        self.kind = kind

    def body(self) -> bytes:
        """The answer's JSON."""
        told = {
            "message": self.message,
            "type": self.kind,
            "param": self.param,
            "code": self.code,
        }
        return json.dumps({"error": told}).encode()


@dataclass(frozen=True)
class EmbeddingsRequest:
    """What `POST /v1/embeddings` asks for.

    Attributes:
        model: The model's name.
        texts: The texts, or
        tokens: the rows of tokens; one of the two is empty.
        base64: Whether vectors come as bytes.
        dimensions: Numbers of a vector that are wanted; None: the model's.
    """

    model: str
    texts: tuple[str, ...]
    tokens: tuple[tuple[int, ...], ...]
    base64: bool
    dimensions: int | None


def read_request(body: bytes) -> EmbeddingsRequest:
    """The request of a body.

    Raises:
        ApiError: It is no such request; 400, with the field at fault.
    """
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"the body is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise ApiError(400, "the body must be an object")
    model = fields.get("model")
    if not isinstance(model, str):
        raise ApiError(400, "'model' must be the name of a model (GET /v1/models)", "model")
    encoding = fields.get("encoding_format", "float")
    if encoding not in ENCODINGS:
        raise ApiError(400, "'encoding_format' must be float or base64", "encoding_format")
    dimensions = fields.get("dimensions")
    if dimensions is not None and (not _is_int(dimensions) or dimensions < 1):
        raise ApiError(400, "'dimensions' must be a positive integer", "dimensions")
    texts, tokens = _inputs(fields.get("input"))
    return EmbeddingsRequest(model, texts, tokens, encoding == "base64", dimensions)


def _inputs(value: Any) -> tuple[tuple[str, ...], tuple[tuple[int, ...], ...]]:
    """Texts and rows of tokens; one of them is empty.

    Raises:
        ApiError: The value is neither.
    """
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list) and value and all(map(_is_int, value)):
        value = [value]
    if not isinstance(value, list) or not value:
        raise ApiError(
            400, "'input' must be a text, a list of texts, tokens, or a list of those", "input"
        )
    if len(value) > MOST_INPUTS:
        raise ApiError(400, f"'input' has {len(value)} items, at most {MOST_INPUTS}", "input")
    if all(isinstance(item, str) for item in value):
        if "" in value:
            raise ApiError(400, f"input {value.index('')} is an empty text", "input")
        return tuple(value), ()
    if all(isinstance(item, list) and item and all(map(_is_int, item)) for item in value):
        return (), tuple(map(tuple, value))
    raise ApiError(400, "'input' must hold texts alone, or lists of tokens alone", "input")


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def answer(
    request: EmbeddingsRequest, vectors: NDArray[np.float32], lengths: Sequence[int]
) -> bytes:
    """The answer's JSON: a vector for each input, and how many tokens they had."""
    told: list[Any]
    if request.base64:
        rows = np.ascontiguousarray(vectors, "<f4")
        told = [base64.b64encode(row.tobytes()).decode() for row in rows]
    else:
        told = vectors.tolist()
    data = [
        {"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(told)
    ]
    count = sum(lengths)
    return json.dumps(
        {
            "object": "list",
            "data": data,
            "model": request.model,
            "usage": {"prompt_tokens": count, "total_tokens": count},
        }
    ).encode()


def model_row(name: str, created: int) -> dict[str, Any]:
    """A model as `/v1/models` tells of it."""
    return {"id": name, "object": "model", "created": created, "owned_by": "aot-package"}
