#include "run_control.h"

#include <algorithm>
#include <chrono>

#include "error.h"

namespace aot_rt {
namespace {

constexpr int64_t kPlanBytes = int64_t{256} << 20;
constexpr int64_t kLoopTurns = int64_t{1} << 32;
constexpr int64_t kUnlimited = INT64_MAX;

int64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

int64_t limit_or(int64_t given, int64_t otherwise, const char* name) {
  if (given < 0) fail(AOT_INVALID_ARGUMENT, "aot_limits: ", name, " is ", given);
  return given == 0 ? otherwise : given;
}

}  // namespace

Limits Limits::from(const aot_limits& given) {
  return {limit_or(given.plan_bytes, kPlanBytes, "plan_bytes"),
          limit_or(given.arena_bytes, kUnlimited, "arena_bytes"),
          limit_or(given.state_bytes, kUnlimited, "state_bytes"),
          limit_or(given.output_bytes, kUnlimited, "output_bytes"),
          limit_or(given.loop_turns, kLoopTurns, "loop_turns"),
          limit_or(given.run_ns, kNoTime, "run_ns")};
}

RunControl::RunControl(const Limits& limits, int64_t timeout_ns,
                       const aot_cancellation* cancellation)
    : cancellation_(cancellation),
      most_turns_(limits.loop_turns),
      allowed_ns_(timeout_ns > 0 ? std::min(timeout_ns, limits.run_ns) : limits.run_ns),
      timed_(allowed_ns_ != Limits::kNoTime) {
  if (timed_ && __builtin_add_overflow(now_ns(), allowed_ns_, &deadline_ns_)) {
    deadline_ns_ = kUnlimited;
  }
}

void RunControl::check_now() const {
  if (cancellation_ != nullptr && cancellation_->cancelled.load(std::memory_order_relaxed)) {
    fail(AOT_CANCELLED, "the run was cancelled");
  }
  if (timed_ && now_ns() > deadline_ns_) {
    fail(AOT_DEADLINE_EXCEEDED, "the run has taken more than the ",
         static_cast<double>(allowed_ns_) / 1e6, " ms that it was given");
  }
}

void RunControl::count_turn() {
  check();
  if (++turns_ > most_turns_) {
    fail(AOT_LIMIT_EXCEEDED, "a loop of the model has turned ", most_turns_,
         " times in this run, the limit: raise loop_turns in aot_limits if it should");
  }
}

}  // namespace aot_rt
