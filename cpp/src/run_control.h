// What may end a run early: a limit of turns, a deadline, a word from another thread.
#ifndef AOT_SRC_RUN_CONTROL_H_
#define AOT_SRC_RUN_CONTROL_H_

#include <atomic>
#include <cstdint>

#include "aot/abi.h"

// Given to runs by the caller; any thread may set it.
struct aot_cancellation {
  std::atomic<bool> cancelled{false};
};

namespace aot_rt {

// What a session may use; see aot_limits. All are counted, none is 0.
struct Limits {
  int64_t plan_bytes;
  int64_t arena_bytes;
  int64_t state_bytes;
  int64_t output_bytes;
  int64_t loop_turns;
  int64_t run_ns;  // kNoTime: none

  static constexpr int64_t kNoTime = INT64_MAX;

  // The caller's limits, with defaults for those that are 0. Throws INVALID_ARGUMENT.
  static Limits from(const aot_limits& given);
  // The most that others may ask for: those that are 0 leave it to them. Throws INVALID_ARGUMENT.
  static Limits most(const aot_limits& given);
  // The lower of each.
  Limits within(const Limits& others) const;
};

// Of one run. Steps ask it between them: what a kernel has begun it ends.
class RunControl {
 public:
  // `timeout_ns`: 0 or less: the limits' alone.
  RunControl(const Limits& limits, int64_t timeout_ns, const aot_cancellation* cancellation);

  // Whether check() may ever throw: without, nobody needs to ask.
  bool active() const { return timed_ || cancellation_ != nullptr; }
  // Throws CANCELLED or DEADLINE_EXCEEDED.
  void check() const {
    if (active()) check_now();
  }
  // Counts one turn of a loop whose number of turns the data decides. Throws LIMIT_EXCEEDED, and as
  // check().
  void count_turn();

 private:
  void check_now() const;

  const aot_cancellation* cancellation_;
  int64_t most_turns_;
  int64_t turns_ = 0;
  int64_t allowed_ns_;
  int64_t deadline_ns_ = 0;  // of the steady clock
  bool timed_;
};

}  // namespace aot_rt

#endif  // AOT_SRC_RUN_CONTROL_H_
