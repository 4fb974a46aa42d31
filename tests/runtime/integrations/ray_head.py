"""A Ray of its own for tests, which starts on a loaded machine too.

Ray's raylet ends itself where one of its agents has not begun to answer within 15 s, which no
setting changes (https://github.com/ray-project/ray/issues/65983). It learns of them by files with
their ports. Here the ports are chosen beforehand, and the files are there before the raylet looks.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",
    "RAY_raylet_start_wait_time_s": "120",
    "RAY_gcs_server_port_wait_time_s": "120",
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "100",
    "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "100",
}
"""It tells nobody that it runs, and may take its time on a loaded machine.

Workers are as nice as other processes: with Ray's own 15 they get a thirtieth of what others do,
and four take minutes to start beside any other work."""

PATIENCE_S = 240
LATE_S = 17
"""How late the dashboard's agent begins here, always: more than Ray waits for."""

LATE = f"""
import sys, time
if any(word.endswith("dashboard/agent.py") for word in sys.orig_argv):
    time.sleep({LATE_S})
"""

PORTS = {
    "metrics_agent": "--dashboard-agent-grpc-port",
    "dashboard_agent_listen": "--dashboard-agent-listen-port",
    "runtime_env_agent": "--runtime-env-agent-port",
    "metrics_export": "--metrics-export-port",
}
"""Of the agents: in the names of the files, and the options of `ray start`."""


@dataclass(frozen=True)
class Head:
    """A Ray that runs.

    Attributes:
        process: The ancestor of all its processes.
        environment: For programs that shall use it.
    """

    process: int
    environment: dict[str, str]


def free_ports(count: int) -> list[int]:
    """Ports that nobody has now, all different."""
    with ExitStack() as probes:
        found = [probes.enter_context(socket.socket()) for _ in range(count)]
        for probe in found:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in found]


@contextmanager
def started(program: Path, workers: int) -> Iterator[Head]:
    """A Ray with that many processors, by its command line: `ray start`."""
    own, *agents = free_ports(1 + len(PORTS))
    node = secrets.token_hex(28)
    with ExitStack() as stack:
        # Sockets lie in it, whose names must be short.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ray-")))
        (folder / "sitecustomize.py").write_text(LATE)
        environment = {**os.environ, **SETTINGS, "PYTHONPATH": str(folder)}
        command = [program, "start", "--head", "--block", "--include-dashboard=false"]
        command += ["--port", str(own), "--num-cpus", str(workers), "--temp-dir", folder / "ray"]
        for option, port in zip(PORTS.values(), agents, strict=True):
            command += [option, str(port)]
        log = stack.enter_context((folder / "log").open("w+b"))
        process = stack.enter_context(
            subprocess.Popen(
                command,
                env={**environment, "RAY_OVERRIDE_NODE_ID_FOR_TESTING": node},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        )
        stack.callback(_end, process)
        session = _session(folder / "ray", process, folder / "log")
        for name, port in zip(PORTS, agents, strict=True):
            _write(session / f"{name}_port_{node}", str(port))
        yield Head(process.pid, {**environment, "RAY_ADDRESS": f"127.0.0.1:{own}"})


def _session(folder: Path, process: subprocess.Popen[bytes], log: Path) -> Path:
    """The folder of the session, as soon as Ray has made it: its raylet starts later."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and process.poll() is None:
        for found in folder.glob("session_2*"):
            return found
        time.sleep(0.01)
    raise AssertionError(f"Ray does not start:\n{log.read_text()}")


def _write(path: Path, text: str) -> None:
    """As Ray's agents do: never a part of it can be read."""
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    new.rename(path)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends Ray, and what it has left after its own time for that."""
    process.terminate()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
