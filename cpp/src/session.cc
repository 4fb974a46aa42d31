#include "session.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "error.h"

namespace aot_rt {

Session::Session(SessionParts parts, const SessionOptions& options, MakeRunDevice make,
                 void* shared)
    : parts_(std::move(parts)),
      options_(options),
      make_(make),
      shared_(shared),
      counters_(program().steps.size()),
      places_(plan().outputs.size()),
      staged_(program().updates.size()) {
  if (options.executor != nullptr) {
    executor_ = *options.executor;
    options_.executor = &executor_;
  }
  if (options.allocator != nullptr) {
    allocator_ = *options.allocator;
    options_.allocator = &allocator_;
  }
  if (options.device_allocator != nullptr) {
    device_allocator_ = *options.device_allocator;
    options_.device_allocator = &device_allocator_;
  }
  // An allocator is this session's: blocks from it are not lent to others.
  const bool alone =
      options.own_workspace || options.allocator != nullptr || options.device_allocator != nullptr;
  workspaces_ = parts_.workspaces;
  if (alone || workspaces_ == nullptr) {
    workspaces_ = std::make_shared<WorkspacePool>(program().scopes.size());
  }
  operators_ = package().operators(plan(), program());
  for (const Step& step : program().steps) origins_.push_back(plan().origin_of(step));
  results_.reserve(plan().outputs.size());
  fetched_.reserve(plan().outputs.size());
  device_ = make_(parts_, options_, shared_);
  outputs_ = device_->make_output_pool();
  if (device_->is_apart()) host_outputs_ = device_->make_host_output_pool();
  if (plan().state_bytes != 0) {
    if (plan().state_bytes > options_.limits.state_bytes) {
      fail(AOT_LIMIT_EXCEEDED, "the model's states take ", plan().state_bytes,
           " bytes, a session may have ", options_.limits.state_bytes,
           ": raise state_bytes in aot_limits");
    }
    states_ = device_->allocate(static_cast<size_t>(plan().state_bytes), "states");
  }
  write_first_values();
  if (parts_.place != nullptr) package().add_user(this);
}

Session::~Session() {
  if (parts_.place != nullptr) package().remove_user(this);
  for (std::unique_ptr<BoundProgram>& bound : plans_) device_->forget(std::move(bound));
  return_workspace();
}

void Session::take_weights() {
  if (parts_.place == nullptr ||
      package().weights_generation() == held_.load(std::memory_order_relaxed)) {
    return;
  }
  uint64_t generation = 0;
  weights_ = package().placement(*parts_.place, &generation);
  held_.store(generation);
}

void Session::forget_old_weights() {
  const uint64_t held = held_.load();
  if (held == 0 || held == package().weights_generation()) return;
  const std::unique_lock<Lock> lock(lock_, std::try_to_lock);
  if (!lock.owns_lock() || held_.load() == package().weights_generation()) return;
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

void Session::synchronize() {
  const std::lock_guard<Lock> lock(lock_);
  device_->synchronize();
  return_workspace();
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
  const std::lock_guard<Lock> lock(lock_);
  if (size != 0) device_->store(data, address_of(state), size);
}

void Session::set_state(size_t index, const void* data, size_t size) {
  const State& state = checked_state(index, data, size);
  const std::lock_guard<Lock> lock(lock_);
  if (size != 0) write_state(state, data);
}

void Session::write_state(const State& state, const void* data) {
  device_->load(address_of(state), data, static_cast<size_t>(state.bytes));
}

void Session::write_first_values() {
  for (const State& state : plan().states) {
    if (state.bytes == 0) continue;
    write_state(state, state.entry != nullptr ? state.entry->bytes.data : nullptr);
  }
}

void Session::reset_states() {
  const std::lock_guard<Lock> lock(lock_);
  write_first_values();
}

std::unique_ptr<Session> Session::clone() {
  const std::lock_guard<Lock> lock(lock_);
  auto copy = std::make_unique<Session>(parts_, options_, make_, shared_);
  for (const State& state : plan().states) {
    if (state.bytes == 0) continue;
    const Block block(default_allocator(), static_cast<size_t>(state.bytes), "a state's copy");
    device_->store(block.data(), address_of(state), static_cast<size_t>(state.bytes));
    copy->write_state(state, block.data());
  }
  return copy;
}

void Session::set_observer(aot_observer_fn observer, void* context) {
  const std::lock_guard<Lock> lock(lock_);
  observer_ = observer;
  observer_context_ = context;
}

void Session::profile(aot_step_profile* steps, size_t capacity, size_t* count) {
  const std::lock_guard<Lock> lock(lock_);
  for (size_t i = 0; i < std::min(capacity, counters_.size()); ++i) {
    const std::string& kernel = program().step_name(program().steps[i]);
    steps[i] = aot_step_profile{kernel.c_str(), origins_[i].c_str(), counters_[i].calls,
                                counters_[i].nanoseconds};
  }
  *count = counters_.size();
}

void Session::reset_profile() {
  const std::lock_guard<Lock> lock(lock_);
  std::fill(counters_.begin(), counters_.end(), StepCounter{});
}

void Session::begin_trace(const TraceOptions& options) {
  auto trace = std::make_unique<Trace>(parts_.package, plan(), program(), options);
  const std::lock_guard<Lock> lock(lock_);
  if (trace_ != nullptr) fail(AOT_INVALID_ARGUMENT, "this session is traced already");
  trace_ = std::move(trace);
  traced_.store(true);
}

std::unique_ptr<Trace> Session::end_trace() {
  const std::lock_guard<Lock> lock(lock_);
  if (trace_ == nullptr) fail(AOT_INVALID_ARGUMENT, "this session is not traced");
  traced_.store(false);
  return std::move(trace_);
}

}  // namespace aot_rt
