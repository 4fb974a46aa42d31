"""A local Ray of four workers answers 2,000 requests while one of them is killed.

Run by test_ray.py in an environment with Ray: `python ray_cluster.py PACKAGE PROCESS`, where the
package is relu(x * w) of tests/kernels.py, and Ray is a child of the process. Prints what it saw
as JSON; fails on a wrong answer.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import ray
from aot_runtime.errors import ShapeMismatch
from aot_runtime.integrations.ray import Client, Scale, application
from ray import serve

WEIGHT = np.array([1.0, -2.0, 0.5, 3.0], np.float32)
REQUESTS = 2000
WORKERS = 4
KILL_AT = 600
PATIENCE_S = 240
"""For what only takes long on a loaded machine: an answer, a process that starts."""


def parents() -> dict[int, int]:
    """Every process and its parent."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = (folder / "stat").read_text()
        except OSError:
            continue  # it has ended
        found[int(folder.name)] = int(status.rsplit(")", 1)[1].split()[1])
    return found


def replicas() -> list[int]:
    """The processes of replicas that the test's Ray has started."""
    tree = parents()
    head = int(sys.argv[2])

    def ours(process: int) -> bool:
        while process > 1:
            if process == head:
                return True
            process = tree.get(process, 0)
        return False

    found = []
    for process in tree:
        try:
            title = Path(f"/proc/{process}/cmdline").read_bytes()
        except OSError:
            continue
        if title.startswith(b"ray::ServeReplica") and ours(process):
            found.append(process)
    return found


def input_of(number: int) -> np.ndarray:
    return np.random.default_rng(number).standard_normal((1 + number % 5, 4), np.float32)


def over_http(port: int, path: str, body: object = None) -> tuple[int, dict[str, object]]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=data)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def check_http(port: int) -> None:
    x = input_of(3)
    one = {"name": "x", "datatype": "FP32", "shape": list(x.shape), "data": x.ravel().tolist()}
    status, answer = over_http(port, "/v2/models/relu/infer", {"id": "7", "inputs": [one]})
    assert (status, answer["id"]) == (200, "7"), answer
    values = np.array(answer["outputs"][0]["data"], np.float32).reshape(x.shape)
    np.testing.assert_array_equal(values, np.maximum(x * WEIGHT, 0))
    assert over_http(port, "/v2/models/relu")[1]["inputs"][0]["shape"] == [-1, 4]
    assert over_http(port, "/v2/health/ready") == (200, {"ready": True})
    for wrong in ({}, {"inputs": []}, {"inputs": [{**one, "shape": [1, 1]}]}):
        status, answer = over_http(port, "/v2/models/relu/infer", wrong)
        assert status == 400 and answer["error"], answer


def main() -> None:
    ray.init(log_to_driver=False)  # RAY_ADDRESS says which
    port = free_port()
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    scale = Scale(replicas=WORKERS, cpus=1.0)
    app = application(sys.argv[1], name="relu", scale=scale, batch_wait_s=0.005)
    handle = serve.run(app, route_prefix="/")
    check_http(port)
    client = Client(handle, timeout_s=PATIENCE_S)
    before = replicas()
    assert len(before) == WORKERS, before
    answered: list[int] = []
    lock = threading.Lock()
    killed = 0

    def ask(number: int) -> None:
        nonlocal killed
        x = input_of(number)
        (y,) = client.infer({"x": x}).values()
        np.testing.assert_array_equal(y, np.maximum(x * WEIGHT, 0))
        with lock:
            answered.append(number)
            if len(answered) == KILL_AT:
                killed = before[0]
                os.kill(killed, signal.SIGKILL)

    begun = time.monotonic()
    with ThreadPoolExecutor(32) as threads:
        list(threads.map(ask, range(REQUESTS)))
    seconds = time.monotonic() - begun
    assert sorted(answered) == list(range(REQUESTS))
    try:
        client.infer({"x": np.zeros((65, 4), np.float32)})
        raise AssertionError("65 rows were taken")
    except ShapeMismatch as error:
        refused = str(error)
    end = time.monotonic() + PATIENCE_S
    while len(replicas()) < WORKERS and time.monotonic() < end:
        time.sleep(0.2)
    after = replicas()
    serve.shutdown()
    ray.shutdown()
    told = {"answered": len(answered), "seconds": round(seconds, 1), "refused": refused}
    print(json.dumps({**told, "killed_is_gone": killed not in after, "replicas_after": len(after)}))


if __name__ == "__main__":
    main()
