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

int64_t limit_of(int64_t given, const char* name) {
  if (given < 0) fail(AOT_INVALID_ARGUMENT, "aot_limits: ", name, " is ", given);
  return given == 0 ? kUnlimited : given;
}

}  // namespace

Limits Limits::from(const aot_limits& given) {
  Limits limits = most(given);
  if (given.plan_bytes == 0) limits.plan_bytes = kPlanBytes;
  if (given.loop_turns == 0) limits.loop_turns = kLoopTurns;
  return limits;
}

Limits Limits::most(const aot_limits& given) {
  return {limit_of(given.plan_bytes, "plan_bytes"),   limit_of(given.arena_bytes, "arena_bytes"),
          limit_of(given.state_bytes, "state_bytes"), limit_of(given.output_bytes, "output_bytes"),
          limit_of(given.loop_turns, "loop_turns"),   limit_of(given.run_ns, "run_ns")};
}

Limits Limits::within(const Limits& others) const {
  return {std::min(plan_bytes, others.plan_bytes),   std::min(arena_bytes, others.arena_bytes),
          std::min(state_bytes, others.state_bytes), std::min(output_bytes, others.output_bytes),
          std::min(loop_turns, others.loop_turns),   std::min(run_ns, others.run_ns)};
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
