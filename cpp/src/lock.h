// A mutex that says why it cannot be had, where others wait for ever.
#ifndef AOT_SRC_LOCK_H_
#define AOT_SRC_LOCK_H_

#include <atomic>
#include <cstdint>

namespace aot_rt {

// Held by one thread at a time; for std::lock_guard. Two calls that can never succeed fail instead:
// that of a thread which holds it already (a callback that calls what called it), and that of a
// process forked while another thread held it (the thread, and what it was doing, stayed behind).
class Lock {
 public:
  // `what` it guards, for messages: "this session". Must outlive it.
  explicit Lock(const char* what) : what_(what) {}
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  // Waits for its holder. Throws INVALID_ARGUMENT when that is this thread, and UNAVAILABLE when it
  // is a thread of the process that this one was forked from.
  void lock();
  bool try_lock() noexcept;
  void unlock() noexcept;
  // Whether lock() can never succeed here, since the holder stayed in the process forked from.
  bool lost() const noexcept;

 private:
  [[noreturn]] void refuse(bool own) const;

  // 0: free. Else the holder's forks() and whether others wait, so that one look tells both.
  std::atomic<uint32_t> word_{0};
  std::atomic<const void*> holder_{nullptr};  // an address that only this thread has
  const char* what_;
};

}  // namespace aot_rt

#endif  // AOT_SRC_LOCK_H_
