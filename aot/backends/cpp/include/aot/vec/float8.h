// float8: widening from and rounding to the 8-bit formats, as PyTorch converts them.
#ifndef AOT_VEC_FLOAT8_H_
#define AOT_VEC_FLOAT8_H_

#include "aot/vec/half.h"

namespace aot {

struct f8e4m3fn {
  uint8_t bits;
};
struct f8e4m3fnuz {
  uint8_t bits;
};
struct f8e5m2 {
  uint8_t bits;
};
struct f8e5m2fnuz {
  uint8_t bits;
};
struct f8e8m0fnu {
  uint8_t bits;
};

namespace detail {

// MANTISSA: its bits. BIAS: of the exponent. BEYOND: the code of what is greater than the greatest
// number. NAN: the code of NaN. Formats whose NaN is 0x80 have one zero and no sign of NaN.
template <int MANTISSA, int BIAS, int BEYOND, int NAN>
struct Float8 {
  using Raw = uint8_t;
  static constexpr bool kOneZero = NAN == 0x80;
  static constexpr int kShift = 23 - MANTISSA;
  static constexpr int kRebase = (127 - BIAS) << 23;

  // 2^e as a float's bits.
  static constexpr int32_t power(int e) { return (e + 127) << 23; }

  // The multiplication rebases the exponent of normal and subnormal values alike.
  template <class T, int N>
  AOT_MEMBER static Vec<T, N> widen(Vec<uint8_t, N> raw) {
    const Vec<int32_t, N> h = convert<int32_t>(raw);
    const Vec<int32_t, N> code = h & 0x7f;
    const Vec<float, N> scale = bitcast<float>(Vec<int32_t, N>(power(127 - BIAS)));
    Vec<int32_t, N> out = bitcast<int32_t>(bitcast<float>(code << kShift) * scale);
    const Vec<int32_t, N> nan(0x7fc00000);
    if constexpr (BEYOND + 1 == NAN) {
      out = select(code == NAN, nan, out);
    } else if constexpr (!kOneZero) {
      out = select(code >= BEYOND, (code << kShift) | 0x7f800000, out);
    }
    out = out | ((h & 0x80) << 24);
    if constexpr (kOneZero) out = select(h == 0x80, nan, out);
    return convert<T>(bitcast<float>(out));
  }

  // Of what lies between two codes to the nearest, ties to the even one.
  template <class T, int N>
  AOT_MEMBER static Vec<uint8_t, N> narrow(Vec<T, N> value) {
    const Vec<int32_t, N> bits = bitcast<int32_t>(convert<float>(value));
    const Vec<int32_t, N> sign = (bits >> 24) & 0x80;
    const Vec<int32_t, N> a = bits & 0x7fffffff;
    // A number whose last place is that of subnormal codes: adding it rounds to them.
    const Vec<int32_t, N> unit(power(24 - BIAS - MANTISSA));
    const Vec<int32_t, N> tiny = bitcast<int32_t>(bitcast<float>(a) + bitcast<float>(unit)) - unit;
    const Vec<int32_t, N> half((1 << (kShift - 1)) - 1 - kRebase);
    const Vec<int32_t, N> normal = (a + half + ((a >> kShift) & 1)) >> kShift;
    Vec<int32_t, N> code = select(a < power(1 - BIAS), tiny, normal);
    code = minimum_code(code);
    code = select(a > 0x7f800000, Vec<int32_t, N>(NAN), code);
    if constexpr (kOneZero) {
      return convert<uint8_t>(select((code & 0x7f) == 0, code, code | sign));
    } else {
      return convert<uint8_t>(code | sign);
    }
  }

 private:
  template <int N>
  AOT_MEMBER static Vec<int32_t, N> minimum_code(Vec<int32_t, N> code) {
    return select(code > BEYOND, Vec<int32_t, N>(BEYOND), code);
  }
};

template <>
struct Storage<f8e4m3fn> : Float8<3, 7, 0x7e, 0x7f> {};
template <>
struct Storage<f8e4m3fnuz> : Float8<3, 8, 0x80, 0x80> {};
template <>
struct Storage<f8e5m2> : Float8<2, 15, 0x7c, 0x7f> {};
template <>
struct Storage<f8e5m2fnuz> : Float8<2, 16, 0x80, 0x80> {};

// Powers of two without sign or zero: the exponent of a float, rounded by the mantissa.
template <>
struct Storage<f8e8m0fnu> {
  using Raw = uint8_t;
  template <class T, int N>
  AOT_MEMBER static Vec<T, N> widen(Vec<uint8_t, N> raw) {
    const Vec<int32_t, N> h = convert<int32_t>(raw);
    const Vec<int32_t, N> least(0x400000), nan(0x7fc00000);
    const Vec<int32_t, N> out = select(h == 0, least, select(h == 0xff, nan, h << 23));
    return convert<T>(bitcast<float>(out));
  }
  template <class T, int N>
  AOT_MEMBER static Vec<uint8_t, N> narrow(Vec<T, N> value) {
    const Vec<int32_t, N> bits = bitcast<int32_t>(convert<float>(value)) & 0x7fffffff;
    const Vec<int32_t, N> exponent = bits >> 23;
    const auto above =
        ((bits & 0x400000) != 0) & (((bits & 0x3fffff) != 0) | (exponent > 0)) & (exponent < 0xff);
    return convert<uint8_t>(select(above, exponent + Vec<int32_t, N>(1), exponent));
  }
};

}  // namespace detail
}  // namespace aot

#endif  // AOT_VEC_FLOAT8_H_
