#include "contract.h"

#include "error.h"
#include "strided_copy.h"

namespace aot_rt {
namespace {

bool same_dtype(DLDataType a, const DType& dtype) {
  return a.code == dtype.code && a.bits == dtype.size * 8 && a.lanes == 1;
}

// Whether a session on `device` reads what is on `from`.
bool reachable(DLDevice from, DLDevice device) {
  const DLDeviceType kind = from.device_type;
  if (kind == kDLCPU || kind == kDLCUDAHost || kind == kDLROCMHost) return true;
  return kind == device.device_type && from.device_id == device.device_id;
}

std::string device_name(DLDevice device) {
  if (device.device_type == kDLCPU) return "the CPU";
  if (device.device_type == kDLCUDA) return cat("cuda:", device.device_id);
  return cat("a device of DLPack type ", int{device.device_type}, " (number ", device.device_id,
             ")");
}

// The dim that this size alone binds, or nullptr.
const Dim* dim_at(const Plan& plan, size_t input, size_t axis) {
  for (const Dim& dim : plan.dims) {
    if (static_cast<size_t>(dim.input) == input && static_cast<size_t>(dim.axis) == axis) {
      return &dim;
    }
  }
  return nullptr;
}

std::string axis_name(const Plan& plan, size_t input, size_t axis) {
  const Dim* dim = dim_at(plan, input, axis);
  const std::string label = dim != nullptr ? cat(" ('", dim->label, "')") : std::string();
  return cat(input_name(plan, input), ", dimension ", axis, label);
}

void check_kind(const Plan& plan, size_t index, const DLTensor* tensor, DLDevice device) {
  const TensorSpec& spec = plan.inputs[index];
  if (tensor == nullptr) fail(AOT_INVALID_ARGUMENT, input_name(plan, index), " is null");
  if (!same_dtype(tensor->dtype, *spec.dtype)) {
    fail(AOT_INVALID_ARGUMENT, input_name(plan, index), " has dtype ", dlpack_name(tensor->dtype),
         ", the model takes ", spec.dtype->name);
  }
  if (!reachable(tensor->device, device)) {
    fail(AOT_INVALID_ARGUMENT, input_name(plan, index), " is on ", device_name(tensor->device),
         ", this session runs on ", device_name(device), ": copy it there");
  }
  if (static_cast<size_t>(tensor->ndim) != spec.shape.size() || tensor->ndim < 0) {
    fail(AOT_SHAPE_MISMATCH, input_name(plan, index), " has ", tensor->ndim,
         " dimensions, the model takes ", spec.shape.size());
  }
  if (tensor->ndim > 0 && tensor->shape == nullptr) {
    fail(AOT_INVALID_ARGUMENT, input_name(plan, index), " has no shape");
  }
  for (size_t axis = 0; axis < spec.shape.size(); ++axis) {
    if (tensor->shape[axis] < 0) {
      fail(AOT_SHAPE_MISMATCH, axis_name(plan, index, axis), ": size ", tensor->shape[axis]);
    }
  }
}

std::string allowed(const Dim& dim) {
  // In sizes of the axis: size = dim * divisor + offset. Bounds were checked not to overflow by
  // the caller only for the value at hand, so the text says the dim's range when it would.
  int64_t least = 0;
  int64_t most = 0;
  int64_t step = 0;
  const bool bounded = dim.range.max != kUnbounded;
  if (__builtin_mul_overflow(dim.range.min, dim.divisor, &least) ||
      __builtin_add_overflow(least, dim.offset, &least) ||
      __builtin_mul_overflow(dim.multiple_of, dim.divisor, &step) ||
      (bounded && (__builtin_mul_overflow(dim.range.max, dim.divisor, &most) ||
                   __builtin_add_overflow(most, dim.offset, &most)))) {
    return cat("a ", dim.label, " of ", dim.range.min, " or more");
  }
  std::string text = bounded ? cat(least, " to ", most) : cat(least, " or more");
  if (step != 1) {
    text += dim.offset == 0 ? cat(", multiples of ", step)
                            : cat(", ", dim.offset, " more than a multiple of ", step);
  }
  return text;
}

int64_t bind_dim(const Plan& plan, const Dim& dim, const DLTensor* const* inputs) {
  const auto input = static_cast<size_t>(dim.input);
  const auto axis = static_cast<size_t>(dim.axis);
  const int64_t size = inputs[input]->shape[axis];
  int64_t rest = 0;
  const bool fits =
      !__builtin_sub_overflow(size, dim.offset, &rest) && rest >= 0 && rest % dim.divisor == 0;
  const int64_t value = rest / dim.divisor;
  if (!fits || value < dim.range.min || value > dim.range.max || value % dim.multiple_of != 0) {
    fail(AOT_SHAPE_MISMATCH, axis_name(plan, input, axis), ": size ", size, ", allowed ",
         allowed(dim));
  }
  return value;
}

// Every size again, now that the dims are known: constants, repeated dims, expressions.
void check_sizes(const Plan& plan, const std::vector<int64_t>& dims,
                 const DLTensor* const* inputs) {
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const TensorSpec& spec = plan.inputs[i];
    for (size_t axis = 0; axis < spec.shape.size(); ++axis) {
      const int64_t expected = spec.shape[axis].eval(dims.data());
      if (inputs[i]->shape[axis] == expected) continue;
      if (spec.shape[axis].is_constant()) {
        fail(AOT_SHAPE_MISMATCH, axis_name(plan, i, axis), ": size ", inputs[i]->shape[axis],
             ", must be ", expected);
      }
      std::vector<std::string> labels;
      std::string where;
      const std::string text = spec.shape[axis].text(plan.dim_names);
      for (const Dim& dim : plan.dims) {
        labels.push_back(dim.label);
        if (text == dim.name) {
          where = cat(", as dimension ", dim.axis, " of ",
                      input_name(plan, static_cast<size_t>(dim.input)));
        }
      }
      fail(AOT_SHAPE_MISMATCH, axis_name(plan, i, axis), ": size ", inputs[i]->shape[axis],
           ", must be ", expected,
           where.empty() ? cat(" (", spec.shape[axis].text(labels), ")")
                         : cat(" (", spec.shape[axis].text(labels), where, ")"));
    }
  }
}

// What is written has no element in two places.
void check_distinct(const std::string& name, const DLTensor& tensor, const char* why) {
  if (tensor.strides == nullptr) return;
  for (int32_t axis = 0; axis < tensor.ndim; ++axis) {
    if (tensor.shape[axis] > 1 && tensor.strides[axis] == 0) {
      fail(AOT_INVALID_ARGUMENT, name, " ", why, ", and dimension ", axis,
           " repeats its elements (stride 0): give a copy");
    }
  }
}

}  // namespace

