#include "session.h"

#include <algorithm>
#include <utility>

#include "error.h"
#include "memory.h"

namespace aot_rt {

Session::Session(std::shared_ptr<Package> package, const Plan& plan, const Program& program,
                 std::shared_ptr<WeightPlace> place, const SessionOptions& options)
    : program_(program),
      counters_(program.steps.size()),
      package_(std::move(package)),
      plan_(plan),
      options_(options),
      place_(std::move(place)) {
  if (options.executor != nullptr) {
    executor_ = *options.executor;
    options_.executor = &executor_;
  }
  if (options.allocator != nullptr) {
    allocator_ = *options.allocator;
    options_.allocator = &allocator_;
  }
  operators_ = package_->operators(plan_, program_);
  for (const Step& step : program_.steps) origins_.push_back(plan_.origin_of(step));
  if (place_ != nullptr) package_->add_user(this);
}

Session::~Session() {
  if (place_ != nullptr) package_->remove_user(this);
}

void Session::take_weights() {
  if (place_ == nullptr ||
      package_->weights_generation() == held_.load(std::memory_order_relaxed)) {
    return;
  }
  uint64_t generation = 0;
  weights_ = package_->placement(*place_, &generation);
  held_.store(generation);
}

void Session::forget_old_weights() {
  const uint64_t held = held_.load();
  if (held == 0 || held == package_->weights_generation()) return;
  const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || held_.load() == package_->weights_generation()) return;
  weights_.reset();
  held_.store(0);
}

SharedBytes Session::compute(const DLTensor* const* inputs, size_t count) {
  SharedBytes result;
  run(inputs, count, RunOptions{}, [&result](size_t /*index*/, OutputBlock* block) {
    const std::shared_ptr<OutputBlock> owner(block, &OutputPool::give_back);
    result = SharedBytes(owner, block->data());
  });
  return result;
}

bool Session::owns_buffer(size_t output) const {
  const Buffer& buffer = program_.buffer_of_output(output);
  return buffer.storage == Storage::kOutput && static_cast<size_t>(buffer.index) == output;
}

const State& Session::checked_state(size_t index, const void* data, size_t size) const {
  const std::vector<State>& states = plan().states;
  if (index >= states.size()) {
    fail(AOT_INVALID_ARGUMENT, "no state ", index, ": the model has ", states.size());
  }
  const State& state = states[index];
  if (size != static_cast<size_t>(state.bytes)) {
    fail(AOT_INVALID_ARGUMENT, "state '", state.spec.name, "' has ", state.bytes, " bytes, not ",
         size);
  }
  if (data == nullptr && size != 0) fail(AOT_INVALID_ARGUMENT, "data is NULL");
  return state;
}

void Session::get_state(size_t index, void* data, size_t size) {
  const State& state = checked_state(index, data, size);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (size != 0) read_state(state, data);
}

void Session::set_state(size_t index, const void* data, size_t size) {
  const State& state = checked_state(index, data, size);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (size != 0) write_state(state, data);
}

void Session::write_first_values() {
  for (const State& state : plan().states) {
    if (state.bytes == 0) continue;
    write_state(state, state.entry != nullptr ? state.entry->bytes.data : nullptr);
  }
}

void Session::reset_states() {
  const std::lock_guard<std::mutex> lock(mutex_);
  write_first_values();
}

std::unique_ptr<Session> Session::clone() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<Session> copy = twin();
  for (const State& state : plan().states) {
    if (state.bytes == 0) continue;
    const Block block(default_allocator(), static_cast<size_t>(state.bytes), "a state's copy");
    read_state(state, block.data());
    copy->write_state(state, block.data());
  }
  return copy;
}

void Session::set_observer(aot_observer_fn observer, void* context) {
  const std::lock_guard<std::mutex> lock(mutex_);
  observer_ = observer;
  observer_context_ = context;
}

void Session::profile(aot_step_profile* steps, size_t capacity, size_t* count) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (size_t i = 0; i < std::min(capacity, counters_.size()); ++i) {
    const std::string& kernel = program_.step_name(program_.steps[i]);
    steps[i] = aot_step_profile{kernel.c_str(), origins_[i].c_str(), counters_[i].calls,
                                counters_[i].nanoseconds};
  }
  *count = counters_.size();
}

void Session::reset_profile() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::fill(counters_.begin(), counters_.end(), Counter{});
}

void Session::begin_trace(const TraceOptions& options) {
  auto trace = std::make_unique<Trace>(package_, plan_, program_, options);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (trace_ != nullptr) fail(AOT_INVALID_ARGUMENT, "this session is traced already");
  trace_ = std::move(trace);
  traced_.store(true);
}

std::unique_ptr<Trace> Session::end_trace() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (trace_ == nullptr) fail(AOT_INVALID_ARGUMENT, "this session is not traced");
  traced_.store(false);
  return std::move(trace_);
}

}  // namespace aot_rt
