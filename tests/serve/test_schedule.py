"""The queue: deadlines, cancellation, batches, and an end that loses nothing."""

import json
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import aot
from tests.kernels import reference, write_kernels
from tests.serve.server import (
    Answer,
    Server,
    eventually,
    put,
    read_all,
    request,
    tensor,
    values,
    when_one_runs,
    when_some_wait,
)

pytestmark = pytest.mark.slow


def sleep(milliseconds: float, rows: int = 1) -> np.ndarray:
    """Inputs for the model that waits."""
    x = np.zeros((rows, 4), np.float32)
    x[0, 0] = milliseconds
    return x


@pytest.fixture
def serve(program: Path, sleeper: Path, tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts a server of the model that waits, "m", with a configuration."""
    started: list[Server] = []

    def start(*options: object, **config: object) -> Server:
        put(tmp_path, "m", sleeper, **({"sessions": 1} | config))
        started.append(Server(program, tmp_path, *options))
        return started[-1]

    yield start
    for server in started:
        server.end()


def test_a_deadline_ends_what_waits_at_once(serve: Callable[..., Server]) -> None:
    server = serve()
    with ThreadPoolExecutor() as pool:
        first = pool.submit(server.infer, "m", request(tensor(sleep(1500))))
        when_one_runs(server)
        answer = server.infer("m", request(tensor(sleep(0)), parameters={"timeout": 100_000}))
        assert not first.done()
        assert answer.status == 504
        assert "time was over" in answer.json["error"]
        assert first.result().status == 200
    answer = server.infer("m", request(tensor(sleep(300)), parameters={"timeout": 50_000}))
    assert answer.status == 504
    assert server.metric("aot_requests_total", code="DEADLINE_EXCEEDED") == 2


def test_a_model_may_limit_all_requests(serve: Callable[..., Server]) -> None:
    server = serve(timeout_ms=700)
    assert server.infer("m", request(tensor(sleep(1000)))).status == 504
    assert server.infer("m", request(tensor(sleep(0)))).status == 200


def test_a_full_queue_says_so(serve: Callable[..., Server]) -> None:
    server = serve(max_queue=2)
    with ThreadPoolExecutor() as pool:
        waiting = [pool.submit(server.infer, "m", request(tensor(sleep(1000))))]
        when_one_runs(server)
        waiting += [pool.submit(server.infer, "m", request(tensor(sleep(0)))) for _ in range(2)]
        when_some_wait(server, 2)
        answer = server.infer("m", request(tensor(sleep(0))))
        assert answer.status == 503
        assert answer.headers["Retry-After"]
        assert "2 requests wait" in answer.json["error"]
        assert [w.result().status for w in waiting] == [200] * 3


def test_nobody_computes_for_a_client_that_has_gone(serve: Callable[..., Server]) -> None:
    server = serve()
    body = json.dumps(request(tensor(sleep(600)))).encode()
    head = b"POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body)
    begun = time.monotonic()
    for _ in range(40):
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(head + body)
            time.sleep(0.02)
    assert server.infer("m", request(tensor(sleep(0)))).status == 200
    assert time.monotonic() - begun < 20  # all forty would take 24 seconds
    assert server.metric("aot_requests_total", code="CANCELLED") == 40


def test_requests_that_wait_run_together(serve: Callable[..., Server]) -> None:
    server = serve(max_batch=8)
    with ThreadPoolExecutor(16) as pool:
        first = pool.submit(server.infer, "m", request(tensor(sleep(1200))))
        when_one_runs(server)
        inputs = [np.full((1 + i % 2, 4), -1 - i, np.float32) for i in range(5)]
        others = [pool.submit(server.infer, "m", request(tensor(x))) for x in inputs]
        assert first.result().status == 200
        for x, other in zip(inputs, others, strict=True):
            np.testing.assert_array_equal(values(other.result()), reference(x))
    assert server.metric("aot_batch_rows_count") == 2
    assert server.metric("aot_batch_rows_sum") == 8


def together(server: Server) -> float:
    """Rows of a batch, on the mean, when eight clients ask 200 times in all."""
    body = request(tensor(-np.ones((1, 4), np.float32)))
    rows, batches = (server.metric(f"aot_batch_rows_{of}") for of in ("sum", "count"))
    with ThreadPoolExecutor(8) as pool:
        answers = pool.map(lambda _: server.infer("m", body), range(200))
        assert all(answer.status == 200 for answer in answers)
    rows = server.metric("aot_batch_rows_sum") - rows
    assert rows == 200
    return rows / (server.metric("aot_batch_rows_count") - batches)


def test_a_batch_waits_for_who_is_expected(serve: Callable[..., Server]) -> None:
    server = serve(max_batch=4, max_delay_us=2_000_000)
    begun = time.monotonic()
    assert server.infer("m", request(tensor(sleep(0)))).status == 200
    assert time.monotonic() - begun < 2  # nobody is expected
    assert together(server) > 1 / 0.7


def test_a_slow_moment_does_not_decide_what_batches_cost(
    program: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    # A row has four elements. After the first runs of all sizes the next elements are slow, but for
    # the second run of one row: were a size done before the others, or measured by itself, slow
    # runs were all that is known of two rows.
    slow = "if (++n > 32 && n <= 200 && !(n > 56 && n <= 60)) usleep(1000);"
    term = f"({{ static int n; extern int usleep(unsigned); {slow} 0.0f; }})"
    package = write_kernels(tmp_path_factory.mktemp("slow"), {"x86-64-v2": term}, golden=False)
    put(tmp_path, "m", package, sessions=1, max_batch=4, max_delay_us=200_000)
    with Server(program, tmp_path) as server:
        assert together(server) > 1 / 0.7


def test_a_batch_that_all_have_left_is_whole_for_the_next(serve: Callable[..., Server]) -> None:
    server = serve(max_batch=4, max_delay_us=1_000_000)
    body = json.dumps(request(tensor(-np.ones((1, 4), np.float32)))).encode()
    head = b"POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body)
    for _ in range(5):
        # Arrivals close enough that the next is expected, and so waited for.
        for _ in range(8):
            with socket.create_connection(("127.0.0.1", server.port)) as connection:
                connection.sendall(head + body)
            time.sleep(0.02)
        assert server.infer("m", body).status == 200


def test_an_end_loses_nothing_that_was_accepted(serve: Callable[..., Server]) -> None:
    server = serve()
    body = json.dumps(request(tensor(sleep(50)))).encode()
    head = b"POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body)
    accepted = [socket.create_connection(("127.0.0.1", server.port), 60) for _ in range(30)]
    for connection in accepted:
        connection.sendall(head + body)
    idle = server.connect()
    idle.connect()
    ended: list[int] = []
    thread = threading.Thread(target=lambda: ended.append(server.end()))
    thread.start()
    answers = [read_all(connection) for connection in accepted]
    for connection in accepted:
        connection.close()
    assert all(b" 200 " in answer for answer in answers)
    assert any(b"Connection: close" in answer for answer in answers)
    thread.join()
    idle.close()
    assert ended == [0]
    assert server.lines[-1]["whole"] is True
    with pytest.raises(ConnectionRefusedError):
        server.infer("m", request(tensor(sleep(0))))


def test_an_end_answers_who_is_being_accepted(serve: Callable[..., Server]) -> None:
    # The system has handed a connection over, and the end comes before the server has looked at it.
    body = json.dumps(request(tensor(sleep(1)))).encode()
    head = b"POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body)
    for _ in range(10):
        server = serve()
        accepted = []
        for _ in range(30):
            accepted.append(socket.create_connection(("127.0.0.1", server.port), 60))
            accepted[-1].sendall(head + body)
        server.process.send_signal(signal.SIGTERM)
        answers = [read_all(connection) for connection in accepted]
        for connection in accepted:
            connection.close()
        assert all(b" 200 " in answer for answer in answers)
        assert server.end() == 0


def test_under_load_every_answer_is_whole_until_the_end(serve: Callable[..., Server]) -> None:
    server = serve(max_batch=4)
    x = -np.ones((1, 4), np.float32)
    body = json.dumps(request(tensor(x)))
    good = [0]
    torn: list[object] = []

    def ask() -> None:
        # A connection that is kept: the server may end it between requests, not within one.
        connection = server.connect()
        while True:
            try:
                connection.connect()
            except ConnectionRefusedError:
                return
            while True:
                try:
                    connection.request("POST", "/v2/models/m/infer", body)
                    response = connection.getresponse()
                except OSError as error:  # as RemoteDisconnected is
                    torn.append(error)
                    return
                data = json.loads(response.read())
                assert data["outputs"][0]["data"] == reference(x).ravel().tolist()
                good[0] += 1
                if response.headers["Connection"] == "close":
                    connection.close()
                    break

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    eventually(lambda: good[0] > 50, 60)
    assert server.end() == 0
    for thread in threads:
        thread.join()
    assert not torn


def test_what_takes_longer_than_the_end_may_is_cancelled(serve: Callable[..., Server]) -> None:
    server = serve("--drain-time", "1")
    with ThreadPoolExecutor() as pool:
        running = pool.submit(server.infer, "m", request(tensor(sleep(2000))))
        when_one_runs(server)
        waiting = pool.submit(server.infer, "m", request(tensor(sleep(0))))
        when_some_wait(server, 1)
        assert server.end() == 1
        for answer in (running.result(), waiting.result()):
            assert answer.status == 499
            assert "the server is ending" in answer.json["error"]


@pytest.fixture(scope="module")
def lookup(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of a table of ten, by torch: an index of 10 or more fails a run."""
    torch = pytest.importorskip("torch")
    path = tmp_path_factory.mktemp("lookup") / "lookup.pkg"
    table = torch.nn.Embedding.from_pretrained(torch.arange(30.0).reshape(10, 3))
    dims = ({0: torch.export.Dim("batch", min=1, max=64)},)
    levels = ["cpu:x86-64-v3"]
    aot.package(table, (torch.tensor([1, 2]),), path=path, dynamic_shapes=dims, targets=levels)
    return path


def test_one_request_of_a_batch_fails_alone(
    program: Path, lookup: Path, sleeper: Path, tmp_path: Path
) -> None:
    put(tmp_path, "m", lookup, sessions=1, max_batch=16, max_delay_us=500_000)
    with Server(program, tmp_path) as server:

        def ask(index: int) -> Answer:
            x = np.array([index], np.int64)
            return server.infer("m", request(tensor(x, name="input", datatype="INT64")))

        for _ in range(3):
            ask(0)  # so that others are expected
        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(ask, range(16)))
        for index, answer in enumerate(answers):
            if index < 10:
                assert values(answer)[0].tolist() == [3 * index, 3 * index + 1, 3 * index + 2]
            else:
                assert answer.status == 400
                assert "index" in answer.json["error"]


