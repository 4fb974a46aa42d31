"""As test_faults.py over gRPC: calls that end early, broken messages, garbage on the port."""

import random
import socket
import struct
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kernels import reference
from tests.serve.server import Server, eventually, files, memory_kb, put, run_all

grpc = pytest.importorskip("grpc")
messages = pytest.importorskip("tritonclient.grpc.service_pb2")

pytestmark = pytest.mark.slow

SERVICE = "/inference.GRPCInferenceService/"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
ENDED = {"CANCELLED", "DEADLINE_EXCEEDED"}


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """A frame of HTTP/2."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


class GrpcFaults:
    """What goes wrong, by methods whose names say it; each leaves the server to others."""

    def __init__(self, server: Server, seed: int) -> None:
        self.server = server
        self.random = random.Random(seed)
        self.good = 0
        self.wrong: list[object] = []
        self.channel = self._channel()

    def _channel(self) -> Any:
        own = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]
        return grpc.insecure_channel(f"127.0.0.1:{self.server.grpc_port}", own)

    def _call(self, channel: Any = None, method: str = "ModelInfer") -> Any:
        """A call of bytes."""
        return (channel or self.channel).unary_unary(SERVICE + method)

    def _message(self, rows: int = 0, model: str = "m") -> tuple[np.ndarray, Any]:
        count = 4 * (rows or self.random.randint(1, 5))
        x = np.array([self.random.uniform(-1, 0) for _ in range(count)], np.float32)
        x = x.reshape(-1, 4)
        message = messages.ModelInferRequest(model_name=model)
        message.inputs.add(name="x", datatype="FP32", shape=x.shape)
        message.raw_input_contents.append(x.tobytes())
        return x, message

    def _expect(self, message: bytes, codes: Iterable[str], **how: Any) -> None:
        """A call that ends with one of these codes."""
        try:
            self._call()(message, timeout=how.get("timeout", 30))
            code = "OK"
        except grpc.RpcError as error:
            code = error.code().name
        if code not in codes:
            self.wrong.append((code, codes))

    def right(self) -> None:
        x, message = self._message()
        try:
            told = self._call()(message.SerializeToString(), timeout=30)
        except grpc.RpcError as error:
            self.wrong.append(error)
            return
        reply = messages.ModelInferResponse.FromString(told)
        got = np.frombuffer(reply.raw_output_contents[0], np.float32)
        if not np.array_equal(got, reference(x).ravel()):
            self.wrong.append((x, got))
        self.good += 1

    def cancelled(self) -> None:
        _, message = self._message()
        call = self._call().future(message.SerializeToString(), timeout=30)
        if self.random.random() < 0.5:
            time.sleep(self.random.random() * 0.002)
        call.cancel()

    def no_time(self) -> None:
        _, message = self._message()
        seconds = self.random.random() * 0.001
        self._expect(message.SerializeToString(), {*ENDED, "OK"}, timeout=seconds)

    def channel_closed(self) -> None:
        _, message = self._message()
        channel = self._channel()
        calls = [self._call(channel).future(message.SerializeToString()) for _ in range(3)]
        if self.random.random() < 0.5:
            time.sleep(self.random.random() * 0.01)
        channel.close()
        del calls

    def broken_message(self) -> None:
        _, message = self._message()
        whole = bytearray(message.SerializeToString())
        for _ in range(self.random.randint(1, 4)):
            whole[self.random.randrange(len(whole))] = self.random.randrange(256)
        cut = whole[: self.random.randrange(len(whole))] if self.random.random() < 0.3 else whole
        allowed = {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "INTERNAL", "UNIMPLEMENTED"}
        self._expect(bytes(cut), allowed)

    def wrong_shape(self) -> None:
        _, message = self._message()
        message.inputs[0].shape[1] = self.random.choice([-1, 0, 3, 1 << 40, (1 << 63) - 1])
        self._expect(message.SerializeToString(), {"INVALID_ARGUMENT"})

    def too_large(self) -> None:
        _, message = self._message()
        message.raw_input_contents.append(bytes(2 << 20))
        self._expect(message.SerializeToString(), {"RESOURCE_EXHAUSTED"})

    def not_there(self) -> None:
        _, message = self._message(model="n")
        self._expect(message.SerializeToString(), {"NOT_FOUND"})
        try:
            self._call(method="NoSuchMethod")(b"", timeout=30)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                self.wrong.append(error)

    def garbage(self) -> None:
        with self._connect() as connection:
            connection.sendall(self.random.randbytes(self.random.randint(1, 3000)))

    def wrong_frames(self) -> None:
        """HTTP/2 as far as its beginning, then frames of any kind, or half of one."""
        with self._connect() as connection:
            connection.sendall(PREFACE + frame(4, 0, 0, b""))
            for _ in range(self.random.randint(1, 5)):
                kind, flags = self.random.randrange(12), self.random.randrange(64)
                payload = self.random.randbytes(self.random.randint(0, 200))
                whole = frame(kind, flags, self.random.randrange(5), payload)
                connection.sendall(whole[: self.random.randint(1, len(whole))])

    def silent(self) -> None:
        """Connects, perhaps begins, and says no more."""
        with self._connect() as connection:
            if self.random.random() < 0.5:
                connection.sendall(PREFACE[: self.random.randrange(len(PREFACE))])
            time.sleep(self.random.random() * 0.1)

    def reload(self) -> None:
        request = messages.RepositoryModelLoadRequest(model_name="m")
        try:
            self._call(method="RepositoryModelLoad")(request.SerializeToString(), timeout=30)
        except grpc.RpcError as error:
            self.wrong.append(error)

    def _connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.server.grpc_port), 30)

    def run(self, until: float) -> None:
        methods = [self.right] * 10 + [
            self.cancelled,
            self.no_time,
            self.channel_closed,
            self.broken_message,
            self.wrong_shape,
            self.too_large,
            self.not_there,
            self.garbage,
            self.wrong_frames,
            self.silent,
        ]
        while time.monotonic() < until:
            if self.random.random() < 0.01:
                self.reload()
            try:
                self.random.choice(methods)()
            except OSError:
                continue  # the server need not hear a wrong client out

    def close(self) -> None:
        self.channel.close()


def test_wrong_calls_harm_nobody(
    program: Path, package: Path, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    seconds = float(pytestconfig.getoption("--serve-seconds"))
    put(tmp_path, "m", package, max_batch=16, max_delay_us=300, sessions=2)
    options = ["--allow-control", "--max-body-mb", "1", "--grpc-port", "0"]
    with Server(program, tmp_path, *options) as server:
        if not server.grpc_port:
            pytest.skip("the server was built without gRPC")
        clients = [GrpcFaults(server, seed) for seed in range(4)]
        run_all(clients, time.monotonic() + seconds / 3)
        before = memory_kb(server)
        run_all(clients, time.monotonic() + 2 * seconds / 3)
        assert not [w for client in clients for w in client.wrong]
        assert sum(client.good for client in clients) > 5 * seconds
        for client in clients:
            client.close()
        eventually(lambda: server.metric("aot_queue_length") == 0)
        assert memory_kb(server) < 1.2 * before + 16384
        eventually(lambda: files(server) < 60)
        assert server.end() == 0
