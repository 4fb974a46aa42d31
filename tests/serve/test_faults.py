"""A client that does everything wrong at once, for some seconds (`make soak-serve`: for longer)."""

import json
import random
import socket
import struct
import time
from pathlib import Path

import numpy as np
import pytest

from tests.kernels import reference
from tests.serve.server import (
    JSON_LENGTH,
    Server,
    binary,
    eventually,
    files,
    memory_kb,
    put,
    request,
    run_all,
    tensor,
)

pytestmark = pytest.mark.slow

PATH = b"POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\n"


class Faults:
    """What goes wrong, by methods whose names say it; each leaves the server to others."""

    def __init__(self, server: Server, seed: int) -> None:
        self.server = server
        self.random = random.Random(seed)
        self.good = 0
        self.wrong: list[object] = []

    def _body(self) -> tuple[np.ndarray, bytes]:
        rows = self.random.randint(1, 5)
        x = np.array([self.random.uniform(-1, 0) for _ in range(4 * rows)], np.float32)
        x = x.reshape(rows, 4)
        return x, json.dumps(request(tensor(x))).encode()

    def right(self) -> None:
        x, body = self._body()
        headers: dict[str, str] = {}
        if self.random.random() < 0.5:
            body, headers = binary([("x", "FP32", x)])
        answer = self.server.infer("m", body, **headers)
        data = (
            np.array(answer.json["outputs"][0]["data"], np.float32)
            if answer.status == 200
            else None
        )
        if data is None or not np.array_equal(data, reference(x).ravel()):
            self.wrong.append((answer.status, answer.body))
        self.good += 1

    def gone_before_the_answer(self) -> None:
        _, body = self._body()
        with self._connect() as connection:
            connection.sendall(PATH + b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def reset(self) -> None:
        _, body = self._body()
        with self._connect() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.sendall(PATH + b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def ends_within(self) -> None:
        _, body = self._body()
        whole = PATH + b"Content-Length: %d\r\n\r\n" % len(body) + body
        with self._connect() as connection:
            connection.sendall(whole[: self.random.randrange(len(whole))])

    def garbage(self) -> None:
        with self._connect() as connection:
            connection.sendall(self.random.randbytes(self.random.randint(1, 3000)))
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1000)

    def changed_body(self) -> None:
        x, _ = self._body()
        body, headers = binary([("x", "FP32", x)])
        changed = bytearray(body)
        for _ in range(self.random.randint(1, 4)):
            changed[self.random.randrange(len(body))] = self.random.randrange(256)
        headers[JSON_LENGTH] = str(max(0, int(headers[JSON_LENGTH]) + self.random.randint(-2, 2)))
        status = self.server.infer("m", bytes(changed), **headers).status
        if status not in {200, 400}:  # a changed number is one too
            self.wrong.append(status)

    def slow(self) -> None:
        with self._connect() as connection:
            for byte in PATH[: self.random.randint(1, 30)]:
                connection.sendall(bytes([byte]))
                time.sleep(0.01)

    def no_time(self) -> None:
        x, _ = self._body()
        body = json.dumps(request(tensor(x), parameters={"timeout": self.random.randint(1, 300)}))
        status = self.server.infer("m", body.encode()).status
        if status not in {200, 504}:
            self.wrong.append(status)

    def too_large(self) -> None:
        if self.server.infer("m", b" " * (2 << 20)).status != 413:
            self.wrong.append("a body over the limit was read")

    def reload(self) -> None:
        answer = self.server.ask("POST", "/v2/repository/models/m/load", "{}")
        if answer.status != 200:
            self.wrong.append(answer.body)

    def not_there(self) -> None:
        if self.server.infer("n", b"{}").status != 404:
            self.wrong.append("a model that is not there was found")

    def _connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.server.port), 30)

    def run(self, until: float) -> None:
        methods = [self.right] * 10 + [
            self.gone_before_the_answer,
            self.reset,
            self.ends_within,
            self.garbage,
            self.changed_body,
            self.slow,
            self.no_time,
            self.too_large,
            self.not_there,
        ]
        while time.monotonic() < until:
            if self.random.random() < 0.01:
                self.reload()
            try:
                self.random.choice(methods)()
            except (ConnectionError, BrokenPipeError):
                continue  # the server need not hear a wrong client out


def test_wrong_clients_harm_nobody(
    program: Path, package: Path, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    seconds = float(pytestconfig.getoption("--serve-seconds"))
    put(tmp_path, "m", package, max_batch=16, max_delay_us=300, sessions=2)
    options = ["--allow-control", "--max-body-mb", "1", "--header-time", "1"]
    with Server(program, tmp_path, *options) as server:
        # What begins anew is not a leak: a third of the time goes by before the first look.
        clients = [Faults(server, seed) for seed in range(6)]
        run_all(clients, time.monotonic() + seconds / 3)
        before = memory_kb(server)
        run_all(clients, time.monotonic() + 2 * seconds / 3)
        assert not [w for client in clients for w in client.wrong]
        assert sum(client.good for client in clients) > 5 * seconds
        assert memory_kb(server) < 1.2 * before + 8192
        # Those of clients that have gone are closed: the one that asks is left.
        eventually(lambda: server.metric("aot_connections") == 1, 60)
        assert server.metric("aot_body_bytes") == 0
        assert server.metric("aot_queue_length") == 0
        assert files(server) < 60
        assert server.end() == 0
