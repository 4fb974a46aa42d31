"""Weights: names, ties, and the bytes as NumPy arrays that share the tensors' memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import ml_dtypes
import numpy as np
import torch
from aot_runtime.format.pairs import in_pairs
from torch.export import ExportedProgram
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from aot.ir.dtypes import DTYPES, DType
from aot.ir.weights import WeightSpec

_OURS: Mapping[torch.dtype, DType] = {getattr(torch, name): dtype for name, dtype in DTYPES.items()}


def dtype_of(dtype: torch.dtype) -> DType | None:
    """Our element type for torch's; None when packages cannot hold it."""
    return _OURS.get(dtype)


_ADVICE = (
    ("bits", "View it as uint8 (or uint16) and unpack it in the model with shifts and masks."),
    (
        "q",
        "Give it as int8 or uint8 with its scale and zero point, and compute (q - zero) * scale.",
    ),
    ("", "View it as uint8, and unpack it in the model with shifts and masks."),
)
"""What to do about types that packages cannot hold, by how torch's names begin."""


def advice_on(dtype: torch.dtype) -> str:
    """What the user of an element type that packages cannot hold can do."""
    name = str(dtype).removeprefix("torch.")
    return next(advice for begin, advice in _ADVICE if name.startswith(begin))


def to_array(tensor: torch.Tensor) -> np.ndarray:
    """A tensor's values, C-contiguous; shares memory when the tensor already is."""
    plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    ours = _OURS.get(plain.dtype)
    if ours is not None and hasattr(ml_dtypes, ours.name):
        bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[ours.itemsize]
        return plain.view(bits).numpy().view(ours.numpy)
    return plain.numpy()


def holds_wrappers(program: ExportedProgram) -> bool:
    """Whether some weight is of a class that wraps plain tensors, as quantised ones may be.

    Its arithmetic is its own, and part of the graph only once torch traces the program again:
    then each tensor in it is a weight (`layer.parametrizations.weight.original0`).
    """
    stored = (*program.state_dict.values(), *program.constants.values())
    return any(map(is_traceable_wrapper_subclass, stored))


class TorchWeights:
    """A `WeightStore` over the module's own tensors: nothing is copied until it is asked for.

    A weight that is not contiguous is copied each time `array` is called, and not kept.
    """

    def __init__(
        self, tensors: Mapping[str, torch.Tensor], specs: Sequence[WeightSpec] = ()
    ) -> None:
        self._tensors = dict(sorted(tensors.items()))
        self._specs = tuple(specs)

    def names(self) -> tuple[str, ...]:
        """All FQNs, sorted."""
        return tuple(self._tensors)

    def specs(self) -> tuple[WeightSpec, ...]:
        """Every weight that the model has, used or not, in the model's order."""
        return self._specs

    def array(self, fqn: str) -> np.ndarray:
        """The weight's values: bfloat16 through ml_dtypes, complex ones in pairs.

        Raises:
            KeyError: No weight has that name.
        """
        return in_pairs(to_array(self._tensors[fqn]))


def weight_specs(
    program: ExportedProgram, tensors: Mapping[str, torch.Tensor]
) -> tuple[WeightSpec, ...]:
    """What a replacement for the program's weights may hold.

    Args:
        program: Its state dict has names that the graph does not use, ties among them.
        tensors: The weights by the names that the graph uses, of tied ones the first.
    """
    saved = {n: t for n, t in program.state_dict.items() if isinstance(t, torch.Tensor)}
    by_identity = {identity_of(t): name for name, t in tensors.items()}
    names: dict[str, list[str]] = {name: [] for name in tensors}
    for name, tensor in saved.items():
        first = by_identity.setdefault(identity_of(tensor), name)
        if first != name:
            names[first].append(name)
        elif name not in names:
            names[name] = []
    found = []
    every = {**saved, **tensors}
    for name, aliases in names.items():
        tensor = every[name]
        dtype = dtype_of(tensor.dtype)
        if dtype is not None:
            kept = any(n in saved for n in (name, *aliases))
            shape = (*tensor.shape, 2) if dtype.is_complex else tuple(tensor.shape)
            found.append(WeightSpec(name, dtype.part, shape, tuple(aliases), kept))
    return tuple(found)


def identity_of(tensor: torch.Tensor) -> tuple[object, ...]:
    """Equal for two tensors that are the same memory seen the same way (tied weights)."""
    storage = tensor.untyped_storage()
    place = (storage.data_ptr(), tensor.storage_offset()) if tensor.numel() else (id(tensor), 0)
    return (*place, tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()))