@pytest.fixture(scope="module")
def turning(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As many turns of a loop as the input says: a run is as long as one asks for."""
    torch = pytest.importorskip("torch")

    class Turning(torch.nn.Module):
        def forward(self, n: "torch.Tensor") -> "torch.Tensor":
            start = (torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64))
            return torch._higher_order_ops.while_loop(
                lambda i, y: (i < n).all(), lambda i, y: (i + 1, y + i), start
            )[1]

    path = tmp_path_factory.mktemp("turning") / "turning.pkg"
    aot.package(Turning(), (torch.tensor([3]),), path=path, targets=["cpu:x86-64-v2"])
    return path


def test_a_run_that_was_thought_to_be_short_is_whole(
    program: Path, turning: Path, tmp_path: Path
) -> None:
    put(tmp_path, "m", turning, sessions=1, threads=1)
    long = 2_000_000
    with Server(program, tmp_path) as server:

        def ask(turns: int, **parameters: int) -> Answer:
            x = tensor(np.array([turns], np.int64), "n", "INT64")
            return server.infer("m", request(x, parameters=parameters))

        def warm() -> None:
            for _ in range(40):  # runs that the reading thread does
                assert values(ask(2)).tolist() == [1]

        warm()
        assert ask(100_000).json["outputs"][0]["data"] == [100_000 * 99_999 // 2]
        warm()
        assert ask(long, timeout=30_000).status == 504
        warm()
        with ThreadPoolExecutor() as pool:  # the reading threads are free meanwhile
            answers = [pool.submit(ask, 100_000) for _ in range(4)]
            assert server.ask("GET", "/v2/health/live").status == 200
            assert {answer.result().status for answer in answers} == {200}
        assert server.metric("aot_requests_total", code="OK") == 125
        assert server.metric("aot_requests_total", code="DEADLINE_EXCEEDED") == 1


@pytest.fixture(scope="module")
def mixing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose rows know of each other."""
    torch = pytest.importorskip("torch")

    class Mixing(torch.nn.Module):
        def forward(self, x: "torch.Tensor") -> "torch.Tensor":
            return x - x.mean(0, keepdim=True)

    path = tmp_path_factory.mktemp("mixing") / "mixing.pkg"
    dims = ({0: torch.export.Dim("batch", min=1, max=64)},)
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    levels = ["cpu:x86-64-v3"]
    aot.package(Mixing(), (x,), path=path, dynamic_shapes=dims, targets=levels)
    return path


def test_rows_that_know_of_each_other_are_not_joined(
    program: Path, mixing: Path, tmp_path: Path
) -> None:
    put(tmp_path, "m", mixing, max_batch=8)
    with Server(program, tmp_path) as server:
        (row,) = server.ask("POST", "/v2/repository/index").json
        assert row["state"] == "UNAVAILABLE"
        assert "depends on the rows beside it" in row["reason"]
