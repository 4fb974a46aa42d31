// Triton's errors and element types, and ours.
#ifndef AOT_TRITON_TRITON_TYPES_H_
#define AOT_TRITON_TRITON_TYPES_H_

#include <exception>
#include <string>

#include "aot/aot.hpp"
#include "triton/core/tritonbackend.h"

namespace triton_aot {

// Throws what a function of the server reports.
void check(TRITONSERVER_Error* error);

// A failure as the server takes it over. Of `Failure` and `aot::Error` with their codes.
TRITONSERVER_Error* report(const std::exception& error);

// Writes to the server's log what cannot be answered any more.
void log(TRITONSERVER_Error* error);

// A failure with Triton's code.
class Failure : public std::exception {
 public:
  Failure(TRITONSERVER_Error_Code code, std::string message)
      : code_(code), message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }
  TRITONSERVER_Error_Code code() const { return code_; }

 private:
  TRITONSERVER_Error_Code code_;
  std::string message_;
};

// The element type of a tensor of Triton's; throws for BYTES and what is unknown.
DLDataType dtype_of(TRITONSERVER_DataType datatype);
// Triton's name for an element type: TYPE_FP32 with `config`, as in a model's configuration.
TRITONSERVER_DataType datatype_of(DLDataType dtype, const char** config = nullptr);

inline size_t size_of(DLDataType dtype) { return dtype.bits / 8U; }

}  // namespace triton_aot

#endif  // AOT_TRITON_TRITON_TYPES_H_
