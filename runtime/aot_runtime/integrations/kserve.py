"""Packages in KServe: a custom runtime, which KServe's own server runs.

    python -m aot_runtime.integrations.kserve --model_name mlp --model_dir /mnt/models

`--model_dir` is a package, or a folder with one `*.pkg` or more; with several, each is a model
of its file's name. KServe's storage initialiser fills `/mnt/models`.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aot_runtime.errors import AotError, NotFound
from aot_runtime.format.devices import HOST
from aot_runtime.model import load

from .open_inference import DATATYPES, DTYPES, tensor_types

try:
    from kserve import InferInput, InferOutput, InferRequest, InferResponse, ModelServer
    from kserve import Model as KServeModel
    from kserve.errors import InferenceError, InvalidInput
    from kserve.model_server import parser as server_parser
    from kserve.utils.utils import generate_uuid
except ImportError as error:
    raise ImportError("aot_runtime.integrations.kserve needs KServe: pip install kserve") from error


class PackagedModel(KServeModel):
    """A package as a model of KServe's server.

    Args:
        name: The model's name in requests.
        path: The package.
        device: "cpu", "cuda" or "cuda:1".
        num_threads: Of a run; None: all cores.
    """

    def __init__(
        self, name: str, path: Path, device: str = HOST, num_threads: int | None = None
    ) -> None:
        super().__init__(name)
        self._path = path
        self._device = device
        self._num_threads = num_threads
        self.ready = False

    def load(self) -> bool:
        """Opens the package; the server asks for it when it starts."""
        self._model = load(self._path, self._device, num_threads=self._num_threads)
        self.ready = True
        return True

    async def get_input_types(self) -> list[dict[str, Any]]:
        """The inputs, for metadata."""
        return tensor_types(self._model.inputs)

    async def get_output_types(self) -> list[dict[str, Any]]:
        """The outputs, for metadata."""
        return tensor_types(self._model.outputs)

    async def predict(
        self,
        payload: dict[str, Any] | InferRequest,
        headers: dict[str, str] | None = None,
        response_headers: dict[str, str] | None = None,
    ) -> dict[str, Any] | InferResponse:
        """Answers both protocols: `{"instances": …}` of the first one, tensors of the second."""
        del headers, response_headers
        if isinstance(payload, Mapping):
            outputs = await self._run(self._instances(payload))
            values = {name: array.tolist() for name, array in outputs.items()}
            return {"predictions": next(iter(values.values())) if len(values) == 1 else values}
        outputs = await self._run({one.name: _array(one) for one in payload.inputs})
        return InferResponse(
            response_id=payload.id or generate_uuid(),
            model_name=self.name,
            infer_outputs=[_output(name, array) for name, array in outputs.items()],
        )

    async def _run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        try:
            outputs = await asyncio.to_thread(self._model.run_named, inputs)
        except AotError as error:
            kind = InvalidInput if isinstance(error, ValueError) else InferenceError
            raise kind(str(error)) from error
        return {name: np.asarray(array) for name, array in outputs.items()}

    def _instances(self, body: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Inputs of the first protocol: rows of the only input, or of each by name."""
        given = body.get("instances", body.get("inputs"))
        infos = self._model.inputs
        named = given if isinstance(given, Mapping) else {infos[0].name: given}
        types = {info.name: info.dtype for info in infos}
        try:
            return {name: np.asarray(value, types.get(name)) for name, value in named.items()}
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"'instances': {error}") from error


def _array(given: InferInput) -> np.ndarray:
    if given.datatype not in DTYPES:
        known = ", ".join(DTYPES)
        raise InvalidInput(f"input '{given.name}': datatype {given.datatype} is none of {known}")
    try:
        array: np.ndarray = given.as_numpy()
    except ValueError as error:
        raise InvalidInput(f"input '{given.name}': {error}") from error
    return array


def _output(name: str, array: np.ndarray) -> InferOutput:
    output = InferOutput(name, list(array.shape), DATATYPES[str(array.dtype)])
    output.set_data_from_numpy(array, binary_data=False)
    return output


def models_in(place: Path, name: str) -> dict[str, Path]:
    """The packages below a place by the names that requests call them.

    Raises:
        NotFound: there is none.
    """
    packages = [place] if place.is_file() else sorted(place.glob("*.pkg"))
    if not packages:
        raise NotFound(f"{place} is no package, and no folder with one (*.pkg)")
    if len(packages) == 1:
        return {name: packages[0]}
    return {package.stem: package for package in packages}


def argument_parser() -> argparse.ArgumentParser:
    """The options: ours, and those of KServe's server."""
    parser = argparse.ArgumentParser(
        parents=[server_parser], prog="aot_runtime.integrations.kserve"
    )
    parser.add_argument("--model_dir", type=Path, default=Path("/mnt/models"))
    parser.add_argument("--device", default=HOST, help="cpu, cuda, cuda:1")
    parser.add_argument("--num_threads", type=int, help="of a run; all cores where left out")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs KServe's server."""
    given = argument_parser().parse_args(arguments)
    models = [
        PackagedModel(name, path, given.device, given.num_threads)
        for name, path in models_in(given.model_dir, given.model_name).items()
    ]
    for model in models:
        model.load()
    ModelServer(http_port=given.http_port, grpc_port=given.grpc_port).start(models)


if __name__ == "__main__":
    main()
