"""The service as an ASGI application: `/v1/embeddings`, `/v1/models`, `/health`.

Other parts of OpenAI's protocol are further rows of `Service.routes`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any
from urllib.parse import unquote

from aot_runtime.errors import AotError, InvalidArgument, ShapeMismatch

from .batches import Batches, Full
from .encoder import Encoder
from .protocol import ApiError, EmbeddingsRequest, answer, model_row, read_request

log = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

MOST_BODY = 16 << 20
BODY_SECONDS = 30.0
MOST_WAITING = 8192
QUICK_CHARACTERS = 4000
"""Texts up to that are tokenized at once; others in a thread, while others are answered."""


def application(
    encoders: Sequence[Encoder], sessions: int | None = None, most_waiting: int = MOST_WAITING
) -> Application:
    """The service of these encoders.

    Args:
        encoders: Each under its name.
        sessions: Runs at the same time, of each encoder; None: one for every core, at most 4.
        most_waiting: Rows that may wait before requests are told 503.

    Raises:
        InvalidArgument: Two have one name.
    """
    names = [encoder.name for encoder in encoders]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidArgument(f"two models are called '{twice}': give one another name")
    count = sessions or min(4, len(os.sched_getaffinity(0)))
    return Service({e.name: Batches(e, count, most_waiting) for e in encoders})


class Service:
    """Answers requests; made by `application`."""

    def __init__(self, models: dict[str, Batches]) -> None:
        self._models = models
        self._created = int(time.time())
        self.routes: dict[tuple[str, str], Callable[[bytes], Awaitable[bytes]]] = {
            ("GET", "/v1/models"): self._list,
            ("GET", "/health"): self._health,
            ("POST", "/v1/embeddings"): self._embed,
        }

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """One request, or the server's beginning and end."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            kind = (await receive())["type"]
            if kind == "lifespan.shutdown":
                for batches in self._models.values():
                    await asyncio.to_thread(batches.close)
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"application/json")]
        try:
            body = await _body(scope, receive)
            made = await _unless_gone(self._route(scope["method"], scope["path"], body), receive)
            if made is None:
                return
            status, reply = 200, made
        except ApiError as error:
            status, reply = error.status, error.body()
            if status == 503:
                headers.append((b"retry-after", b"1"))
            log.info("%s %s: %d %s", scope["method"], scope["path"], status, error.message)
        headers.append((b"content-length", str(len(reply)).encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": reply})

    async def _route(self, method: str, path: str, body: bytes) -> bytes:
        found = self.routes.get((method, path))
        if found is not None:
            return await found(body)
        prefix = "/v1/models/"
        if method == "GET" and path.startswith(prefix):
            name = unquote(path.removeprefix(prefix))
            self._model(name)
            return json.dumps(model_row(name, self._created)).encode()
        allowed = ", ".join(known for known, at in self.routes if at == path)
        if allowed:
            raise ApiError(405, f"{path} takes {allowed}, not {method}")
        raise ApiError(404, f"there is no {path}; there are /v1/embeddings, /v1/models, /health")

    async def _health(self, _body: bytes) -> bytes:
        return b'{"status": "ok"}'

    async def _list(self, _body: bytes) -> bytes:
        rows = [model_row(name, self._created) for name in self._models]
        return json.dumps({"object": "list", "data": rows}).encode()

    def _model(self, name: str) -> Batches:
        """The model of that name.

        Raises:
            ApiError: There is none.
        """
        if name not in self._models:
            have = ", ".join(self._models)
            told = f"the model '{name}' does not exist; there are: {have}"
            raise ApiError(404, told, "model", "model_not_found")
        return self._models[name]

    async def _embed(self, body: bytes) -> bytes:
        request = read_request(body)
        batches = self._model(request.model)
        encoder = batches.encoder
        if request.dimensions not in (None, encoder.width):
            raise ApiError(400, f"vectors of this model have {encoder.width} numbers", "dimensions")
        rows = await _rows(encoder, request)
        for position, row in enumerate(rows):
            fault = encoder.fault(row)
            if fault is not None:
                code = "context_length_exceeded" if "at most" in fault else None
                raise ApiError(400, f"input {position}: {fault}", "input", code)
        try:
            vectors = await batches.embed(rows)
        except Full as error:
            kind = "server_error"
            raise ApiError(503, "too many texts wait; try again", None, "full", kind) from error
        except (InvalidArgument, ShapeMismatch) as error:
            raise ApiError(400, str(error), "input") from error
        except AotError as error:
            raise ApiError(500, str(error), None, error.code, "server_error") from error
        return answer(request, vectors, [len(row) for row in rows])


async def _rows(encoder: Encoder, request: EmbeddingsRequest) -> Sequence[Sequence[int]]:
    if request.tokens:
        return request.tokens
    if sum(map(len, request.texts)) <= QUICK_CHARACTERS:
        return encoder.tokens(request.texts)
    return await asyncio.to_thread(encoder.tokens, request.texts)


async def _body(scope: Message, receive: Receive) -> bytes:
    """The request's body.

    Raises:
        ApiError: It is too large (413), too slow (408), or ends within (400).
    """
    declared = dict(scope["headers"]).get(b"content-length", b"0")
    if declared.isdigit() and int(declared) > MOST_BODY:
        raise ApiError(413, f"the body has more than {MOST_BODY} bytes")
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ApiError(400, "the body ends before it is whole")
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > MOST_BODY:
                    raise ApiError(413, f"the body has more than {MOST_BODY} bytes")
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError as error:
        raise ApiError(408, f"the body took more than {BODY_SECONDS:.0f} s") from error


async def _unless_gone(work: Awaitable[bytes], receive: Receive) -> bytes | None:
    """What the work gives; None where the client goes away before, and the work with it."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(receive())
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        for one in (task, gone):
            one.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)
