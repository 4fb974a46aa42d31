// Micro-kernels, passes of transforms, and parts of routines of linear algebra, that a unit calls
// and does not compile: the linker has them from units of their own (apart.py), which all models
// share. Included behind the templates' headers; of an operation whose header is not there nothing
// is declared.
#ifndef AOT_TMPL_APART_H_
#define AOT_TMPL_APART_H_

#if defined(AOT_TMPL_MICRO_H_)

namespace aot::tmpl {

#define AOT_APART_PANELS(OP, MR, NP)                                         \
  extern template void micro_kernel<OP, MR, NP>(const MicroArgs<OP::Type>&); \
  extern template void half_last_kernel<OP, MR, NP>(const MicroArgs<OP::Type>&);
#define AOT_APART_ROWS(OP, MR)                                          \
  AOT_APART_PANELS(OP, MR, 1)                                           \
  AOT_APART_PANELS(OP, MR, 2)                                           \
  AOT_APART_PANELS(OP, MR, 3)                                           \
  AOT_APART_PANELS(OP, MR, 4)                                           \
  extern template void half_kernel<OP, MR>(const MicroArgs<OP::Type>&); \
  extern template void joined_kernel<OP, MR>(const MicroArgs<OP::Type>&);
// RegisterBlock has no more rows.
#define AOT_APART(OP)   \
  AOT_APART_ROWS(OP, 1) \
  AOT_APART_ROWS(OP, 2) \
  AOT_APART_ROWS(OP, 3) \
  AOT_APART_ROWS(OP, 4) \
  AOT_APART_ROWS(OP, 5) \
  AOT_APART_ROWS(OP, 6) \
  AOT_APART_ROWS(OP, 7) \
  AOT_APART_ROWS(OP, 8) \
  AOT_APART_ROWS(OP, 9)

AOT_APART(MultiplyAdd<float>)
AOT_APART(MultiplyAdd<double>)
#if defined(AOT_TMPL_BF16_UNITS)
AOT_APART(Bf16Dot)
#endif

#undef AOT_APART
#undef AOT_APART_ROWS
#undef AOT_APART_PANELS

}  // namespace aot::tmpl

#endif  // AOT_TMPL_MICRO_H_
#if defined(AOT_TMPL_FFT_OPEN_H_)

namespace aot::tmpl::fft_detail {

#define AOT_APART_FROM(T, ...)                                                               \
  extern template void pass_of(int, int64_t, int64_t, int64_t, const T*, const __VA_ARGS__&, \
                               const Held<T>&);
#define AOT_APART_TO(T, ...)                                                             \
  extern template void pass_of(int, int64_t, int64_t, int64_t, const T*, const Held<T>&, \
                               const __VA_ARGS__&);
#define AOT_APART_PASSES(T)                 \
  AOT_APART_FROM(T, Held<T>)                \
  AOT_APART_FROM(T, Apart<T, true>)         \
  AOT_APART_FROM(T, Turned<T, false>)       \
  AOT_APART_FROM(T, Turned<T, true>)        \
  AOT_APART_TO(T, Beside<T>)                \
  AOT_APART_TO(T, Factored<T, true, false>) \
  AOT_APART_TO(T, Factored<T, true, true>)  \
  AOT_APART_TO(T, Finished<T, false>)       \
  AOT_APART_TO(T, Finished<T, true>)        \
  AOT_APART_TO(T, Results<T, true, false>)  \
  AOT_APART_TO(T, Results<T, true, true>)

AOT_APART_PASSES(float)
AOT_APART_PASSES(double)

#undef AOT_APART_PASSES
#undef AOT_APART_TO
#undef AOT_APART_FROM

}  // namespace aot::tmpl::fft_detail

#endif  // AOT_TMPL_FFT_OPEN_H_

// Routines of one large matrix: what they do between reading it and putting results into a record.
namespace aot::linalg {

#define AOT_APART_MATRICES(F) \
  F(Dense, Seen, float)       \
  F(Dense, Seen, double)      \
  F(ComplexDense, ComplexSeen, float) F(ComplexDense, ComplexSeen, double)

#if defined(AOT_LINALG_CONQUER_H_)
extern template void conquer(const Conquer<float, false>&, int64_t);
extern template void conquer(const Conquer<float, true>&, int64_t);
extern template void conquer(const Conquer<double, false>&, int64_t);
extern template void conquer(const Conquer<double, true>&, int64_t);
#endif
#if defined(AOT_LINALG_TRIDIAGONAL_H_)
#define AOT_APART(M, S, T) extern template void reduce(const Tridiagonal<M<T>>&, Room);
AOT_APART_MATRICES(AOT_APART)
#undef AOT_APART
#endif
#if defined(AOT_LINALG_BIDIAGONAL_H_)
#define AOT_APART(M, S, T) extern template void reduce(const Bidiagonal<M<T>>&, Room);
AOT_APART_MATRICES(AOT_APART)
#undef AOT_APART
#endif
#if defined(AOT_LINALG_TURN_BACK_H_)
#define AOT_APART(M, S, T) \
  extern template void turn_back(S<T>, M<T>, int64_t, int64_t, M<T>, int64_t, Room);
AOT_APART_MATRICES(AOT_APART)
#undef AOT_APART
#endif
#if defined(AOT_LINALG_LARGE_QR_H_)
#define AOT_APART(M, S, T) extern template void reflect_blocks(M<T>, int64_t, int64_t, M<T>, Room);
AOT_APART_MATRICES(AOT_APART)
#undef AOT_APART
#endif
#if defined(AOT_LINALG_LARGE_EIG_H_)
#define AOT_APART(M, S, T)                                                    \
  extern template void reduce(const Hessenberg<M<T>>&, Room);                 \
  extern template void hessenberg_basis(M<T>, int64_t, M<T>, M<T>, Room);     \
  extern template bool find_spectrum(const Multishift<M<T>>&, Room);          \
  extern template void find_vectors(const LargeEig<M<T>, false>&, M<T>, M<T>, \
                                    const Balance<M<T>>&, T*, Room);
AOT_APART_MATRICES(AOT_APART)
#undef AOT_APART
#endif

#undef AOT_APART_MATRICES

}  // namespace aot::linalg

#endif  // AOT_TMPL_APART_H_
