"""The attention template against NumPy in float64."""

import ml_dtypes
import numpy as np
import pytest

from aot.backends.cpp.attention_heuristic import AttentionBlocking, attention_blocking
from tests.backends.cpp.tmpl.build import LEVELS, aligned, as_aligned, build, call, levels
from tests.settings import seeded

SOURCE = """
#include "aot/tmpl/attention.h"
using namespace aot::tmpl;
struct Cfg : AttentionConfig {{
  using A = {a};
  static constexpr int64_t D = {d}, DV = {dv}, SQ = {sq};
  static constexpr int64_t QB = {qb}, HB = {hb}, KB = {kb};
  static constexpr bool CAUSAL = {causal};
}};
using T = compute_t<Cfg::A>;
struct Mask {{
  const T* mask;  // [q][k], or null
  int64_t sk;
  void operator()(int64_t b, int64_t h, int64_t q0, int64_t q1, int64_t k0, int64_t k1, T* s,
                  int64_t ld) const {{
    if (mask == nullptr) return;
    for (int64_t q = q0; q < q1; ++q) {{
      for (int64_t k = k0; k < k1; ++k) {{
        s[(q - q0) * ld + k - k0] += mask[q * sk + k] * T(1 + b + 2 * h);
      }}
    }}
  }}
}};
struct Store {{  // [b][q][h][d]
  T* o;
  int64_t heads, sq;
  void operator()(int64_t b, int64_t h, int64_t q0, int64_t q1, const T* tile, int64_t ld) const {{
    for (int64_t q = q0; q < q1; ++q) {{
      for (int64_t d = 0; d < Cfg::DV; ++d) {{
        o[((b * sq + q) * heads + h) * Cfg::DV + d] = tile[(q - q0) * ld + d];
      }}
    }}
  }}
}};
extern "C" __attribute__((visibility("default"))) int64_t scratch() {{
  return attention_scratch<Cfg>();
}}
extern "C" __attribute__((visibility("default"))) void run(
    const Cfg::A* q, int64_t qb, int64_t qh, int64_t qr, const Cfg::A* k, int64_t kb, int64_t kh,
    int64_t kr, const Cfg::A* v, int64_t vb, int64_t vh, int64_t vr, int64_t batch, int64_t heads,
    int64_t group, int64_t sq, int64_t sk, double scale, const T* mask, T* o, int64_t begin,
    int64_t end, void* scratch) {{
  const AttentionArgs<Cfg> p{{q, qb, qh, qr, k, kb, kh, kr, v, vb, vh, vr, batch, heads, group, sq,
                             sk, T(scale)}};
  attention<Cfg>(p, begin, end, scratch, Mask{{mask, sk}}, Store{{o, heads, sq}});
}}
"""
# Where a machine multiplies bfloat16, weights are rounded to it: 2^-9 each.
ROUNDED = 2**-8
CTYPES = {"float32": "float", "float64": "double", "bfloat16": "Bf16"}


@pytest.fixture(params=LEVELS)
def level(request):
    if request.param not in levels():
        pytest.skip(f"this machine does not run {request.param}")
    return request.param


def reference(q, k, v, scale, mask, causal, group):
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, group, axis=1) for x in (k, v))
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) * scale
    if mask is not None:
        b, h = np.arange(q.shape[0])[:, None, None, None], np.arange(q.shape[1])[:, None, None]
        scores = scores + mask * (1 + b + 2 * h)
    if causal:
        scores = np.where(np.tri(*scores.shape[2:], dtype=bool), scores, -np.inf)
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    exps = np.exp(scores - np.where(np.isinf(top), 0, top))
    total = exps.sum(-1, keepdims=True)
    weights = np.divide(exps, total, out=np.zeros_like(exps), where=total != 0)
    return np.einsum("bhqk,bhkd->bqhd", weights, v)


