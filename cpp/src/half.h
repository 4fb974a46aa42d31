// Half types as floats, for the little that the runtime computes itself.
#ifndef AOT_SRC_HALF_H_
#define AOT_SRC_HALF_H_

#include <cstdint>
#include <cstring>

namespace aot_rt {

inline uint32_t float_bits(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

inline float float_of_bits(uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline float from_bfloat16(uint16_t bits) { return float_of_bits(uint32_t{bits} << 16); }

// Rounds to nearest, ties to even.
inline uint16_t to_bfloat16(float value) {
  const uint32_t bits = float_bits(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>(bits >> 16 | 0x40U);  // NaN
  return static_cast<uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

inline float from_float16(uint16_t bits) {
  const uint32_t sign = uint32_t{bits} << 16 & 0x80000000U;
  const uint32_t rest = bits & 0x7fffU;
  if (rest >= 0x7c00U) return float_of_bits(sign | 0x7f800000U | rest << 13);  // inf, NaN
  // The exponents' bias differs by 112; scaling in floating point takes subnormal numbers along.
  const float magnitude = float_of_bits(rest << 13) * float_of_bits(0x77800000U);
  return float_of_bits(sign | float_bits(magnitude));
}

// Rounds to nearest, ties to even.
inline uint16_t to_float16(float value) {
  const uint32_t bits = float_bits(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000U);
  const uint32_t rest = bits & 0x7fffffffU;
  if (rest > 0x7f800000U) return static_cast<uint16_t>(sign | 0x7e00U);
  if (rest >= 0x477ff000U) return static_cast<uint16_t>(sign | 0x7c00U);  // from 65520: infinite
  if (rest < 0x38800000U) {
    // Subnormal: adding 0.5 leaves the number's last bits where a half's are, rounded.
    const uint32_t shifted = float_bits(float_of_bits(rest) + 0.5F);
    return static_cast<uint16_t>(sign | (shifted - 0x3f000000U));
  }
  const uint32_t rounded = rest - 0x38000000U + 0xfffU + (rest >> 13 & 1U);
  return static_cast<uint16_t>(sign | rounded >> 13);
}

}  // namespace aot_rt

#endif  // AOT_SRC_HALF_H_
