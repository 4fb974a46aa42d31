"""The protocol over HTTP: what is right, and every way to be wrong."""

import json
import socket
import struct
import time

import numpy as np
import pytest

from tests.kernels import reference
from tests.serve.server import (
    JSON_LENGTH,
    Server,
    X,
    binary,
    read_all,
    request,
    tensor,
    values,
)

pytestmark = pytest.mark.slow


def test_it_answers_in_json(server: Server) -> None:
    answer = server.infer("relu", request(tensor(X), id="seven"))
    np.testing.assert_array_equal(values(answer), reference(X))
    assert answer.json["model_name"] == "relu"
    assert answer.json["model_version"] == "1"
    assert answer.json["id"] == "seven"


def test_nested_data_and_integers_are_numbers_too(server: Server) -> None:
    answer = server.infer("relu", request(tensor(X, data=X.astype(int).tolist())))
    np.testing.assert_array_equal(values(answer), reference(X))


def test_tensors_travel_as_bytes(server: Server) -> None:
    body, headers = binary([("x", "FP32", X)], parameters={"binary_data_output": True})
    answer = server.infer("relu", body, **headers)
    assert answer.status == 200, answer.body
    split = int(answer.headers[JSON_LENGTH])
    (output,) = json.loads(answer.body[:split])["outputs"]
    assert output["parameters"] == {"binary_data_size": X.nbytes}
    got = np.frombuffer(answer.body[split:], np.float32).reshape(output["shape"])
    np.testing.assert_array_equal(got, reference(X))


def test_a_version_may_be_named(server: Server) -> None:
    answer = server.ask("POST", "/v2/models/relu/versions/1/infer", json.dumps(request(tensor(X))))
    np.testing.assert_array_equal(values(answer), reference(X))


def test_it_describes_itself_and_its_models(server: Server) -> None:
    assert server.ask("GET", "/v2").json["name"] == "aot-serve"
    for path, what in (("health/live", "live"), ("health/ready", "ready")):
        answer = server.ask("GET", f"/v2/{path}")
        assert (answer.status, answer.json) == (200, {what: True})
    answer = server.ask("GET", "/v2/models/relu/ready")
    assert (answer.status, answer.json) == (200, {"ready": True})
    described = server.ask("GET", "/v2/models/relu").json
    assert described["versions"] == ["1"]
    assert described["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    assert server.ask("GET", "/v2/models/relu/config").json["name"] == "relu"
    index = server.ask("POST", "/v2/repository/index").json
    assert index == [{"name": "relu", "version": "1", "state": "READY", "reason": ""}]
    head = server.ask("HEAD", "/v2")
    assert (head.status, head.body) == (200, b"")


def test_it_tells_prometheus(server: Server) -> None:
    server.infer("relu", request(tensor(X)))
    server.infer("relu", request(tensor(np.ones((2, 5), np.float32))))
    assert server.metric("aot_requests_total", model="relu", code="OK") >= 1
    assert server.metric("aot_requests_total", model="relu", code="SHAPE_MISMATCH") >= 1
    assert server.metric("aot_request_seconds_count", model="relu") >= 2
    assert server.metric("aot_model_ready", model="relu", version="1") == 1
    assert server.metric("aot_connections") >= 1


def test_failures_are_logged_with_the_clients_trace(server: Server) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    answer = server.infer(
        "relu",
        request(tensor(np.ones((2, 5), np.float32))),
        traceparent=f"00-{trace}-00f067aa0ba902b7-01",
    )
    assert answer.headers["traceparent"].split("-")[1] == trace
    line = server.logged(trace)
    assert line["code"] == "SHAPE_MISMATCH"
    assert line["parent_id"] == "00f067aa0ba902b7"


WRONG = [
    (b"no json", "no JSON"),
    (b"[]", "must be a JSON object"),
    (b"[" * 500_000, "nested too deeply"),
    ({"tensors": []}, "inputs"),
    (request(), "input 'x' is missing"),
    (request(tensor(X), tensor(X)), "'x' is given twice"),
    (request(tensor(X), tensor(X, name="z")), "no input 'z'; it has 'x'"),
    (request(tensor(X, datatype="INT64")), "must be FP32, not INT64"),
    (request(tensor(X, datatype="BYTES")), "packages have no strings"),
    (request(tensor(X, shape=[2, 5])), "the shape has 10 elements, data has 8"),
    (request(tensor(X, shape=[8], data=[[1] * 8])), "nested deeper"),
    (request(tensor(X, shape=[-1, -8])), "a size is not negative"),
    (request(tensor(X, shape=[2**40, 2**40])), "too large"),
    (request(tensor(X, shape=[2.5, 4])), "no whole number"),
    (request(tensor(X, data=["a"] * 8)), 'element 0 is "a", which is no FP32'),
    (request(tensor(X, data=[True] * 8)), "which is no FP32"),
    (request(tensor(np.ones((2, 5), np.float32))), "dimension 1"),
    (request(tensor(np.ones((65, 4), np.float32))), "64"),
    (request(tensor(X), outputs=[{"name": "z"}]), "no output 'z'"),
    (request(tensor(X), outputs=[{"name": "output"}] * 2), "asked for twice"),
    (
        request(tensor(X), outputs=[{"name": "output", "parameters": {"classification": 1}}]),
        "does not classify",
    ),
    (request(tensor(X, parameters={"shared_memory_region": "r"})), "no shared memory"),
    (request(tensor(X), parameters={"timeout": "soon"}), "microseconds"),
    (request(tensor(X), id=7), "'id' must be a string"),
    ({"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 4]}]}, "neither data nor"),
]


@pytest.mark.parametrize(("body", "word"), WRONG, ids=[word for _, word in WRONG])
def test_wrong_requests_are_told_what_is_wrong(server: Server, body: object, word: str) -> None:
    answer = server.infer("relu", body)
    assert answer.status == 400
    assert word in answer.json["error"]
    assert server.infer("relu", request(tensor(X))).status == 200


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"tail": b"12"}, "2 bytes more"),
        ({"cut": 2}, "ends within its bytes"),
        ({"size": 31}, "binary_data_size is 31"),
        ({"length": "x"}, "must be a number"),
        ({"length": "99999999"}, "has only"),
    ],
)
def test_wrong_bytes_are_told_what_is_wrong(
    server: Server, change: dict[str, object], word: str
) -> None:
    body, headers = binary([("x", "FP32", X)])
    if "size" in change:
        body = body.replace(b'"binary_data_size": 32', b'"binary_data_size": 31')
    body = body[: len(body) - int(str(change.get("cut", 0)))] + bytes(change.get("tail", b""))
    headers[JSON_LENGTH] = str(change.get("length", headers[JSON_LENGTH]))
    answer = server.infer("relu", body, **headers)
    assert answer.status == 400
    assert word in answer.json["error"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/v2/models/none", 404),
        ("GET", "/v2/models/relu/versions/9", 404),
        ("GET", "/v2/models/relu/versions/1/what", 404),
        ("GET", "/v2/models/%2e%2e%2fetc", 404),
        ("POST", "/v2/models/none/infer", 404),
        ("POST", "/v2/repository/models/relu/load", 403),
        ("POST", "/v2/repository/models/relu/unload", 403),
        ("DELETE", "/v2/models/relu", 404),
    ],
)
def test_what_is_not_there_is_said(server: Server, method: str, path: str, status: int) -> None:
    answer = server.ask(method, path, "{}" if method == "POST" else None)
    assert answer.status == status
    assert answer.json["error"]


