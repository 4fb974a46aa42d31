"""What operators on complex tensors are made of: those on the real and the imaginary parts.

Operators that move data, and others that are linear with real coefficients, are themselves on each
part. Products of two tensors are theirs of the parts. Others have formulas (`complex_formulas.py`)
or are composed of simpler ones (`complex_composed.py`).
"""

from __future__ import annotations

from collections.abc import Mapping


def _named(positions: tuple[int, ...], overloads: str) -> dict[str, tuple[int, ...]]:
    return {f"aten.{overload}": positions for overload in overloads.split()}


PARTWISE: Mapping[str, tuple[int, ...]] = {
    **_named(
        (0,),
        """view.default _unsafe_view.default reshape.default _reshape_alias.default
        flatten.using_ints unflatten.int view_as.default view_copy.default permute.default
        permute_copy.default unbind_copy.int narrow_copy.default transpose.int swapaxes.default
        swapdims.default t.default numpy_T.default mT.default movedim.int movedim.intlist
        moveaxis.int expand.default broadcast_to.default expand_as.default squeeze.default
        squeeze.dim squeeze.dims unsqueeze.default slice.Tensor slice_copy.Tensor narrow.default
        select.int select_copy.int split.Tensor split.sizes split_with_sizes.default
        split_with_sizes_copy.default chunk.default tensor_split.sections unsafe_split.Tensor
        unsafe_chunk.default unbind.int flip.default fliplr.default flipud.default roll.default
        diagonal.default diagonal_copy.default as_strided.default as_strided_copy.default
        unfold.default pixel_shuffle.default pixel_unshuffle.default channel_shuffle.default
        native_channel_shuffle.default repeat.default tile.default repeat_interleave.self_int
        rot90.default diag_embed.default tril.default triu.default""",
    ),
    **_named(
        (0,),
        """clone.default detach.default alias.default lift_fresh.default lift_fresh_copy.default
        contiguous.default positive.default neg.default negative.default _neg_view.default
        resolve_conj.default resolve_neg.default""",
    ),
    **_named(
        (0,),
        """cat.default concat.default concatenate.default stack.default reflection_pad1d.default
        reflection_pad2d.default reflection_pad3d.default replication_pad1d.default
        replication_pad2d.default replication_pad3d.default _pad_circular.default
        zeros_like.default new_zeros.default empty_like.default new_empty.default
        new_empty_strided.default""",
    ),
    **_named(
        (),
        """zeros.default empty.memory_format empty_permuted.default empty_strided.default""",
    ),
    **_named(
        (0,),
        """index.Tensor _unsafe_index.Tensor index_select.default gather.default take.default
        embedding.default take_along_dim.default""",
    ),
    **_named(
        (0,),
        """sum.default sum.dim_IntList mean.default mean.dim cumsum.default trace.default
        sum_to_size.default nan_to_num.default""",
    ),
    **_named((0,), "scalar_tensor.default"),
    **_named((0, 1), "copy.default slice_scatter.default select_scatter.default"),
    **_named((0, 1), "as_strided_scatter.default linspace.default linspace.Tensor_Tensor"),
    **_named((0, 1), "linspace.Tensor_Scalar linspace.Scalar_Tensor"),
    **_named((0, 1), "diagonal_scatter.default"),
    **_named((0, 2), "constant_pad_nd.default masked_fill.Scalar masked_fill.Tensor"),
    **_named(
        (0, 2), "index_put.default _unsafe_index_put.default masked_scatter.default put.default"
    ),
    **_named((0, 3), "scatter.src scatter.value scatter_add.default index_copy.default"),
    **_named((0, 3), "index_add.default index_fill.int_Scalar index_fill.int_Tensor"),
    **_named((0, 3), "pad.default"),
    **_named((1, 2), "where.self where.ScalarOther where.ScalarSelf where.Scalar"),
    **_named((1,), "full.default full_like.default fill.Scalar fill.Tensor"),
    **_named((2,), "new_full.default"),
}
"""Operators that are themselves on each part -> the positions of the arguments that are numbers.

Of these the operator on the real parts takes the real part and the other one the imaginary part;
the others, such as indices, sizes and conditions, are the same for both.
"""

PRODUCTS = frozenset(
    f"aten.{overload}"
    for overload in """mm.default bmm.default matmul.default mv.default dot.default linear.default
    convolution.default linalg_cross.default cross.default""".split()
)
"""Operators that are linear in each of their first two arguments, and may add a third."""
