// Inputs as kernels read them: where they are, or copied into device memory.
#ifndef AOT_SRC_CUDA_INPUT_COPIES_H_
#define AOT_SRC_CUDA_INPUT_COPIES_H_

#include <vector>

#include "bound_sizes.h"
#include "cuda/device.h"
#include "cuda/device_memory.h"
#include "memory.h"
#include "plan.h"

namespace aot_rt::cuda {

// Belongs to one session: keeps the memory of its copies from run to run.
class InputCopies {
 public:
  // `memory`: of the device, kept by the session.
  InputCopies(DevicePtr device, const DeviceMemory& memory, const Plan& plan);

  // The address at which kernels read an input: its own if it is on the device, aligned, and in the
  // plan's strides; else that of a copy, enqueued in `stream`. Throws INVALID_ARGUMENT for an input
  // on the device in other strides, and OUT_OF_MEMORY.
  void* place(size_t index, const DLTensor& tensor, const BoundTensor& bound, CUstream stream);

  // Whether that takes a copy.
  static bool needs_copy(const DLTensor& tensor, const BoundTensor& bound);

  // Waits until copies have read the host's memory, which is the caller's again after a run.
  void finish_reading(CUstream stream);
  // The same, when the stream is known to be done.
  void all_read() { reading_ = false; }

 private:
  void* from_host(size_t index, const DLTensor& tensor, const BoundTensor& bound, CUstream stream);
  CUdeviceptr room(size_t index, const BoundTensor& bound);

  DevicePtr device_;
  const DeviceMemory& memory_;
  const Plan& plan_;
  std::vector<Block> copies_;  // by input, on the device
  // By input: on the host, in the plan's strides. Pageable, which the driver reads before a copy's
  // call returns.
  std::vector<Block> ordered_;
  Event read_;
  bool reading_ = false;  // the GPU may still be reading host memory
};

}  // namespace aot_rt::cuda

#endif  // AOT_SRC_CUDA_INPUT_COPIES_H_
