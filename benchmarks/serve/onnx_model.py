"""An ONNX model with the face of `aot_runtime.Model`, so that one front serves both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from aot_runtime.tensors import Dim, TensorInfo

_TYPES = {"tensor(int64)": "int64", "tensor(float)": "float32"}


class OnnxModel:
    """What `Encoder` and `front` ask of a model; a session of one thread.

    `files`: what a package would carry.
    """

    def __init__(self, path: Path, files: dict[str, bytes] | None = None) -> None:
        self._path, self._files = path, files or {}
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        self._session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )
        self.inputs = tuple(map(_info, self._session.get_inputs()))
        self.outputs = tuple(map(_info, self._session.get_outputs()))
        self._names = [info.name for info in self.inputs]

    def session(self) -> OnnxModel:
        return OnnxModel(self._path, self._files)

    def file(self, name: str) -> bytes:
        return self._files[name]

    def run(self, inputs: Sequence[Any]) -> list[np.ndarray]:
        return self._session.run(None, dict(zip(self._names, inputs, strict=True)))


def _info(tensor: Any) -> TensorInfo:
    dims = [
        Dim(size, size, size, 1, str(size))
        if isinstance(size, int)
        else Dim(None, 1, MOST.get(str(size)), 1, str(size))
        for size in tensor.shape
    ]
    return TensorInfo(tensor.name, _TYPES[tensor.type], tuple(dims))


MOST = {"batch": 1024, "sequence": 512}
"""Greatest sizes, which ONNX does not say."""
