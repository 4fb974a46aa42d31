#include "session.h"

#include <algorithm>
#include <utility>

namespace aot_rt {

Session::Session(std::shared_ptr<Package> package, const Program& program)
    : program_(program), counters_(program.steps.size()), package_(std::move(package)) {
  for (const Step& step : program_.steps) origins_.push_back(plan().origin_of(step));
}

bool Session::owns_buffer(size_t output) const {
  const Buffer& buffer = program_.buffer_of_output(output);
  return buffer.storage == Storage::kOutput && static_cast<size_t>(buffer.index) == output;
}

void Session::set_observer(aot_observer_fn observer, void* context) {
  const std::lock_guard<std::mutex> lock(mutex_);
  observer_ = observer;
  observer_context_ = context;
}

void Session::profile(aot_step_profile* steps, size_t capacity, size_t* count) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (size_t i = 0; i < std::min(capacity, counters_.size()); ++i) {
    const std::string& kernel = program_.kernel_of(program_.steps[i]).name;
    steps[i] = aot_step_profile{kernel.c_str(), origins_[i].c_str(), counters_[i].calls,
                                counters_[i].nanoseconds};
  }
  *count = counters_.size();
}

void Session::reset_profile() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::fill(counters_.begin(), counters_.end(), Counter{});
}

}  // namespace aot_rt
