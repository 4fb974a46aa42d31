"""Packages on Ray Serve: batches, shares of GPUs, replicas that come and go.

>>> from ray import serve
>>> from aot_runtime.integrations.ray import Client, Scale, application
>>> handle = serve.run(application("/models/mlp.pkg", scale=Scale(replicas=(1, 8))))
>>> Client(handle).infer({"input": x})  # over HTTP: the Open Inference Protocol's JSON

The file must be at that path on every node that may have a replica.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aot_runtime.errors import AotError, InvalidArgument
from aot_runtime.format.devices import GPU, HOST
from aot_runtime.model import load

from .batches import Arrays, JoinedCalls
from .open_inference import metadata, read_request, write_answer

try:
    from ray import serve
    from ray.exceptions import (
        ObjectLostError,
        RayActorError,
        RayTaskError,
        WorkerCrashedError,
    )
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
except ImportError as error:
    raise ImportError(
        "aot_runtime.integrations.ray needs Ray Serve: pip install 'ray[serve]'"
    ) from error

LOST = (RayActorError, WorkerCrashedError, ObjectLostError)
"""What a call meets whose replica has died: it can be asked of another."""


@dataclass(frozen=True)
class Scale:
    """How many replicas there are, and what each is given.

    Attributes:
        replicas: Their number; or the least and the most, between which Ray adds and removes them.
        cpus: Processors of one; a run uses as many threads (at least one).
        gpus: The share of a GPU of one: four replicas of 0.25 fit on one, each with its session.
        ongoing: Calls that one replica takes at a time; further ones wait, or go to another.
        target: Calls of a replica at which Ray adds another, where their number may change.
    """

    replicas: int | tuple[int, int] = 1
    cpus: float = 1.0
    gpus: float = 0.0
    ongoing: int = 64
    target: float = 8.0


class Replica:
    """One session of a package, as Ray makes it.

    Args:
        path: The package.
        name: The model's name in requests and answers.
        device: "cpu", or "cuda" for the GPU that Ray gives.
        num_threads: Of a run.
        max_batch_size: Calls that are run together, and rows of one run.
        batch_wait_s: How long the first call of a batch waits for others.
    """

    def __init__(
        self,
        path: str,
        name: str,
        device: str,
        num_threads: int,
        max_batch_size: int,
        batch_wait_s: float,
    ) -> None:
        self._name = name
        self._model = load(path, device, num_threads=num_threads)
        self._batches = JoinedCalls(self._model, max_batch_size)
        self._batched.set_max_batch_size(max_batch_size)
        self._batched.set_batch_wait_timeout_s(batch_wait_s)

    async def infer(self, inputs: Mapping[str, Any]) -> Arrays:
        """The outputs by name for inputs by name.

        Raises:
            AotError: what is wrong with this call; others of its batch are not harmed.
        """
        result: Arrays | AotError = await self._batched(inputs)
        if isinstance(result, AotError):
            raise result
        return result

    @serve.batch
    async def _batched(self, calls: list[Mapping[str, Any]]) -> list[Arrays | AotError]:
        return await asyncio.to_thread(self._batches.run, calls)

    async def __call__(self, request: Request) -> Response:
        """Answers HTTP: `POST …/infer`, `GET …` for metadata, `GET …/ready`."""
        path = request.url.path.rstrip("/")
        if request.method == "GET":
            ready = {"ready": True}
            told = ready if path.endswith("/ready") else metadata(self._name, self._model)
            return JSONResponse(told)
        if request.method != "POST" or not path.endswith("/infer"):
            return JSONResponse({"error": f"nothing answers {request.method} {path}"}, 404)
        try:
            body = await _json(request)
            outputs = await self.infer(read_request(body))
        except AotError as error:
            status = 400 if isinstance(error, ValueError) else 500
            return JSONResponse({"error": str(error), "code": error.code}, status)
        # As other servers of the protocol do, NaN is written as such.
        text = json.dumps(write_answer(self._name, outputs, str(body.get("id", ""))))
        return Response(text, media_type="application/json")

    async def process(self) -> int:
        """The replica's process, to see who answers."""
        return os.getpid()


async def _json(request: Request) -> Any:
    try:
        return await request.json()
    except ValueError as error:
        raise InvalidArgument(f"the body is no JSON: {error}") from error


def application(
    path: str | os.PathLike[str],
    *,
    name: str = "model",
    device: str | None = None,
    scale: Scale | None = None,
    max_batch_size: int = 16,
    batch_wait_s: float = 0.002,
) -> serve.Application:
    """The application of one package, for `serve.run` or a Serve config file.

    Args:
        path: The package, as every node finds it; a relative one begins in this program's folder.
        name: The model's name, and the deployment's.
        device: None: "cuda" where the scale has a share of a GPU, else "cpu".
        scale: Replicas and what they are given.
        max_batch_size: Calls that are run together at most, and rows of one run.
        batch_wait_s: How long the first call of a batch waits for others.
    """
    wanted = scale or Scale()
    options: dict[str, Any] = {
        "name": name,
        "max_ongoing_requests": wanted.ongoing,
        "ray_actor_options": {"num_cpus": wanted.cpus, "num_gpus": wanted.gpus},
    }
    if isinstance(wanted.replicas, int):
        options["num_replicas"] = wanted.replicas
    else:
        least, most = wanted.replicas
        options["autoscaling_config"] = {
            "min_replicas": least,
            "max_replicas": most,
            "target_ongoing_requests": wanted.target,
        }
    where = device or (GPU if wanted.gpus else HOST)
    threads = max(1, round(wanted.cpus))
    deployment = serve.deployment(**options)(Replica)
    # Replicas have other folders than this program.
    place = str(Path(path).absolute())
    return deployment.bind(place, name, where, threads, max_batch_size, batch_wait_s)


class Client:
    """Asks a deployment, and asks again where a replica died with the call.

    A model without states gives the same answer whoever computes it, so that nothing is harmed by
    a call that ran twice. An error of the model itself is raised at once.

    Args:
        handle: What `serve.run` gives.
        attempts: How often one call is asked for.
        wait_s: Before it is asked for again; twice as long each time.
        timeout_s: For one attempt; None: as long as it takes.
    """

    def __init__(
        self, handle: Any, attempts: int = 5, wait_s: float = 0.1, timeout_s: float | None = 60.0
    ) -> None:
        self._handle = handle
        self._attempts = attempts
        self._wait_s = wait_s
        self._timeout_s = timeout_s

    def infer(self, inputs: Mapping[str, Any]) -> Arrays:
        """The outputs by name for inputs by name."""
        for attempt in range(self._attempts):
            try:
                asked = self._handle.infer.remote(inputs)
                outputs: Arrays = asked.result(timeout_s=self._timeout_s)
            except RayTaskError as error:
                # Ray's message is the traceback of the replica; the model's own says what is wrong.
                raise (error.cause if isinstance(error.cause, AotError) else error) from None
            except LOST:
                if attempt + 1 == self._attempts:
                    raise
                time.sleep(self._wait_s * 2**attempt)
            else:
                return outputs
        raise InvalidArgument(f"attempts is {self._attempts}, must be at least 1")
