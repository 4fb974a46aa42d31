#include "cuda/cuda_session.h"

#include <algorithm>
#include <utility>

#include "contract.h"
#include "cuda/upload.h"
#include "error.h"

namespace aot_rt {
namespace cuda {
namespace {

constexpr size_t kMaxPlans = 16;   // sets of sizes kept resolved, with their graphs
constexpr size_t kLeastGraph = 3;  // launches: fewer are as fast one by one
constexpr double kNanosecondsPerMillisecond = 1e6;
CUstream const kDefaultStream = reinterpret_cast<CUstream>(1);  // CU_STREAM_LEGACY

void give_back(std::vector<OutputBlock*>* blocks) {
  for (OutputBlock* block : *blocks) {
    if (block != nullptr) OutputPool::give_back(block);
  }
  blocks->clear();
}

// What the caller's own allocator is for: the host's memory. Ours is page-locked.
aot_allocator host_allocator(const SessionOptions& options, const Device& device) {
  return options.allocator != nullptr ? checked_allocator(options.allocator)
                                      : pinned_allocator(device);
}

}  // namespace

CudaSession::CudaSession(const std::shared_ptr<Package>& package, const Plan& plan,
                         const Program& program, DeviceProgram& code,
                         std::shared_ptr<WeightPlace> place, const SessionOptions& options)
    : Session(package, plan, program, std::move(place), options),
      code_(code),
      device_(code_.device()),
      driver_(device_->driver()),
      own_stream_(device_),
      last_run_(device_),
      faults_(device_, program_.steps.size() * sizeof(int32_t), "fault words"),
      device_outputs_(nullptr),
      host_outputs_(nullptr),
      states_(plan.state_bytes != 0
                  ? DeviceBlock(device_, static_cast<size_t>(plan.state_bytes), "states")
                  : DeviceBlock()),
      arenas_(program_.scopes.size()),
      copies_(device_, plan),
      timeline_(device_),
      updates_(*device_, plan, program_, states_),
      addresses_(plan.inputs.size()) {
  std::fill_n(faults_.data(), faults_.size(), uint8_t{0});
  for (size_t i = 0; i < program_.steps.size(); ++i) {
    const Step& step = program_.steps[i];
    if (step.kind == StepKind::kLaunch && program_.kernel_of(step).faults) {
      faulting_.push_back(static_cast<int32_t>(i));
    }
  }
  results_.reserve(plan.outputs.size());
  fetched_.reserve(plan.outputs.size());
  const aot_allocator host = host_allocator(options, *device_);
  device_outputs_ = OutputPool::create(device_allocator(*device_), device(), device_);
  host_outputs_ = OutputPool::create(host, DLDevice{kDLCPU, 0}, device_);
  write_first_values();
}

CudaSession::~CudaSession() {
  if (last_stream_ != nullptr && driver_.ctx_push_current.raw(device_->context()) == kSuccess) {
    if (lasts(last_stream_)) driver_.event_record.raw(last_run_.get(), last_stream_);
    driver_.event_synchronize.raw(last_run_.get());
    CUcontext popped = nullptr;
    driver_.ctx_pop_current.raw(&popped);
  }
  plans_.clear();
  device_outputs_->close();
  host_outputs_->close();
}

CudaSession::Run::~Run() {
  if (finished) return;
  session.driver_.stream_synchronize.raw(stream);
  session.timeline_.abandon();
  session.copies_.all_read();
  session.give_back_all();
  for (const int32_t step : session.faulting_) session.fault_word(step) = 0;
}

void CudaSession::give_back_all() {
  give_back(&results_);
  give_back(&fetched_);
}

void CudaSession::run_with(const DLTensor* const* inputs, size_t count, const RunOptions& options,
                           TakeOutput take, void* context) {
  const int64_t asked = asked_now();
  const std::lock_guard<std::mutex> lock(mutex_);
  const TracedRun traced(trace_.get(), plan().model.c_str(), asked);
  const Scope scope(*device_);
  check_faults();  // of earlier runs that were only enqueued
  take_weights();
  const bool own = options.stream == nullptr;
  auto* const stream = own ? own_stream_.get() : static_cast<CUstream>(options.stream);
  if (last_stream_ != nullptr && last_stream_ != stream) {
    mark_last_run();
    driver_.stream_wait_event(stream, last_run_.get(), 0);  // both use the session's memory
  }
  if (program_.reads_back) {  // what its steps read shall be of this run, faults too
    wait_for_last_run();
    check_faults();
  }
  const bool to_host = options.host_outputs || this->options().host_outputs;
  Run run(*this, stream);
  timeline_.begin(trace_.get(), stream);
  run_locked(inputs, count, stream, to_host);
  timeline_.finish();
  const bool writes_host = updates_.any_on_host(inputs);
  if (own || to_host || writes_host) {
    driver_.stream_synchronize(stream);
    last_stream_ = nullptr;
    copies_.all_read();
    check_faults();
    if (writes_host) updates_.finish(*bound_, inputs);
  } else {
    copies_.finish_reading(stream);
    if (!lasts(stream)) driver_.event_record(last_run_.get(), stream);
    last_stream_ = stream;
  }
  run.finished = true;
  std::vector<OutputBlock*>& outputs = to_host ? fetched_ : results_;
  for (size_t i = 0; i < outputs.size(); ++i) take(context, i, outputs[i]);
  outputs.clear();
  if (to_host) give_back(&results_);
}

void CudaSession::run_locked(const DLTensor* const* inputs, size_t count, CUstream stream,
                             bool to_host) {
  try {
    prepare(inputs, count, stream, to_host);
  } catch (const Error& error) {
    if (error.code() != AOT_OUT_OF_MEMORY) throw;
    give_back_all();
    spare_memory();
    prepare(inputs, count, stream, to_host);
  }
  if (program_.straight) {
    enqueue(*bound_, stream);
  } else {
    run_flow(stream, to_host);
  }
  trim_outputs(to_host);
  if (to_host) {
    fetch_outputs(stream);
  } else {
    copy_shared_outputs(stream);
  }
  updates_.enqueue(*bound_, inputs, stream);
}

// Everything that may need memory, before the first launch.
void CudaSession::prepare(const DLTensor* const* inputs, size_t count, CUstream stream,
                          bool to_host) {
  const TraceSpan span(trace_.get(), AOT_TRACE_PREPARE, "prepare");
  BoundLaunches& bound = bind(inputs, count);
  bound_ = &bound;
  bind_weights(bound);
  prepare_memory(bound);
  results_.assign(plan().outputs.size(), nullptr);
  fetched_.assign(to_host ? plan().outputs.size() : 0, nullptr);
  output_plans_.assign(plan().outputs.size(), nullptr);
  place_outputs(bound, stream, to_host);
  for (size_t i = 0; i < count; ++i) {
    if (plan().inputs[i].changed) check_writable(plan(), i, *inputs[i]);
    Trace* const copied = on_host(*inputs[i]) ? trace_.get() : nullptr;
    TraceSpan traced(copied, AOT_TRACE_COPY, plan().inputs[i].name.c_str(), "input");
    traced.set_bytes(static_cast<size_t>(bound.inputs()[i].span));
    const DeviceSpan work(copied != nullptr ? &timeline_ : nullptr);
    addresses_[i] = copies_.place(i, *inputs[i], bound.inputs()[i], stream);
    bound.set_input(i, addresses_[i]);
  }
}

// Gives up what a run can do without.
void CudaSession::spare_memory() {
  wait_for_last_run();
  while (plans_.size() > 1) plans_.pop_back();
  device_outputs_->trim(0);
  host_outputs_->trim(0);
}

void CudaSession::bind_weights(BoundLaunches& bound) {
  if (bound.weights_generation() == generation_of_weights()) return;
  if (bound.weights_generation() != 0) wait_for_last_run();  // its graph may be running
  bound.set_weights(package().container(), generation_of_weights(), weights());
}

BoundLaunches& CudaSession::bind(const DLTensor* const* inputs, size_t count) {
  if (!plans_.empty() && inputs_match(plan(), *plans_.front(), inputs, count, device())) {
    return *plans_.front();
  }
  BoundLaunches& bound = bind(bind_dims(plan(), inputs, count, device()));
  // Not while a run goes on, which may stand in several of them.
  while (plans_.size() > kMaxPlans) {
    wait_for_last_run();  // its graph may be running
    plans_.pop_back();
  }
  return bound;
}

BoundLaunches& CudaSession::bind(std::vector<int64_t> dims) {
  const auto found = std::find_if(plans_.begin(), plans_.end(), [&dims](const auto& candidate) {
    return candidate->dims() == dims;
  });
  if (found != plans_.end()) {
    plans_.splice(plans_.begin(), plans_, found);
    return *plans_.front();
  }
  auto* const words = reinterpret_cast<int32_t*>(faults_.device_data());
  plans_.push_front(std::make_unique<BoundLaunches>(plan(), program_, code_, std::move(dims),
                                                    states_.data(), words));
  return *plans_.front();
}

void CudaSession::prepare_memory(BoundLaunches& bound) {
  const auto grow = [this](DeviceBlock& block, int64_t wanted, const char* purpose) {
    const auto bytes = static_cast<size_t>(wanted);
    if (block.size() >= bytes) return;
    block.reset();  // first, so that old and new are not held together
    block = DeviceBlock(device_, bytes, purpose);
    package().log()(AOT_LOG_DEBUG,
                    cat(bytes, " bytes of ", purpose, " on ", device_->short_name()));
  };
  for (size_t scope = 0; scope < arenas_.size(); ++scope) {
    grow(arenas_[scope], bound.arena_bytes(static_cast<int32_t>(scope)), "temporaries");
    bound.set_arena(scope, arenas_[scope].data());
  }
  grow(scratch_, bound.scratch_bytes(), "scratch");
  bound.set_scratch(scratch_.data());
}

void CudaSession::place_outputs(BoundLaunches& bound, CUstream stream, bool to_host) {
  for (size_t i = 0; i < plan().outputs.size(); ++i) {
    if (!bound.knows_output(i)) continue;
    if (output_plans_[i] == nullptr) place_output(i, bound, stream, to_host);
    if (owns_buffer(i)) bound.set_output(i, results_[i]->data());
  }
}

void CudaSession::place_output(size_t index, const BoundLaunches& bound, CUstream stream,
                               bool to_host) {
  const TensorSpec& spec = plan().outputs[index];
  const auto bytes = static_cast<size_t>(bound.buffer_bytes(program_.outputs[index]));
  if (owns_buffer(index) || !to_host) {
    results_[index] = device_outputs_->take(bytes, stream, index);
    results_[index]->describe(bound.outputs()[index], *spec.dtype);
  }
  if (to_host) {
    fetched_[index] = host_outputs_->take(bytes, nullptr, index);
    fetched_[index]->describe(bound.outputs()[index], *spec.dtype);
  }
  output_plans_[index] = &bound;
}

// Keeps no more unused blocks than a run needs.
void CudaSession::trim_outputs(bool to_host) {
  size_t total = 0;
  for (size_t i = 0; i < output_plans_.size(); ++i) {
    if (output_plans_[i] == nullptr) {
      fail(AOT_CORRUPT_PACKAGE, "plan: no step reads the size of output '", plan().outputs[i].name,
           "'");
    }
    total += static_cast<size_t>(output_plans_[i]->buffer_bytes(program_.outputs[i]));
  }
  device_outputs_->trim(2 * total + 4096);
  if (to_host) host_outputs_->trim(2 * total + 4096);
}

void CudaSession::fetch_outputs(CUstream stream) {
  for (size_t i = 0; i < fetched_.size(); ++i) {
    const BoundLaunches& bound = *output_plans_[i];
    const auto span = static_cast<size_t>(bound.outputs()[i].span);
    if (span == 0) continue;
    TraceSpan traced(trace_.get(), AOT_TRACE_COPY, plan().outputs[i].name.c_str(), "output");
    traced.set_bytes(span);
    const DeviceSpan work(&timeline_);
    const void* from = bound.address(program_.outputs[i]);
    driver_.memcpy_dtoh_async(fetched_[i]->data(), reinterpret_cast<CUdeviceptr>(from), span,
                              stream);
  }
}

// Outputs that are an input, a weight, a temporary or another output get their own copy.
void CudaSession::copy_shared_outputs(CUstream stream) {
  for (size_t i = 0; i < results_.size(); ++i) {
    const BoundLaunches& bound = *output_plans_[i];
    const auto span = static_cast<size_t>(bound.outputs()[i].span);
    if (owns_buffer(i) || span == 0) continue;
    const void* from = bound.address(program_.outputs[i]);
    driver_.memcpy_dtod_async(reinterpret_cast<CUdeviceptr>(results_[i]->data()),
                              reinterpret_cast<CUdeviceptr>(from), span, stream);
  }
}

void CudaSession::enqueue(BoundLaunches& bound, CUstream stream) {
  const auto end = static_cast<int32_t>(program_.steps.size());
  enqueue_segment(bound, &bound.segment(0, end), stream);
}

void CudaSession::enqueue_segment(BoundLaunches& bound, Segment* segment, CUstream stream) {
  if (options().synchronous || observer_ != nullptr) {
    run_watched(bound, segment->launches, stream);
  } else if (options().profile) {
    run_profiled(segment->launches, stream);
  } else if (timeline_.records() || !enqueue_graph(bound, segment, stream)) {
    for (const Launch& launch : segment->launches) enqueue_launch(launch, stream);
  }
  ++segment->runs;
}

// The first run of given sizes is often the only one: a graph is made for the second.
bool CudaSession::enqueue_graph(BoundLaunches& bound, Segment* segment, CUstream stream) {
  if (!options().graphs || !segment->graph_works || segment->runs == 0 ||
      segment->launches.count < kLeastGraph) {
    return false;
  }
  try {
    bound.graph(*device_, segment).launch(stream);
    return true;
  } catch (const Error& error) {
    if (error.code() != AOT_OUT_OF_MEMORY && error.code() != AOT_UNSUPPORTED) throw;
    segment->graph_works = false;
    package().log()(AOT_LOG_WARNING, cat("launching one by one, without a graph: ", error.what()));
    return false;
  }
}

void CudaSession::enqueue_launch(const Launch& launch, CUstream stream) {
  const TraceSpan traced(trace_.get(), AOT_TRACE_KERNEL, launch.step, bound_);
  const DeviceSpan work(&timeline_);
  const CUresult result = driver_.launch_kernel.raw(
      launch.function, launch.grid[0], launch.grid[1], launch.grid[2], launch.threads, 1, 1,
      launch.shared, stream, launch.parameters, nullptr);
  if (result != kSuccess) {
    driver_.fail(result, driver_.launch_kernel.name, cat("launching ", step_name(launch.step)),
                 origin(launch.step));
  }
}

void CudaSession::wait_for_step(int32_t step, CUstream stream) {
  const CUresult result = driver_.stream_synchronize.raw(stream);
  if (result != kSuccess) {
    driver_.fail(result, driver_.stream_synchronize.name, cat("running ", step_name(step)),
                 origin(step));
  }
}

void CudaSession::run_watched(const BoundLaunches& bound, LaunchRange launches, CUstream stream) {
  for (const Launch& launch : launches) {
    enqueue_launch(launch, stream);
    wait_for_step(launch.step, stream);
    check_faults();
    if (observer_ != nullptr) observe(bound, launch.step, stream);
  }
}

void CudaSession::run_profiled(LaunchRange launches, CUstream stream) {
  mark(0, stream);
  for (size_t i = 0; i < launches.count; ++i) {
    enqueue_launch(launches.first[i], stream);
    mark(i + 1, stream);
  }
  driver_.stream_synchronize(stream);
  for (size_t i = 0; i < launches.count; ++i) count(launches.first[i].step, i);
}

void CudaSession::mark(size_t index, CUstream stream) {
  while (marks_.size() <= index) {
    marks_.push_back(std::make_unique<Event>(device_, kEventDefault));
  }
  driver_.event_record(marks_[index]->get(), stream);
}

void CudaSession::count(int32_t step, size_t index) {
  float milliseconds = 0;
  driver_.event_elapsed_time(&milliseconds, marks_[index]->get(), marks_[index + 1]->get());
  Counter& counter = counters_[static_cast<size_t>(step)];
  ++counter.calls;
  counter.nanoseconds += static_cast<uint64_t>(milliseconds * kNanosecondsPerMillisecond);
}

void CudaSession::observe(const BoundLaunches& bound, int32_t step, CUstream stream) {
  for (const int32_t buffer : program_.steps[static_cast<size_t>(step)].buffers) {
    const auto bytes = static_cast<size_t>(bound.buffer_bytes(buffer));
    const Block copy(default_allocator(), bytes, "a copy for the observer");
    const void* from = bound.address(buffer);
    if (bytes != 0 && from != nullptr) {
      driver_.memcpy_dtoh_async(copy.data(), reinterpret_cast<CUdeviceptr>(from), bytes, stream);
      driver_.stream_synchronize(stream);
    }
    observer_(observer_context_, static_cast<size_t>(step), static_cast<size_t>(buffer),
              copy.data(), bytes);
  }
}

// The event of a stream that lasts is recorded only when somebody has to wait for it.
void CudaSession::mark_last_run() {
  if (lasts(last_stream_)) driver_.event_record(last_run_.get(), last_stream_);
}

bool CudaSession::lasts(CUstream stream) const {
  return stream == kDefaultStream || stream == own_stream_.get();
}

void CudaSession::wait_for_last_run() {
  if (last_stream_ == nullptr) return;
  mark_last_run();
  driver_.event_synchronize(last_run_.get());
  last_stream_ = nullptr;
}

void CudaSession::check_faults() {
  for (const int32_t step : faulting_) {
    if (fault_word(step) == 0) continue;
    const bool earlier = last_stream_ != nullptr;
    wait_for_last_run();  // so that it does not report again
    for (const int32_t other : faulting_) fault_word(other) = 0;
    throw Error(
        AOT_INVALID_ARGUMENT,
        cat(earlier ? "in an earlier run of this session, " : "",
            "an index in the data is outside the tensor that it points into, at ", step_name(step)),
        origin(step));
  }
}

std::string CudaSession::step_name(int32_t step) const {
  const Step& named = program_.steps[static_cast<size_t>(step)];
  const std::string name = named.kind == StepKind::kCall
                               ? cat("custom operator '", program_.call_of(named).name, "'")
                               : cat("kernel '", program_.kernel_of(named).name, "'");
  const std::string& where = origin(step);
  return where.empty() ? name : cat(name, " (", where, ")");
}

void CudaSession::read_state(const State& state, void* data) {
  const Scope scope(*device_);
  wait_for_last_run();
  const auto from = states_.address() + static_cast<CUdeviceptr>(state.offset);
  driver_.memcpy_dtoh_async(data, from, static_cast<size_t>(state.bytes), own_stream_.get());
  driver_.stream_synchronize(own_stream_.get());
}

void CudaSession::write_state(const State& state, const void* data) {
  const Scope scope(*device_);
  wait_for_last_run();
  const auto to = states_.address() + static_cast<CUdeviceptr>(state.offset);
  const auto bytes = static_cast<size_t>(state.bytes);
  if (data != nullptr) {
    driver_.memcpy_htod_async(to, data, bytes, own_stream_.get());
  } else {
    driver_.memset_d8_async(to, 0, bytes, own_stream_.get());
  }
  driver_.stream_synchronize(own_stream_.get());
}

std::unique_ptr<Session> CudaSession::twin() const {
  return std::make_unique<CudaSession>(shared_package(), plan(), program_, code_, place(),
                                       options());
}

void CudaSession::synchronize() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Scope scope(*device_);
  wait_for_last_run();
  check_faults();
}

namespace {

// The GPU reads weights in its own memory.
class DeviceWeights final : public WeightDevice {
 public:
  DeviceWeights(Package& package, DevicePtr device, const Program& program)
      : package_(package), code_(std::move(device), program) {}

