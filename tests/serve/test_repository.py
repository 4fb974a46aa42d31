"""Models that come and go while they are asked."""

import json
import signal
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tests.kernels import reference
from tests.serve.server import Server, X, eventually, put, request, tensor, values

pytestmark = pytest.mark.slow


def load(server: Server, name: str, word: str = "load") -> tuple[int, str]:
    answer = server.ask("POST", f"/v2/repository/models/{name}/{word}", "{}")
    return answer.status, answer.json["error"] if answer.body else ""


def test_models_are_loaded_and_unloaded(program: Path, package: Path, tmp_path: Path) -> None:
    put(tmp_path, "a", package)
    with Server(program, tmp_path, "--allow-control") as server:
        put(tmp_path, "b", package)
        assert server.infer("b", request(tensor(X))).status == 404
        assert load(server, "b") == (200, "")
        assert server.infer("b", request(tensor(X))).status == 200
        assert load(server, "b", "unload") == (200, "")
        assert server.infer("b", request(tensor(X))).status == 404
        status, message = load(server, "b", "unload")
        assert (status, message) == (404, "model 'b' is not loaded")
        states = {r["name"]: r["state"] for r in server.ask("POST", "/v2/repository/index").json}
        assert states == {"a": "READY", "b": "UNAVAILABLE"}
        assert server.end() == 0


