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
    : plan_(plan),
      program_(program),
      dims_(std::move(dims)),
      inputs_(plan.inputs.size()),
      outputs_(plan.outputs.size()),
      bytes_(program.buffers.size()),
      offsets_(program.buffers.size(), -1),
      ends_(program.arena.size()),
      arena_bytes_(program.scopes.size()),
      known_outputs_(plan.outputs.size()) {
  for (size_t i = 0; i < inputs_.size(); ++i) bind_tensor(plan.inputs[i], "input", &inputs_[i]);
  bind_scope(0);
}

void BoundSizes::enter_sizes(int32_t scope, const std::vector<int64_t>& values) {
  const std::vector<int32_t>& dims = program_.scopes[static_cast<size_t>(scope)].dims;
  for (size_t i = 0; i < dims.size(); ++i) dims_[static_cast<size_t>(dims[i])] = values[i];
  bind_scope(scope);
}

void BoundSizes::leave_sizes(int32_t scope) {
  for (const int32_t dim : program_.scopes[static_cast<size_t>(scope)].dims) {
    dims_[static_cast<size_t>(dim)] = Plan::kUnknown;
  }
}

void BoundSizes::forget_sizes() {
  for (size_t scope = 1; scope < program_.scopes.size(); ++scope) {
    leave_sizes(static_cast<int32_t>(scope));
    for (const int32_t output : program_.scopes[scope].outputs) {
      known_outputs_[static_cast<size_t>(output)] = false;
    }
  }
}

void BoundSizes::bind_scope(int32_t scope) {
  const Scope& lists = program_.scopes[static_cast<size_t>(scope)];
  evaluate_checks(lists);
  bind_buffers(lists);
  bind_outputs(lists);
  check_results(scope);
  bind_arena(scope);
}

void BoundSizes::evaluate_checks(const Scope& scope) const {
  for (const int32_t position : scope.checks) {
    const Check& check = plan_.checks[static_cast<size_t>(position)];
    if (!knows(check.left) || !knows(check.right)) continue;
    const int64_t left = check.left.eval(dims_.data());
    const int64_t right = check.right.eval(dims_.data());
    const bool holds = check.relation == Relation::kEqual       ? left == right
                       : check.relation == Relation::kLessEqual ? left <= right
                                                                : left < right;
    if (!holds) {
      fail(AOT_SHAPE_MISMATCH, check.message, " (", check.left.text(plan_.dim_names), " is ", left,
           ", ", check.right.text(plan_.dim_names), " is ", right, ")");
    }
  }
}

// Reuses the storage of what the tensor was before.
void BoundSizes::bind_tensor(const TensorSpec& spec, const char* what, BoundTensor* tensor) const {
  tensor->sizes.clear();
  tensor->strides.clear();
  for (const Expr& size : spec.shape) {
    tensor->sizes.push_back(evaluate_count(size, dims_.data(), what, spec.name));
  }
  for (const Expr& stride : spec.strides) {
    tensor->strides.push_back(evaluate_count(stride, dims_.data(), what, spec.name));
  }
  bool empty = false;
  int64_t last = 0;  // offset of the last element
  int64_t dense = 1;
  tensor->contiguous = true;
  for (size_t i = tensor->sizes.size(); i-- > 0;) {
    const int64_t size = tensor->sizes[i];
    if (size == 0) empty = true;
    if (size <= 1) continue;
    last = checked_sum(last, checked_product(size - 1, tensor->strides[i]));
    tensor->contiguous = tensor->contiguous && tensor->strides[i] == dense;
    dense = checked_product(dense, size);
  }
  tensor->span = empty ? 0 : checked_product(checked_sum(last, 1), spec.dtype->size);
}

void BoundSizes::bind_outputs(const Scope& scope) {
  const auto known = [this](const Expr& expr) { return knows(expr); };
  for (const int32_t output : scope.outputs) {
    const auto i = static_cast<size_t>(output);
    const TensorSpec& spec = plan_.outputs[i];
    known_outputs_[i] = std::all_of(spec.shape.begin(), spec.shape.end(), known) &&
                        std::all_of(spec.strides.begin(), spec.strides.end(), known) &&
                        knows(program_.buffer_of_output(i).bytes);
    if (!known_outputs_[i]) continue;
    bind_tensor(spec, "output", &outputs_[i]);
    if (outputs_[i].span > bytes_[static_cast<size_t>(program_.outputs[i])]) {
      fail(AOT_CORRUPT_PACKAGE, "plan: output '", spec.name, "' is larger than its buffer");
    }
  }
}

void BoundSizes::bind_buffers(const Scope& scope) {
  for (const int32_t id : scope.buffers) {
    const auto i = static_cast<size_t>(id);
    const Buffer& buffer = program_.buffers[i];
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
}

void BoundSizes::check_results(int32_t scope) const {
  for (const Update& update : program_.updates) {
    if (program_.buffers[static_cast<size_t>(update.buffer)].scope != scope) continue;
    const auto index = static_cast<size_t>(update.index);
    const int64_t needed = update.input ? inputs_[index].span : plan_.states[index].bytes;
    if (needed > bytes_[static_cast<size_t>(update.buffer)]) {
      fail(AOT_CORRUPT_PACKAGE, "plan: the new value of '",
           (update.input ? plan_.inputs[index] : plan_.states[index].spec).name,
           "' is larger than its buffer");
    }
  }
}

void BoundSizes::bind_arena(int32_t scope) {
  int64_t& total = arena_bytes_[static_cast<size_t>(scope)];
  total = 0;
  for (const int32_t position : program_.scopes[static_cast<size_t>(scope)].slots) {
    const ArenaSlot& slot = program_.arena[static_cast<size_t>(position)];
    const auto buffer = static_cast<size_t>(slot.buffer);
    if (!knows(program_.buffers[buffer].bytes)) continue;
    int64_t begin = 0;
    for (const int32_t below : slot.above) {
      begin = std::max(begin, ends_[static_cast<size_t>(below)]);
    }
    begin = checked_sum(begin, kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
    const int64_t end = checked_sum(begin, bytes_[buffer]);
    offsets_[buffer] = begin;
    ends_[static_cast<size_t>(position)] = end;
    total = std::max(total, end);
  }
}

}  // namespace aot_rt
