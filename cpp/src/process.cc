#include "process.h"

#include <pthread.h>

#include <atomic>

namespace aot_rt {
namespace {

std::atomic<uint32_t> count{0};

}  // namespace

uint32_t forks() {
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { count.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(registered);
  return count.load(std::memory_order_relaxed);
}

}  // namespace aot_rt
