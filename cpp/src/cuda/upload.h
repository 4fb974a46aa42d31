// Moves much host memory to a GPU at close to the speed of the link between them.
#ifndef AOT_SRC_CUDA_UPLOAD_H_
#define AOT_SRC_CUDA_UPLOAD_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/device.h"

namespace aot_rt::cuda {

struct Transfer {
  const uint8_t* from;
  CUdeviceptr to;
  size_t bytes;
};

// Does all transfers and returns when they are done. Large ones go through two page-locked buffers:
// one is filled by several threads while the other is on its way. Throws OUT_OF_MEMORY or
// DEVICE_ERROR.
void upload(const DevicePtr& device, const std::vector<Transfer>& transfers);

}  // namespace aot_rt::cuda

#endif  // AOT_SRC_CUDA_UPLOAD_H_
