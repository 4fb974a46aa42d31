#include "bound_call.h"

#include <new>

#include "error.h"

namespace aot_rt {
namespace {

int64_t times(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    fail(AOT_SHAPE_MISMATCH, "sizes are too large");
  }
  return product;
}

}  // namespace

BoundCall::BoundCall(const OperatorCall& call, const Program& program, const BoundSizes& sizes,
                     DLDevice device)
    : call_(call) {
  size_t numbers = 0;
  call.each_tensor([&numbers](const TensorOperand& operand) { numbers += operand.shape.size(); });
  layouts_.reserve(2 * numbers);  // so that pointers into it stay
  call.each_tensor(
      [&](const TensorOperand& operand) { bind_tensor(operand, program, sizes, device); });
  size_t ints = 0;
  size_t floats = 0;
  size_t strings = 0;
  for (const OperatorArgument& argument : call.arguments) {
    ints += argument.ints.size() + argument.bools.size();
    floats += argument.floats.size();
    strings += argument.strings.size();
  }
  ints_.reserve(ints);
  floats_.reserve(floats);
  strings_.reserve(strings);
  const DLTensor* tensors = tensors_.data();
  for (const OperatorArgument& argument : call.arguments) {
    bind_argument(argument, sizes);
    if (argument.kind == AOT_ARGUMENT_TENSOR) arguments_.back().tensors = tensors;
    tensors += argument.tensors.size();
  }
  given_.call = {sizeof(aot_operator_call), call.name.c_str(), arguments_.size(), arguments_.data(),
                 call.results.size(),       tensors,           nullptr,           &BoundCall::fail};
}

void BoundCall::bind_tensor(const TensorOperand& operand, const Program& program,
                            const BoundSizes& sizes, DLDevice device) {
  const Buffer& buffer = program.buffers[static_cast<size_t>(operand.buffer)];
  const size_t rank = operand.shape.size();
  const size_t first = layouts_.size();
  layouts_.resize(first + 2 * rank);
  int64_t* const shape = layouts_.data() + first;
  int64_t* const strides = shape + rank;
  int64_t count = 1;
  for (size_t i = rank; i-- > 0;) {
    shape[i] =
        evaluate_count(operand.shape[i], sizes.dims().data(), "size of a tensor", buffer.name);
    strides[i] = count;
    count = times(count, shape[i]);
  }
  if (times(count, buffer.dtype->size) > sizes.buffer_bytes(operand.buffer)) {
    aot_rt::fail(AOT_CORRUPT_PACKAGE, "plan: ", call_.step, " takes more of buffer '", buffer.name,
                 "' than it has");
  }
  DLTensor tensor{};
  tensor.device = device;
  tensor.ndim = static_cast<int32_t>(rank);
  tensor.dtype = to_dlpack(*buffer.dtype);
  tensor.shape = shape;
  tensor.strides = strides;
  tensors_.push_back(tensor);
  buffers_.push_back(operand.buffer);
}

void BoundCall::bind_argument(const OperatorArgument& argument, const BoundSizes& sizes) {
  aot_argument made{};
  made.name = argument.name.c_str();
  made.kind = argument.kind;
  made.is_list = argument.list ? 1 : 0;
  made.is_changed = argument.changed ? 1 : 0;
  made.count = argument.count();
  if (argument.kind == AOT_ARGUMENT_INT || argument.kind == AOT_ARGUMENT_BOOL) {
    made.ints = ints_.data() + ints_.size();
    for (const Expr& value : argument.ints) ints_.push_back(value.eval(sizes.dims().data()));
    ints_.insert(ints_.end(), argument.bools.begin(), argument.bools.end());
  }
  if (argument.kind == AOT_ARGUMENT_FLOAT) {
    made.floats = floats_.data() + floats_.size();
    floats_.insert(floats_.end(), argument.floats.begin(), argument.floats.end());
  }
  if (argument.kind == AOT_ARGUMENT_STRING) {
    made.strings = strings_.data() + strings_.size();
    for (const std::string& text : argument.strings) strings_.push_back(text.c_str());
  }
  arguments_.push_back(made);
}

void BoundCall::fail(const aot_operator_call* call, const char* message) {
  // `call` is the first member of a Given, of which standard layout promises the address.
  auto* const given = reinterpret_cast<Given*>(const_cast<aot_operator_call*>(call));
  try {
    given->message = message == nullptr ? "" : message;
  } catch (const std::bad_alloc&) {
    given->message.clear();
  }
}

void BoundCall::run(const Operator& code, void* stream) {
  given_.call.stream = stream;
  given_.message.clear();
  const int result = code.call(given_.call);
  if (result == 0) return;
  const std::string reason = given_.message.empty() ? cat("it returned ", result) : given_.message;
  throw Error(AOT_OPERATOR_FAILED, cat("the custom operator '", call_.name, "' failed: ", reason));
}

BoundCall& BoundCalls::of(const Program& program, const Step& step, const BoundSizes& sizes,
                          DLDevice device) {
  std::unique_ptr<BoundCall>& bound = calls_[static_cast<size_t>(step.call)];
  if (bound == nullptr) {
    bound = std::make_unique<BoundCall>(program.call_of(step), program, sizes, device);
  }
  return *bound;
}

}  // namespace aot_rt
