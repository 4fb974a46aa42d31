"""KServe's client works unchanged: in an environment of its own (`make test-kserve`)."""

import subprocess
from pathlib import Path

import pytest

from tests.serve.server import Server, put


def test_its_client(
    program: Path, package: Path, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    python = pytestconfig.getoption("--kserve")
    if python is None:
        pytest.skip("needs the package kserve: `make test-kserve` installs it apart")
    put(tmp_path, "relu", package)
    with Server(program, tmp_path, "--grpc-port", "0", "--allow-control") as server:
        script = Path(__file__).with_name("kserve_client.py")
        ports = [str(server.port), str(server.grpc_port)]
        done = subprocess.run(
            [python, str(script), *ports], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.endswith("all right\n")
