#include "bound_sizes.h"

#include <algorithm>
#include <utility>

#include "error.h"

namespace aot_rt {
namespace {

constexpr int64_t kArenaAlignment = 64;

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

}  // namespace

int64_t evaluate_count(const Expr& expr, const int64_t* dims, const char* what,
                       const std::string& name) {
  const int64_t value = expr.eval(dims);
  if (value < 0) fail(AOT_CORRUPT_PACKAGE, "plan: ", what, " of '", name, "' is ", value);
  return value;
}

BoundSizes::BoundSizes(const Plan& plan, const Program& program, std::vector<int64_t> dims)
    : dims_(std::move(dims)) {
  evaluate_checks(plan);
  for (const TensorSpec& spec : plan.inputs) inputs_.push_back(bind_tensor(spec, "input"));
  bind_outputs(plan, program);
  bind_buffers(plan, program);
  bind_arena(program);
  check_unproved(plan, program, *this);
}

bool BoundSizes::knows(const Program& program, const Step& step) const {
  if (step.kind != StepKind::kLaunch || !knows(step.work) || !knows(step.scratch)) return false;
  const auto known = [this](const Expr& expr) { return knows(expr); };
  const auto sized = [this, &program](int32_t buffer) {
    return knows(program.buffers[static_cast<size_t>(buffer)].bytes);
  };
  return std::all_of(step.sizes.begin(), step.sizes.end(), known) &&
         std::all_of(step.grid.begin(), step.grid.end(), known) &&
         std::all_of(step.buffers.begin(), step.buffers.end(), sized);
}

void BoundSizes::evaluate_checks(const Plan& plan) const {
  for (const Check& check : plan.checks) {
    if (!knows(check.left) || !knows(check.right)) continue;
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

BoundTensor BoundSizes::bind_tensor(const TensorSpec& spec, const char* what) const {
  BoundTensor tensor;
  for (const Expr& size : spec.shape) {
    tensor.sizes.push_back(evaluate_count(size, dims_.data(), what, spec.name));
  }
  for (const Expr& stride : spec.strides) {
    tensor.strides.push_back(evaluate_count(stride, dims_.data(), what, spec.name));
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

void BoundSizes::bind_outputs(const Plan& plan, const Program& program) {
  const auto known = [this](const Expr& expr) { return knows(expr); };
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const TensorSpec& spec = plan.outputs[i];
    known_outputs_.push_back(std::all_of(spec.shape.begin(), spec.shape.end(), known) &&
                             std::all_of(spec.strides.begin(), spec.strides.end(), known) &&
                             knows(program.buffer_of_output(i).bytes));
    outputs_.push_back(known_outputs_[i] ? bind_tensor(spec, "output") : BoundTensor());
  }
}

void BoundSizes::bind_buffers(const Plan& plan, const Program& program) {
  const size_t count = program.buffers.size();
  bytes_.resize(count);
  offsets_.assign(count, -1);
  for (size_t i = 0; i < count; ++i) {
    const Buffer& buffer = program.buffers[i];
    if (!knows(buffer.bytes)) continue;
    bytes_[i] = evaluate_count(buffer.bytes, dims_.data(), "size of buffer", buffer.name);
    if (buffer.storage == Storage::kEntry) {
      const auto room = static_cast<int64_t>(buffer.entry->bytes.size) - buffer.offset;
      if (bytes_[i] > room) {
        fail(AOT_CORRUPT_PACKAGE, "plan: buffer '", buffer.name, "' of ", bytes_[i],
             " bytes reaches beyond its entry '", buffer.entry->name, "'");
      }
    }
  }
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    if (outputs_[i].span > bytes_[static_cast<size_t>(program.outputs[i])]) {
      fail(AOT_CORRUPT_PACKAGE, "plan: output '", plan.outputs[i].name,
           "' is larger than its buffer");
    }
  }
  for (const Update& update : program.updates) {
    const auto index = static_cast<size_t>(update.index);
    const int64_t needed = update.input ? inputs_[index].span : plan.states[index].bytes;
    if (needed > bytes_[static_cast<size_t>(update.buffer)]) {
      fail(AOT_CORRUPT_PACKAGE, "plan: the new value of '",
           (update.input ? plan.inputs[index] : plan.states[index].spec).name,
           "' is larger than its buffer");
    }
  }
}

void BoundSizes::bind_arena(const Program& program) {
  std::vector<int64_t> ends;
  ends.reserve(program.arena.size());
  arena_bytes_.assign(program.scopes.size(), 0);
  for (const ArenaSlot& slot : program.arena) {
    const Buffer& buffer = program.buffers[static_cast<size_t>(slot.buffer)];
    if (!knows(buffer.bytes)) {
      ends.push_back(0);
      continue;
    }
    int64_t begin = 0;
    for (const int32_t below : slot.above) {
      begin = std::max(begin, ends[static_cast<size_t>(below)]);
    }
    begin = checked_sum(begin, kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
    offsets_[static_cast<size_t>(slot.buffer)] = begin;
    ends.push_back(checked_sum(begin, bytes_[static_cast<size_t>(slot.buffer)]));
    int64_t& bytes = arena_bytes_[static_cast<size_t>(buffer.scope)];
    bytes = std::max(bytes, ends.back());
  }
}

}  // namespace aot_rt
