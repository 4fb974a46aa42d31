#include "contract.h"

namespace serve {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 40;

TensorSpec read_spec(const aot_tensor_info& info, const char* role) {
  TensorSpec spec{info.name, find_datatype(info.dtype), {}};
  if (spec.type == nullptr) {
    throw aot::Error(AOT_UNSUPPORTED, std::string(role) + " '" + info.name + "' is " +
                                          info.dtype_name +
                                          ", for which the inference protocol has no type: convert "
                                          "it in the model");
  }
  for (int32_t axis = 0; axis < info.ndim; ++axis) {
    const aot_dim_info& dim = *aot_tensor_dim(&info, static_cast<size_t>(axis));
    spec.dims.push_back({dim.size, dim.min, dim.max, dim.multiple_of, dim.label});
  }
  return spec;
}

size_t find(const std::vector<TensorSpec>& specs, const std::string& name, const Contract& contract,
            const char* role) {
  std::string known;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].name == name) return i;
    known += (known.empty() ? "'" : ", '") + specs[i].name + "'";
  }
  throw aot::Error(AOT_INVALID_ARGUMENT, "model '" + contract.model + "' has no " + role + " '" +
                                             name + "'; it has " + known);
}

}  // namespace

size_t Contract::input(const std::string& name) const { return find(inputs, name, *this, "input"); }
size_t Contract::output(const std::string& name) const {
  return find(outputs, name, *this, "output");
}

Contract read_contract(const aot::Package& package, const std::string& model,
                       const std::string& version) {
  Contract contract;
  contract.model = model;
  contract.version = version;
  for (size_t i = 0; i < package.input_count(); ++i) {
    contract.inputs.push_back(read_spec(package.input(i), "input"));
    contract.changes_inputs = contract.changes_inputs || package.input(i).changed != 0;
  }
  for (size_t i = 0; i < package.output_count(); ++i) {
    contract.outputs.push_back(read_spec(package.output(i), "output"));
  }
  contract.has_state = package.state_count() > 0;
  return contract;
}

size_t tensor_bytes(const Datatype& type, const std::vector<int64_t>& shape,
                    const std::string& name) {
  int64_t bytes = static_cast<int64_t>(type.size());
  bool empty = false;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const int64_t size = shape[axis];
    if (size < 0) {
      throw aot::Error(AOT_INVALID_ARGUMENT, "input '" + name + "': dimension " +
                                                 std::to_string(axis) + " is " +
                                                 std::to_string(size) + "; a size is not negative");
    }
    empty = empty || size == 0;
    if (__builtin_mul_overflow(bytes, size == 0 ? 1 : size, &bytes) || bytes > kMaxBytes) {
      throw aot::Error(AOT_INVALID_ARGUMENT, "input '" + name + "': its sizes are too large");
    }
  }
  return empty ? 0 : static_cast<size_t>(bytes);
}

}  // namespace serve
