#include "cpu/cpu_session.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "contract.h"
#include "error.h"
#include "strided_copy.h"

namespace aot_rt {
namespace {

constexpr size_t kMaxPlans = 32;  // sets of sizes kept resolved
constexpr int64_t kScratchAlignment = 128;

// A step in the hands of several workers.
struct ParallelStep {
  const BoundStep* step;
  uint8_t* scratch;
  int64_t scratch_stride;
  Trace* trace;  // nullptr: chunks are not traced
};

void run_chunk(void* data, int32_t seat, int64_t chunk) {
  const auto& job = *static_cast<const ParallelStep*>(data);
  const BoundStep& step = *job.step;
  aot_kernel_args args = step.args;
  args.scratch = job.scratch + seat * job.scratch_stride;
  // Chunks differ by at most one unit: the first `rest` have one more.
  const int64_t size = step.work / step.chunks;
  const int64_t rest = step.work % step.chunks;
  const int64_t begin = chunk * size + std::min(chunk, rest);
  const int64_t end = begin + size + (chunk < rest ? 1 : 0);
  if (job.trace == nullptr) {
    step.run(&args, begin, end);
    return;
  }
  aot_trace_event event = job.trace->begin(AOT_TRACE_CHUNK, job.trace->name_of(step.step), "");
  step.run(&args, begin, end);
  event.end_ns = Trace::now();
  event.worker = seat;
  job.trace->describe(&event, step.step, nullptr);
  job.trace->add(event);
}

// The host reads weights where they are.
class HostWeights final : public WeightDevice {
 public:
  HostWeights(Package& package, const Program& program) : package_(package), program_(program) {}

  const Program& program() const override { return program_; }
  Placement package_weights() override { return {}; }
  SharedBytes store(const SharedBytes& bytes, size_t /*size*/) override { return bytes; }
  SharedBytes derive(const Routine& routine, const DLTensor* const* sources) override {
    CpuSession session(package_.shared_from_this(), routine.plan, routine.body, nullptr,
                       SessionOptions{});
    return session.compute(sources, routine.plan.inputs.size());
  }

