#include "sha256.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace aot_rt {
namespace {

using State = std::array<uint32_t, 8>;
using BlocksFn = void (*)(State&, const uint8_t*, size_t);

// First 32 bits of the fractional parts of the cube roots of the first 64 primes.
alignas(16) constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

constexpr State kInitial = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                            0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

inline uint32_t rotr(uint32_t x, int n) { return (x >> n) | (x << (32 - n)); }

inline uint32_t load_big_endian(const uint8_t* p) {
  return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | uint32_t{p[3]};
}

void blocks_portable(State& state, const uint8_t* data, size_t count) {
  for (; count > 0; --count, data += 64) {
    uint32_t w[64];
    for (int i = 0; i < 16; ++i) w[i] = load_big_endian(data + 4 * i);
    for (int i = 16; i < 64; ++i) {
      const uint32_t s0 = rotr(w[i - 15], 7) ^ rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
      const uint32_t s1 = rotr(w[i - 2], 17) ^ rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (int i = 0; i < 64; ++i) {
      const uint32_t s1 = rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25);
      const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
      const uint32_t s0 = rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22);
      const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    const uint32_t add[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; ++i) state[i] += add[i];
  }
}

#if defined(__x86_64__)
// Whole blocks of `kStreams` messages side by side. One message is a chain of rounds, each waiting
// for the one before (4 cycles on Intel, 2 rounds at a time); a second one fills the wait.
// The SHA extensions keep a state as two vectors, ABEF and CDGH.
template <int kStreams>
__attribute__((target("sha,sse4.1,ssse3"))) void blocks_shani(
    std::array<State*, kStreams> states, std::array<const uint8_t*, kStreams> data, size_t count) {
  const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
  __m128i abef[kStreams];
  __m128i cdgh[kStreams];
  for (int s = 0; s < kStreams; ++s) {
    const auto* in = reinterpret_cast<const __m128i*>(states[s]->data());
    const __m128i dcba = _mm_shuffle_epi32(_mm_loadu_si128(in), 0xb1);
    const __m128i hgfe = _mm_shuffle_epi32(_mm_loadu_si128(in + 1), 0x1b);
    abef[s] = _mm_alignr_epi8(dcba, hgfe, 8);
    cdgh[s] = _mm_blend_epi16(hgfe, dcba, 0xf0);
  }
  for (size_t block = 0; block < count; ++block) {
    __m128i abef_before[kStreams];
    __m128i cdgh_before[kStreams];
    __m128i w[kStreams][4];
    for (int s = 0; s < kStreams; ++s) abef_before[s] = abef[s], cdgh_before[s] = cdgh[s];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      const __m128i k = _mm_load_si128(reinterpret_cast<const __m128i*>(kRound) + i);
#pragma GCC unroll 2
      for (int s = 0; s < kStreams; ++s) {
        __m128i& now = w[s][i % 4];
        if (i < 4) {
          now = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data[s] + 64 * block) + i);
          now = _mm_shuffle_epi8(now, swap);
        } else {
          const __m128i last = w[s][(i + 3) % 4];
          const __m128i middle = _mm_alignr_epi8(last, w[s][(i + 2) % 4], 4);
          now = _mm_add_epi32(_mm_sha256msg1_epu32(now, w[s][(i + 1) % 4]), middle);
          now = _mm_sha256msg2_epu32(now, last);
        }
        const __m128i wk = _mm_add_epi32(now, k);
        cdgh[s] = _mm_sha256rnds2_epu32(cdgh[s], abef[s], wk);
        abef[s] = _mm_sha256rnds2_epu32(abef[s], cdgh[s], _mm_shuffle_epi32(wk, 0x0e));
      }
    }
    for (int s = 0; s < kStreams; ++s) {
      abef[s] = _mm_add_epi32(abef[s], abef_before[s]);
      cdgh[s] = _mm_add_epi32(cdgh[s], cdgh_before[s]);
    }
  }
  for (int s = 0; s < kStreams; ++s) {
    const __m128i feba = _mm_shuffle_epi32(abef[s], 0x1b);
    const __m128i dchg = _mm_shuffle_epi32(cdgh[s], 0xb1);
    auto* out = reinterpret_cast<__m128i*>(states[s]->data());
    _mm_storeu_si128(out, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128(out + 1, _mm_alignr_epi8(dchg, feba, 8));
  }
}

void blocks_shani_one(State& state, const uint8_t* data, size_t count) {
  blocks_shani<1>({&state}, {data}, count);
}

// Asked once: under a hypervisor each `cpuid` is a call of it.
bool has_sha_extensions() {
  static const bool found = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_SSE4_1) == 0 || (c & bit_SSSE3) == 0) {
      return false;
    }
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_SHA) != 0;
  }();
  return found;
}
#endif

// The digest of `bytes`, of which `done` bytes (whole blocks) are in `state` already.
std::string finish(State state, Bytes bytes, size_t done, BlocksFn blocks) {
  const size_t whole = bytes.size / 64;
  blocks(state, bytes.data + done, whole - done / 64);
  // The rest, a one bit, zeros, and the length in bits.
  uint8_t tail[128] = {};
  const size_t rest = bytes.size % 64;
  if (rest != 0) std::memcpy(tail, bytes.data + whole * 64, rest);
  tail[rest] = 0x80;
  const size_t tail_size = rest < 56 ? 64 : 128;
  const uint64_t bits = static_cast<uint64_t>(bytes.size) * 8;
  for (int i = 0; i < 8; ++i) tail[tail_size - 1 - i] = static_cast<uint8_t>(bits >> (8 * i));
  blocks(state, tail, tail_size / 64);

  static constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  text.reserve(64);
  for (const uint32_t word : state) {
    for (int shift = 28; shift >= 0; shift -= 4) text += kHex[(word >> shift) & 15];
  }
  return text;
}

}  // namespace

std::string sha256_hex_portable(Bytes bytes) { return finish(kInitial, bytes, 0, blocks_portable); }

std::string sha256_hex(Bytes bytes) {
#if defined(__x86_64__)
  if (has_sha_extensions()) return finish(kInitial, bytes, 0, blocks_shani_one);
#endif
  return sha256_hex_portable(bytes);
}

std::array<std::string, 2> sha256_hex_pair(Bytes first, Bytes second) {
#if defined(__x86_64__)
  if (has_sha_extensions()) {
    std::array<State, 2> states = {kInitial, kInitial};
    const size_t both = std::min(first.size, second.size) / 64;
    blocks_shani<2>({&states[0], &states[1]}, {first.data, second.data}, both);
    return {finish(states[0], first, both * 64, blocks_shani_one),
            finish(states[1], second, both * 64, blocks_shani_one)};
  }
#endif
  return {sha256_hex_portable(first), sha256_hex_portable(second)};
}

}  // namespace aot_rt
