"""KServe's server runs a package, and is asked by HTTP (both protocols) and by its gRPC client.

Run by test_kserve.py in an environment with KServe: `python kserve_client.py FOLDER`, where the
folder has relu(x * w) of tests/kernels.py.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from aot_runtime.integrations.kserve import argument_parser
from kserve import InferenceGRPCClient, InferInput, InferRequest

PATIENCE_S = 240
"""For what only takes long on a loaded machine: an answer, a process that starts."""
X = np.arange(8, dtype=np.float32).reshape(2, 4)
EXPECTED = np.maximum(X * np.array([1.0, -2.0, 0.5, 3.0], np.float32), 0)
ONE = {"name": "x", "datatype": "FP32", "shape": [2, 4], "data": X.ravel().tolist()}


def free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def ask(port: int, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def wait(server: subprocess.Popen[bytes], port: int) -> None:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and server.poll() is None:
        try:
            if ask(port, "/v2/models/relu/ready")[0] == 200:
                return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(f"the server does not get ready: {server.poll()}")


def check_http(port: int) -> None:
    _, told = ask(port, "/v2/models/relu")
    assert told["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}], told
    status, answer = ask(port, "/v2/models/relu/infer", {"id": "7", "inputs": [ONE]})
    assert (status, answer["id"]) == (200, "7"), answer
    np.testing.assert_array_equal(answer["outputs"][0]["data"], EXPECTED.ravel())
    status, answer = ask(port, "/v1/models/relu:predict", {"instances": X.tolist()})
    assert (status, answer["predictions"]) == (200, EXPECTED.tolist()), answer
    for wrong, part in (
        ({**ONE, "shape": [1, 8]}, "4"),
        ({**ONE, "shape": [3, 4]}, "x"),
        ({**ONE, "datatype": "BF16"}, "BF16"),
        ({**ONE, "name": "y"}, "x"),
    ):
        status, answer = ask(port, "/v2/models/relu/infer", {"inputs": [wrong]})
        assert status == 400 and part in answer["error"], answer
    assert ask(port, "/v1/models/relu:predict", {"instances": [["a"]]})[0] == 400
    assert ask(port, "/v2/models/none/infer", {"inputs": [ONE]})[0] == 404


async def check_grpc(port: int) -> None:
    given = InferInput("x", [2, 4], "FP32")
    given.set_data_from_numpy(X)
    answer = await InferenceGRPCClient(f"127.0.0.1:{port}", timeout=PATIENCE_S).infer(
        InferRequest("relu", [given])
    )
    np.testing.assert_array_equal(answer.outputs[0].as_numpy(), EXPECTED)


def check_manifests(folder: Path) -> None:
    (runtime,) = yaml.safe_load_all((folder / "runtime.yaml").read_text())
    (service,) = yaml.safe_load_all((folder / "service.yaml").read_text())
    (container,) = runtime["spec"]["containers"]
    given, rest = argument_parser().parse_known_args(container["args"])
    assert (str(given.model_dir), given.http_port, rest) == ("/mnt/models", 8080, [])
    (kind,) = runtime["spec"]["supportedModelFormats"]
    assert service["spec"]["predictor"]["model"]["modelFormat"]["name"] == kind["name"]
    assert f'"{argument_parser().prog}"]' in (folder / "Containerfile").read_text()


def main() -> None:
    check_manifests(Path(sys.argv[2]))
    program = [sys.executable, "-m", "aot_runtime.integrations.kserve", "--model_name", "relu"]
    http, grpc = free_ports()
    ports = ["--http_port", str(http), "--grpc_port", str(grpc)]
    with subprocess.Popen([*program, "--model_dir", sys.argv[1], *ports]) as server:
        try:
            wait(server, http)
            check_http(http)
            asyncio.run(check_grpc(grpc))
        finally:
            server.terminate()
    print("answered rightly")


if __name__ == "__main__":
    main()
