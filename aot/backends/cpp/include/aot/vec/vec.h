// Vector support for generated CPU kernels: include this one header.
//
// Compile with -std=c++17 -ffp-contract=off -fno-math-errno and -march=x86-64-v2, -v3 or -v4; with
// gcc also -mno-mmx, or it moves words through MMX registers and ruins the caller's x87 state.
// Everything is in namespace aot and always inlined; results do not depend on N, so a scalar tail
// is the same code with N = 1 (bit-identical to the lanes of a wider Vec). Long chains of math are
// bound by latency: N of 2 to 4 times native_lanes interleaves that many of them.
//
//   Vec<T, N>   N lanes (a power of two, any number of registers) of T: float, double, int64_t,
//               int32_t, int16_t, int8_t, uint8_t, uint16_t.     v[i] reads a lane.
//   Mask<N>     one truth value per lane, for any T.             m[i] reads a lane.
//   bf16, f16, bool   element types in memory only.
//   native_lanes<T>()   lanes of one full register;  AOT_ISA_LEVEL is 2, 3 or 4.
//
//   make        splat<T, N>(x)   Vec<T, N>(x)   iota<T, N>(start = 0, step = 1)
//               Mask<N>(bool)    first_n<N>(n)
//   load        load<T, N>(p)  load_n<T, N>(p, n)  load_m<T, N>(p, mask)  broadcast<T, N>(p)
//               load_strided<T, N>(p, stride)  load_strided_n(p, stride, n)  load_strided_m(.., m)
//               gather<T, N>(p, index)  gather_n(p, index, n)  gather_m(p, index, mask)
//               load_mask<N>(p)  load_mask_n<N>(p, n)               (bytes != 0)
//   store       store(p, v)  store_n(p, v, n)  store_m(p, v, mask)
//               store_strided(p, stride, v)  _n(.., n)  _m(.., mask)
//               scatter(p, index, v)  scatter_n(.., n)  scatter_m(.., mask)
//               store(p, mask)  store_n(p, mask, n)                 (bytes 0 or 1)
//               p may point to any element type; loads convert it to T, stores convert back.
//               _n: first n lanes only; _m: lanes of the mask only; other lanes read 0 and their
//               memory is never touched.
//   convert     convert<B>(v)  convert<B>(mask) (0/1)  to_mask(v) (v != 0)  bitcast<B>(v)
//   operators   + - * / (floats)  & | ^ ~ << >> (uniform count)  == != < <= > >= -> Mask
//               & | ^ ~ of masks;  mixed forms take a scalar on the right (arithmetic: either side)
//   select(mask, a, b)   any(mask)  all(mask)  count(mask)
//   arithmetic  abs neg sign sqrt rsqrt reciprocal floor ceil trunc round(ties to even)
//               fma(a, b, c) = ab + c   fnma(a, b, c) = c - ab   copysign signbit isnan isinf
//               isfinite   minimum maximum (NaN wins)  fmin fmax (NaN loses)  clamp(a, lo, hi) relu
//               div_trunc div_floor remainder(sign of divisor) fmod   (integers and floats)
//               shift_left shift_right (counts are data)   nextafter   gcd pow (integers)
//   math        exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh
//               asinh acosh atanh erf erfc erfinv lgamma digamma sigmoid pow hypot cbrt
//               i0 i0e i1 i1e            (float: at most 4 ulp; double: at most 4 ulp)
//               igamma igammac (a, x)   hermite_h hermite_he laguerre_l legendre_p (x, degree)
//   reduce      reduce_sum reduce_prod reduce_min reduce_max (v) -> T   any all count (mask)
//               reduce(f, v)   ArgLanes<Max, T, Index, N>: none() add add_m reduce_index
//   tiles       transpose_block(src, src_stride, dst, dst_stride): transpose_lanes<T>() squared
//               transpose_block_n(.., height, width) for the edges
//               load_tile<T, L>(src, stride, height, width, tile): converted to T, turned
//   scalars     the functions also take plain float and double (arithmetic: integers too) and give
//               what a lane gives; select(bool, a, b); convert_scalar<B>(x)
#ifndef AOT_VEC_VEC_H_
#define AOT_VEC_VEC_H_

#include "aot/vec/apart.h"
#include "aot/vec/arith.h"
#include "aot/vec/convert.h"
#include "aot/vec/float8.h"
#include "aot/vec/gather.h"
#include "aot/vec/half.h"
#include "aot/vec/integer.h"
#include "aot/vec/isa.h"
#include "aot/vec/mask.h"
#include "aot/vec/math_double.h"
#include "aot/vec/math_exp.h"
#include "aot/vec/math_hyper.h"
#include "aot/vec/math_log.h"
#include "aot/vec/math_loops.h"
#include "aot/vec/math_pow.h"
#include "aot/vec/math_pow_double.h"
#include "aot/vec/math_special.h"
#include "aot/vec/math_trig.h"
#include "aot/vec/memory.h"
#include "aot/vec/reduce.h"
#include "aot/vec/reg.h"
#include "aot/vec/scalar.h"
#include "aot/vec/stream.h"
#include "aot/vec/transpose.h"
#include "aot/vec/type.h"

#endif  // AOT_VEC_VEC_H_
