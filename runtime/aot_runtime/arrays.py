"""Outputs as the kind of array that came in. Other libraries are imported only when used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .errors import InvalidArgument, Unsupported

if TYPE_CHECKING:
    import numpy as np

    from ._native import Entry, OperatorTensor, Output

Converter = Callable[["Output | OperatorTensor"], Any]

# safetensors' names of the types that NumPy has.
_NUMPY_NAMES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "I64": "int64", "I32": "int32",
    "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool", "U16": "uint16",
    "U32": "uint32", "U64": "uint64", "C64": "complex64",
}  # fmt: skip

# Those of the types that ml_dtypes has.
_ML_NAMES = {
    "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2": "float8_e5m2", "F8_E5M2FNUZ": "float8_e5m2fnuz", "F8_E8M0": "float8_e8m0fnu",
    "C32": "complex32",
}  # fmt: skip
ML_TYPES = frozenset(_ML_NAMES.values())
"""Element types that NumPy knows by the package ml_dtypes."""


def converter_for(leaves: list[Any]) -> Converter:
    """What turns outputs into the kind of the first array among `leaves`.

    NumPy arrays and Python numbers give NumPy arrays. Others give what `from_dlpack` of the
    array's own top-level module makes, such as `torch.from_dlpack`.

    Raises:
        InvalidArgument: that module has no `from_dlpack`.
    """
    for leaf in leaves:
        if hasattr(leaf, "__dlpack__"):
            return _find_converter(leaf.__class__)
    return to_numpy


@lru_cache(maxsize=64)
def _find_converter(kind: type) -> Converter:
    numpy = sys.modules.get("numpy")
    if numpy is not None and issubclass(kind, (numpy.ndarray, numpy.generic)):
        return to_numpy
    for base in kind.__mro__:
        root = base.__module__.partition(".")[0]
        module = sys.modules.get(root)
        for candidate in (module, _submodule(root, "dlpack")):
            function = getattr(candidate, "from_dlpack", None)
            if callable(function):
                return function  # type: ignore[no-any-return]
    raise InvalidArgument(
        f"inputs of type {kind.__module__}.{kind.__qualname__}: its module has no from_dlpack "
        "to make outputs with; give NumPy arrays"
    )


def current_stream(leaves: list[Any]) -> int:
    """The stream in which the library of the first array on a GPU works now; 0 if there is none.

    Numbered as DLPack does: 1 is the legacy default stream.
    """
    for leaf in leaves:
        find = _STREAMS.get(leaf.__class__.__module__.partition(".")[0])
        stream = find(leaf) if find is not None else None
        if stream is not None:
            return stream
    return 0


def _torch_stream(tensor: Any) -> int | None:
    if not getattr(tensor, "is_cuda", False):
        return None
    cuda = sys.modules["torch"].cuda
    return cuda.current_stream(tensor.device).cuda_stream or _DEFAULT_STREAM


def _cupy_stream(_array: Any) -> int | None:
    return sys.modules["cupy"].cuda.get_current_stream().ptr or _DEFAULT_STREAM


_DEFAULT_STREAM = 1  # what the driver and DLPack call the default stream (CU_STREAM_LEGACY)
_STREAMS: dict[str, Callable[[Any], int | None]] = {"torch": _torch_stream, "cupy": _cupy_stream}


@contextmanager
def working_in(stream: int, index: int) -> Iterator[None]:
    """A context in which the libraries that know GPU streams, and are imported, work in this one.

    Args:
        stream: As DLPack numbers streams.
        index: The GPU's number.
    """
    with ExitStack() as contexts:
        for name, enter in _ENTERS.items():
            module = sys.modules.get(name)
            context = None if module is None else enter(module, stream, index)
            if context is not None:
                contexts.enter_context(context)
        yield


def _in_torch(torch: Any, stream: int, index: int) -> Any:
    if not torch.cuda.is_available():
        return None
    if stream == _DEFAULT_STREAM:  # which torch does not know by its handle
        return torch.cuda.stream(torch.cuda.default_stream(index))
    return torch.cuda.stream(torch.cuda.ExternalStream(stream, device=index))


def _in_cupy(cupy: Any, stream: int, _index: int) -> Any:
    # Newer versions warn of the older class; their successor takes objects with this protocol.
    make = getattr(cupy.cuda.Stream, "from_external", None)
    return cupy.cuda.ExternalStream(stream) if make is None else make(_ForeignStream(stream))


class _ForeignStream:
    """A stream of the runtime, as other libraries' Python objects show theirs."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self._handle)


_ENTERS: dict[str, Callable[[Any, int, int], Any]] = {"torch": _in_torch, "cupy": _in_cupy}


def _submodule(root: str, name: str) -> Any:
    try:
        return import_module(f"{root}.{name}")
    except ImportError:
        return None


def to_numpy(output: Output | OperatorTensor) -> np.ndarray[Any, Any]:
    """An output as a writable NumPy array that shares its memory.

    Raises:
        Unsupported: NumPy lacks the type, or has it by the package ml_dtypes, which is missing.
    """
    name = output.dtype
    foreign = numpy_dtype(name, "output") if name in ML_TYPES else None
    array: np.ndarray[Any, Any] = numpy_module().asarray(output)
    return array if foreign is None else array.view(foreign)


def entry_to_numpy(entry: Entry) -> np.ndarray[Any, Any]:
    """An entry of the file as a read-only NumPy array on the mapping.

    Raises:
        Unsupported: a type that NumPy lacks.
    """
    numpy = numpy_module()
    if entry.dtype in _ML_NAMES:
        dtype = numpy_dtype(_ML_NAMES[entry.dtype], "entry")
    elif entry.dtype in _NUMPY_NAMES:
        dtype = numpy.dtype(_NUMPY_NAMES[entry.dtype])
    else:
        raise Unsupported(f"NumPy has no type for entries of dtype {entry.dtype}")
    array: np.ndarray[Any, Any] = numpy.frombuffer(entry, dtype).reshape(entry.shape)
    return array


def numpy_dtype(name: str, what: str) -> np.dtype[Any]:
    """NumPy's type for a type of the plan; `what` has it.

    Raises:
        Unsupported: NumPy lacks it, or has it by the package ml_dtypes, which is missing.
    """
    made: np.dtype[Any] = numpy_module().dtype(_ml_type(name, what) if name in ML_TYPES else name)
    return made


def numpy_module() -> Any:
    """NumPy, which is imported when it is first needed: `import aot_runtime` costs milliseconds."""
    import numpy

    return numpy


def _ml_type(name: str, what: str) -> Any:
    try:
        module = import_module("ml_dtypes")
    except ImportError as error:
        raise Unsupported(
            f"{what} of type {name}: NumPy has none of its own; install ml_dtypes, "
            "or give the inputs as tensors of a library that has it"
        ) from error
    found = getattr(module, name, None)
    if found is None:
        raise Unsupported(
            f"{what} of type {name}: this version of ml_dtypes has none; install a newer one, "
            "or give the inputs as tensors of a library that has it"
        )
    return found
