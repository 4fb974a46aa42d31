"""Which composite operators torch takes apart for us, and which we lower whole."""

from __future__ import annotations

from typing import Any

import torch

KEPT_WHOLE = frozenset(
    [
        "linear",
        "matmul",
        "mm",
        "bmm",
        "addmm",
        "baddbmm",
        "addbmm",
        "mv",
        "dot",
        "scaled_dot_product_attention",
        "layer_norm",
        "group_norm",
        "rms_norm",
        "gelu",
        "embedding",
        "_softmax",
        "_log_softmax",
        "lstm",
        "gru",
        "rnn_tanh",
        "rnn_relu",
        "max_pool1d",
        "max_pool2d",
        "max_pool3d",
        "avg_pool1d",
        "avg_pool2d",
        "avg_pool3d",
        "adaptive_avg_pool1d",
        "adaptive_avg_pool2d",
        "adaptive_avg_pool3d",
        "_adaptive_avg_pool2d",
        "_adaptive_avg_pool3d",
        "adaptive_max_pool1d",
        "adaptive_max_pool2d",
        "adaptive_max_pool3d",
        "upsample_nearest1d",
        "upsample_nearest2d",
        "upsample_nearest3d",
        "_upsample_nearest_exact1d",
        "_upsample_nearest_exact2d",
        "_upsample_nearest_exact3d",
        "upsample_linear1d",
        "upsample_bilinear2d",
        "upsample_trilinear3d",
        "upsample_bicubic2d",
        "_upsample_bilinear2d_aa",
        "_upsample_bicubic2d_aa",
    ]
)
"""Operators whose decomposition loses what a direct lowering uses: attention becomes two matmuls
with a softmax between, resizing becomes a gather of every pixel, a linear over several leading
dimensions becomes a chain of views."""

ONE_NEST = frozenset(
    """roll reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d
    replication_pad3d _pad_circular pixel_shuffle pixel_unshuffle channel_shuffle
    native_channel_shuffle tril triu stack silu mish hardswish hardsigmoid softplus selu celu glu
    logsumexp masked_fill lerp addcmul addcdiv nan_to_num logit one_hot index_add index_copy
    index_fill select_scatter take aminmax all isfinite instance_norm norm logaddexp logaddexp2
    xlogy special_xlog1py heaviside sinc std var var_mean std_mean linspace eye repeat_interleave
    nansum count_nonzero prelu relu6 hardshrink softshrink threshold square sgn frac deg2rad
    rad2deg log_sigmoid floor_divide special_log_ndtr""".split()
)
"""Operators that are a nest or two here and many operators after torch's decomposition: a roll is
one index function and not a gather, silu one expression and not five in two types."""


TAKEN_APART = ("dist", "tril_indices", "triu_indices")
"""Operators that torch's default table keeps whole, although torch knows simpler ones for them."""


def decomposition_table() -> dict[Any, Any]:
    """Default table of torch without the operators that we lower whole.

    A fresh one, for `ExportedProgram.run_decompositions`.
    """
    table: dict[Any, Any] = torch.export.default_decompositions()
    for overload in list(table):
        namespace, _, rest = str(overload).partition(".")
        if namespace == "aten" and rest.split(".")[0] in KEPT_WHOLE | ONE_NEST:
            table.pop(overload)
    more = [getattr(torch.ops.aten, name).default for name in TAKEN_APART]
    return {**table, **torch._decomp.get_decompositions(more)}
