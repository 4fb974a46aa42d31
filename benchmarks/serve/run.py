"""Servers in turn under wrk: requests a second, p50 and p99, ours beside ONNX Runtime.

    python -m benchmarks.serve.run --write

All servers of a comparison run at once, and are asked in turn, in slices; idle ones cost nothing.
Needs Debian's `wrk`, and from PyPI `onnxruntime`, `onnx`, `onnxscript`.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "benchmarks" / "results" / "serve.md"


ABOUT = """\
Made by `python -m benchmarks.serve.run --write`: wrk on loopback, all on two cores; every server
has two sessions of one thread each; they are asked in turn, {rounds} slices of {seconds:.0f} s.
Medians; ratios are of slices of one round, with the least and the greatest; the processor's time
is the server's own for a request, which other work on the machine moves little.
ONNX Runtime {version}; load of the machine {load:.0f}. {note}

"""


@dataclass
class Contender:
    """A server: what it is, how it is started (with its port), and what it gave in each slice."""

    name: str
    command: list[str]
    path: str
    port: int = 0
    pid: int = 0
    slices: list[dict[str, float]] = field(default_factory=list)


@dataclass(frozen=True)
class Comparison:
    """Servers of one model that get the same requests."""

    name: str
    bodies: str
    connections: int
    contenders: list[Contender]


def comparisons(folder: Path, serve: Path) -> dict[str, Comparison]:
    def front(kind: str, engine: str, model: str) -> list[str]:
        path = folder / (f"{model}.pkg" if engine == "aot" else f"{model}.onnx")
        return [sys.executable, "-m", "benchmarks.serve.front", kind, engine, str(path), "{port}"]

    def served(package: str, name: str, **config: int) -> list[str]:
        models = folder / "served" / name
        version = models / "m" / "1"
        version.mkdir(parents=True, exist_ok=True)
        (version / "model.pkg").unlink(missing_ok=True)
        (version / "model.pkg").hardlink_to(folder / f"{package}.pkg")
        settings = {"sessions": 2, "threads": 1, **config}
        (models / "m" / "config.json").write_text(json.dumps(settings))
        return [str(serve), str(models), "--http-port", "{port}"]

    infer, embed = "/v2/models/m/infer", "/v1/embeddings"
    return {
        "minilm": Comparison(
            "MiniLM, texts of 3 to 120 words, `/v1/embeddings`",
            "texts",
            16,
            [
                Contender("ours", front("embeddings", "aot", "minilm"), embed),
                Contender("ONNX Runtime, same front", front("embeddings", "onnx", "minilm"), embed),
            ],
        ),
        "resnet50": Comparison(
            "ResNet-50, one image a request, Open Inference Protocol",
            "image",
            4,
            [
                Contender("aot-serve", served("resnet50", "resnet50"), infer),
                Contender("ours, front in Python", front("infer", "aot", "resnet50"), infer),
                Contender("ONNX Runtime, same front", front("infer", "onnx", "resnet50"), infer),
            ],
        ),
        "batches": Comparison(
            "MLP 512-1024-1024-512, one row a request, joined and not",
            "row",
            32,
            [
                Contender("`max_batch` 32", served("mlp", "joined", max_batch=32), infer),
                Contender("`max_batch` 1", served("mlp", "single"), infer),
            ],
        ),
    }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(f"no server on port {port}")


def processor_seconds(pid: int) -> float:
    """What all threads of a process have used so far."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def ask(one: Contender, bodies: Path, connections: int, seconds: float) -> dict[str, float]:
    head = bodies / "head"
    words = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:.0f}s", "--timeout", "30s"]
    words += ["-s", str(HERE / "load.lua"), f"http://127.0.0.1:{one.port}{one.path}"]
    words += ["--", str(bodies), *([head.read_text()] if head.exists() else [])]
    before = processor_seconds(one.pid)
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    found: dict[str, float] = json.loads(told.splitlines()[-1])
    found["cpu"] = (processor_seconds(one.pid) - before) / found["requests"]
    if found["errors"]:
        raise RuntimeError(f"{one.name}: {told}")
    return found


