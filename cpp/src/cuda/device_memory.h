// Where a session's memory on a GPU comes from: the driver, or the caller's allocator.
#ifndef AOT_SRC_CUDA_DEVICE_MEMORY_H_
#define AOT_SRC_CUDA_DEVICE_MEMORY_H_

#include <cstddef>
#include <memory>
#include <optional>

#include "aot/abi.h"
#include "cuda/device.h"
#include "memory.h"

namespace aot_rt::cuda {

// Immutable. Must outlive its blocks. Any thread.
class DeviceMemory {
 public:
  // `callers`: aot_session_options.device_allocator; nullptr: the driver. Throws INVALID_ARGUMENT.
  DeviceMemory(DevicePtr device, const aot_allocator* callers);
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // A block aligned to 256 bytes. Throws OUT_OF_MEMORY, which names `purpose`, the size and what is
  // free, or INVALID_ARGUMENT for an allocator that does not align.
  Block allocate(size_t size, const char* purpose) const;

  // The same as an allocator, whose context this is.
  aot_allocator as_allocator() const;

 private:
  static void* allocate_block(void* context, size_t size, size_t alignment);
  static void release_block(void* context, void* data, size_t size, size_t alignment);

  DevicePtr device_;
  std::optional<aot_allocator> callers_;
};

}  // namespace aot_rt::cuda

#endif  // AOT_SRC_CUDA_DEVICE_MEMORY_H_
