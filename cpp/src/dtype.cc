#include "dtype.h"

#include "error.h"

namespace aot_rt {
namespace {

constexpr DType kTypes[] = {
    {"float64", "F64", 8, kDLFloat},
    {"float32", "F32", 4, kDLFloat},
    {"float16", "F16", 2, kDLFloat},
    {"bfloat16", "BF16", 2, kDLBfloat},
    {"int64", "I64", 8, kDLInt},
    {"int32", "I32", 4, kDLInt},
    {"int16", "I16", 2, kDLInt},
    {"int8", "I8", 1, kDLInt},
    {"uint64", "U64", 8, kDLUInt},
    {"uint32", "U32", 4, kDLUInt},
    {"uint16", "U16", 2, kDLUInt},
    {"uint8", "U8", 1, kDLUInt},
    {"bool", "BOOL", 1, kDLBool},
    {"complex32", "C32", 4, kDLComplex},
    {"complex64", "C64", 8, kDLComplex},
    {"complex128", "C128", 16, kDLComplex},
    {"float8_e4m3fn", "F8_E4M3", 1, kDLFloat8_e4m3fn},
    {"float8_e4m3fnuz", "F8_E4M3FNUZ", 1, kDLFloat8_e4m3fnuz},
    {"float8_e5m2", "F8_E5M2", 1, kDLFloat8_e5m2},
    {"float8_e5m2fnuz", "F8_E5M2FNUZ", 1, kDLFloat8_e5m2fnuz},
    {"float8_e8m0fnu", "F8_E8M0", 1, kDLFloat8_e8m0fnu},
};

}  // namespace

const DType* find_dtype(std::string_view name) {
  for (const DType& row : kTypes) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

const DType* find_dtype(DLDataType dtype) {
  for (const DType& row : kTypes) {
    if (dtype.code == row.code && dtype.bits == row.size * 8 && dtype.lanes == 1) return &row;
  }
  return nullptr;
}

const DType& stored_dtype(const DType& dtype) {
  if (dtype.code != kDLComplex) return dtype;
  return *find_dtype(DLDataType{kDLFloat, static_cast<uint8_t>(dtype.size * 4), 1});
}

const DType* find_safetensors_dtype(std::string_view name) {
  for (const DType& row : kTypes) {
    if (name == row.safetensors) return &row;
  }
  return nullptr;
}

int32_t safetensors_size(std::string_view name) {
  const DType* row = find_safetensors_dtype(name);
  return row == nullptr ? 0 : row->size;
}

std::string dlpack_name(DLDataType dtype) {
  const DType* row = find_dtype(dtype);
  if (row != nullptr) return row->name;
  const char* family = nullptr;
  switch (dtype.code) {
    case kDLInt:
      family = "int";
      break;
    case kDLUInt:
      family = "uint";
      break;
    case kDLFloat:
      family = "float";
      break;
    case kDLBfloat:
      family = "bfloat";
      break;
    case kDLComplex:
      family = "complex";
      break;
    case kDLBool:
      family = "bool";
      break;
    case kDLFloat8_e4m3fn:
    case kDLFloat8_e4m3fnuz:
    case kDLFloat8_e5m2:
    case kDLFloat8_e5m2fnuz:
    case kDLFloat8_e8m0fnu:
      family = find_dtype(DLDataType{dtype.code, 8, 1})->name;
      break;
    default:
      break;
  }
  const int bits = dtype.bits;
  std::string text =
      family != nullptr ? cat(family, bits) : cat("code ", int{dtype.code}, " of ", bits, " bits");
  if (dtype.lanes != 1) text += cat('x', dtype.lanes);
  return text;
}

}  // namespace aot_rt
