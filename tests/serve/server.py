"""aot-serve, started and asked as its clients do."""

from __future__ import annotations

import fcntl
import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import pytest

from tests.examples.building import cmake, tool
from tests.kernels import ROOT

JSON_LENGTH = "Inference-Header-Content-Length"
X = np.arange(8, dtype=np.float32).reshape(2, 4)
"""Two rows for the model of tests/kernels.py."""


def build() -> Path:
    """The server as `make test` builds it, built once however many tests want it."""
    folder = ROOT / "build" / "release"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "build.lock").open("w") as lock:  # as scripts/test-cpp has it
        fcntl.flock(lock, fcntl.LOCK_EX)
        ninja = f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}"
        cmake("-S", ROOT, "-B", folder, "--preset", "release", ninja)
        if "aot-serve:" not in targets(folder):
            pytest.skip("needs Debian's libboost-dev and prometheus-cpp-dev (scripts/setup)")
        cmake("--build", folder, "--target", "aot-serve")
    return folder / "cpp" / "serve" / "aot-serve"


def targets(folder: Path) -> str:
    """Ninja's list of what can be built."""
    command = [tool("ninja"), "-C", str(folder), "-t", "targets", "all"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def put(models: Path, name: str, package: Path, version: int = 1, **config: Any) -> Path:
    """Places a package as a model's version, as one does beside a running server: by a rename."""
    folder = models / name / str(version)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(package, folder / "model.new")
    (folder / "model.new").rename(folder / "model.pkg")
    if config:
        (models / name / "config.json").write_text(json.dumps(config))
    return folder / "model.pkg"


T = TypeVar("T")


def eventually(look: Callable[[], T | None], seconds: float = 60) -> T:
    """What `look` finds once there is something: other threads and processes may be about to."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, "nothing came"
        time.sleep(0.01)
    return found


class Answer:
    """Status, headers and body."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Server:
    """A server of a folder of models, on ports that were free."""

    def __init__(self, program: Path, models: Path, *options: object) -> None:
        words = [str(program), str(models), "--http-port", "0", *map(str, options)]
        self.process = subprocess.Popen(
            words, stderr=subprocess.PIPE, text=True, errors="backslashreplace"
        )
        self.lines: list[dict[str, Any]] = []
        self.other: list[str] = []
        self._serving = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._serving.wait(60):
            self.process.kill()
            pytest.fail(f"the server did not start: {self.lines} {self.other}")
        started = next((x for x in self.lines if x["event"] == "serving"), None)
        assert started is not None, self.other
        self.port: int = started["http_port"]
        self.grpc_port: int = started["grpc_port"]

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if line.startswith("{"):
                self.lines.append(json.loads(line))
                if self.lines[-1]["event"] == "serving":
                    self._serving.set()
            else:
                self.other.append(line)
        self._serving.set()

    def logged(self, trace: str) -> dict[str, Any]:
        """The line of that trace, which the server may be about to write."""
        return eventually(lambda: next((x for x in self.lines if x.get("trace_id") == trace), None))

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *exc: object) -> None:
        self.end()

    def end(self) -> int:
        """SIGTERM; the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            pytest.fail("the server did not end")
        self._reader.join(10)
        assert self.process.stderr is not None
        self.process.stderr.close()
        assert not self.other, "".join(self.other)  # such as a sanitizer's report
        return status

    def connect(self, timeout: float = 30) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        connection = self.connect()
        try:
            connection.request(method, path, body, dict(headers or {}))
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def infer(self, model: str, body: object, **headers: str) -> Answer:
        data = body if isinstance(body, bytes) else json.dumps(body)
        return self.ask("POST", f"/v2/models/{model}/infer", data, headers)

    def raw(self, data: bytes, timeout: float = 30) -> bytes:
        """What comes back for these bytes until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout) as connection:
            connection.sendall(data)
            return read_all(connection)

    def metric(self, name: str, **labels: str) -> float:
        """A metric's value, summed over the series that have these labels; 0 where none has."""
        text = self.ask("GET", "/metrics").body.decode()
        total = 0.0
        for line in text.splitlines():
            found = re.fullmatch(rf"{name}(?:\{{(.*)\}})? (\S+)", line)
            if found and all(f'{k}="{v}"' in (found[1] or "") for k, v in labels.items()):
                total += float(found[2])
        return total


def when_one_runs(server: Server) -> None:
    """Returns when a request has come and none waits: a model of one session has taken it."""
    eventually(lambda: server.metric("aot_body_bytes") > 0)
    time.sleep(0.05)  # between its last byte and its run
    when_some_wait(server, 0)


def when_some_wait(server: Server, count: int) -> None:
    """Returns when so many requests, or more, wait for a session; for 0 when none does."""
    eventually(
        lambda: (waiting := server.metric("aot_queue_length")) == count or waiting > count > 0
    )


def read_all(connection: socket.socket) -> bytes:
    got = b""
    while part := connection.recv(65536):
        got += part
    return got


def tensor(
    x: np.ndarray, name: str = "x", datatype: str = "FP32", **changed: Any
) -> dict[str, Any]:
    """An input as JSON."""
    data = {"name": name, "datatype": datatype, "shape": list(x.shape), "data": x.ravel().tolist()}
    return data | changed


def request(*tensors: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"inputs": list(tensors), **more}


def binary(
    inputs: Sequence[tuple[str, str, np.ndarray]], **more: Any
) -> tuple[bytes, dict[str, str]]:
    """Body and headers of a request whose inputs are bytes behind the JSON."""
    tensors = [
        {
            "name": name,
            "datatype": datatype,
            "shape": list(x.shape),
            "parameters": {"binary_data_size": x.nbytes},
        }
        for name, datatype, x in inputs
    ]
    head = json.dumps({"inputs": tensors, **more}).encode()
    return head + b"".join(x.tobytes() for _, _, x in inputs), {JSON_LENGTH: str(len(head))}


def values(answer: Answer) -> np.ndarray:
    """The one output, which came as JSON."""
    assert answer.status == 200, answer.body
    (output,) = answer.json["outputs"]
    return np.array(output["data"], np.float32).reshape(output["shape"])


def memory_kb(server: Server) -> int:
    """Resident memory of the server."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def files(server: Server) -> int:
    return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))


class Wrong(Protocol):
    """A client that makes faults until some time."""

    def run(self, until: float) -> None: ...


def run_all(clients: Sequence[Wrong], until: float) -> None:
    """All of them at once."""
    threads = [threading.Thread(target=client.run, args=(until,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
