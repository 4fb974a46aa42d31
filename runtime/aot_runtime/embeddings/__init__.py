"""Sentence encoders over HTTP, by OpenAI's protocol: `python -m aot_runtime.embeddings PACKAGE`.

The package carries its tokenizer (`aot-package … --file tokenizer.json=PATH`). From Python,
`Encoder.load(path)` is the encoder alone, and `application([…])` the service for any ASGI server.
Needs the packages `tokenizers` and, for the command, `uvicorn` (`pip install
aot-runtime[embeddings]`); docs/embeddings.md tells the rest.
"""

from __future__ import annotations

try:
    from .app import application
    from .encoder import Encoder
except ModuleNotFoundError as error:
    if (error.name or "").startswith("aot_runtime"):
        raise
    # With a name, `python -m` tells it in one line.
    told = f"needs {error.name}, which is not installed: pip install aot-runtime[embeddings]"
    raise ImportError(told, name=__name__) from error

__all__ = ["Encoder", "application"]
