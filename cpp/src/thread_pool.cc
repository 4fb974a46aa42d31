#include "thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include "error.h"
#include "process.h"

namespace aot_rt {
namespace {

// How long a helper polls for the next step before it goes to sleep.
constexpr auto kPatience = std::chrono::microseconds(100);

inline void pause_cpu() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Chunks [low, high) are left; both ends in one word so that a claim is one exchange.
constexpr uint64_t pack(uint64_t low, uint64_t high) { return low << 32 | high; }
constexpr uint64_t low_of(uint64_t ticket) { return ticket >> 32; }
constexpr uint64_t high_of(uint64_t ticket) { return ticket & 0xffffffffu; }

}  // namespace

struct Crew::Shared {
  // Written by the crew's caller only while no chunk is pending, so a thread that holds a claimed
  // chunk may read them.
  ChunkFn function = nullptr;
  void* job = nullptr;

  alignas(64) std::atomic<uint64_t> ticket{0};
  alignas(64) std::atomic<int64_t> pending{0};
  alignas(64) std::atomic<int32_t> helpers{0};
  std::atomic<bool> closed{false};
  std::vector<std::atomic<bool>> seats;  // taken; seat i + 1 of the crew

  explicit Shared(int32_t threads) : seats(static_cast<size_t>(std::max(threads - 1, 0))) {}

  // Claims and does one chunk, the caller from the front, helpers from the back: with few threads
  // each one meets the same rows in step after step. False when none is left.
  bool work(int32_t seat) {
    uint64_t ticket_now = ticket.load(std::memory_order_acquire);
    while (low_of(ticket_now) < high_of(ticket_now)) {
      const uint64_t low = low_of(ticket_now);
      const uint64_t high = high_of(ticket_now);
      const uint64_t next = seat == 0 ? pack(low + 1, high) : pack(low, high - 1);
      if (ticket.compare_exchange_weak(ticket_now, next, std::memory_order_acq_rel,
                                       std::memory_order_acquire)) {
        function(job, seat, static_cast<int64_t>(seat == 0 ? low : high - 1));
        pending.fetch_sub(1, std::memory_order_release);
        return true;
      }
    }
    return false;
  }

  // Works until there has been nothing to do for kPatience.
  void serve(int32_t seat) {
    auto last = std::chrono::steady_clock::now();
    while (!closed.load(std::memory_order_relaxed)) {
      if (work(seat)) {
        while (work(seat)) {
        }
        last = std::chrono::steady_clock::now();
        continue;
      }
      for (int i = 0; i < 32; ++i) pause_cpu();
      if (std::chrono::steady_clock::now() - last > kPatience) break;
    }
  }

  int32_t take_seat() {
    for (size_t i = 0; i < seats.size(); ++i) {
      bool taken = false;
      if (seats[i].compare_exchange_strong(taken, true, std::memory_order_acq_rel)) {
        helpers.fetch_add(1, std::memory_order_relaxed);
        return static_cast<int32_t>(i) + 1;
      }
    }
    return 0;
  }

  void leave_seat(int32_t seat) {
    seats[static_cast<size_t>(seat) - 1].store(false, std::memory_order_release);
    helpers.fetch_sub(1, std::memory_order_relaxed);
  }
};

namespace {

// A thread that is asleep or serves one crew.
class Worker {
 public:
  // A new thread has its maker's mask: all signals are blocked before its first instruction.
  Worker() {
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      std::thread([this] { loop(); }).detach();
    } catch (const std::system_error&) {
      ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
      throw;
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  // Hands the worker to a crew; false when it is busy.
  bool recruit(const std::shared_ptr<Crew::Shared>& crew) {
    if (busy_.load(std::memory_order_relaxed)) return false;
    if (busy_.exchange(true, std::memory_order_acquire)) return false;
    const int32_t seat = crew->take_seat();
    if (seat == 0) {
      busy_.store(false, std::memory_order_release);
      return false;
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      crew_ = crew;
      seat_ = seat;
    }
    wake_.notify_one();
    return true;
  }

 private:
  void loop() {
    for (;;) {
      std::shared_ptr<Crew::Shared> crew;
      int32_t seat = 0;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, [this] { return crew_ != nullptr; });
        crew = std::move(crew_);
        crew_ = nullptr;
        seat = seat_;
      }
      crew->serve(seat);
      crew->leave_seat(seat);
      crew.reset();
      busy_.store(false, std::memory_order_release);
    }
  }

  std::atomic<bool> busy_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::shared_ptr<Crew::Shared> crew_;  // guarded by mutex_: handed over, not yet taken up
  int32_t seat_ = 0;
};

// All workers of the process. Never destroyed: detached threads use it until the process ends.
class Pool {
 public:
  static Pool& instance() {
    Pool* pool = current_.load(std::memory_order_acquire);
    if (pool != nullptr) return *pool;
    auto made = std::make_unique<Pool>();
    // Another thread's, when that was first.
    return current_.compare_exchange_strong(pool, made.get()) ? *made.release() : *pool;
  }

