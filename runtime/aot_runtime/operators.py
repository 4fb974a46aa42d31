"""Custom operators of models as Python callables over NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from . import _native
from .arrays import numpy_dtype, numpy_module
from .errors import InvalidArgument

if TYPE_CHECKING:
    import numpy as np


def register_operator(name: str, function: Callable[..., Any]) -> None:
    """Gives a custom operator its code in this process.

    Register before `load`: a model takes what is registered when it is made, and keeps it. What a
    package carries itself comes first. A second registration is for models made later.

    Args:
        name: as the model calls it: "ns::name", or "ns::name.overload".
        function: takes the arguments of the operator's schema by position, defaults included:
            NumPy arrays (valid during the call alone, and read-only unless the schema says that
            the operator changes them), numbers, bools, strings, None,
            and lists of these. Returns the result, an array of the shape and type that the model
            says, or a tuple of them; they are copied. Called with the GIL held, in the thread that
            calls the model, by several threads when several sessions run. An exception becomes
            `OperatorFailed` with it as the cause. It must not call the model that calls it.

    Raises:
        InvalidArgument: `name` is empty, or `function` cannot be called.
    """
    if not callable(function):
        raise InvalidArgument(f"the code of operator '{name}' must be callable")

    def call(arguments: list[Any], results: list[_native.OperatorTensor]) -> None:
        made = function(*(_argument(value) for value in arguments))
        _write_results(name, made, [_array(result) for result in results])

    _native.register_operator(name, call)


def unregister_operator(name: str) -> None:
    """Takes an operator's code away; models that exist keep it.

    Raises:
        InvalidArgument: `name` is empty.
    """
    _native.register_operator(name, None)


def _argument(value: Any) -> Any:
    if isinstance(value, list):
        return [_argument(item) for item in value]
    return _array(value) if isinstance(value, _native.OperatorTensor) else value


def _array(tensor: _native.OperatorTensor) -> np.ndarray[Any, Any]:
    array: np.ndarray[Any, Any] = numpy_module().asarray(tensor)
    if tensor.dtype != "bfloat16":
        return array
    return array.view(numpy_dtype("bfloat16", "an operator's tensor"))


def _write_results(name: str, made: Any, results: Sequence[np.ndarray[Any, Any]]) -> None:
    """Copies what the callable returned to the results' memory."""
    numpy = numpy_module()
    several = isinstance(made, (tuple, list))
    given = made if several else () if made is None else (made,)
    if len(given) != len(results):
        raise ValueError(f"{name} returned {len(given)} results, the model says {len(results)}")
    for position, (value, result) in enumerate(zip(given, results, strict=True)):
        array = numpy.asarray(value)
        if array.shape != result.shape or array.dtype != result.dtype:
            raise ValueError(
                f"result {position} of {name} is {array.dtype}{list(array.shape)}, "
                f"the model says {result.dtype}{list(result.shape)}"
            )
        numpy.copyto(result, array)
