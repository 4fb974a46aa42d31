#include "process.h"

#include <pthread.h>

#include <atomic>

namespace aot_rt {
namespace {

std::atomic<uint32_t> count{0};

// When the library is loaded: at a first use, another thread could fork in the midst of it. Its
// child would wait for this thread for ever, or not be counted.
[[maybe_unused]] const int registered =
    pthread_atfork(nullptr, nullptr, [] { count.fetch_add(1, std::memory_order_relaxed); });

}  // namespace

uint32_t forks() { return count.load(std::memory_order_relaxed); }

}  // namespace aot_rt
