"""Custom operators of models as Python callables over arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from . import _native
from .arrays import ML_TYPES, converter_for, numpy_dtype, numpy_module, working_in
from .errors import InvalidArgument

if TYPE_CHECKING:
    import numpy as np


def register_operator(name: str, function: Callable[..., Any], device: str | None = None) -> None:
    """Gives a custom operator its code for a kind of device in this process.

    Register before `load`: a model takes what is registered when it is made, and keeps it. What a
    package carries itself comes first. A second registration is for models made later.

    Args:
        name: as the model calls it: "ns::name", or "ns::name.overload".
        function: takes the arguments of the operator's schema by position, defaults included:
            arrays (valid during the call alone, and read-only unless the schema says that
            the operator changes them), numbers, bools, strings, None,
            and lists of these. Returns the result, an array of the shape and type that the model
            says, or a tuple of them; they are copied. Called with the GIL held, in the thread that
            calls the model, by several threads when several sessions run. An exception becomes
            `OperatorFailed` with it as the cause. It must not call the model that calls it.
        device: "cpu" or None, where arrays are NumPy's; or "cuda", where each is an
            `OperatorTensor`, of which `from_dlpack` of torch or cupy makes an array without a
            copy, and the function returns arrays of such a library. torch and cupy, if imported,
            work in the call's stream meanwhile: what they are told is enqueued there, and need not
            be waited for.

    Raises:
        InvalidArgument: `name` is empty, or `function` cannot be called.
        Unavailable: There is no such kind of device.
    """
    if not callable(function):
        raise InvalidArgument(f"the code of operator '{name}' must be callable")

    def on_host(arguments: list[Any], results: list[_native.OperatorTensor]) -> None:
        made = _results(name, function(*(_argument(value) for value in arguments)), len(results))
        for position, (value, result) in enumerate(zip(made, results, strict=True)):
            array, target = numpy_module().asarray(value), _array(result)
            _check(name, position, array, target)
            numpy_module().copyto(target, array)

    def call(arguments: list[Any], results: list[_native.OperatorTensor], stream: int) -> None:
        if stream == 0:
            on_host(arguments, results)
            return
        index = _gpu_of([*arguments, *results])
        with working_in(stream, index):
            made = _results(name, function(*arguments), len(results))
            for position, (value, result) in enumerate(zip(made, results, strict=True)):
                _copy_on_gpu(name, position, value, result)

    _native.register_operator(name, device or "", call)


def unregister_operator(name: str, device: str | None = None) -> None:
    """Takes an operator's code for a kind of device away; models that exist keep it.

    Raises:
        InvalidArgument: `name` is empty.
        Unavailable: There is no such kind of device.
    """
    _native.register_operator(name, device or "", None)


def _argument(value: Any) -> Any:
    if isinstance(value, list):
        return [_argument(item) for item in value]
    return _array(value) if isinstance(value, _native.OperatorTensor) else value


def _array(tensor: _native.OperatorTensor) -> np.ndarray[Any, Any]:
    array: np.ndarray[Any, Any] = numpy_module().asarray(tensor)
    if tensor.dtype not in ML_TYPES:
        return array
    return array.view(numpy_dtype(tensor.dtype, "an operator's tensor"))


def _gpu_of(values: Sequence[Any]) -> int:
    """The number of the GPU that a call's tensors are on; 0 where it has none."""
    for value in values:
        items = value if isinstance(value, list) else [value]
        for item in items:
            if isinstance(item, _native.OperatorTensor):
                return item.__dlpack_device__()[1]
    return 0


def _results(name: str, made: Any, count: int) -> Sequence[Any]:
    """What the callable returned, as many as the model says.

    Raises:
        ValueError: There are more or fewer.
    """
    several = isinstance(made, (tuple, list))
    given = made if several else () if made is None else (made,)
    if len(given) != count:
        raise ValueError(f"{name} returned {len(given)} results, the model says {count}")
    return given


def _check(name: str, position: int, value: Any, target: Any) -> None:
    """The arrays of a result, the callable's and the model's, are of one type and shape.

    Raises:
        ValueError: They are not.
    """
    if value.shape != target.shape or value.dtype != target.dtype:
        raise ValueError(
            f"result {position} of {name} is {value.dtype}{list(value.shape)}, "
            f"the model says {target.dtype}{list(target.shape)}"
        )


def _same_gpu(one: Any, other: Any) -> bool:
    return tuple(one.__dlpack_device__()) == tuple(other.__dlpack_device__())


def _copy_on_gpu(name: str, position: int, value: Any, result: _native.OperatorTensor) -> None:
    """Copies a result to its place with the library that made it, where that works.

    Raises:
        ValueError: It is no array of a library on the model's GPU, or not as the model says.
    """
    if (
        isinstance(value, _native.OperatorTensor)
        or not hasattr(value, "__dlpack__")
        or not _same_gpu(value, result)
    ):
        raise ValueError(
            f"result {position} of {name} is of type {type(value).__name__}, not an array of a "
            "library on the model's GPU"
        )
    target = converter_for([value])(result)
    _check(name, position, value, target)
    target[...] = value
