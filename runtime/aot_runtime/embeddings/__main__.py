"""`python -m aot_runtime.embeddings`: the service behind uvicorn.

    python -m aot_runtime.embeddings minilm.pkg --port 8080
    python -m aot_runtime.embeddings small=a.pkg large=b.pkg --key release.pub

It listens on this machine alone unless --host says otherwise, without TLS and tokens: put a proxy
before it (docs/serving.md, "Security").
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from aot_runtime.errors import AotError
from aot_runtime.policy import Policy

from . import Encoder, application

HEADER_BYTES = 16 << 10
CONNECTIONS = 1024
IDLE_SECONDS = 120


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m aot_runtime.embeddings",
        description="Serves sentence encoders by OpenAI's protocol.",
    )
    parser.add_argument(
        "packages",
        nargs="+",
        metavar="[NAME=]PACKAGE",
        help="a package with its tokenizer.json; without a name it is called as the file is",
    )
    parser.add_argument("--host", default="127.0.0.1", help="where to listen (this machine alone)")
    parser.add_argument("--port", type=int, default=8080, help="0: one that is free")
    parser.add_argument("--device", help="cpu, cuda, cuda:1")
    parser.add_argument("--sessions", type=int, help="runs at the same time, of each model")
    parser.add_argument("--threads", type=int, default=1, help="threads of one run")
    parser.add_argument("--key", action="append", default=[], help="packages signed by it alone")
    parser.add_argument(
        "--drain-time", type=int, default=30, help="seconds for open requests at the end"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """The program; its exit code."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.threads < 1 or (given.sessions is not None and given.sessions < 1):
        parser.error("--threads and --sessions are at least 1")
    try:
        uvicorn = importlib.import_module("uvicorn")
    except ModuleNotFoundError as error:
        print(f"error: needs {error.name}: pip install aot-runtime[embeddings]", file=sys.stderr)
        return 4
    policy = Policy(keys=given.key) if given.key else None
    encoders = []
    for text in given.packages:
        name, _, path = text.rpartition("=")
        try:
            encoders.append(
                Encoder.load(
                    path,
                    name or None,
                    device=given.device,
                    num_threads=given.threads,
                    policy=policy,
                )
            )
        except (AotError, OSError) as error:
            print(f"error: {path}: {error}", file=sys.stderr)
            return 5
    try:
        service = application(encoders, given.sessions)
    except AotError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    uvicorn.run(
        service,
        host=given.host,
        port=given.port,
        access_log=False,
        limit_concurrency=CONNECTIONS,
        h11_max_incomplete_event_size=HEADER_BYTES,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=given.drain_time,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