 private:
  Package& package_;  // which owns this
  const Program& program_;
};

}  // namespace

std::unique_ptr<Session> make_cpu_session(std::shared_ptr<Package> package, int32_t index,
                                          const SessionOptions& options) {
  if (index != 0) fail(AOT_UNAVAILABLE, "no device 'cpu:", index, "': there is one, 'cpu'");
  const Program& program = *package->plan().programs_for("cpu").front();
  Package* const owner = package.get();
  std::shared_ptr<WeightPlace> place =
      package->weight_place("cpu", [&] { return std::make_unique<HostWeights>(*owner, program); });
  return std::make_unique<CpuSession>(package, package->plan(), program, std::move(place), options);
}

CpuSession::CpuSession(const std::shared_ptr<Package>& package, const Plan& plan,
                       const Program& program, std::shared_ptr<WeightPlace> place,
                       const SessionOptions& options)
    : Session(package, plan, program, std::move(place), options),
      library_(package->library(program, options.isa)),
      allocator_(checked_allocator(options.allocator)),
      crew_(options.num_threads > 0 ? options.num_threads : usable_cores(), options.executor),
      outputs_(OutputPool::create(allocator_)),
      states_(plan.state_bytes != 0
                  ? Block(allocator_, static_cast<size_t>(plan.state_bytes), "states")
                  : Block()),
      arenas_(program.scopes.size()),
      copies_(plan.inputs.size()),
      addresses_(plan.inputs.size()),
      output_plans_(plan.outputs.size()) {
  results_.reserve(plan.outputs.size());
  write_first_values();
}

CpuSession::~CpuSession() { outputs_->close(); }

CpuSession::Outputs::~Outputs() {
  for (OutputBlock* block : session.results_) {
    if (block != nullptr) OutputPool::give_back(block);
  }
  session.results_.clear();
}

void CpuSession::run_with(const DLTensor* const* inputs, size_t count, const RunOptions& options,
                          TakeOutput take, void* context) {
  if (options.stream != nullptr) fail(AOT_INVALID_ARGUMENT, "the cpu has no streams: give NULL");
  const int64_t asked = asked_now();
  const std::lock_guard<std::mutex> lock(mutex_);
  const TracedRun traced(trace_.get(), plan().model.c_str(), asked);
  take_weights();
  Outputs outputs(*this);
  run_locked(inputs, count);
  for (size_t i = 0; i < results_.size(); ++i) take(context, i, results_[i]);
  results_.clear();
}

void CpuSession::prepare(const DLTensor* const* inputs, size_t count) {
  const TraceSpan span(trace_.get(), AOT_TRACE_PREPARE, "prepare");
  BoundPlan& bound = bind(inputs, count);
  bound.set_weights(program_, package().container(), generation_of_weights(), weights());
  bound_ = &bound;
  results_.assign(plan().outputs.size(), nullptr);
  prepare_memory(bound);
  place_inputs(bound, inputs);
  place_outputs(bound);
}

void CpuSession::run_locked(const DLTensor* const* inputs, size_t count) {
  prepare(inputs, count);
  BoundPlan& bound = *bound_;
  if (!program_.straight) {
    turns_.clear();
    FlowRunner(plan(), program_, this, trace_.get()).run();
  } else if (watched()) {
    run_steps_watched(bound);
  } else {
    run_steps(bound);
  }
  trim_outputs();
  copy_shared_outputs();
  update(inputs);
}

BoundPlan& CpuSession::bind(const DLTensor* const* inputs, size_t count) {
  if (!plans_.empty() && inputs_match(plan(), *plans_.front(), inputs, count, device())) {
    return *plans_.front();
  }
  BoundPlan& bound = bind(bind_dims(plan(), inputs, count, device()));
  // Not while a run goes on, which may stand in several of them.
  while (plans_.size() > kMaxPlans) plans_.pop_back();
  return bound;
}

BoundPlan& CpuSession::bind(std::vector<int64_t> dims) {
  const auto found = std::find_if(plans_.begin(), plans_.end(), [&dims](const auto& candidate) {
    return candidate->dims() == dims;
  });
  if (found != plans_.end()) {
    plans_.splice(plans_.begin(), plans_, found);
    return *plans_.front();
  }
  plans_.push_front(std::make_unique<BoundPlan>(plan(), program_, *library_, std::move(dims),
                                                crew_.threads(), states_.data(), &fault_));
  return *plans_.front();
}

void CpuSession::prepare_memory(BoundPlan& bound) {
  for (size_t scope = 0; scope < arenas_.size(); ++scope) {
    const int64_t bytes = bound.arena_bytes(static_cast<int32_t>(scope));
    Block& arena = arenas_[scope];
    if (static_cast<int64_t>(arena.size()) >= bytes) continue;
    arena = Block();  // first, so that old and new are not held together
    ++generation_;
    arena = Block(allocator_, static_cast<size_t>(bytes), "temporaries");
    package().log()(AOT_LOG_DEBUG, cat("arena of ", bytes, " bytes"));
  }
  if (scratch_stride_ < bound.scratch_bytes()) {
    const int64_t blocks = (bound.scratch_bytes() + kScratchAlignment - 1) / kScratchAlignment;
    int64_t bytes = 0;
    if (__builtin_mul_overflow(blocks * kScratchAlignment, int64_t{crew_.threads()}, &bytes)) {
      fail(AOT_OUT_OF_MEMORY, "no memory for scratch of ", bound.scratch_bytes(),
           " bytes a thread");
    }
    scratch_ = Block();
    scratch_stride_ = 0;
    ++generation_;
    scratch_ = Block(allocator_, static_cast<size_t>(bytes), "scratch");
    scratch_stride_ = blocks * kScratchAlignment;
  }
  bound.set_memory(generation_, arenas_, scratch_.data());
}

void CpuSession::place_inputs(BoundPlan& bound, const DLTensor* const* inputs) {
  for (size_t i = 0; i < plan().inputs.size(); ++i) {
    const DLTensor& tensor = *inputs[i];
    const BoundTensor& expected = bound.inputs()[i];
    if (tensor.data == nullptr && expected.span != 0) {
      fail(AOT_INVALID_ARGUMENT, "input '", plan().inputs[i].name, "' (number ", i,
           ") has no data");
    }
    if (plan().inputs[i].changed) check_writable(plan(), i, tensor);
    void* address = static_cast<uint8_t*>(tensor.data) + tensor.byte_offset;
    if (!readable_in_place(tensor, expected, *plan().inputs[i].dtype)) {
      address = copy_input(i, tensor, expected);
    }
    addresses_[i] = address;
    bound.set_input(i, address);
  }
}

void* CpuSession::copy_input(size_t index, const DLTensor& tensor, const BoundTensor& bound) {
  const auto span = static_cast<size_t>(bound.span);
  Block& copy = copies_[index];
  TraceSpan traced(trace_.get(), AOT_TRACE_COPY, plan().inputs[index].name.c_str(), "input");
  traced.set_bytes(span);
  if (copy.size() < span) copy = Block(allocator_, span, "a copy of an input");
  const auto* from = static_cast<const uint8_t*>(tensor.data) + tensor.byte_offset;
  strided_copy(copy.data(), bound.strides, from, strides_of(tensor), bound.sizes,
               plan().inputs[index].dtype->size);
  return copy.data();
}

void CpuSession::place_outputs(BoundPlan& bound) {
  for (size_t i = 0; i < plan().outputs.size(); ++i) {
    if (!bound.knows_output(i)) continue;
    if (results_[i] == nullptr) {
      const auto bytes = static_cast<size_t>(bound.buffer_bytes(program_.outputs[i]));
      results_[i] = outputs_->take(bytes);
      results_[i]->describe(bound.outputs()[i], *plan().outputs[i].dtype);
      output_plans_[i] = &bound;
    }
    if (owns_buffer(i)) bound.set_output(i, results_[i]->data());
  }
}

// Keeps no more unused blocks than a run needs.
void CpuSession::trim_outputs() {
  size_t total = 0;
  for (size_t i = 0; i < results_.size(); ++i) {
    if (results_[i] == nullptr) {
      fail(AOT_CORRUPT_PACKAGE, "plan: no step reads the size of output '", plan().outputs[i].name,
           "'");
    }
    total += static_cast<size_t>(output_plans_[i]->buffer_bytes(program_.outputs[i]));
  }
  outputs_->trim(2 * total + 4096);
}

// Outputs that are an input, a weight, a temporary or another output get their own copy.
void CpuSession::copy_shared_outputs() {
  for (size_t i = 0; i < plan().outputs.size(); ++i) {
    const BoundPlan& bound = *output_plans_[i];
    const auto span = static_cast<size_t>(bound.outputs()[i].span);
    if (owns_buffer(i) || span == 0) continue;
    TraceSpan traced(trace_.get(), AOT_TRACE_COPY, plan().outputs[i].name.c_str(), "output");
    traced.set_bytes(span);
    std::memcpy(results_[i]->data(), bound.address(program_.outputs[i]), span);
  }
}

// What the steps have not written in place.
void CpuSession::update(const DLTensor* const* inputs) {
  for (const Update& update : program_.updates) {
    const auto index = static_cast<size_t>(update.index);
    const void* value = bound_->address(update.buffer);
    const std::string& name =
        update.input ? plan().inputs[index].name : plan().states[index].spec.name;
    TraceSpan traced(trace_.get(), AOT_TRACE_COPY, name.c_str(), update.input ? "input" : "state");
    traced.set_bytes(static_cast<size_t>(update.input ? bound_->inputs()[index].span
                                                      : plan().states[index].bytes));
    if (update.input) {
      write_input(*inputs[index], bound_->inputs()[index], *plan().inputs[index].dtype, value);
    } else if (const State& state = plan().states[index]; state.bytes != 0) {
      std::memcpy(address_of(state), value, static_cast<size_t>(state.bytes));
    }
  }
}

void CpuSession::read_state(const State& state, void* data) {
  std::memcpy(data, address_of(state), static_cast<size_t>(state.bytes));
}

void CpuSession::write_state(const State& state, const void* data) {
  const auto bytes = static_cast<size_t>(state.bytes);
  if (data != nullptr) {
    std::memcpy(address_of(state), data, bytes);
  } else {
    std::memset(address_of(state), 0, bytes);
  }
}

std::unique_ptr<Session> CpuSession::twin() const {
  return std::make_unique<CpuSession>(shared_package(), plan(), program_, place(), options());
}

void CpuSession::bind_flow(std::vector<int64_t> dims) {
  bound_ = &bind(std::move(dims));
  bound_->set_weights(program_, package().container(), generation_of_weights(), weights());
  prepare_memory(*bound_);
  for (size_t i = 0; i < addresses_.size(); ++i) bound_->set_input(i, addresses_[i]);
  place_outputs(*bound_);
  for (const auto& [step, turn] : turns_) bound_->set_turn(program_, step, turn);
}

void CpuSession::launch_steps(int32_t begin, int32_t end) {
  for (int32_t step = begin; step < end; ++step) launch_step(step);
}

void CpuSession::launch_step(int32_t step) {
  const BoundStep* launch = bound_->step_of(step);
  if (launch == nullptr) return;
  if (watched()) {
    run_step_watched(*bound_, *launch);
    return;
  }
  run_step(*launch);
  if (fault_ != AOT_KERNEL_FAULT_NONE) report_fault(step);
}

void CpuSession::call_operator(int32_t step) {
  const Step& call = program_.steps[static_cast<size_t>(step)];
  BoundPlan& bound = *bound_;
  const TraceSpan traced(trace_.get(), AOT_TRACE_CALL, step, &bound);
  const auto start = std::chrono::steady_clock::now();
  bound.call_of(program_, call).run(operator_of(call), nullptr, [&bound](int32_t buffer) {
    return bound.address(buffer);
  });
  if (options().profile) count(step, start);
  if (observer_ != nullptr) observe(bound, step);
}

void CpuSession::read_buffer(int32_t buffer, void* to, size_t bytes) {
  std::memcpy(to, bound_->address(buffer), bytes);
}

void CpuSession::copy_buffer(int32_t from, int32_t to, size_t bytes) {
  std::memmove(bound_->address(to), bound_->address(from), bytes);
}

void CpuSession::begin_turn(int32_t step, int64_t turn) {
  bound_->set_turn(program_, step, turn);
  const auto same = [step](const auto& entry) { return entry.first == step; };
  turns_.erase(std::remove_if(turns_.begin(), turns_.end(), same), turns_.end());
  turns_.emplace_back(step, turn);
}

void CpuSession::run_step(const BoundStep& step) {
  if (step.chunks == 1) {
    step.run(&step.args, 0, step.work);
  } else {
    Trace* const trace = trace_ != nullptr && trace_->records() ? trace_.get() : nullptr;
    ParallelStep job{&step, scratch_.data(), scratch_stride_, trace};
    crew_.run(run_chunk, &job, step.chunks);
  }
}

void CpuSession::run_steps(const BoundPlan& bound) {
  for (const BoundStep& step : bound.steps()) {
    run_step(step);
    if (fault_ != AOT_KERNEL_FAULT_NONE) report_fault(step.step);
  }
}

void CpuSession::run_steps_watched(const BoundPlan& bound) {
  for (const BoundStep& step : bound.steps()) run_step_watched(bound, step);
}

void CpuSession::run_step_watched(const BoundPlan& bound, const BoundStep& step) {
  const auto start = std::chrono::steady_clock::now();
  {
    const TraceSpan traced(trace_.get(), AOT_TRACE_KERNEL, step.step, &bound);
    run_step(step);
  }
  if (options().profile) count(step.step, start);
  if (fault_ != AOT_KERNEL_FAULT_NONE) report_fault(step.step);
  if (observer_ != nullptr) observe(bound, step.step);
}

void CpuSession::count(int32_t step, std::chrono::steady_clock::time_point start) {
  const auto elapsed = std::chrono::steady_clock::now() - start;
  Counter& counter = counters_[static_cast<size_t>(step)];
  ++counter.calls;
  counter.nanoseconds +=
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count());
}

void CpuSession::observe(const BoundPlan& bound, int32_t step) {
  for (const int32_t buffer : program_.steps[static_cast<size_t>(step)].buffers) {
    observer_(observer_context_, static_cast<size_t>(step), static_cast<size_t>(buffer),
              bound.address(buffer), static_cast<size_t>(bound.buffer_bytes(buffer)));
  }
}

void CpuSession::report_fault(int32_t step) {
  const int32_t fault = std::exchange(fault_, AOT_KERNEL_FAULT_NONE);
  const std::string& origin = origins_[static_cast<size_t>(step)];
  const std::string& kernel = program_.kernel_of(program_.steps[static_cast<size_t>(step)]).name;
  const std::string where = origin.empty() ? cat("kernel ", kernel) : origin;
  if (fault == AOT_KERNEL_FAULT_INDEX) {
    throw Error(AOT_INVALID_ARGUMENT,
                cat("an index in the data is outside the tensor that it points into, at ", where),
                origin);
  }
  throw Error(AOT_INTERNAL, cat("kernel fault ", fault, " at ", where), origin);
}

}  // namespace aot_rt
