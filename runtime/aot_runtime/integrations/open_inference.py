"""The Open Inference Protocol v2 as JSON: requests to arrays, arrays to answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from aot_runtime.errors import InvalidArgument

if TYPE_CHECKING:
    from aot_runtime.model import Model
    from aot_runtime.tensors import TensorInfo

DATATYPES = {
    "bool": "BOOL",
    **{f"int{bits}": f"INT{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"UINT{bits}" for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"FP{bits}" for bits in (16, 32, 64)},
    "bfloat16": "BF16",
}
"""Names of element types -> the protocol's."""

DTYPES = {datatype: dtype for dtype, datatype in DATATYPES.items() if datatype != "BF16"}
"""The other way, for what NumPy and JSON have."""


def read_request(body: Any) -> dict[str, np.ndarray]:
    """The inputs of an inference request by name.

    Raises:
        InvalidArgument: it is no such request; the message says where.
    """
    inputs = body.get("inputs") if isinstance(body, Mapping) else None
    if not isinstance(inputs, Sequence) or isinstance(inputs, str):
        raise InvalidArgument("a request is an object with an array 'inputs'")
    return dict(_read_input(one, place) for place, one in enumerate(inputs))


def _read_input(given: Any, place: int) -> tuple[str, np.ndarray]:
    if not isinstance(given, Mapping) or not isinstance(given.get("name"), str):
        raise InvalidArgument(f"inputs[{place}] has no name")
    name, datatype, shape = given["name"], given.get("datatype"), given.get("shape")
    if datatype not in DTYPES:
        known = ", ".join(DTYPES)
        raise InvalidArgument(f"input '{name}': datatype {datatype!r} is none of {known}")
    if "data" not in given or not isinstance(shape, Sequence):
        raise InvalidArgument(f"input '{name}' needs 'shape' and 'data', as JSON")
    try:
        return name, np.array(given["data"], DTYPES[datatype]).reshape(shape)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgument(f"input '{name}': {error}") from error


def write_answer(
    model: str, outputs: Mapping[str, np.ndarray], request_id: str = ""
) -> dict[str, Any]:
    """An inference answer."""
    rows = [
        {
            "name": name,
            "datatype": DATATYPES[str(array.dtype)],
            "shape": list(array.shape),
            "data": array.ravel().tolist(),
        }
        for name, array in outputs.items()
    ]
    return {"model_name": model, **({"id": request_id} if request_id else {}), "outputs": rows}


def tensor_types(infos: Iterable[TensorInfo]) -> list[dict[str, Any]]:
    """Inputs or outputs as metadata has them; -1 is a size that may be another each time."""
    return [
        {
            "name": info.name,
            "datatype": DATATYPES.get(info.dtype, info.dtype.upper()),
            "shape": [-1 if dim.size is None else dim.size for dim in info.dims],
        }
        for info in infos
    ]


def metadata(name: str, model: Model) -> dict[str, Any]:
    """What the model takes and gives."""
    types = {"inputs": tensor_types(model.inputs), "outputs": tensor_types(model.outputs)}
    return {"name": name, "platform": "aot-package", **types}
