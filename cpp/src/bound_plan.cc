#include "bound_plan.h"

#include <algorithm>
#include <utility>

#include "error.h"

namespace aot_rt {
namespace {

constexpr int64_t kArenaAlignment = 64;
// More chunks than threads, so that a thread that is slowed down by others does fewer of them.
constexpr int64_t kChunksPerThread = 4;

int64_t evaluate(const Expr& expr, const int64_t* dims, const char* what, const std::string& name) {
  const int64_t value = expr.eval(dims);
  if (value < 0) fail(AOT_CORRUPT_PACKAGE, "plan: ", what, " of '", name, "' is ", value);
  return value;
}

int64_t checked_sum(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) fail(AOT_SHAPE_MISMATCH, "sizes are too large");
  return sum;
}

int64_t checked_product(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) fail(AOT_SHAPE_MISMATCH, "sizes are too large");
  return product;
}

int64_t count_chunks(int64_t work, int64_t grain, int32_t threads) {
  if (threads <= 1) return 1;
  return std::max<int64_t>(1, std::min(work / grain, threads * kChunksPerThread));
}

}  // namespace

BoundPlan::BoundPlan(const Plan& plan, const KernelLibrary& library, std::vector<int64_t> dims,
                     int32_t threads, int32_t* fault)
    : dims_(std::move(dims)) {
  evaluate_checks(plan);
  for (const TensorSpec& spec : plan.inputs) inputs_.push_back(bind_tensor(spec, "input"));
  for (const TensorSpec& spec : plan.outputs) outputs_.push_back(bind_tensor(spec, "output"));
  bind_buffers(plan);
  bind_arena(plan);
  bind_steps(plan, library, threads, fault);
}

void BoundPlan::evaluate_checks(const Plan& plan) const {
  for (const Check& check : plan.checks) {
    const int64_t left = check.left.eval(dims_.data());
    const int64_t right = check.right.eval(dims_.data());
    const bool holds = check.relation == Relation::kEqual       ? left == right
                       : check.relation == Relation::kLessEqual ? left <= right
                                                                : left < right;
    if (!holds) {
      fail(AOT_SHAPE_MISMATCH, check.message, " (", check.left.text(plan.dim_names), " is ", left,
           ", ", check.right.text(plan.dim_names), " is ", right, ")");
    }
  }
}

BoundTensor BoundPlan::bind_tensor(const TensorSpec& spec, const char* what) const {
  BoundTensor tensor;
  for (const Expr& size : spec.shape) {
    tensor.sizes.push_back(evaluate(size, dims_.data(), what, spec.name));
  }
  for (const Expr& stride : spec.strides) {
    tensor.strides.push_back(evaluate(stride, dims_.data(), what, spec.name));
  }
  bool empty = false;
  int64_t last = 0;  // offset of the last element
  int64_t dense = 1;
  tensor.contiguous = true;
  for (size_t i = tensor.sizes.size(); i-- > 0;) {
    const int64_t size = tensor.sizes[i];
    if (size == 0) empty = true;
    if (size <= 1) continue;
    last = checked_sum(last, checked_product(size - 1, tensor.strides[i]));
    tensor.contiguous = tensor.contiguous && tensor.strides[i] == dense;
    dense = checked_product(dense, size);
  }
  if (!empty) tensor.span = checked_product(checked_sum(last, 1), spec.dtype->size);
  return tensor;
}

void BoundPlan::bind_buffers(const Plan& plan) {
  const size_t count = plan.buffers.size();
  bytes_.resize(count);
  offsets_.assign(count, -1);
  slots_.assign(count, nullptr);
  input_slots_.resize(plan.inputs.size());
  output_slots_.resize(plan.outputs.size());
  for (size_t i = 0; i < count; ++i) {
    const Buffer& buffer = plan.buffers[i];
    bytes_[i] = evaluate(buffer.bytes, dims_.data(), "size of buffer", buffer.name);
    if (buffer.storage == Storage::kEntry) {
      const auto room = static_cast<int64_t>(buffer.entry->bytes.size) - buffer.offset;
      if (bytes_[i] > room) {
        fail(AOT_CORRUPT_PACKAGE, "plan: buffer '", buffer.name, "' of ", bytes_[i],
             " bytes reaches beyond its entry '", buffer.entry->name, "'");
      }
    }
  }
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    if (outputs_[i].span > bytes_[static_cast<size_t>(plan.outputs[i].buffer)]) {
      fail(AOT_CORRUPT_PACKAGE, "plan: output '", plan.outputs[i].name,
           "' is larger than its buffer");
    }
  }
}

