"""Runs packages made by aot-package, without torch and without a compiler.

>>> import aot_runtime
>>> model = aot_runtime.load("model.pkg")
>>> y = model(x)  # NumPy arrays, tensors with __dlpack__, numbers
"""

from __future__ import annotations

from ._native import Cancellation, OperatorTensor, cpu_isa
from ._native import version as _version
from .errors import (
    AotError,
    Cancelled,
    CorruptPackage,
    DeadlineExceeded,
    DeviceError,
    Incompatible,
    InternalError,
    InvalidArgument,
    LimitExceeded,
    NotFound,
    OperatorFailed,
    OutOfMemory,
    Refused,
    ShapeMismatch,
    Unavailable,
    Unsupported,
)
from .limits import Limits
from .log import connect as _connect_log
from .memory import DeviceAllocator, TorchAllocator
from .model import Added, LowRank, Model, StepTime, load
from .operators import register_operator, unregister_operator
from .policy import Policy
from .tensors import Dim, TensorInfo
from .trace import Trace, TraceEvent

__version__ = _version()
_connect_log()

__all__ = [
    "Added",
    "AotError",
    "Cancellation",
    "Cancelled",
    "CorruptPackage",
    "DeadlineExceeded",
    "DeviceAllocator",
    "DeviceError",
    "Dim",
    "Incompatible",
    "InternalError",
    "InvalidArgument",
    "LimitExceeded",
    "Limits",
    "LowRank",
    "Model",
    "NotFound",
    "OperatorFailed",
    "OperatorTensor",
    "OutOfMemory",
    "Policy",
    "Refused",
    "ShapeMismatch",
    "StepTime",
    "TensorInfo",
    "TorchAllocator",
    "Trace",
    "TraceEvent",
    "Unavailable",
    "Unsupported",
    "cpu_isa",
    "load",
    "register_operator",
    "unregister_operator",
]
