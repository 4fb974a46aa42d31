"""The service, asked by OpenAI's own client."""

import base64
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
import torch
from aot_runtime.embeddings import Encoder, application
from aot_runtime.errors import InvalidArgument

from tests.runtime.embeddings.conftest import Sentences, eager

TEXTS = ["a small fox", "the red dog sleeps and the blue dog runs", "fox", "a a a a a a a a a a a"]


class Service:
    """The program, on a port that was free."""

    def __init__(self, *words: object) -> None:
        command = [sys.executable, "-m", "aot_runtime.embeddings", *map(str, words), "--port", "0"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        told = []
        for line in self.process.stderr:
            told.append(line)
            if found := re.search(r"running on http://127.0.0.1:(\d+)", line):
                self.port = int(found[1])
                return
        pytest.fail("the service did not start: " + "".join(told))

    def client(self, **options: Any) -> openai.OpenAI:
        url = f"http://127.0.0.1:{self.port}/v1"
        return openai.OpenAI(base_url=url, api_key="none", max_retries=0, **options)

    def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request(method, path, body)
        response = connection.getresponse()
        found = response.status, json.loads(response.read())
        connection.close()
        return found

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        _, told = self.process.communicate(timeout=120)
        assert "Traceback" not in told, told
        return self.process.returncode


@pytest.fixture(scope="module")
def service(encoder_package: Path) -> Iterator[Service]:
    started = Service(encoder_package, f"other={encoder_package}")
    yield started
    assert started.end() in {0, -signal.SIGTERM}


@pytest.fixture(scope="module")
def wanted(encoder_package: Path, sentences: Sentences) -> list[list[float]]:
    rows = Encoder.load(encoder_package).tokens(TEXTS)
    return [eager(sentences, row).tolist() for row in rows]


@pytest.mark.parametrize("encoding", ["float", "base64", openai.NOT_GIVEN])
def test_texts(service: Service, wanted: list[list[float]], encoding: Any) -> None:
    with service.client() as client:
        one = client.embeddings.create(model="tiny", input=TEXTS[0], encoding_format=encoding)
        all_ = client.embeddings.create(model="other", input=TEXTS, encoding_format=encoding)
    assert (one.model, one.object, one.usage.prompt_tokens) == ("tiny", "list", 5)
    assert [row.index for row in all_.data] == [0, 1, 2, 3]
    assert all_.usage.prompt_tokens == all_.usage.total_tokens == 5 + 11 + 3 + 13
    got = [
        np.frombuffer(base64.b64decode(row.embedding), "<f4")
        if isinstance(row.embedding, str)
        else row.embedding
        for row in (*one.data, *all_.data)
    ]
    np.testing.assert_allclose(np.array(got), [wanted[0], *wanted], rtol=1e-4, atol=1e-5)


def test_tokens(service: Service, sentences: Sentences) -> None:
    rows = [[2, 4, 8, 3], [2, 9, 3]]
    with service.client() as client:
        one = client.embeddings.create(model="tiny", input=rows[0], encoding_format="float")
        both = client.embeddings.create(model="tiny", input=rows, encoding_format="float")
    assert one.usage.prompt_tokens == 4 and both.usage.prompt_tokens == 7
    for row, told in zip([rows[0], *rows], (*one.data, *both.data), strict=True):
        torch.testing.assert_close(torch.tensor(told.embedding), eager(sentences, row))


def test_models(service: Service) -> None:
    with service.client() as client:
        assert [model.id for model in client.models.list()] == ["tiny", "other"]
        assert client.models.retrieve("other").owned_by == "aot-package"
        with pytest.raises(openai.NotFoundError, match="does not exist; there are: tiny, other"):
            client.models.retrieve("none")


WRONG: list[tuple[dict[str, Any], type[openai.APIStatusError], str, str | None]] = [
    ({"model": "none"}, openai.NotFoundError, "does not exist", "model"),
    ({"input": []}, openai.BadRequestError, "'input' must be", "input"),
    ({"input": "fox " * 50}, openai.BadRequestError, "input 0: it has 52 tokens", "input"),
    ({"input": [[2, 3], [99]]}, openai.BadRequestError, "input 1: 99 is no token", "input"),
    ({"dimensions": 7}, openai.BadRequestError, "have 32 numbers", "dimensions"),
]


@pytest.mark.parametrize(("changed", "kind", "words", "param"), WRONG)
def test_mistakes_become_the_clients_errors(
    service: Service,
    changed: dict[str, Any],
    kind: type[openai.APIStatusError],
    words: str,
    param: str | None,
) -> None:
    with service.client() as client:
        with pytest.raises(kind, match=words) as caught:
            client.embeddings.create(**{"model": "tiny", "input": "fox", **changed})
        assert caught.value.type == "invalid_request_error"
        assert caught.value.param == param
        client.embeddings.create(model="tiny", input="fox", dimensions=32)


def test_many_at_once_get_their_own(service: Service, wanted: list[list[float]]) -> None:
    def ask(i: int) -> None:
        with service.client() as client:
            for turn in range(10):
                at = (i + turn) % 4
                made = client.embeddings.create(
                    model="tiny", input=TEXTS[at : at + 2], encoding_format="float"
                )
                got = [row.embedding for row in made.data]
                np.testing.assert_allclose(got, wanted[at : at + 2], rtol=1e-4, atol=1e-5)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(8)))


