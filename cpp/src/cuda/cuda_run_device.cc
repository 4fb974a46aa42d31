#include "cuda/cuda_run_device.h"

#include <algorithm>
#include <utility>

#include "cuda/upload.h"
#include "error.h"

namespace aot_rt {
namespace cuda {
namespace {

// What the caller's own allocator is for: the host's memory. Ours is page-locked.
aot_allocator host_allocator(const SessionOptions& options, const Device& device) {
  return options.allocator != nullptr ? checked_allocator(options.allocator)
                                      : pinned_allocator(device);
}

// `shared`: the code of the program on this GPU.
std::unique_ptr<RunDevice> make_device(const SessionParts& parts, const SessionOptions& options,
                                       void* shared) {
  return std::make_unique<CudaRunDevice>(parts, options, *static_cast<DeviceProgram*>(shared));
}

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
    Session session({package_.shared_from_this(), &routine.plan, &routine.body, nullptr, nullptr},
                    SessionOptions{}, make_device, &code_);
    return session.compute(sources, routine.plan.inputs.size());
  }

 private:
  Package& package_;  // which owns this
  DeviceProgram code_;
};

}  // namespace

CudaRunDevice::CudaRunDevice(const SessionParts& parts, const SessionOptions& options,
                             DeviceProgram& code)
    : plan_(*parts.plan),
      program_(*parts.program),
      options_(options),
      log_(parts.package->log()),
      code_(code),
      device_(code_.device()),
      memory_(std::make_shared<const DeviceMemory>(device_, options.device_allocator)),
      driver_(device_->driver()),
      own_stream_(device_),
      faults_(device_, program_.steps.size() * sizeof(int32_t), "fault words"),
      copies_(device_, *memory_, plan_),
      timeline_(device_),
      last_run_(device_) {
  std::fill_n(faults_.data(), faults_.size(), uint8_t{0});
  for (size_t i = 0; i < program_.steps.size(); ++i) {
    const Step& step = program_.steps[i];
    if (step.kind == StepKind::kLaunch && program_.kernel_of(step).faults) {
      faulting_.push_back(static_cast<int32_t>(i));
    }
  }
}

CudaRunDevice::~CudaRunDevice() { forget(nullptr); }

Block CudaRunDevice::allocate(size_t bytes, const char* purpose) const {
  return memory_->allocate(bytes, purpose);
}

OutputPoolPtr CudaRunDevice::make_output_pool() const {
  return OutputPool::create(memory_->as_allocator(), where(), memory_);
}

OutputPoolPtr CudaRunDevice::make_host_output_pool() const {
  return OutputPool::create(host_allocator(options_, *device_), DLDevice{kDLCPU, 0}, device_);
}

std::unique_ptr<BoundProgram> CudaRunDevice::bind(std::vector<int64_t> dims, uint8_t* states) {
  require_process();
  const Scope scope(*device_);
  auto* const words = reinterpret_cast<int32_t*>(faults_.device_data());
  return std::make_unique<BoundLaunches>(plan_, program_, code_, std::move(dims), states, words);
}

// Its graphs may be running.
void CudaRunDevice::forget(std::unique_ptr<BoundProgram> bound) {
  if (busy_ && !device_->is_lost() &&
      driver_.ctx_push_current.raw(device_->context()) == kSuccess) {
    if (lasts()) driver_.event_record.raw(last_run_.get(), last_stream_);
    driver_.event_synchronize.raw(last_run_.get());
    busy_ = false;
    CUcontext popped = nullptr;
    driver_.ctx_pop_current.raw(&popped);
  }
  bound.reset();
}

void CudaRunDevice::load(void* to, const void* from, size_t bytes) {
  require_process();
  const Scope scope(*device_);
  wait_for_last_run();
  const auto address = reinterpret_cast<CUdeviceptr>(to);
  if (from != nullptr) {
    driver_.memcpy_htod_async(address, from, bytes, own_stream_.get());
  } else {
    driver_.memset_d8_async(address, 0, bytes, own_stream_.get());
  }
  driver_.stream_synchronize(own_stream_.get());
}

void CudaRunDevice::store(void* to, const void* from, size_t bytes) {
  require_process();
  const Scope scope(*device_);
  wait_for_last_run();
  driver_.memcpy_dtoh_async(to, reinterpret_cast<CUdeviceptr>(from), bytes, own_stream_.get());
  driver_.stream_synchronize(own_stream_.get());
}

void* CudaRunDevice::place_input(size_t index, const DLTensor& tensor, const BoundTensor& bound) {
  const bool copied = InputCopies::needs_copy(tensor, bound);
  TraceSpan traced(copied ? run_->trace : nullptr, AOT_TRACE_COPY, plan_.inputs[index].name.c_str(),
                   "input");
  traced.set_bytes(static_cast<size_t>(bound.span));
  const DeviceSpan work(copied ? &timeline_ : nullptr);
  return copies_.place(index, tensor, bound, stream_);
}

void CudaRunDevice::set_weights(BoundProgram& bound, const Container& container,
                                uint64_t generation, const Placement* weights) {
  // Its graphs, which set_weights drops, may be running.
  if (bound.weights_generation() != BoundProgram::kNoWeights) wait_for_last_run();
  bound.set_weights(container, generation, weights);
}

void CudaRunDevice::copy(void* to, const void* from, size_t bytes) {
  if (to == from || bytes == 0) return;
  const DeviceSpan work(&timeline_);
  driver_.memcpy_dtod_async(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from),
                            bytes, stream_);
}

void CudaRunDevice::read(void* to, const void* from, size_t bytes) {
  fetch(to, from, bytes);
  {
    const TraceSpan traced(run_->trace, AOT_TRACE_WAIT, "wait", "device");
    driver_.stream_synchronize(stream_);
  }
  check_faults();
}

void CudaRunDevice::fetch(void* to, const void* from, size_t bytes) {
  const DeviceSpan work(&timeline_);
  driver_.memcpy_dtoh_async(to, reinterpret_cast<CUdeviceptr>(from), bytes, stream_);
}

std::string CudaRunDevice::step_name(int32_t step) const {
  const Step& named = program_.steps[static_cast<size_t>(step)];
  const std::string name = named.kind == StepKind::kCall
                               ? cat("custom operator '", program_.call_of(named).name, "'")
                               : cat("kernel '", program_.kernel_of(named).name, "'");
  const std::string where = origin(step);
  return where.empty() ? name : cat(name, " (", where, ")");
}

}  // namespace cuda

std::unique_ptr<Session> make_cuda_session(std::shared_ptr<Package> package, int32_t index,
                                           const SessionOptions& options) {
  const cuda::DevicePtr device = cuda::Device::open(index);
  const Plan& plan = package->plan();
  const Program& program = cuda::choose_program(plan, *device);
  if (!options.isa.empty() && options.isa != program.arch) {
    fail(AOT_UNAVAILABLE, "no '", options.isa, "' on ", device->description(),
         ": the package's kernels for it are of ", program.arch);
  }
  Package& owner = *package;
  std::shared_ptr<WeightPlace> place = package->weight_place(device->short_name(), [&] {
    return std::make_unique<cuda::DeviceWeights>(owner, device, program);
  });
  cuda::DeviceProgram& code = static_cast<cuda::DeviceWeights&>(*place->device).code();
  std::shared_ptr<WorkspacePool> workspaces = place->workspaces;
  return std::make_unique<Session>(
      SessionParts{std::move(package), &plan, &program, std::move(place), std::move(workspaces)},
      options, cuda::make_device, &code);
}

}  // namespace aot_rt
