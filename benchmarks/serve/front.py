"""One front in Python for both engines: `python -m benchmarks.serve.front KIND ENGINE MODEL PORT`.

`embeddings` is the service of `aot_runtime.embeddings`; `infer` answers Open Inference Protocol
requests with one float32 tensor as bytes. Both have two threads with a session of one thread each.
"""

from __future__ import annotations

import asyncio
import json
import queue
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import aot_runtime
import numpy as np
import uvicorn
from aot_runtime.embeddings import Encoder, application
from aot_runtime.embeddings.encoder import TOKENIZER, tokenizer_of

SESSIONS = 2


def load(engine: str, path: Path) -> Any:
    if engine == "aot":
        return aot_runtime.load(path, num_threads=1)
    from benchmarks.serve.onnx_model import OnnxModel

    tokenizer = path.with_name(TOKENIZER)
    files = {TOKENIZER: tokenizer.read_bytes()} if tokenizer.exists() else {}
    return OnnxModel(path, files)


class Infer:
    """`POST /v2/models/m/infer` with a binary tensor; the answer's is binary, too."""

    def __init__(self, model: Any) -> None:
        self._free: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for session in (model, *(model.session() for _ in range(SESSIONS - 1))):
            self._free.put(session)
        self._pool = ThreadPoolExecutor(SESSIONS)

    def _run(self, body: bytes, head: int) -> tuple[bytes, int]:
        (tensor,) = json.loads(body[:head])["inputs"]
        x = np.frombuffer(body, np.float32, offset=head).reshape(tensor["shape"])
        session = self._free.get()
        try:
            (y,) = session.run([x])
        finally:
            self._free.put(session)
        told = {"name": "output", "datatype": "FP32", "shape": list(y.shape)}
        told["parameters"] = {"binary_data_size": y.nbytes}
        text = json.dumps({"model_name": "m", "outputs": [told]}).encode()
        return text + np.ascontiguousarray(y).tobytes(), len(text)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            while True:
                kind = (await receive())["type"]
                await send({"type": f"{kind}.complete"})
                if kind == "lifespan.shutdown":
                    return
        parts, more = [], True
        while more:
            message = await receive()
            parts.append(message.get("body", b""))
            more = message.get("more_body", False)
        head = int(dict(scope["headers"])[b"inference-header-content-length"])
        loop = asyncio.get_running_loop()
        reply, length = await loop.run_in_executor(self._pool, self._run, b"".join(parts), head)
        headers = [(b"inference-header-content-length", str(length).encode())]
        headers.append((b"content-length", str(len(reply)).encode()))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": reply})


def main() -> None:
    kind, engine, path, port = sys.argv[1:]
    model = load(engine, Path(path))
    app: Any = Infer(model)
    if kind == "embeddings":
        app = application([Encoder(model, tokenizer_of(model), "m")], SESSIONS)
    uvicorn.run(app, port=int(port), access_log=False, log_level="warning")


if __name__ == "__main__":
    main()
