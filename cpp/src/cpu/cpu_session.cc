#include "cpu/cpu_session.h"

#include <algorithm>
#include <chrono>
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
  step.run(&args, begin, begin + size + (chunk < rest ? 1 : 0));
}

}  // namespace

std::unique_ptr<Session> make_cpu_session(std::shared_ptr<Package> package, int32_t index,
                                          const SessionOptions& options) {
  if (index != 0) fail(AOT_UNAVAILABLE, "no device 'cpu:", index, "': there is one, 'cpu'");
  const Program& program = *package->plan().programs_for("cpu").front();
  return std::make_unique<CpuSession>(package, program, options);
}

CpuSession::CpuSession(const std::shared_ptr<Package>& package, const Program& program,
                       const SessionOptions& options)
    : Session(package, program),
      library_(package->library(program, options.isa)),
      allocator_(checked_allocator(options.allocator)),
      crew_(options.num_threads > 0 ? options.num_threads : usable_cores(), options.executor),
      outputs_(OutputPool::create(allocator_)),
      copies_(plan().inputs.size()),
      profile_(options.profile) {
  results_.reserve(plan().outputs.size());
}

CpuSession::~CpuSession() { outputs_->close(); }

CpuSession::Outputs::~Outputs() {
  for (OutputBlock* block : session.results_) OutputPool::give_back(block);
  session.results_.clear();
}

void CpuSession::run_with(const DLTensor* const* inputs, size_t count, const RunOptions& options,
                          TakeOutput take, void* context) {
  if (options.stream != nullptr) fail(AOT_INVALID_ARGUMENT, "the cpu has no streams: give NULL");
  const std::lock_guard<std::mutex> lock(mutex_);
  Outputs outputs(*this);
  run_locked(inputs, count);
  for (size_t i = 0; i < results_.size(); ++i) take(context, i, results_[i]);
  results_.clear();
}

void CpuSession::run_locked(const DLTensor* const* inputs, size_t count) {
  BoundPlan& bound = bind(inputs, count);
  prepare_memory(bound);
  place_inputs(bound, inputs);
  place_outputs(bound);
  if (profile_ || observer_ != nullptr) {
    run_steps_watched(bound);
  } else {
    run_steps(bound);
  }
  copy_shared_outputs(bound);
}

BoundPlan& CpuSession::bind(const DLTensor* const* inputs, size_t count) {
  if (!plans_.empty() && inputs_match(plan(), *plans_.front(), inputs, count, device())) {
    return *plans_.front();
  }
  std::vector<int64_t> dims = bind_dims(plan(), inputs, count, device());
  const auto found = std::find_if(plans_.begin(), plans_.end(), [&dims](const auto& candidate) {
    return candidate->dims() == dims;
  });
  if (found != plans_.end()) {
    plans_.splice(plans_.begin(), plans_, found);
    return *plans_.front();
  }
  plans_.push_front(std::make_unique<BoundPlan>(plan(), program_, *library_, std::move(dims),
                                                crew_.threads(), &fault_));
  if (plans_.size() > kMaxPlans) plans_.pop_back();
  return *plans_.front();
}

void CpuSession::prepare_memory(BoundPlan& bound) {
  if (static_cast<int64_t>(arena_.size()) < bound.arena_bytes()) {
    arena_ = Block();  // first, so that old and new are not held together
    ++generation_;
    arena_ = Block(allocator_, static_cast<size_t>(bound.arena_bytes()), "temporaries");
    package().log()(AOT_LOG_DEBUG, cat("arena of ", bound.arena_bytes(), " bytes"));
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
  bound.set_memory(generation_, arena_.data(), scratch_.data());
}

void CpuSession::place_inputs(BoundPlan& bound, const DLTensor* const* inputs) {
  for (size_t i = 0; i < plan().inputs.size(); ++i) {
    const DLTensor& tensor = *inputs[i];
    const BoundTensor& expected = bound.inputs()[i];
    if (tensor.data == nullptr && expected.span != 0) {
      fail(AOT_INVALID_ARGUMENT, "input '", plan().inputs[i].name, "' (number ", i,
           ") has no data");
    }
    void* address = static_cast<uint8_t*>(tensor.data) + tensor.byte_offset;
    if (!readable_in_place(tensor, expected, *plan().inputs[i].dtype)) {
      address = copy_input(i, tensor, expected);
    }
    bound.set_input(i, address);
  }
}

void* CpuSession::copy_input(size_t index, const DLTensor& tensor, const BoundTensor& bound) {
  const auto span = static_cast<size_t>(bound.span);
  Block& copy = copies_[index];
  if (copy.size() < span) copy = Block(allocator_, span, "a copy of an input");
  std::vector<int64_t> strides(bound.sizes.size());
  int64_t dense = 1;
  for (size_t axis = strides.size(); axis-- > 0;) {
    strides[axis] = tensor.strides != nullptr ? tensor.strides[axis] : dense;
    dense *= bound.sizes[axis];
  }
  const auto* from = static_cast<const uint8_t*>(tensor.data) + tensor.byte_offset;
  strided_copy(copy.data(), bound.strides, from, strides, bound.sizes,
               plan().inputs[index].dtype->size);
  return copy.data();
}

void CpuSession::place_outputs(BoundPlan& bound) {
  size_t total = 0;
  for (size_t i = 0; i < plan().outputs.size(); ++i) {
    const TensorSpec& spec = plan().outputs[i];
    const auto bytes = static_cast<size_t>(bound.buffer_bytes(program_.outputs[i]));
    OutputBlock* block = outputs_->take(bytes);
    results_.push_back(block);
    block->describe(bound.outputs()[i], *spec.dtype);
    if (owns_buffer(i)) bound.set_output(i, block->data());
    total += bytes;
  }
  outputs_->trim(2 * total + 4096);
}

// Outputs that are an input, a weight, a temporary or another output get their own copy.
void CpuSession::copy_shared_outputs(const BoundPlan& bound) {
  for (size_t i = 0; i < plan().outputs.size(); ++i) {
    const auto span = static_cast<size_t>(bound.outputs()[i].span);
    if (owns_buffer(i) || span == 0) continue;
    std::memcpy(results_[i]->data(), bound.address(program_.outputs[i]), span);
  }
}

void CpuSession::run_step(const BoundStep& step) {
  if (step.chunks == 1) {
    step.run(&step.args, 0, step.work);
  } else {
    ParallelStep job{&step, scratch_.data(), scratch_stride_};
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
  using Clock = std::chrono::steady_clock;
  for (const BoundStep& step : bound.steps()) {
    const auto start = Clock::now();
    run_step(step);
    const auto elapsed = Clock::now() - start;
    if (profile_) {
      Counter& counter = counters_[static_cast<size_t>(step.step)];
      ++counter.calls;
      counter.nanoseconds += static_cast<uint64_t>(
          std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count());
    }
    if (fault_ != AOT_KERNEL_FAULT_NONE) report_fault(step.step);
    if (observer_ != nullptr) observe(bound, step.step);
  }
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