void BoundPlan::bind_arena(const Plan& plan) {
  std::vector<int64_t> ends;
  ends.reserve(plan.arena.size());
  for (const ArenaSlot& slot : plan.arena) {
    int64_t begin = 0;
    for (const int32_t below : slot.above) {
      begin = std::max(begin, ends[static_cast<size_t>(below)]);
    }
    begin = checked_sum(begin, kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
    offsets_[static_cast<size_t>(slot.buffer)] = begin;
    ends.push_back(checked_sum(begin, bytes_[static_cast<size_t>(slot.buffer)]));
    arena_bytes_ = std::max(arena_bytes_, ends.back());
  }
}

void BoundPlan::bind_steps(const Plan& plan, const KernelLibrary& library, int32_t threads,
                           int32_t* fault) {
  std::vector<int32_t> buffer_of_slot;  // slots 0 … buffers-1 stand for the buffers themselves
  buffer_of_slot.reserve(plan.buffers.size());
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    buffer_of_slot.push_back(static_cast<int32_t>(i));
  }
  std::vector<std::pair<size_t, size_t>> first;  // per bound step: first slot, first size
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    const std::string& kernel = plan.kernels[static_cast<size_t>(step.kernel)];
    BoundStep bound;
    bound.work = evaluate(step.work, dims_.data(), "work of step", kernel);
    if (bound.work == 0) continue;
    bound.run = library.kernel(step.kernel);
    bound.chunks = count_chunks(bound.work, step.grain, threads);
    bound.step = static_cast<int32_t>(i);
    bound.args.fault = fault;
    scratch_bytes_ =
        std::max(scratch_bytes_, evaluate(step.scratch, dims_.data(), "scratch of step", kernel));
    first.emplace_back(buffer_of_slot.size(), sizes_.size());
    buffer_of_slot.insert(buffer_of_slot.end(), step.buffers.begin(), step.buffers.end());
    for (const Expr& size : step.sizes) sizes_.push_back(size.eval(dims_.data()));
    steps_.push_back(bound);
  }
  slots_.assign(buffer_of_slot.size(), nullptr);
  for (size_t i = 0; i < steps_.size(); ++i) {
    steps_[i].args.buffers = slots_.data() + first[i].first;
    steps_[i].args.sizes = sizes_.data() + first[i].second;
  }
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    const auto id = static_cast<size_t>(buffer_of_slot[slot]);
    const Buffer& buffer = plan.buffers[id];
    const auto number = static_cast<uint32_t>(slot);
    switch (buffer.storage) {
      case Storage::kInput:
        input_slots_[static_cast<size_t>(buffer.index)].push_back(number);
        break;
      case Storage::kOutput:
        output_slots_[static_cast<size_t>(buffer.index)].push_back(number);
        break;
      case Storage::kEntry:
        slots_[slot] = const_cast<uint8_t*>(buffer.entry->bytes.data) + buffer.offset;
        break;
      case Storage::kArena:
        arena_slots_.push_back(number);
        arena_offsets_.push_back(offsets_[id]);
        break;
    }
  }
}

void BoundPlan::set_memory(uint64_t generation, uint8_t* arena, uint8_t* scratch) {
  if (generation == generation_) return;
  generation_ = generation;
  for (size_t i = 0; i < arena_slots_.size(); ++i) {
    slots_[arena_slots_[i]] = arena + arena_offsets_[i];
  }
  for (BoundStep& step : steps_) step.args.scratch = scratch;
}

void* BoundPlan::address(int32_t buffer) const { return slots_[static_cast<size_t>(buffer)]; }

}  // namespace aot_rt
