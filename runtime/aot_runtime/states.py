"""A session's states as NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .arrays import numpy_dtype, numpy_module
from .errors import InvalidArgument

if TYPE_CHECKING:
    import numpy as np

    from ._native import Session
    from .tensors import TensorInfo


RANDOM_STATE = "@random"
"""The state that random numbers come from: int64[2], the seed and the runs so far."""


def read_states(session: Session, infos: Sequence[TensorInfo]) -> dict[str, np.ndarray[Any, Any]]:
    """A copy of every state, by name.

    Raises:
        Unsupported: a bfloat16 state without the package ml_dtypes.
    """
    numpy = numpy_module()
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for index, info in enumerate(infos):
        array = numpy.empty(info.shape, numpy_dtype(info.dtype, f"state '{info.name}'"))
        session.get_state(index, array.reshape(-1).view(numpy.uint8))
        arrays[info.name] = array
    return arrays


def write_states(
    session: Session, infos: Sequence[TensorInfo], values: Mapping[str, Any], strict: bool
) -> None:
    """Writes states by name; all values are checked before the first is written.

    Raises:
        InvalidArgument: a name, dtype or shape that is not the state's, or, if `strict`, a state
            without a value.
    """
    numpy = numpy_module()
    unknown = [name for name in values if name not in {info.name for info in infos}]
    missing = [info.name for info in infos if info.name not in values]
    if unknown:
        raise InvalidArgument(f"the model has no states {', '.join(map(repr, unknown))}")
    if strict and missing:
        raise InvalidArgument(f"no values for the states {', '.join(map(repr, missing))}")
    checked: list[tuple[int, Any]] = []
    for index, info in enumerate(infos):
        if info.name not in values:
            continue
        array = numpy.asarray(values[info.name])
        dtype = numpy_dtype(info.dtype, f"state '{info.name}'")
        if array.dtype != dtype or array.shape != info.shape:
            raise InvalidArgument(
                f"state '{info.name}' is {info.dtype}{list(info.shape)}, "
                f"the value given {array.dtype}{list(array.shape)}"
            )
        flat = numpy.ascontiguousarray(array).reshape(-1)
        checked.append((index, flat.view(numpy.uint8)))
    for index, data in checked:
        session.set_state(index, data)


def write_seed(session: Session, infos: Sequence[TensorInfo], seed: int) -> None:
    """Writes the state of random numbers before the first run.

    Raises:
        InvalidArgument: the model draws no random numbers, or the seed is no int64.
    """
    if all(info.name != RANDOM_STATE for info in infos):
        raise InvalidArgument("the model draws no random numbers")
    if not -(2**63) <= seed < 2**63:
        raise InvalidArgument(f"the seed {seed} is no int64")
    write_states(session, infos, {RANDOM_STATE: [seed, 0]}, strict=False)
