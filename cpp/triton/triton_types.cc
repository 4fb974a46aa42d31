#include "triton_types.h"

namespace triton_aot {
namespace {

struct Row {
  TRITONSERVER_DataType triton;
  const char* config;
  DLDataType dtype;
};

constexpr Row kTypes[] = {{TRITONSERVER_TYPE_BOOL, "TYPE_BOOL", {kDLBool, 8, 1}},
                          {TRITONSERVER_TYPE_UINT8, "TYPE_UINT8", {kDLUInt, 8, 1}},
                          {TRITONSERVER_TYPE_UINT16, "TYPE_UINT16", {kDLUInt, 16, 1}},
                          {TRITONSERVER_TYPE_UINT32, "TYPE_UINT32", {kDLUInt, 32, 1}},
                          {TRITONSERVER_TYPE_UINT64, "TYPE_UINT64", {kDLUInt, 64, 1}},
                          {TRITONSERVER_TYPE_INT8, "TYPE_INT8", {kDLInt, 8, 1}},
                          {TRITONSERVER_TYPE_INT16, "TYPE_INT16", {kDLInt, 16, 1}},
                          {TRITONSERVER_TYPE_INT32, "TYPE_INT32", {kDLInt, 32, 1}},
                          {TRITONSERVER_TYPE_INT64, "TYPE_INT64", {kDLInt, 64, 1}},
                          {TRITONSERVER_TYPE_FP16, "TYPE_FP16", {kDLFloat, 16, 1}},
                          {TRITONSERVER_TYPE_FP32, "TYPE_FP32", {kDLFloat, 32, 1}},
                          {TRITONSERVER_TYPE_FP64, "TYPE_FP64", {kDLFloat, 64, 1}},
                          {TRITONSERVER_TYPE_BF16, "TYPE_BF16", {kDLBfloat, 16, 1}}};

TRITONSERVER_Error_Code code_of(aot_code code) {
  switch (code) {
    case AOT_INVALID_ARGUMENT:
    case AOT_SHAPE_MISMATCH:
      return TRITONSERVER_ERROR_INVALID_ARG;
    case AOT_NOT_FOUND:
      return TRITONSERVER_ERROR_NOT_FOUND;
    case AOT_UNAVAILABLE:
    case AOT_OUT_OF_MEMORY:
    case AOT_LIMIT_EXCEEDED:
      return TRITONSERVER_ERROR_UNAVAILABLE;
    case AOT_UNSUPPORTED:
    case AOT_INCOMPATIBLE:
      return TRITONSERVER_ERROR_UNSUPPORTED;
    default:
      return TRITONSERVER_ERROR_INTERNAL;
  }
}

}  // namespace

void check(TRITONSERVER_Error* error) {
  if (error == nullptr) return;
  Failure failure(TRITONSERVER_ErrorCode(error), TRITONSERVER_ErrorMessage(error));
  TRITONSERVER_ErrorDelete(error);
  throw failure;
}

void log(TRITONSERVER_Error* error) {
  if (error == nullptr) return;
  TRITONSERVER_Error* failed = TRITONSERVER_LogMessage(TRITONSERVER_LOG_ERROR, __FILE__, __LINE__,
                                                       TRITONSERVER_ErrorMessage(error));
  if (failed != nullptr) TRITONSERVER_ErrorDelete(failed);
  TRITONSERVER_ErrorDelete(error);
}

TRITONSERVER_Error* report(const std::exception& error) {
  TRITONSERVER_Error_Code code = TRITONSERVER_ERROR_INTERNAL;
  if (const auto* own = dynamic_cast<const Failure*>(&error)) code = own->code();
  if (const auto* aot = dynamic_cast<const aot::Error*>(&error)) code = code_of(aot->code());
  return TRITONSERVER_ErrorNew(code, error.what());
}

DLDataType dtype_of(TRITONSERVER_DataType datatype) {
  for (const Row& row : kTypes) {
    if (row.triton == datatype) return row.dtype;
  }
  throw Failure(TRITONSERVER_ERROR_UNSUPPORTED, "packages have no tensors of strings");
}

TRITONSERVER_DataType datatype_of(DLDataType dtype, const char** config) {
  for (const Row& row : kTypes) {
    if (row.dtype.code != dtype.code || row.dtype.bits != dtype.bits) continue;
    if (config != nullptr) *config = row.config;
    return row.triton;
  }
  throw Failure(TRITONSERVER_ERROR_UNSUPPORTED,
                "the model has a tensor of a type that Triton does not have, such as complex64");
}

}  // namespace triton_aot