def test_a_reload_loses_no_request(
    program: Path, package: Path, other_package: Path, tmp_path: Path
) -> None:
    put(tmp_path, "m", package)
    wrong: list[object] = []
    seen: set[str] = set()
    stop = threading.Event()

    def ask(server: Server) -> None:
        connection = server.connect()
        while not stop.is_set():
            connection.request("POST", "/v2/models/m/infer", json.dumps(request(tensor(X))))
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 200:
                wrong.append(body)
                return
            got = json.loads(body)
            seen.add(got["model_version"])
            added = int(got["model_version"]) - 1  # version 2 adds 1
            data = np.array(got["outputs"][0]["data"], np.float32).reshape(X.shape)
            if not np.array_equal(data, reference(X) + added):
                wrong.append(got)
        connection.close()

    with Server(program, tmp_path, "--allow-control") as server:
        threads = [threading.Thread(target=ask, args=(server,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for i in range(8):
            if i % 2:
                (tmp_path / "m" / "2" / "model.pkg").unlink()
            else:
                put(tmp_path, "m", other_package, version=2)
            assert load(server, "m") == (200, "")
            time.sleep(0.05)
        stop.set()
        for thread in threads:
            thread.join()
        assert not wrong
        assert seen == {"1", "2"}


def test_what_cannot_be_loaded_changes_nothing(
    program: Path, package: Path, tmp_path: Path
) -> None:
    path = put(tmp_path, "m", package)
    with Server(program, tmp_path, "--allow-control") as server:
        path.with_name("bad").write_bytes(b"no package")
        path.with_name("bad").rename(path)
        status, message = load(server, "m")
        assert status == 422
        assert str(path) in message
        np.testing.assert_array_equal(values(server.infer("m", request(tensor(X)))), reference(X))
        path.unlink()  # what is mapped stays
        assert load(server, "m")[0] == 404
        assert server.infer("m", request(tensor(X))).status == 200
        assert server.ask("GET", "/v2/health/ready").status == 200
        for name in ("none", "..", "%2e%2e", "a%2fb"):
            assert load(server, name)[0] == 404


def test_a_model_that_fails_at_the_start_is_not_ready(
    program: Path, package: Path, tmp_path: Path
) -> None:
    bad = put(tmp_path, "bad", package)
    bad.write_bytes(b"no package")
    put(tmp_path, "good", package)
    with Server(program, tmp_path, "--allow-control") as server:
        assert server.ask("GET", "/v2/health/ready").status == 503
        assert server.ask("GET", "/v2/health/live").status == 200
        assert server.infer("good", request(tensor(X))).status == 200
        answer = server.infer("bad", request(tensor(X)))
        assert answer.status == 404
        assert str(bad) in answer.json["error"]
        put(tmp_path, "bad", package)
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: server.ask("GET", "/v2/health/ready").status == 200, 60)
        assert server.infer("bad", request(tensor(X))).status == 200


def test_versions_are_the_latest_or_those_that_are_named(
    program: Path, package: Path, other_package: Path, tmp_path: Path
) -> None:
    for name, versions in (("latest", None), ("all", "all"), ("one", [1])):
        for version in (1, 10, 2):
            put(tmp_path, name, package if version == 1 else other_package, version)
        if versions:
            (tmp_path / name / "config.json").write_text(json.dumps({"versions": versions}))
    with Server(program, tmp_path) as server:
        found = {
            n: server.ask("GET", f"/v2/models/{n}").json["versions"]
            for n in ("latest", "all", "one")
        }
        assert found == {"latest": ["10"], "all": ["1", "2", "10"], "one": ["1"]}
        answer = server.ask("POST", "/v2/models/one/versions/2/infer", "{}")
        assert "no version '2' loaded; there are 1" in answer.json["error"]


@pytest.mark.parametrize(
    ("config", "word"),
    [
        ("[]", "no JSON object"),
        ('{"sesions": 2}', "there is no 'sesions'; there are"),
        ('{"sessions": 0}', "'sessions' must be a whole number from 1"),
        ('{"versions": "some"}', "'versions' must be"),
        ('{"versions": [7]}', "has no version 7"),
        ('{"limits": {"bytes": 1}}', "'limits' has no 'bytes'"),
        ('{"device": "tpu"}', "tpu"),
    ],
)
def test_a_wrong_configuration_is_told(
    program: Path, package: Path, tmp_path: Path, config: str, word: str
) -> None:
    put(tmp_path, "m", package)
    (tmp_path / "m" / "config.json").write_text(config)
    with Server(program, tmp_path) as server:
        (row,) = server.ask("POST", "/v2/repository/index").json
        assert row["state"] == "UNAVAILABLE"
        assert word in row["reason"]


def test_a_configuration_is_followed(program: Path, package: Path, tmp_path: Path) -> None:
    limits = {"output_bytes": 64, "run_ns": 10**10}
    put(
        tmp_path,
        "m",
        package,
        versions="all",
        device="cpu",
        sessions=2,
        threads=1,
        cpus=[0],
        max_batch=4,
        max_delay_us=10,
        max_queue=5,
        timeout_ms=5000,
        limits=limits,
    )
    with Server(program, tmp_path) as server:
        config = server.ask("GET", "/v2/models/m/config").json
        assert config["instance_group"][0]["count"] == 2
        assert config["parameters"]["max_queue"]["string_value"] == "5"
        assert set(json.loads(config["parameters"]["batch_microseconds"]["string_value"])) == {
            "1",
            "2",
            "4",
        }
        assert server.infer("m", request(tensor(X))).status == 200
        answer = server.infer("m", request(tensor(np.ones((5, 4), np.float32))))
        assert answer.status == 413
        assert "64" in answer.json["error"]


@pytest.mark.parametrize("words", [[], ["--copy"]], ids=["mapped", "copied"])
def test_copied_packages_are_not_mapped(
    program: Path, package: Path, tmp_path: Path, words: list[str]
) -> None:
    path = put(tmp_path, "relu", package)
    with Server(program, tmp_path, *words) as server:
        np.testing.assert_array_equal(
            values(server.infer("relu", request(tensor(X)))), reference(X)
        )
        maps = Path(f"/proc/{server.process.pid}/maps").read_text()
    assert (str(path) in maps) == (not words)


def test_packages_must_be_signed_where_keys_are_given(
    program: Path, package: Path, tmp_path: Path
) -> None:
    put(tmp_path, "m", package)
    with Server(program, tmp_path, "--key", "ab" * 32) as server:
        (row,) = server.ask("POST", "/v2/repository/index").json
        assert row["state"] == "UNAVAILABLE"
        assert "sign" in row["reason"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name the folder of models"),
        (["a", "b"], "one folder"),
        (["a", "--http-port", "x"], "--http-port must be a number"),
        (["a", "--http-port"], "needs a value: PORT"),
        (["a", "--nothing"], "there is no option --nothing"),
        (["a", "--allow-control=1"], "takes no value"),
        (["a", "--key", "no.pub"], "--key: there is no file 'no.pub', nor is this a public key"),
        (["/nowhere"], "/nowhere: No such file or directory; wanted is a folder with models in it"),
        ([__file__], "Not a directory; wanted is a folder with models in it, such as /"),
    ],
)
def test_wrong_words_are_told(program: Path, words: list[str], message: str) -> None:
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    assert done.returncode in {1, 2}
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_folder_without_models_is_told(program: Path, tmp_path: Path) -> None:
    with Server(program, tmp_path) as server:
        (told,) = (line for line in server.lines if line["event"] == "no models")
    assert told["level"] == "warning"
    assert told["reason"].endswith("mlp/1/model.pkg")


def test_two_servers_do_not_share_a_port(program: Path, server: Server, tmp_path: Path) -> None:
    done = subprocess.run(
        [program, tmp_path, "--http-port", str(server.port)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"port {server.port}: Address already in use" in done.stderr


def test_help_names_every_option(program: Path) -> None:
    done = subprocess.run([program, "--help"], capture_output=True, text=True, check=True)
    assert "--max-body-mb N" in done.stdout