  DeviceProgram& code() { return code_; }
  const Program& program() const override { return code_.program(); }
  Placement package_weights() override {
    return code_.upload_weights(package_.container(), package_.log());
  }
  SharedBytes store(const SharedBytes& bytes, size_t size) override {
    const auto block = std::make_shared<const DeviceBlock>(code_.device(), size, "weights");
    upload(code_.device(), {{bytes.get(), block->address(), size}});
    return {block, block->data()};
  }
  SharedBytes derive(const Routine& routine, const DLTensor* const* sources) override {
    CudaSession session(package_.shared_from_this(), routine.plan, routine.body, code_, nullptr,
                        SessionOptions{});
    return session.compute(sources, routine.plan.inputs.size());
  }

 private:
  Package& package_;  // which owns this
  DeviceProgram code_;
};

}  // namespace
}  // namespace cuda

std::unique_ptr<Session> make_cuda_session(std::shared_ptr<Package> package, int32_t index,
                                           const SessionOptions& options) {
  const cuda::DevicePtr device = cuda::Device::open(index);
  const Program& program = cuda::choose_program(package->plan(), *device);
  if (!options.isa.empty() && options.isa != program.arch) {
    fail(AOT_UNAVAILABLE, "no '", options.isa, "' on ", device->description(),
         ": the package's kernels for it are of ", program.arch);
  }
  Package& owner = *package;
  std::shared_ptr<WeightPlace> place = package->weight_place(device->short_name(), [&] {
    return std::make_unique<cuda::DeviceWeights>(owner, device, program);
  });
  cuda::DeviceProgram& code = static_cast<cuda::DeviceWeights&>(*place->device).code();
  return std::make_unique<cuda::CudaSession>(package, package->plan(), program, code,
                                             std::move(place), options);
}

}  // namespace aot_rt
