// Tensors of JavaScript, and what they are to the runtime.
#ifndef AOT_NODE_TENSORS_H_
#define AOT_NODE_TENSORS_H_

#include <memory>
#include <vector>

#include "aot/aot.hpp"
#include "napi.h"

namespace aot_node {

// One input: {data, dtype, shape}, where `data` is a typed array.
struct Input {
  aot::Tensor tensor;
  std::unique_ptr<char[]> copy;  // what the tensor borrows, where it is not the array's own memory
  size_t bytes;
};

// The inputs of one run. With `copied` they may be changed, moved or freed as soon as this returns,
// as a run on another thread wants it; else they are read in place.
std::vector<Input> inputs_of(const Napi::Array& list, bool copied);

// An output as {data, dtype, shape}. Takes its memory over, without a copy where that pays.
Napi::Object output_of(Napi::Env env, aot::Tensor tensor, const char* dtype);

// The type of elements by its name; throws for one that there is not.
DLDataType dtype_of(Napi::Env env, const std::string& name);

// Bytes as the typed array that elements of the type come in.
Napi::Value typed(Napi::Env env, DLDataType dtype, Napi::ArrayBuffer buffer);

// Bytes of one element.
inline size_t size_of(DLDataType dtype) { return (size_t{dtype.bits} + 7) / 8; }

}  // namespace aot_node

#endif  // AOT_NODE_TENSORS_H_