  // A child process has none of its parent's threads: it begins with a new pool.
  static void forget() { current_.store(nullptr, std::memory_order_relaxed); }

  // Makes sure that there are `count` workers. Throws DEVICE_ERROR when no thread can be started.
  void grow(int32_t count) {
    const std::lock_guard<std::mutex> lock(mutex_);
    try {
      for (int32_t have = count_.load(std::memory_order_relaxed); have < count; ++have) {
        workers_[have] = new Worker;  // never deleted: its thread uses it until the process ends
        count_.store(have + 1, std::memory_order_release);
      }
    } catch (const std::system_error& error) {
      fail(AOT_DEVICE_ERROR, "cannot start a thread: ", error.what());
    }
  }

  void recruit(const std::shared_ptr<Crew::Shared>& crew, int32_t wanted) {
    const int32_t count = count_.load(std::memory_order_acquire);
    for (int32_t i = 0; i < count && wanted > 0; ++i) {
      if (workers_[i]->recruit(crew)) --wanted;
    }
  }

  static constexpr int32_t kMaxWorkers = 1023;

 private:
  inline static std::atomic<Pool*> current_{nullptr};

  std::mutex mutex_;
  std::atomic<int32_t> count_{0};
  Worker* workers_[kMaxWorkers] = {};
};

// When the library is loaded, for the reason that process.cc gives.
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, Pool::forget);

int32_t threads_per_core() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(0x0b, 0, &a, &b, &c, &d) != 0 && (b & 0xffff) != 0) {
    return static_cast<int32_t>(b & 0xffff);
  }
#endif
  return 1;
}

// CPUs granted by the control group ("200000 100000" is two), or a large number.
int32_t quota_cpus() {
  constexpr int32_t kNone = 1 << 20;
  std::FILE* file = std::fopen("/sys/fs/cgroup/cpu.max", "re");
  if (file == nullptr) return kNone;
  long long quota = 0;
  long long period = 0;
  const int fields = std::fscanf(file, "%lld %lld", &quota, &period);
  std::fclose(file);
  if (fields != 2 || quota <= 0 || period <= 0) return kNone;
  return static_cast<int32_t>(std::min<long long>((quota + period - 1) / period, kNone));
}

}  // namespace

int32_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int32_t cpus = 1;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) {
    cpus = CPU_COUNT(&set);
  } else {
    cpus = static_cast<int32_t>(std::max(1u, std::thread::hardware_concurrency()));
  }
  const int32_t width = threads_per_core();
  return std::max(1, std::min((cpus + width - 1) / width, quota_cpus()));
}

Crew::Crew(int32_t threads, const aot_executor* executor) : threads_(threads) {
  if (executor != nullptr) {
    executor_ = *executor;
    threads_ = executor->workers;
  } else {
    threads_ = std::min(threads_, Pool::kMaxWorkers + 1);
  }
  join_pool();
}

void Crew::join_pool() {
  if (executor_.run == nullptr && threads_ > 1) Pool::instance().grow(threads_ - 1);
  shared_ = std::make_shared<Shared>(threads_);
  forks_ = forks();
}

Crew::~Crew() { shared_->closed.store(true, std::memory_order_relaxed); }

void Crew::run(ChunkFn function, void* job, int64_t chunks) {
  if (forks_ != forks()) join_pool();
  Shared& shared = *shared_;
  shared.function = function;
  shared.job = job;
  shared.pending.store(chunks, std::memory_order_relaxed);
  shared.ticket.store(pack(0, static_cast<uint64_t>(chunks)), std::memory_order_release);
  if (executor_.run != nullptr) {
    run_on_executor(chunks);
  } else {
    const int32_t useful = static_cast<int32_t>(std::min<int64_t>(threads_, chunks)) - 1;
    const int32_t missing = useful - shared.helpers.load(std::memory_order_relaxed);
    if (missing > 0) Pool::instance().recruit(shared_, missing);
  }
  finish();
}

void Crew::run_on_executor(int64_t chunks) {
  const auto task = [](void* data, int32_t index) {
    auto* shared = static_cast<Shared*>(data);
    while (shared->work(index)) {
    }
  };
  const auto count = static_cast<int32_t>(std::min<int64_t>(threads_, chunks));
  executor_.run(executor_.context, count, task, shared_.get());
}

// The caller works too, then waits for chunks that helpers still have in hand.
void Crew::finish() {
  Shared& shared = *shared_;
  while (shared.work(0)) {
  }
  for (int spins = 0; shared.pending.load(std::memory_order_acquire) != 0; ++spins) {
    if (spins < 2000) {
      pause_cpu();
    } else {
      ::sched_yield();
    }
  }
}

}  // namespace aot_rt
