// Element types: the plan's names, safetensors' names, DLPack's codes. One table for all three.
#ifndef AOT_SRC_DTYPE_H_
#define AOT_SRC_DTYPE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "aot/dlpack.h"

namespace aot_rt {

struct DType {
  const char* name;         // "float32"
  const char* safetensors;  // "F32"
  int32_t size;             // bytes
  uint8_t code;             // DLDataTypeCode
};

// The row of a plan's dtype, or nullptr. Rows are static: equal types are equal pointers.
const DType* find_dtype(std::string_view name);

// The row of a DLPack type, or nullptr.
const DType* find_dtype(DLDataType dtype);

// The type of the buffers that hold tensors of a type: of complex ones that of their parts, which
// lie in pairs; of others itself.
const DType& stored_dtype(const DType& dtype);

// The row of a safetensors dtype, or nullptr.
const DType* find_safetensors_dtype(std::string_view name);

// Bytes per element of a safetensors dtype, or 0 when it is not one.
int32_t safetensors_size(std::string_view name);

inline DLDataType to_dlpack(const DType& dtype) {
  return DLDataType{dtype.code, static_cast<uint8_t>(dtype.size * 8), 1};
}

// "float32", "int4x2", "code 5 of 64 bits": for messages.
std::string dlpack_name(DLDataType dtype);

}  // namespace aot_rt

#endif  // AOT_SRC_DTYPE_H_
