"""The C++ examples build against an installed runtime, with CMake and without, and do their job."""

import concurrent.futures
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.examples.building import EXAMPLES, cmake, configure, run
from tests.kernels import reference, write_kernels

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_kernels(tmp_path_factory.mktemp("package"), {"x86-64-v2": "0"})


@pytest.fixture(scope="module")
def hello(runtime: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    build = tmp_path_factory.mktemp("hello")
    configure(EXAMPLES / "cpp_hello", build, f"-DCMAKE_PREFIX_PATH={runtime}")
    cmake("--build", build)
    return build


def test_explained_runs_any_package(hello: Path, package: Path) -> None:
    done = run(hello / "explained", package, 5)
    assert done.returncode == 0, done.stderr
    assert "input x: float32[" in done.stdout
    assert "output 0: 20 elements, the first is 0" in done.stdout
    assert "kernels for x86-64-v2" in done.stdout


def test_explained_reports_what_is_wrong(hello: Path, tmp_path: Path) -> None:
    assert run(hello / "explained").returncode == 2
    done = run(hello / "explained", tmp_path / "none.pkg")
    assert done.returncode == 1
    assert "NOT_FOUND" in done.stderr
    (tmp_path / "bad.pkg").write_bytes(b"no package at all")
    done = run(hello / "explained", tmp_path / "bad.pkg")
    assert done.returncode == 1
    assert "CORRUPT_PACKAGE" in done.stderr


def test_terse_throws_what_is_wrong(hello: Path, package: Path) -> None:
    # The program is made for the MLP of examples/01_mlp; this package wants four columns.
    done = run(hello / "terse", package)
    assert done.returncode == 1
    assert "error: " in done.stderr
    assert "64" in done.stderr


def test_terse_builds_without_cmake(runtime: Path, tmp_path: Path) -> None:
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{runtime / 'include'}"]
    link = [f"-L{runtime / 'lib'}", f"-Wl,-rpath,{runtime / 'lib'}", "-laot_runtime"]
    program = tmp_path / "terse"
    done = run("g++", *flags, EXAMPLES / "cpp_hello" / "terse.cc", *link, "-o", program)
    assert done.returncode == 0, done.stderr
    assert run(program, tmp_path / "none.pkg").returncode == 1


@pytest.mark.skipif(shutil.which("pkg-config") is None, reason="needs pkg-config")
def test_terse_builds_by_pkg_config_wherever_the_runtime_lies(
    runtime: Path, tmp_path: Path
) -> None:
    moved = shutil.copytree(runtime, tmp_path / "moved", symlinks=True)
    asked = ["pkg-config", "--cflags", "--libs", "aot_runtime"]
    flags = subprocess.run(
        asked,
        env={**os.environ, "PKG_CONFIG_PATH": str(moved / "lib" / "pkgconfig")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert all(str(moved) in flag for flag in flags if flag.startswith(("-I", "-L")))
    program, rpath = tmp_path / "terse", f"-Wl,-rpath,{moved / 'lib'}"
    done = run(
        "g++", "-std=c++17", EXAMPLES / "cpp_hello" / "terse.cc", *flags, rpath, "-o", program
    )
    assert done.returncode == 0, done.stderr
    assert run(program, tmp_path / "none.pkg").returncode == 1


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def service_program(runtime: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The service, built."""
    if not any((Path(d) / "httplib.h").exists() for d in ("/usr/include", "/usr/local/include")):
        pytest.skip("needs httplib.h: apt install libcpp-httplib-dev")
    build = tmp_path_factory.mktemp("service")
    nlohmann = Path(pytest.importorskip("nlohmann_json").__file__).parent / "include"
    options = [f"-DCMAKE_PREFIX_PATH={runtime}", f"-DNLOHMANN_DIR={nlohmann}"]
    configure(EXAMPLES / "cpp_service", build, *options)
    cmake("--build", build)
    return build / "service"


@pytest.fixture(scope="module")
def service(service_program: Path, package: Path) -> Iterator[str]:
    """The URL of a running service with two sessions and bodies of at most a megabyte."""
    port = free_port()
    with subprocess.Popen(
        [service_program, package, str(port), "2"],
        stdout=subprocess.PIPE,
        env={**os.environ, "MAX_BODY_MB": "1"},
    ) as server:
        try:
            assert server.stdout is not None
            assert b"serving" in server.stdout.readline()
            url = f"http://127.0.0.1:{port}/v2"
            wait_until_ready(url)
            yield url
        finally:
            server.terminate()
            assert server.wait(60) == 0


def wait_until_ready(url: str) -> None:
    for _ in range(600):
        try:
            with urllib.request.urlopen(f"{url}/health/ready", timeout=10):
                return
        except urllib.error.URLError:
            time.sleep(0.05)
    pytest.fail("the service did not get ready")


def post(url: str, body: object) -> tuple[int, dict]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(f"{url}/models/model/infer", data)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def tensor(x: np.ndarray, **changes: object) -> dict:
    made = {"name": "x", "datatype": "FP32", "shape": list(x.shape), "data": x.ravel().tolist()}
    return {"inputs": [{**made, **changes}]}


def test_service_answers_concurrently(service: str) -> None:
    inputs = [np.full((n, 4), n - 4.5, np.float32) for n in range(1, 17)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda x: post(service, tensor(x)), inputs))
    for x, (status, answer) in zip(inputs, answers, strict=True):
        assert status == 200
        (output,) = answer["outputs"]
        assert output["shape"] == list(x.shape)
        np.testing.assert_allclose(output["data"], reference(x).ravel(), rtol=1e-6)


def test_service_describes_its_model(service: str) -> None:
    with urllib.request.urlopen(f"{service}/models/model", timeout=60) as response:
        description = json.load(response)
    assert description["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"no json", "parse error"),
        ({"tensors": []}, "inputs"),
        ({"inputs": []}, "no input called x"),
        (tensor(np.zeros((2, 4), np.float32), datatype="INT64"), "must be FP32, not INT64"),
        (tensor(np.zeros((2, 4), np.float32), shape=[2, 5]), "the shape has 10 elements"),
        (tensor(np.zeros((2, 5), np.float32)), "x"),
        (tensor(np.zeros((65, 4), np.float32)), "64"),
        (tensor(np.zeros((1, 4), np.float32), data=["a", "b", "c", "d"]), "non-number"),
        (tensor(np.zeros((1, 4), np.float32), shape=[-1, -4]), "out of range"),
    ],
)
def test_service_refuses_wrong_requests(service: str, body: object, word: str) -> None:
    status, answer = post(service, body)
    assert status == 400
    assert word in answer["error"]
    assert post(service, tensor(np.ones((1, 4), np.float32)))[0] == 200


@pytest.mark.parametrize(
    ("port", "sessions", "word"),
    [("abc", "2", "PORT must be"), ("70000", "2", "PORT must be"), ("8000", "0", "SESSIONS must")],
)
def test_service_refuses_wrong_arguments(
    service_program: Path, package: Path, port: str, sessions: str, word: str
) -> None:
    done = run(service_program, package, port, sessions)
    assert done.returncode == 2
    assert word in done.stderr


def test_two_services_do_not_share_a_port(
    service: str, service_program: Path, package: Path
) -> None:
    port = service.removesuffix("/v2").rpartition(":")[2]
    done = run(service_program, package, port, 1)
    assert done.returncode == 1
    assert f"port {port} is taken" in done.stderr


def test_bodies_have_a_limit_and_any_type(service: str) -> None:
    # urllib sends the type of forms, as curl does.
    x = np.ones((1, 4), np.float32)
    assert post(service, {**tensor(x), "id": "x" * 100_000})[0] == 200
    status, answer = post(service, {**tensor(x), "id": "x" * (3 << 19)})
    assert status == 413
    assert "the body has more than 1048576 bytes" in answer["error"]
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{service}/nothing", timeout=60)
    with caught.value as error:
        assert "404" in json.load(error)["error"]