def library_for(level, blocking, dtype="float32", causal=False, sq=-1, ahead=""):
    text = SOURCE.format(
        a=CTYPES[dtype],
        d=blocking.d,
        dv=blocking.dv,
        sq=sq,
        qb=blocking.qb,
        hb=blocking.hb,
        kb=blocking.kb,
        causal="true" if causal else "false",
    )
    library = build(text, level, ahead)
    assert library.scratch() == blocking.scratch_bytes
    return library


def run(library, blocking, q, k, v, *, scale=0.3, mask=None, pieces=1):
    """q (b, h, sq, d), k and v (b, hkv, sk, d): any strides but the last."""
    batch, heads, sq, _ = q.shape
    compute = np.float32 if q.dtype.itemsize == 2 else q.dtype
    out = aligned((batch, sq, heads, v.shape[3]), compute)
    strides = [[s // x.itemsize for s in x.strides[:3]] for x in (q, k, v)]
    work = blocking.work(batch, heads, sq)
    room = aligned((blocking.scratch_bytes,), np.uint8)
    mask = np.zeros((0,), compute) if mask is None else mask
    for i in range(pieces):
        call(
            library.run,
            q,
            *strides[0],
            k,
            *strides[1],
            v,
            *strides[2],
            batch,
            heads,
            heads // k.shape[1],
            sq,
            k.shape[2],
            float(scale),
            mask if mask.size else 0,
            out,
            work * i // pieces,
            work * (i + 1) // pieces,
            room,
        )
    return out


def random(shape, dtype, seed):
    element = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    return np.random.default_rng(seeded(seed)).standard_normal(shape).astype(element)


def tensors(batch, heads, kv_heads, sq, sk, d, dv, dtype="float32"):
    """Laid out as (batch, sequence, head, d), the layout after a projection, seen transposed."""
    q = as_aligned(random((batch, sq, heads, d), dtype, 1)).transpose(0, 2, 1, 3)
    k = as_aligned(random((batch, sk, kv_heads, d), dtype, 2)).transpose(0, 2, 1, 3)
    v = as_aligned(random((batch, sk, kv_heads, dv), dtype, 3)).transpose(0, 2, 1, 3)
    return q, k, v


SMALL = AttentionBlocking(d=24, dv=20, qb=32, kb=48, grain=1, accumulator_bytes=4)
SIZES = [(1, 1), (1, 100), (3, 60), (7, 5), (32, 48), (33, 49), (50, 150), (97, 20), (5, 0), (0, 5)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("sq", "sk"), SIZES)
def test_float32(level, sq, sk, masked, causal):
    q, k, v = tensors(2, 4, 2, sq, sk, 24, 20)
    mask = random((sq, sk), "float32", 4) if masked else None
    out = run(library_for(level, SMALL, causal=causal), SMALL, q, k, v, mask=mask, pieces=3)
    expected = reference(q, k, v, 0.3, mask, causal, 2)
    np.testing.assert_allclose(out, expected, rtol=2e-5, atol=2e-6)


JOINED = AttentionBlocking(d=24, dv=20, qb=24, kb=48, grain=1, accumulator_bytes=4, hb=4)


@pytest.mark.parametrize(
    ("dtype", "causal"), [("float32", False), ("float32", True), ("bfloat16", True)]
)
@pytest.mark.parametrize(("sq", "sk"), [(1, 100), (5, 70), (3, 2)])
def test_heads_of_a_group_in_a_unit(level, sq, sk, dtype, causal):
    q, k, v = tensors(2, 8, 2, sq, sk, 24, 20, dtype)
    mask = random((sq, sk), "float32", 4)
    library = library_for(level, JOINED, dtype, causal)
    out = run(library, JOINED, q, k, v, mask=mask, pieces=3)
    expected = reference(q, k, v, 0.3, mask, causal, 4)
    tolerance = 2e-5 if dtype == "float32" else ROUNDED
    np.testing.assert_allclose(out, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("blocking", "sq"), [(SMALL, 75), (JOINED, 5), (SMALL, 1)])
def test_constant_queries_are_cut_as_the_template_counts_them(level, blocking, sq):
    q, k, v = tensors(2, 8, 2, sq, 50, 24, 20)
    library = library_for(level, blocking, sq=sq)
    out = run(library, blocking, q, k, v, pieces=3)
    np.testing.assert_allclose(out, reference(q, k, v, 0.3, None, False, 4), rtol=2e-5, atol=2e-6)


def test_heads_are_joined_while_queries_are_few_and_units_many():
    def joined(queries, heads, group, **most):
        return attention_blocking(queries, 2000, 64, 64, heads=heads, group=group, **most)

    decoding = joined(1, 64, 8)
    assert (decoding.hb, decoding.qb, decoding.work(2, 32, 1)) == (8, 8, 8)
    assert joined(1, 32, 8).hb == 4  # eight units are left
    assert joined(1, 32, 6).hb == 3
    assert joined(500, 64, 8).hb == 1
    assert joined(1, 64, 8, queries_max=512).hb == 1


@pytest.mark.parametrize(("d", "dv"), [(64, 64), (16, 48), (80, 33), (5, 7)])
def test_head_sizes(level, d, dv):
    blocking = attention_blocking(70, 90, d, dv, heads=2)
    q, k, v = tensors(1, 2, 2, 70, 90, d, dv)
    out = run(library_for(level, blocking), blocking, q, k, v, scale=d**-0.5)
    np.testing.assert_allclose(
        out, reference(q, k, v, d**-0.5, None, False, 1), rtol=3e-5, atol=2e-6
    )


@pytest.mark.parametrize(
    ("dtype", "size", "tolerance"), [("float64", 8, 1e-13), ("bfloat16", 4, ROUNDED)]
)
def test_other_types(level, dtype, size, tolerance):
    blocking = AttentionBlocking(d=24, dv=20, qb=32, kb=48, grain=1, accumulator_bytes=size)
    q, k, v = tensors(1, 2, 1, 40, 60, 24, 20, dtype)
    out = run(library_for(level, blocking, dtype), blocking, q, k, v)
    np.testing.assert_allclose(
        out, reference(q, k, v, 0.3, None, False, 2), rtol=tolerance, atol=tolerance
    )


def test_rows_without_any_key_are_zero(level):
    q, k, v = tensors(1, 1, 1, 40, 100, 24, 20)
    mask = np.zeros((40, 100), np.float32)
    mask[3] = -np.inf
    mask[5, :60] = -np.inf
    out = run(library_for(level, SMALL), SMALL, q, k, v, mask=mask)
    assert not out[0, 3].any()
    np.testing.assert_allclose(out, reference(q, k, v, 0.3, mask, False, 1), rtol=2e-5, atol=2e-6)


def test_nan_stays_in_its_row(level):
    q, k, v = tensors(1, 1, 1, 40, 100, 24, 20)
    mask = np.zeros((40, 100), np.float32)
    mask[7, 70] = np.nan
    out = run(library_for(level, SMALL), SMALL, q, k, v, mask=mask)
    assert np.isnan(out[0, 7]).all() and np.isfinite(np.delete(out[0], 7, axis=0)).all()


def test_great_scores_do_not_overflow(level):
    q, k, v = tensors(1, 1, 1, 40, 100, 24, 20)
    out = run(library_for(level, SMALL), SMALL, q, k, v, scale=50.0)
    np.testing.assert_allclose(out, reference(q, k, v, 50.0, None, False, 1), rtol=1e-3, atol=1e-3)


def test_splits_give_the_same_bytes(level):
    q, k, v = tensors(2, 2, 2, 70, 50, 24, 20)
    library = library_for(level, SMALL)
    np.testing.assert_array_equal(
        run(library, SMALL, q, k, v), run(library, SMALL, q, k, v, pieces=5)
    )