def settle(started: Sequence[subprocess.Popen[bytes]]) -> None:
    """Waits until no server works: what one still does for a slice must not cost the next one."""
    used = None
    while (now := [processor_seconds(process.pid) for process in started]) != used:
        used = now
        time.sleep(0.15)


def measure(one: Comparison, folder: Path, seconds: float, rounds: int) -> None:
    started = []
    try:
        for contender in one.contenders:
            contender.port = free_port()
            words = [w.replace("{port}", str(contender.port)) for w in contender.command]
            started.append(subprocess.Popen(words, cwd=ROOT, stderr=subprocess.DEVNULL))
            contender.pid = started[-1].pid
        for contender in one.contenders:
            wait_for(contender.port)
            ask(contender, folder / one.bodies, one.connections, 2)
        for turn in range(rounds):
            for contender in one.contenders[:: -1 if turn % 2 else 1]:
                settle(started)
                found = ask(contender, folder / one.bodies, one.connections, seconds)
                contender.slices.append(found)
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(30)


def ratio(above: list[float], below: list[float]) -> str:
    """The median over the rounds, with the least and the greatest."""
    found = [a / b for a, b in zip(above, below, strict=True)]
    return f"{statistics.median(found):.2f} ({min(found):.2f} to {max(found):.2f})"


def table(one: Comparison) -> list[str]:
    """Medians of the slices, and ratios to the last contender, the peer."""
    lines = [
        f"## {one.name}",
        f"{one.connections} connections.",
        "",
        "| server | requests a second | / the peer's | p50 ms | p99 ms | processor ms | peer's / |",
        "|---|---|---|---|---|---|---|",
    ]
    rates = [[s["requests"] / s["us"] * 1e6 for s in c.slices] for c in one.contenders]
    costs = [[s["cpu"] * 1e3 for s in c.slices] for c in one.contenders]
    for number, contender in enumerate(one.contenders):
        p50, p99 = (statistics.median(s[p] for s in contender.slices) / 1e3 for p in ("p50", "p99"))
        cells = [
            contender.name,
            f"{statistics.median(rates[number]):.1f}",
            ratio(rates[number], rates[-1]),
            f"{p50:.0f}",
            f"{p99:.0f}",
            f"{statistics.median(costs[number]):.1f}",
            ratio(costs[-1], costs[number]),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--folder", type=Path, help="where models are made, and kept if it is given"
    )
    parser.add_argument(
        "--serve", type=Path, default=ROOT / "build" / "release" / "cpp" / "serve" / "aot-serve"
    )
    parser.add_argument("--seconds", type=float, default=5, help="of one slice")
    parser.add_argument("--rounds", type=int, default=5, help="slices of each server")
    parser.add_argument(
        "--only", action="append", default=[], help="minilm, resnet50 or batches; again for more"
    )
    parser.add_argument("--note", default="", help="when, where and how quiet, for the page")
    parser.add_argument("--write", action="store_true", help="write the page")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        subprocess.run([sys.executable, "-m", "benchmarks.serve.models", folder], check=True)
        known = comparisons(folder, given.serve)
        found = [known[name] for name in given.only or known]
        for one in found:
            measure(one, folder, given.seconds, given.rounds)
    text = [
        "# Servers under load",
        "",
        *ABOUT.format(
            rounds=given.rounds,
            seconds=given.seconds,
            version=importlib.metadata.version("onnxruntime"),
            load=os.getloadavg()[1],
            note=given.note,
        ).splitlines(),
        *(line for one in found for line in table(one)),
    ]
    print("\n".join(text))
    if given.write:
        PAGE.write_text("\n".join(text))


if __name__ == "__main__":
    main()
