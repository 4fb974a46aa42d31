// One run of a session, from begin to end.
#include <algorithm>
#include <mutex>
#include <utility>

#include "contract.h"
#include "error.h"
#include "session.h"
#include "strided_copy.h"

namespace aot_rt {
namespace {

void give_back(std::vector<OutputBlock*>* blocks) {
  for (OutputBlock* block : *blocks) {
    if (block != nullptr) OutputPool::give_back(block);
  }
  blocks->clear();
}

}  // namespace

// A run under way: whatever way it ends, the session is idle after it.
class Session::Run {
 public:
  Run(Session& session, RunControl* control, const RunOptions& options) : session_(session) {
    session.control_ = control;
    session.callers_ = options.outputs;
    session.to_host_ =
        session.device_->is_apart() && (options.host_outputs || session.options_.host_outputs);
    const bool own = options.observer != nullptr;
    view_.stream = options.stream;
    view_.control = control;
    view_.observer = own ? options.observer : session.observer_;
    view_.observer_context = own ? options.observer_context : session.observer_context_;
    view_.counters = session.options_.profile ? session.counters_.data() : nullptr;
  }
  ~Run() {
    if (!finished_) session_.device_->abandon();
    session_.give_back_outputs();
    if (!session_.device_->is_busy()) session_.return_workspace();
    session_.bound_ = nullptr;
    session_.control_ = nullptr;
    session_.callers_ = nullptr;
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  const RunView& view() const { return view_; }
  void trace(Trace* trace) { view_.trace = trace; }
  void finish(bool over) {
    session_.device_->finish(over);
    finished_ = true;
  }

 private:
  Session& session_;
  RunView view_;
  bool finished_ = false;
};

void Session::give_back_outputs() noexcept {
  give_back(&results_);
  give_back(&fetched_);
}

void Session::run_locked(const DLTensor* const* inputs, size_t count, const RunOptions& options,
                         TakeOutput take, void* context) {
  const int64_t asked = traced_.load(std::memory_order_relaxed) ? Trace::now() : 0;
  const std::lock_guard<Lock> lock(lock_);
  const TracedRun traced(trace_.get(), plan().model.c_str(), asked);
  RunControl control(options_.limits, options.timeout_ns, options.cancellation);
  control.check();
  take_weights();
  Run run(*this, &control, options);
  run.trace(trace_.get());
  device_->begin(run.view());
  prepare(inputs, count);
  execute();
  trim_outputs();
  fetch_outputs();
  update_device(inputs);
  const bool over = options.stream == nullptr || to_host_ || writes_host(inputs);
  run.finish(over);
  update_host(inputs);
  write_callers_outputs();
  for (size_t i = 0; i < results_.size(); ++i) {
    OutputBlock*& block = fetched_[i] != nullptr ? fetched_[i] : results_[i];
    const bool callers = callers_output(i) != nullptr;
    take(context, i, callers ? nullptr : std::exchange(block, nullptr));
  }
}

// Everything that may need memory, before the first launch. Where there is too little, what the
// session can do without is given up.
void Session::prepare(const DLTensor* const* inputs, size_t count) {
  const TraceSpan traced(trace_.get(), AOT_TRACE_PREPARE, "prepare");
  bind_run(inputs, count);
  try {
    place(inputs);
  } catch (const Error& error) {
    if (error.code() != AOT_OUT_OF_MEMORY) throw;
    give_back_outputs();
    spare_memory();
    place(inputs);
  }
}

void Session::bind_run(const DLTensor* const* inputs, size_t count) {
  bound_ = &bind(inputs, count);
  const uint64_t generation = held_.load(std::memory_order_relaxed);
  if (bound_->weights_generation() == generation) return;
  device_->set_weights(*bound_, package().container(), generation, weights_.get());
}

void Session::place_memory() {
  borrow_workspace();
  place_temporaries();
  results_.assign(plan().outputs.size(), nullptr);
  fetched_.assign(plan().outputs.size(), nullptr);
  placed_.assign(plan().outputs.size(), false);
  placed_bytes_ = 0;
  place_outputs();
}

void Session::place(const DLTensor* const* inputs) {
  place_memory();
  for (size_t i = 0; i < plan().inputs.size(); ++i) {
    const DLTensor& tensor = *inputs[i];
    if (tensor.data == nullptr && bound_->inputs()[i].span != 0) {
      fail(AOT_INVALID_ARGUMENT, input_name(plan(), i), " has no data");
    }
    if (plan().inputs[i].changed) check_writable(plan(), i, tensor);
    bound_->set_input(i, device_->place_input(i, tensor, bound_->inputs()[i]));
  }
}

void Session::execute() {
  if (program().straight) {
    device_->launch(*bound_, 0, static_cast<int32_t>(program().steps.size()));
  } else {
    FlowRunner(plan(), program(), this, trace_.get()).run();
  }
}

// Outputs on the host, and those that are an input, a weight, a temporary or another output.
void Session::fetch_outputs() {
  for (size_t i = 0; i < results_.size(); ++i) {
    const auto span = static_cast<size_t>(bound_->outputs()[i].span);
    const void* from = bound_->address(program().outputs[i]);
    const bool fetched = fetched_[i] != nullptr;
    if (span == 0 || (!fetched && owns_buffer(i))) continue;
    TraceSpan traced(trace_.get(), AOT_TRACE_COPY, plan().outputs[i].name.c_str(), "output");
    traced.set_bytes(span);
    if (fetched) {
      device_->fetch(fetched_[i]->data(), from, span);
    } else {
      device_->copy(places_[i], from, span);
    }
  }
}

// Whether host memory of the caller's is written when the device is done.
bool Session::writes_host(const DLTensor* const* inputs) const {
  if (!device_->is_apart()) return true;
  for (const OutputBlock* block : fetched_) {
    if (block != nullptr) return true;
  }
  const auto on_the_host = [inputs](const Update& update) {
    return update.input && on_host(*inputs[static_cast<size_t>(update.index)]);
  };
  return std::any_of(program().updates.begin(), program().updates.end(), on_the_host);
}

// What the steps have not written in place, as far as it is in the device's memory.
void Session::update_device(const DLTensor* const* inputs) {
  const bool apart = device_->is_apart();
  for (size_t i = 0; i < program().updates.size(); ++i) {
    const Update& update = program().updates[i];
    const auto index = static_cast<size_t>(update.index);
    const void* const value = bound_->address(update.buffer);
    if (!update.input) {
      const State& state = plan().states[index];
      TraceSpan traced(trace_.get(), AOT_TRACE_COPY, state.spec.name.c_str(), "state");
      traced.set_bytes(static_cast<size_t>(state.bytes));
      if (state.bytes != 0)
        device_->copy(address_of(state), value, static_cast<size_t>(state.bytes));
      continue;
    }
    const DLTensor& tensor = *inputs[index];
    const auto bytes = static_cast<size_t>(bound_->inputs()[index].span);
    if (bytes == 0 || !apart) continue;
    TraceSpan traced(trace_.get(), AOT_TRACE_COPY, plan().inputs[index].name.c_str(), "input");
    traced.set_bytes(bytes);
    if (on_host(tensor)) {
      if (staged_[i].size() < bytes) {
        staged_[i] = Block(default_allocator(), bytes, "the new value of an input");
      }
      device_->fetch(staged_[i].data(), value, bytes);
    } else {
      device_->copy(static_cast<uint8_t*>(tensor.data) + tensor.byte_offset, value, bytes);
    }
  }
}

// New values of inputs in host memory: last, when all has succeeded.
void Session::update_host(const DLTensor* const* inputs) {
  for (size_t i = 0; i < program().updates.size(); ++i) {
    const Update& update = program().updates[i];
    const auto index = static_cast<size_t>(update.index);
    if (!update.input || !on_host(*inputs[index])) continue;
    const void* const value =
        device_->is_apart() ? staged_[i].data() : bound_->address(update.buffer);
    TraceSpan traced(trace_.get(), AOT_TRACE_COPY, plan().inputs[index].name.c_str(), "input");
    traced.set_bytes(static_cast<size_t>(bound_->inputs()[index].span));
    write_tensor(*inputs[index], bound_->inputs()[index], *plan().inputs[index].dtype, value);
  }
}

// The same for outputs that were not written there by steps.
void Session::write_callers_outputs() {
  for (size_t i = 0; i < results_.size(); ++i) {
    const DLTensor* const callers = callers_output(i);
    if (callers == nullptr || !on_host(*callers)) continue;
    const OutputBlock* const made = fetched_[i] != nullptr ? fetched_[i] : results_[i];
    if (made == nullptr) continue;
    TraceSpan traced(trace_.get(), AOT_TRACE_COPY, plan().outputs[i].name.c_str(), "output");
    traced.set_bytes(static_cast<size_t>(bound_->outputs()[i].span));
    write_tensor(*callers, bound_->outputs()[i], *plan().outputs[i].dtype, made->data());
  }
}

void Session::prewarm(const DLTensor* const* inputs, size_t count) {
  const std::lock_guard<Lock> lock(lock_);
  RunControl control(options_.limits, 0, nullptr);
  take_weights();
  RunOptions options;
  Run run(*this, &control, options);
  device_->begin(run.view());
  bind_run(inputs, count);
  place_memory();
  run.finish(true);
}

void Session::enter(int32_t scope, const std::vector<int64_t>& values) {
  bound_->enter(scope, values);
  place_temporaries();
  place_outputs();
}

void Session::launch_steps(int32_t begin, int32_t end) {
  control_->check();
  device_->launch(*bound_, begin, end);
}

void Session::call_operator(int32_t step) {
  control_->check();
  const Step& call = program().steps[static_cast<size_t>(step)];
  device_->call(*bound_, step, *operators_[static_cast<size_t>(call.call)]);
}

void Session::read_buffer(int32_t buffer, void* to, size_t bytes) {
  const std::string& name = program().buffers[static_cast<size_t>(buffer)].name;
  Trace* const trace = device_->is_apart() ? trace_.get() : nullptr;
  TraceSpan traced(trace, AOT_TRACE_COPY, name.c_str(), "read");
  traced.set_bytes(bytes);
  device_->read(to, bound_->address(buffer), bytes);
}

void Session::copy_buffer(int32_t from, int32_t to, size_t bytes) {
  device_->copy(bound_->address(to), bound_->address(from), bytes);
}

void Session::begin_turn(int32_t step, int64_t turn) { bound_->set_turn(step, turn); }

}  // namespace aot_rt
