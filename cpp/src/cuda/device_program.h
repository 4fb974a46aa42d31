// A program on one GPU, shared by all sessions there: loaded kernels, and weights in device memory.
#ifndef AOT_SRC_CUDA_DEVICE_PROGRAM_H_
#define AOT_SRC_CUDA_DEVICE_PROGRAM_H_

#include <cstdint>
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
  // `program` must outlive this.
  DeviceProgram(DevicePtr device, const Program& program);
  ~DeviceProgram();
  DeviceProgram(const DeviceProgram&) = delete;
  DeviceProgram& operator=(const DeviceProgram&) = delete;

  const DevicePtr& device() const { return device_; }
  const Program& program() const { return program_; }

  // The entries that the program reads, in device memory. Throws OUT_OF_MEMORY or DEVICE_ERROR.
  Placement upload_weights(const Container& container, const Log& log) const;

  // A kernel of the program, loaded on first use. Any thread. Throws CORRUPT_PACKAGE, UNAVAILABLE
  // or DEVICE_ERROR, which name the kernel.
  CUfunction kernel(int32_t id);

 private:
  // How many parameters a kernel is launched with, by kernel; 0: it never is.
  std::vector<size_t> count_parameters() const;
  void check_parameters(const Kernel& kernel, size_t count, CUfunction function) const;

  struct Loaded {
    CUmodule module = nullptr;
    CUfunction function = nullptr;
  };

  Loaded load(const Kernel& kernel, size_t parameters) const;

  DevicePtr device_;
  const Program& program_;
  const std::vector<size_t> parameters_;
  std::mutex mutex_;
  std::vector<Loaded> kernels_;  // by position in the program
};

}  // namespace aot_rt::cuda

#endif  // AOT_SRC_CUDA_DEVICE_PROGRAM_H_
