// <immintrin.h>, without what no kernel uses. Reading all of it takes g++ longer than compiling
// most kernels, and so does loading it precompiled.
//
// A header whose guard is set is skipped. That is done for a compiler whose headers are known,
// where none that is read needs one that is skipped; any other reads all.
#ifndef AOT_VEC_INTRINSICS_H_
#define AOT_VEC_INTRINSICS_H_

#if defined(__GNUC__) && !defined(__clang__)
#if __GNUC__ == 12
// Beyond x86-64-v4.
#define __AVX512FP16INTRIN_H_INCLUDED
#define __AVX512FP16VLINTRIN_H_INCLUDED
#define __AVX512VBMI2INTRIN_H_INCLUDED
#define __AVX512VNNIINTRIN_H_INCLUDED
#define __VAESINTRIN_H_INCLUDED
#define _AMXBF16INTRIN_H_INCLUDED
#define _AMXINT8INTRIN_H_INCLUDED
#define _AMXTILEINTRIN_H_INCLUDED
#define _AVX5124FMAPSINTRIN_H_INCLUDED
#define _AVX5124VNNIWINTRIN_H_INCLUDED
#define _AVX512BF16INTRIN_H_INCLUDED
#define _AVX512BF16VLINTRIN_H_INCLUDED
#define _AVX512BITALGINTRIN_H_INCLUDED
#define _AVX512ERINTRIN_H_INCLUDED
#define _AVX512IFMAINTRIN_H_INCLUDED
#define _AVX512IFMAVLINTRIN_H_INCLUDED
#define _AVX512PFINTRIN_H_INCLUDED
#define _AVX512VBMI2VLINTRIN_H_INCLUDED
#define _AVX512VBMIINTRIN_H_INCLUDED
#define _AVX512VBMIVLINTRIN_H_INCLUDED
#define _AVX512VNNIVLINTRIN_H_INCLUDED
#define _AVX512VP2INTERSECTINTRIN_H_INCLUDED
#define _AVX512VP2INTERSECTVLINTRIN_H_INCLUDED
#define _AVX512VPOPCNTDQINTRIN_H_INCLUDED
#define _AVX512VPOPCNTDQVLINTRIN_H_INCLUDED
#define _AVXVNNIINTRIN_H_INCLUDED
#define _GFNIINTRIN_H_INCLUDED
#define _KEYLOCKERINTRIN_H_INCLUDED
#define _SHAINTRIN_H_INCLUDED
#define _VPCLMULQDQINTRIN_H_INCLUDED
#if !defined(__AVX512F__)
#define _AVX512BWINTRIN_H_INCLUDED
#define _AVX512CDINTRIN_H_INCLUDED
#define _AVX512DQINTRIN_H_INCLUDED
#define _AVX512FINTRIN_H_INCLUDED
#define _AVX512VLBWINTRIN_H_INCLUDED
#define _AVX512VLDQINTRIN_H_INCLUDED
#define _AVX512VLINTRIN_H_INCLUDED
#endif
#endif
#pragma GCC diagnostic push  // false alarms inside GCC's own header (_mm512_undefined_*)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#endif  // AOT_VEC_INTRINSICS_H_