std::string input_name(const Plan& plan, size_t index) {
  return cat("input '", plan.inputs[index].name, "' (number ", index, ")");
}

std::string output_name(const Plan& plan, size_t index) {
  return cat("output '", plan.outputs[index].name, "' (number ", index, ")");
}

void check_output(const Plan& plan, size_t index, const DLTensor& tensor, const BoundTensor& bound,
                  DLDevice device) {
  const std::string name = output_name(plan, index);
  if (!same_dtype(tensor.dtype, *plan.outputs[index].dtype)) {
    fail(AOT_INVALID_ARGUMENT, name, ": the memory for it has dtype ", dlpack_name(tensor.dtype),
         ", the model gives ", plan.outputs[index].dtype->name);
  }
  if (!reachable(tensor.device, device)) {
    fail(AOT_INVALID_ARGUMENT, name, ": the memory for it is on ", device_name(tensor.device),
         ", this session runs on ", device_name(device));
  }
  if (static_cast<size_t>(tensor.ndim) != bound.sizes.size() || tensor.ndim < 0) {
    fail(AOT_SHAPE_MISMATCH, name, ": the memory for it has ", tensor.ndim,
         " dimensions, the model gives ", bound.sizes.size());
  }
  if (tensor.ndim > 0 && tensor.shape == nullptr) {
    fail(AOT_INVALID_ARGUMENT, name, ": the memory for it has no shape");
  }
  for (size_t axis = 0; axis < bound.sizes.size(); ++axis) {
    if (tensor.shape[axis] == bound.sizes[axis]) continue;
    fail(AOT_SHAPE_MISMATCH, name, ": the memory for it has size ", tensor.shape[axis],
         " in dimension ", axis, ", the model gives ", bound.sizes[axis]);
  }
  if (tensor.data == nullptr && bound.span != 0) {
    fail(AOT_INVALID_ARGUMENT, name, ": the memory for it has no data");
  }
  check_distinct(name, tensor, "is written by the model");
}

