"""Joining elements of memory by operations that have no atomic instruction."""

import triton
import triton.language as tl


@triton.jit
def atomic_mul(base, offset, value, mask, BITS: tl.constexpr):
    """Multiplies the elements at `base + offset` by the values where `mask` is set.

    All have one shape. Each lane swaps in its product until nobody was in between; lanes that are
    done, or outside of the mask, swap an element for itself. BITS: the integer of the values' size.
    """
    place = base + tl.where(mask, offset, 0)
    held = place.to(tl.pointer_type(BITS), bitcast=True)
    old = tl.load(held, mask=mask, other=0)
    pending = mask
    while tl.max(tl.ravel(pending).to(tl.int32), 0) > 0:
        product = old.to(value.dtype, bitcast=True) * value
        new = tl.where(pending, product.to(BITS, bitcast=True), old)
        seen = tl.atomic_cas(held, old, new, sem="relaxed")
        pending = pending & (seen != old)
        old = seen