def test_other_paths_and_bodies(service: Service) -> None:
    assert service.ask("GET", "/health") == (200, {"status": "ok"})
    assert service.ask("GET", "/v2")[0] == 404
    status, told = service.ask("GET", "/v1/embeddings")
    assert status == 405 and "takes POST" in told["error"]["message"]
    assert service.ask("POST", "/v1/embeddings", b"{")[0] == 400
    assert service.ask("POST", "/v1/embeddings", b" " * (17 << 20))[0] == 413


def test_clients_that_go_away_hurt_nobody(service: Service) -> None:
    body = json.dumps({"model": "tiny", "input": ["fox dog"] * 500}).encode()
    head = b"POST /v1/embeddings HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body)
    for cut in (10, len(head) + 20, len(head) + len(body)):
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", service.port), 10) as connection:
                connection.sendall((head + body)[:cut])
    with service.client(timeout=120) as client:
        assert len(client.embeddings.create(model="tiny", input="fox").data) == 1


def test_an_end_loses_nothing(encoder_package: Path) -> None:
    service = Service(encoder_package, "--sessions", "1")
    with ThreadPoolExecutor(4) as pool, service.client() as client:
        texts = [" ".join(["fox"] * 40)] * 400
        asked = [pool.submit(client.embeddings.create, model="tiny", input=texts) for _ in range(4)]
        with service.client() as other:
            other.models.list()
        done = service.end()
        answered = [a for a in asked if a.exception() is None]
    # What had reached the service by then is answered; what had not, finds no server.
    assert all(len(a.result().data) == 400 for a in answered) and answered
    assert all(isinstance(a.exception(), openai.APIConnectionError | None) for a in asked)
    assert done in {0, -signal.SIGTERM}


def test_wrong_calls(encoder_package: Path, tmp_path: Path) -> None:
    def run(*words: object) -> tuple[int, str]:
        command = [sys.executable, "-m", "aot_runtime.embeddings", *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    code, told = run(tmp_path / "none.pkg")
    assert code == 5 and "none.pkg" in told and "Traceback" not in told
    code, told = run(encoder_package, encoder_package)
    assert code == 2 and "two models are called 'tiny'" in told
    code, told = run(encoder_package, "--threads", "0")
    assert code == 2
    with pytest.raises(InvalidArgument, match="two models"):
        application([Encoder.load(encoder_package)] * 2)
