#include "datatype.h"

namespace serve {
namespace {

constexpr Datatype kDatatypes[] = {
    {"BOOL", {kDLBool, 8, 1}, true},    {"UINT8", {kDLUInt, 8, 1}, true},
    {"UINT16", {kDLUInt, 16, 1}, true}, {"UINT32", {kDLUInt, 32, 1}, true},
    {"UINT64", {kDLUInt, 64, 1}, true}, {"INT8", {kDLInt, 8, 1}, true},
    {"INT16", {kDLInt, 16, 1}, true},   {"INT32", {kDLInt, 32, 1}, true},
    {"INT64", {kDLInt, 64, 1}, true},   {"FP16", {kDLFloat, 16, 1}, false},
    {"FP32", {kDLFloat, 32, 1}, true},  {"FP64", {kDLFloat, 64, 1}, true},
    {"BF16", {kDLBfloat, 16, 1}, false}};

}  // namespace

const Datatype* find_datatype(std::string_view name) {
  for (const Datatype& type : kDatatypes) {
    if (name == type.name) return &type;
  }
  return nullptr;
}

const Datatype* find_datatype(DLDataType dtype) {
  for (const Datatype& type : kDatatypes) {
    if (type.dtype.code == dtype.code && type.dtype.bits == dtype.bits) return &type;
  }
  return nullptr;
}

}  // namespace serve
