#include "tensors.h"

#include <cstring>
#include <string>
#include <utility>

namespace aot_node {
namespace {

struct Named {
  const char* name;
  DLDataType dtype;
};

constexpr Named kTypes[] = {{"float32", {kDLFloat, 32, 1}},
                            {"float64", {kDLFloat, 64, 1}},
                            {"float16", {kDLFloat, 16, 1}},
                            {"bfloat16", {kDLBfloat, 16, 1}},
                            {"int8", {kDLInt, 8, 1}},
                            {"int16", {kDLInt, 16, 1}},
                            {"int32", {kDLInt, 32, 1}},
                            {"int64", {kDLInt, 64, 1}},
                            {"uint8", {kDLUInt, 8, 1}},
                            {"uint16", {kDLUInt, 16, 1}},
                            {"uint32", {kDLUInt, 32, 1}},
                            {"uint64", {kDLUInt, 64, 1}},
                            {"bool", {kDLBool, 8, 1}},
                            {"complex64", {kDLComplex, 64, 1}},
                            {"complex128", {kDLComplex, 128, 1}}};

// Below this a copy costs less than a buffer that is told when it is collected.
constexpr size_t kWorthKeeping = 64 * 1024;

void gather(const DLTensor& view, int32_t axis, const char* from, char** to) {
  const auto size = size_of(view.dtype);
  if (axis == view.ndim) {
    std::memcpy(*to, from, size);
    *to += size;
    return;
  }
  for (int64_t i = 0; i < view.shape[axis]; ++i) {
    gather(view, axis + 1, from + i * view.strides[axis] * static_cast<int64_t>(size), to);
  }
}

bool contiguous(const DLTensor& view) {
  if (view.strides == nullptr) return true;
  int64_t expected = 1;
  for (int32_t axis = view.ndim - 1; axis >= 0; --axis) {
    if (view.shape[axis] != 1 && view.strides[axis] != expected) return false;
    expected *= view.shape[axis];
  }
  return true;
}

bool read_only(const DLManagedTensorVersioned& managed) {
  return (managed.flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
}

// The bytes of an output in C order.
Napi::ArrayBuffer buffer_of(Napi::Env env, aot::Tensor tensor, size_t bytes) {
  if (bytes >= kWorthKeeping && contiguous(tensor.view())) {
    void* data = const_cast<void*>(tensor.raw());
    DLManagedTensorVersioned* managed = tensor.release();
    if (managed != nullptr && !read_only(*managed)) {
      const auto finalize = [](Napi::Env, void*, DLManagedTensorVersioned* done) {
        done->deleter(done);
      };
      return Napi::ArrayBuffer::New(env, data, bytes, finalize, managed);
    }
    if (managed != nullptr) tensor = aot::Tensor::adopt(managed);
  }
  Napi::ArrayBuffer buffer = Napi::ArrayBuffer::New(env, bytes);
  char* to = static_cast<char*>(buffer.Data());
  if (bytes != 0 && contiguous(tensor.view())) {
    std::memcpy(to, tensor.raw(), bytes);
  } else if (bytes != 0) {
    gather(tensor.view(), 0, static_cast<const char*>(tensor.raw()), &to);
  }
  return buffer;
}

}  // namespace

DLDataType dtype_of(Napi::Env env, const std::string& name) {
  for (const Named& row : kTypes) {
    if (name == row.name) return row.dtype;
  }
  throw Napi::TypeError::New(env, "no element type is named '" + name + "'");
}

Napi::Value typed(Napi::Env env, DLDataType dtype, Napi::ArrayBuffer buffer) {
  const auto make = [&](auto zero, napi_typedarray_type type) -> Napi::Value {
    using T = decltype(zero);
    return Napi::TypedArrayOf<T>::New(env, buffer.ByteLength() / sizeof(T), buffer, 0, type);
  };
  const bool real = dtype.code == kDLFloat || dtype.code == kDLComplex;
  const int bits = dtype.code == kDLComplex ? dtype.bits / 2 : dtype.bits;
  if (real && bits == 32) return make(float{}, napi_float32_array);
  if (real && bits == 64) return make(double{}, napi_float64_array);
  const bool is_signed = dtype.code == kDLInt;
  switch (bits) {
    case 16:
      return is_signed ? make(int16_t{}, napi_int16_array) : make(uint16_t{}, napi_uint16_array);
    case 32:
      return is_signed ? make(int32_t{}, napi_int32_array) : make(uint32_t{}, napi_uint32_array);
    case 64:
      return is_signed ? make(int64_t{}, napi_bigint64_array)
                       : make(uint64_t{}, napi_biguint64_array);
    default:
      return is_signed ? make(int8_t{}, napi_int8_array) : make(uint8_t{}, napi_uint8_array);
  }
}

std::vector<Input> inputs_of(const Napi::Array& list, bool copied) {
  std::vector<Input> inputs;
  for (uint32_t i = 0; i < list.Length(); ++i) {
    const Napi::Env env = list.Env();
    const Napi::Object given = list.Get(i).As<Napi::Object>();
    const auto data = given.Get("data").As<Napi::TypedArray>();
    const auto sizes = given.Get("shape").As<Napi::Array>();
    const DLDataType dtype = dtype_of(env, given.Get("dtype").As<Napi::String>());
    aot::Tensor::Shape shape;
    double elements = 1;
    for (uint32_t axis = 0; axis < sizes.Length(); ++axis) {
      shape.push_back(sizes.Get(axis).As<Napi::Number>().Int64Value());
      elements *= static_cast<double>(shape.back());
    }
    const size_t bytes = data.ByteLength();
    if (elements * static_cast<double>(size_of(dtype)) != static_cast<double>(bytes)) {
      throw Napi::RangeError::New(env, "input " + std::to_string(i) + ": " + std::to_string(bytes) +
                                           " bytes are not what its shape and type take");
    }
    char* from = static_cast<char*>(data.ArrayBuffer().Data()) + data.ByteOffset();
    std::unique_ptr<char[]> copy;
    if (copied) {
      copy.reset(new char[bytes + 1]);
      if (bytes != 0) std::memcpy(copy.get(), from, bytes);
      from = copy.get();
    }
    inputs.push_back(
        {aot::Tensor::borrow(from, dtype, std::move(shape), {}), std::move(copy), bytes});
  }
  return inputs;
}

Napi::Object output_of(Napi::Env env, aot::Tensor tensor, const char* dtype) {
  Napi::Object output = Napi::Object::New(env);
  Napi::Array shape = Napi::Array::New(env);
  for (int32_t axis = 0; axis < tensor.rank(); ++axis) {
    shape.Set(static_cast<uint32_t>(axis), static_cast<double>(tensor.size(axis)));
  }
  const DLDataType type = tensor.dtype();
  const size_t bytes = static_cast<size_t>(tensor.elements()) * size_of(type);
  output.Set("data", typed(env, type, buffer_of(env, std::move(tensor), bytes)));
  output.Set("dtype", dtype);
  output.Set("shape", shape);
  return output;
}

}  // namespace aot_node
