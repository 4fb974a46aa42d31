// A program on one GPU, shared by all sessions there: weights in device memory, loaded kernels.
#ifndef AOT_SRC_CUDA_DEVICE_PROGRAM_H_
#define AOT_SRC_CUDA_DEVICE_PROGRAM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/device.h"
#include "package.h"
#include "plan.h"

namespace aot_rt::cuda {

// The program to run on a GPU: of the same major version, of the greatest minor version that is not
// above the GPU's. Throws UNAVAILABLE, which says what the package has and what the GPU is.
const Program& choose_program(const Plan& plan, const Device& device);

class DeviceProgram {
 public:
  // Uploads the weights that the program uses. `program` must outlive this. Throws OUT_OF_MEMORY or
  // DEVICE_ERROR.
  DeviceProgram(DevicePtr device, const Program& program, const Log& log);
  ~DeviceProgram();
  DeviceProgram(const DeviceProgram&) = delete;
  DeviceProgram& operator=(const DeviceProgram&) = delete;

  const DevicePtr& device() const { return device_; }
  const Program& program() const { return program_; }

  // Where a buffer in an entry lies in device memory.
  uint8_t* weight(const Buffer& buffer) const;

  // A kernel of the program, loaded on first use. Any thread. Throws CORRUPT_PACKAGE, UNAVAILABLE
  // or DEVICE_ERROR, which name the kernel.
  CUfunction kernel(int32_t id);

 private:
  struct Loaded {
    CUmodule module = nullptr;
    CUfunction function = nullptr;
  };

  void upload_weights(const Log& log);
  Loaded load(const Kernel& kernel) const;

  DevicePtr device_;
  const Program& program_;
  DeviceBlock weights_;
  std::map<const Entry*, size_t> offsets_;  // into `weights_`
  std::mutex mutex_;
  std::vector<Loaded> kernels_;  // by position in the program
};

}  // namespace aot_rt::cuda

#endif  // AOT_SRC_CUDA_DEVICE_PROGRAM_H_
