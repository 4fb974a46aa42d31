// Tensors as JSON and back, in the Open Inference Protocol's form:
//   {"name": "x", "datatype": "FP32", "shape": [2, 3], "data": [1, 2, 3, 4, 5, 6]}
#ifndef EXAMPLES_CPP_SERVICE_TENSOR_JSON_H_
#define EXAMPLES_CPP_SERVICE_TENSOR_JSON_H_

#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "aot/aot.hpp"

namespace service {

// What a client did wrong; becomes a response with status 400.
class BadRequest : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Bytes of an input and how to read them; the tensor that runs borrows them.
struct InputBytes {
  std::vector<int64_t> shape;
  std::vector<unsigned char> bytes;
  DLDataType dtype;

  aot::Tensor view() const { return aot::Tensor::borrow(bytes.data(), dtype, shape, {}); }
};

// The protocol's name of a type; "" for one that JSON has no numbers for.
inline std::string datatype_name(DLDataType dtype) {
  const std::string bits = std::to_string(dtype.bits);
  switch (dtype.code) {
    case kDLFloat:
      return dtype.bits >= 32 ? "FP" + bits : "";
    case kDLInt:
      return "INT" + bits;
    case kDLUInt:
      return "UINT" + bits;
    case kDLBool:
      return "BOOL";
    default:
      return "";
  }
}

template <typename T>
void append_all(const nlohmann::json& data, std::vector<unsigned char>& bytes) {
  bytes.resize(data.size() * sizeof(T));
  for (size_t i = 0; i < data.size(); ++i) {
    if (!data[i].is_number() && !data[i].is_boolean()) throw BadRequest("data holds a non-number");
    const T value = data[i].is_boolean() ? static_cast<T>(data[i].get<bool>()) : data[i].get<T>();
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
}

template <typename T>
nlohmann::json read_all(const void* data, int64_t count) {
  const T* values = static_cast<const T*>(data);
  return std::vector<T>(values, values + count);
}

// One input of a request, of the type that the package asks for. The package checks the sizes.
inline InputBytes parse_input(const nlohmann::json& tensor, const aot_tensor_info& info) {
  const std::string expected = datatype_name(info.dtype);
  const std::string datatype = tensor.value("datatype", expected);
  if (expected.empty()) throw BadRequest(std::string("input ") + info.name + " has no JSON form");
  if (datatype != expected) {
    throw BadRequest(std::string("input ") + info.name + " must be " + expected + ", not " +
                     datatype);
  }
  InputBytes input{tensor.at("shape").get<std::vector<int64_t>>(), {}, info.dtype};
  const nlohmann::json& data = tensor.at("data");
  int64_t elements = 1;
  for (const int64_t size : input.shape) {
    if (size < 0 || size > (int64_t{1} << 31)) throw BadRequest("a size is out of range");
    elements *= size;
    if (elements > (int64_t{1} << 31)) throw BadRequest("the tensor is too large");
  }
  if (static_cast<int64_t>(data.size()) != elements) {
    throw BadRequest(std::string("input ") + info.name + ": the shape has " +
                     std::to_string(elements) + " elements, data has " +
                     std::to_string(data.size()));
  }
  if (expected == "FP32") append_all<float>(data, input.bytes);
  if (expected == "FP64") append_all<double>(data, input.bytes);
  if (expected == "INT64") append_all<int64_t>(data, input.bytes);
  if (expected == "INT32") append_all<int32_t>(data, input.bytes);
  if (expected == "INT16") append_all<int16_t>(data, input.bytes);
  if (expected == "INT8") append_all<int8_t>(data, input.bytes);
  if (expected == "UINT8" || expected == "BOOL") append_all<uint8_t>(data, input.bytes);
  return input;
}

// One output of a response.
inline nlohmann::json tensor_json(const char* name, const aot::Tensor& tensor) {
  const std::string datatype = datatype_name(tensor.dtype());
  const void* raw = tensor.raw();
  const int64_t count = tensor.elements();
  nlohmann::json data;
  if (datatype == "FP32") data = read_all<float>(raw, count);
  if (datatype == "FP64") data = read_all<double>(raw, count);
  if (datatype == "INT64") data = read_all<int64_t>(raw, count);
  if (datatype == "INT32") data = read_all<int32_t>(raw, count);
  if (datatype == "INT16") data = read_all<int16_t>(raw, count);
  if (datatype == "INT8") data = read_all<int8_t>(raw, count);
  if (datatype == "UINT8" || datatype == "BOOL") data = read_all<uint8_t>(raw, count);
  return {{"name", name}, {"datatype", datatype}, {"shape", tensor.shape()}, {"data", data}};
}

}  // namespace service

#endif  // EXAMPLES_CPP_SERVICE_TENSOR_JSON_H_
