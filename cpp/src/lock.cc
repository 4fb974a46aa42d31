#include "lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "error.h"
#include "process.h"

namespace aot_rt {
namespace {

constexpr uint32_t kHeld = 1;
constexpr uint32_t kAwaited = 2;  // held, and somebody sleeps

const void* this_thread() {
  static thread_local const char mark = 0;
  return &mark;
}

uint32_t held_word() { return forks() << 2 | kHeld; }
bool of_this_process(uint32_t word) { return word >> 2 == forks() << 2 >> 2; }

void wait_for_change(std::atomic<uint32_t>* word, uint32_t value) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT_PRIVATE, value, nullptr,
            nullptr, 0);
}

void wake_one(std::atomic<uint32_t>* word) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr,
            0);
}

}  // namespace

// As in U. Drepper, "Futexes are tricky" (2011), section 5: 0 free, 1 held, 2 held and awaited.
void Lock::lock() {
  uint32_t seen = 0;
  if (!word_.compare_exchange_strong(seen, held_word(), std::memory_order_acquire)) {
    const uint32_t awaited = forks() << 2 | kAwaited;
    do {
      if (seen != 0) {
        if (!of_this_process(seen)) refuse(false);
        if (holder_.load(std::memory_order_relaxed) == this_thread()) refuse(true);
        // Whoever unlocks must know of us before we sleep.
        if (seen == awaited || word_.compare_exchange_strong(seen, awaited)) {
          wait_for_change(&word_, awaited);
        }
      }
      seen = 0;
    } while (!word_.compare_exchange_strong(seen, awaited, std::memory_order_acquire));
  }
  holder_.store(this_thread(), std::memory_order_relaxed);
}

bool Lock::try_lock() noexcept {
  uint32_t seen = 0;
  if (!word_.compare_exchange_strong(seen, held_word(), std::memory_order_acquire)) return false;
  holder_.store(this_thread(), std::memory_order_relaxed);
  return true;
}

void Lock::unlock() noexcept {
  holder_.store(nullptr, std::memory_order_relaxed);
  const uint32_t before = word_.exchange(0, std::memory_order_release);
  if ((before & kAwaited) != 0) wake_one(&word_);
}

bool Lock::lost() const noexcept {
  const uint32_t seen = word_.load(std::memory_order_relaxed);
  return seen != 0 && !of_this_process(seen);
}

void Lock::refuse(bool own) const {
  if (own) {
    fail(AOT_INVALID_ARGUMENT, what_,
         " is called from a callback of its own run: call it when the run is over");
  }
  fail(AOT_UNAVAILABLE, what_,
       " was in use by another thread when this process was forked, and that thread is not in the "
       "child: make a new one here");
}

}  // namespace aot_rt
