"""One exception class per status code of the runtime."""

from __future__ import annotations


class AotError(Exception):
    """Any failure of the runtime.

    Attributes:
        code: the status code's name, "SHAPE_MISMATCH" and so on.
        origin: the model's source behind the failing step ("model.py:12 aten.add.Tensor"), or "".
    """

    code = "INTERNAL"
    origin = ""


class InvalidArgument(AotError, ValueError):
    """An argument is wrong apart from sizes: count, dtype, device, structure, an index in data."""

    code = "INVALID_ARGUMENT"


class ShapeMismatch(AotError, ValueError):
    """A rank or a size breaks the model's contract."""

    code = "SHAPE_MISMATCH"


class NotFound(AotError, FileNotFoundError):
    """A file, an entry or the code of a custom operator does not exist."""

    code = "NOT_FOUND"


class CorruptPackage(AotError):
    """The file is not a package, or its bytes contradict its description or checksums."""

    code = "CORRUPT_PACKAGE"


class Incompatible(AotError):
    """The package is whole, but of a format that this runtime does not read."""

    code = "INCOMPATIBLE"


class Unavailable(AotError):
    """The package has nothing for this machine or for what was asked."""

    code = "UNAVAILABLE"


class OutOfMemory(AotError, MemoryError):
    """Memory for the run could not be had."""

    code = "OUT_OF_MEMORY"


class DeviceError(AotError, OSError):
    """The operating system or a device refused what should work."""

    code = "DEVICE_ERROR"


class Unsupported(AotError):
    """A legal request that this build or environment cannot serve."""

    code = "UNSUPPORTED"


class InternalError(AotError):
    """The runtime broke its own rules: a bug to report."""

    code = "INTERNAL"


class OperatorFailed(AotError):
    """A custom operator failed; `__cause__` is its exception if it is a Python callable."""

    code = "OPERATOR_FAILED"


class Cancelled(AotError):
    """The run was ended through its `Cancellation`. The model stays usable."""

    code = "CANCELLED"


class DeadlineExceeded(AotError, TimeoutError):
    """The run took longer than its timeout. The model stays usable."""

    code = "DEADLINE_EXCEEDED"


class LimitExceeded(AotError):
    """A package or a run would need more than the `Limits` allow."""

    code = "LIMIT_EXCEEDED"


class Refused(AotError, PermissionError):
    """The program's own policy does not allow the package; nothing of it was made executable."""

    code = "REFUSED"


BY_CODE: dict[str, type[AotError]] = {
    error.code: error
    for error in (
        InvalidArgument,
        ShapeMismatch,
        NotFound,
        CorruptPackage,
        Incompatible,
        Unavailable,
        OutOfMemory,
        DeviceError,
        Unsupported,
        InternalError,
        OperatorFailed,
        Cancelled,
        DeadlineExceeded,
        LimitExceeded,
        Refused,
    )
}


def from_status(code: str, message: str, origin: str) -> AotError:
    """The exception for a status of the native module.

    Args:
        code: a name such as "SHAPE_MISMATCH"; unknown names give InternalError.
        message: what went wrong, where, and what to do.
        origin: the model's source behind the failing step, or "".
    """
    error = BY_CODE.get(code, InternalError)(message)
    error.origin = origin
    return error
