"""Weights: names, ties, and the bytes as NumPy arrays that share the tensors' memory."""

from __future__ import annotations

from collections.abc import Mapping

import ml_dtypes
import numpy as np
import torch

from aot.ir.dtypes import DTYPES, DType

_OURS: Mapping[torch.dtype, DType] = {getattr(torch, name): dtype for name, dtype in DTYPES.items()}


def dtype_of(dtype: torch.dtype) -> DType | None:
    """Our element type for torch's; None when packages cannot hold it."""
    return _OURS.get(dtype)


def to_array(tensor: torch.Tensor) -> np.ndarray:
    """A tensor's values, C-contiguous; shares memory when the tensor already is."""
    plain = tensor.detach().cpu().contiguous()
    if plain.dtype == torch.bfloat16:
        return plain.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return plain.numpy()


class TorchWeights:
    """A `WeightStore` over the module's own tensors: nothing is copied until it is asked for.

    A weight that is not contiguous is copied each time `array` is called, and not kept.
    """

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        self._tensors = dict(sorted(tensors.items()))

    def names(self) -> tuple[str, ...]:
        """All FQNs, sorted."""
        return tuple(self._tensors)

    def array(self, fqn: str) -> np.ndarray:
        """The weight's values (bfloat16 through ml_dtypes). Raises KeyError for an unknown name."""
        return to_array(self._tensors[fqn])


def identity_of(tensor: torch.Tensor) -> tuple[object, ...]:
    """Equal for two tensors that are the same memory seen the same way (tied weights)."""
    storage = tensor.untyped_storage()
    place = (storage.data_ptr(), tensor.storage_offset()) if tensor.numel() else (id(tensor), 0)
    return (*place, tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()))
