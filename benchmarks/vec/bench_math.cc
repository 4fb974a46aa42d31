// Cycles per element of the vector functions, from and to the first-level cache.
// Build and run: g++ -std=c++17 -O2 -ffp-contract=off -fno-math-errno -march=x86-64-v4
//     -I aot/backends/cpp/include benchmarks/vec/bench_math.cc -o bench_math && ./bench_math [NAME]
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "aot/vec/vec.h"

namespace {

constexpr int kLanes = aot::native_lanes<float>();
constexpr int kCount = 2048;
alignas(64) float input[kCount];
alignas(64) float output[kCount];
alignas(64) double input64[kCount];
alignas(64) double output64[kCount];

double seconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Seconds per core cycle: a chain of dependent additions runs one per cycle.
double cycle_time() {
  double best = 1;
  for (int round = 0; round < 5; ++round) {
    const double start = seconds();
    int64_t x = 0;
    for (int i = 0; i < 2000000; ++i) {
      x += 1;
      __asm__ volatile("" : "+r"(x));
    }
    const double each = (seconds() - start) / 2000000;
    best = each < best ? each : best;
  }
  return best;
}

using Kernel = void (*)();

void report(const char* name, Kernel run, const char* only) {
  if (only != nullptr && strstr(name, only) == nullptr) return;
  double best = 1;
  for (int round = 0; round < 15; ++round) {
    const double start = seconds();
    for (int i = 0; i < 100; ++i) run();
    const double each = (seconds() - start) / (100.0 * kCount);
    best = each < best ? each : best;
  }
  printf("%-12s %6.2f cycles  %6.3f ns\n", name, best / cycle_time(), best * 1e9);
}

#define KERNEL_1(NAME)                                                        \
  void run_##NAME() {                                                         \
    for (int i = 0; i < kCount; i += kLanes) {                                \
      aot::store(output + i, aot::NAME(aot::load<float, kLanes>(input + i))); \
    }                                                                         \
  }
#define KERNEL_2(NAME)                                    \
  void run_##NAME() {                                     \
    for (int i = 0; i < kCount; i += kLanes) {            \
      const auto x = aot::load<float, kLanes>(input + i); \
      aot::store(output + i, aot::NAME(x, x + 1.0f));     \
    }                                                     \
  }
#define KERNEL_64(NAME)                                                           \
  void run64_##NAME() {                                                           \
    constexpr int kHalf = kLanes / 2;                                             \
    for (int i = 0; i < kCount; i += kHalf) {                                     \
      aot::store(output64 + i, aot::NAME(aot::load<double, kHalf>(input64 + i))); \
    }                                                                             \
  }
// clang-format off
#define FLOATS(X)                                                                             \
  X(exp) X(sigmoid) X(tanh) X(erf) X(log) X(rsqrt) X(sin) X(cos) X(exp2) X(expm1) X(log2)     \
  X(log10) X(log1p) X(tan) X(asin) X(acos) X(atan) X(sinh) X(cosh) X(asinh) X(acosh) X(atanh) \
  X(erfc) X(lgamma) X(cbrt)
// clang-format on
#define PAIRS(X) X(pow) X(atan2) X(hypot) X(fmod)
#define DOUBLES(X) X(exp) X(log) X(sigmoid) X(tanh) X(sin) X(erf)

FLOATS(KERNEL_1)
PAIRS(KERNEL_2)
DOUBLES(KERNEL_64)

}  // namespace

int main(int argc, char** argv) {
  const char* only = argc > 1 ? argv[1] : nullptr;
  for (int i = 0; i < kCount; ++i) {
    input[i] = 0.05f + 0.9f * static_cast<float>((i * 7919) % kCount) / kCount;
    input64[i] = input[i];
  }
#define REPORT(NAME) report(#NAME, run_##NAME, only);
#define REPORT64(NAME) report(#NAME " f64", run64_##NAME, only);
  FLOATS(REPORT)
  PAIRS(REPORT)
  DOUBLES(REPORT64)
  return 0;
}
