#include "cpu/isa.h"

#include <atomic>
#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace aot_rt {
namespace {

struct Level {
  int rank;
  const char* name;
};

constexpr Level kLevels[] = {{2, "x86-64-v2"}, {3, "x86-64-v3"}, {4, "x86-64-v4"}};

#if defined(__x86_64__)
struct Registers {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(unsigned leaf, unsigned subleaf) {
  Registers r;
  __get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d);
  return r;
}

constexpr bool all(unsigned value, unsigned bits) { return (value & bits) == bits; }

// Register sets that the operating system saves on a context switch (XCR0).
uint64_t saved_state(bool has_osxsave) {
  if (!has_osxsave) return 0;
  unsigned low = 0;
  unsigned high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

int detect() {
  const Registers basic = cpuid(1, 0);
  const Registers extended = cpuid(7, 0);
  const Registers amd = cpuid(0x80000001u, 0);
  constexpr unsigned kLahf = 1u << 0;
  if (!all(basic.c, bit_SSE3 | bit_SSSE3 | bit_SSE4_1 | bit_SSE4_2 | bit_POPCNT | bit_CMPXCHG16B) ||
      !all(amd.c, kLahf)) {
    return 0;
  }
  const uint64_t saved = saved_state((basic.c & bit_OSXSAVE) != 0);
  constexpr uint64_t kSse = 1u << 1;
  constexpr uint64_t kAvx = 1u << 2;
  constexpr uint64_t kAvx512 = 7u << 5;  // mask registers and both halves of the vectors
  const bool avx_state = (saved & (kSse | kAvx)) == (kSse | kAvx);
  if (!avx_state || !all(basic.c, bit_AVX | bit_F16C | bit_FMA | bit_MOVBE) ||
      !all(extended.b, bit_AVX2 | bit_BMI | bit_BMI2) || !all(amd.c, bit_LZCNT)) {
    return 2;
  }
  if ((saved & kAvx512) != kAvx512 ||
      !all(extended.b, bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL)) {
    return 3;
  }
  return 4;
}
#else
int detect() { return 0; }
#endif

}  // namespace

int isa_rank(std::string_view name) {
  for (const Level& level : kLevels) {
    if (name == level.name) return level.rank;
  }
  return 0;
}

int cpu_isa_rank() {
  static std::atomic<int> known{-1};  // no thread waits for another, which a fork may leave behind
  int rank = known.load(std::memory_order_relaxed);
  if (rank < 0) {
    rank = detect();
    known.store(rank, std::memory_order_relaxed);
  }
  return rank;
}

const char* isa_name(int rank) {
  for (const Level& level : kLevels) {
    if (rank == level.rank) return level.name;
  }
  return "none";
}

}  // namespace aot_rt