def test_a_stranger_is_told_what_can_be_asked(server: Server) -> None:
    assert "POST /v2/models/NAME/infer" in server.ask("GET", "/v1/models").json["error"]


def test_numbers_that_json_lacks_are_asked_for_as_bytes(server: Server) -> None:
    x = np.full((1, 4), np.inf, np.float32)
    body, headers = binary([("x", "FP32", x)])
    answer = server.infer("relu", body, **headers)
    assert answer.status == 400
    assert "ask for it with binary_data" in answer.json["error"]
    body, headers = binary([("x", "FP32", x)], parameters={"binary_data_output": True})
    assert server.infer("relu", body, **headers).status == 200


def test_bodies_have_a_limit(server: Server) -> None:
    answer = server.infer("relu", request(tensor(X), id="x" * (2 << 20)))
    assert answer.status == 413
    assert "1048576" in answer.json["error"]
    chunk = b"%x\r\n" % (1 << 20) + b" " * (1 << 20) + b"\r\n"
    head = b"POST /v2/models/relu/infer HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert server.raw(head + chunk + chunk).startswith(b"HTTP/1.1 413")


def test_headers_have_a_limit(server: Server) -> None:
    got = server.raw(b"GET /v2 HTTP/1.1\r\nHost: a\r\nX: " + b"x" * (20 << 10) + b"\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 431")


def test_chunks_and_expectations_are_http_too(server: Server) -> None:
    body = json.dumps(request(tensor(X))).encode()
    head = b"POST /v2/models/relu/infer HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
    half = len(body) // 2
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(c), c) for c in (body[:half], body[half:], b""))
    assert b" 200 " in server.raw(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
    with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
        connection.sendall(head + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
        assert connection.recv(100).startswith(b"HTTP/1.1 100 Continue")
        connection.sendall(body)
        assert b" 200 " in read_all(connection)


def test_requests_may_follow_each_other_unasked(server: Server) -> None:
    one = b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n"
    last = one.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    assert server.raw(one * 5 + last).count(b"HTTP/1.1 200") == 6


@pytest.mark.parametrize(
    "garbage",
    [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc" + bytes(range(256)), b"hello\r\n\r\n", b"\0" * 5000],
)
def test_garbage_is_answered_or_ended(server: Server, garbage: bytes) -> None:
    got = server.raw(garbage)
    assert got == b"" or got.startswith(b"HTTP/1.1 400")
    assert server.ask("GET", "/v2/health/live").status == 200


def test_slow_clients_are_ended_and_hold_up_nobody(server: Server) -> None:
    head = b"POST /v2/models/relu/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n"
    slow = [socket.create_connection(("127.0.0.1", server.port), 10) for _ in range(40)]
    for i, connection in enumerate(slow):
        connection.sendall(head if i % 2 else head + b"\r\n{")
    begun = time.monotonic()
    assert server.infer("relu", request(tensor(X))).status == 200
    assert time.monotonic() - begun < 1
    for connection in slow:
        assert read_all(connection).startswith(b"HTTP/1.1 408")
        connection.close()
    assert time.monotonic() - begun < 10


def test_connections_that_only_open_are_ended(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
        assert read_all(connection) == b""
    with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
        linger = struct.pack("ii", 1, 0)  # closing sends a reset
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        connection.sendall(b"POST /v2/mo")
    assert server.ask("GET", "/v2/health/live").status == 200
