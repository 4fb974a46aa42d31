#include "cuda/device_memory.h"

#include <utility>

#include "error.h"

namespace aot_rt::cuda {
namespace {

constexpr size_t kAlignment = 256;  // what cuMemAlloc promises, and kernels of descriptors need

}  // namespace

DeviceMemory::DeviceMemory(DevicePtr device, const aot_allocator* callers)
    : device_(std::move(device)) {
  if (callers != nullptr) callers_ = checked_allocator(callers);
}

Block DeviceMemory::allocate(size_t size, const char* purpose) const {
  if (!callers_) return aot_rt::cuda::allocate_block(*device_, size, purpose);
  return Block(as_allocator(), size, purpose);
}

aot_allocator DeviceMemory::as_allocator() const {
  if (!callers_) return device_allocator(*device_);
  return aot_allocator{sizeof(aot_allocator), const_cast<DeviceMemory*>(this), allocate_block,
                       release_block};
}

void* DeviceMemory::allocate_block(void* context, size_t size, size_t /*alignment*/) {
  const auto& self = *static_cast<const DeviceMemory*>(context);
  const aot_allocator& callers = *self.callers_;
  const Visit visit(*self.device_);
  void* const data = callers.allocate(callers.context, size, kAlignment);
  if (data == nullptr || reinterpret_cast<uintptr_t>(data) % kAlignment == 0) return data;
  callers.release(callers.context, data, size, kAlignment);
  fail(AOT_INVALID_ARGUMENT, "device_allocator: a block is not aligned to ", kAlignment, " bytes");
}

// Nobody else may have the memory before all work that the GPU has been given is done; cuMemFree
// waits for that too. A lost GPU's work is over.
void DeviceMemory::release_block(void* context, void* data, size_t size, size_t /*alignment*/) {
  const auto& self = *static_cast<const DeviceMemory*>(context);
  const aot_allocator& callers = *self.callers_;
  const Driver& driver = self.device_->driver();
  const bool current =
      !self.device_->is_lost() && driver.ctx_push_current.raw(self.device_->context()) == kSuccess;
  if (current) driver.ctx_synchronize.raw();
  callers.release(callers.context, data, size, kAlignment);
  CUcontext popped = nullptr;
  if (current) driver.ctx_pop_current.raw(&popped);
}

}  // namespace aot_rt::cuda
