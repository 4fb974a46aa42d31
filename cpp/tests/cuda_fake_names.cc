// The fake CUDA driver's errors, by name.
#include <map>

#include "cuda_fake_state.h"

namespace {

using namespace fake_cuda;  // NOLINT: this is part of the driver that it is the state of

const std::map<CUresult, const char*>& names() {
  static const std::map<CUresult, const char*> all = {
      {kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
      {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
      {kNoDevice, "CUDA_ERROR_NO_DEVICE"},
      {kNoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
      {kNotFound, "CUDA_ERROR_NOT_FOUND"},
      {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED"},
      {kNotSupported, "CUDA_ERROR_NOT_SUPPORTED"},
  };
  return all;
}

}  // namespace

API CUresult cuGetErrorName(CUresult error, const char** name) {
  const auto found = names().find(error);
  *name = found != names().end() ? found->second : nullptr;
  return found != names().end() ? kSuccess : kInvalidValue;
}

API CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = error == kIllegalAddress ? "an illegal memory access was encountered" : "";
  return kSuccess;
}