bool on_host(const DLTensor& tensor) { return reachable(tensor.device, DLDevice{kDLCPU, 0}); }

bool inputs_match(const Plan& plan, const BoundSizes& bound, const DLTensor* const* inputs,
                  size_t count, DLDevice device) {
  if (count != plan.inputs.size()) return false;
  for (size_t i = 0; i < count; ++i) {
    const DLTensor* tensor = inputs[i];
    if (tensor == nullptr || !same_dtype(tensor->dtype, *plan.inputs[i].dtype) ||
        !reachable(tensor->device, device)) {
      return false;
    }
    const std::vector<int64_t>& sizes = bound.inputs()[i].sizes;
    if (static_cast<size_t>(tensor->ndim) != sizes.size()) return false;
    if (tensor->shape == nullptr) {
      if (!sizes.empty()) return false;
      continue;
    }
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      if (tensor->shape[axis] != sizes[axis]) return false;
    }
  }
  return true;
}

std::vector<int64_t> bind_dims(const Plan& plan, const DLTensor* const* inputs, size_t count,
                               DLDevice device) {
  if (count != plan.inputs.size()) {
    fail(AOT_INVALID_ARGUMENT, "the model takes ", plan.inputs.size(), " input",
         plan.inputs.size() == 1 ? "" : "s", ", got ", count);
  }
  for (size_t i = 0; i < count; ++i) check_kind(plan, i, inputs[i], device);
  std::vector<int64_t> dims;
  dims.reserve(plan.dims.size());
  for (const Dim& dim : plan.dims) {
    dims.push_back(dim.measured() ? Plan::kUnknown : bind_dim(plan, dim, inputs));
  }
  check_sizes(plan, dims, inputs);
  return dims;
}

bool readable_in_place(const DLTensor& tensor, const BoundTensor& bound, const DType& dtype) {
  if (bound.span == 0) return true;
  const uintptr_t address = reinterpret_cast<uintptr_t>(tensor.data) + tensor.byte_offset;
  if (address % static_cast<uintptr_t>(dtype.size) != 0) return false;
  return strides_match(tensor, bound);
}

void check_writable(const Plan& plan, size_t index, const DLTensor& tensor) {
  check_distinct(input_name(plan, index), tensor, "is changed by the model");
}

void write_tensor(const DLTensor& tensor, const BoundTensor& bound, const DType& dtype,
                  const void* value) {
  if (bound.span == 0) return;
  auto* to = static_cast<uint8_t*>(tensor.data) + tensor.byte_offset;
  strided_copy(to, strides_of(tensor), value, bound.strides, bound.sizes, dtype.size);
}

std::vector<int64_t> strides_of(const DLTensor& tensor) {
  std::vector<int64_t> strides(static_cast<size_t>(tensor.ndim));
  int64_t dense = 1;
  for (size_t axis = strides.size(); axis-- > 0;) {
    strides[axis] = tensor.strides != nullptr ? tensor.strides[axis] : dense;
    dense *= tensor.shape[axis];
  }
  return strides;
}

bool strides_match(const DLTensor& tensor, const BoundTensor& bound) {
  if (tensor.strides == nullptr) return bound.contiguous;
  for (size_t axis = 0; axis < bound.sizes.size(); ++axis) {
    if (bound.sizes[axis] > 1 && tensor.strides[axis] != bound.strides[axis]) return false;
  }
  return true;
}

}  // namespace aot_rt
