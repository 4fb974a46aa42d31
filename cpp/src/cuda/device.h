// One GPU as this process uses it: its primary context, its memory, its streams and events.
#ifndef AOT_SRC_CUDA_DEVICE_H_
#define AOT_SRC_CUDA_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "aot/abi.h"
#include "cuda/driver.h"
#include "memory.h"
#include "process.h"

namespace aot_rt::cuda {

// Holds the primary context, which torch and other libraries of the process share. Immutable.
class Device {
 public:
  // The GPU of that number, as CUDA counts them. Throws UNAVAILABLE or DEVICE_ERROR.
  static std::shared_ptr<const Device> open(int32_t ordinal);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Driver& driver() const { return driver_; }
  int32_t ordinal() const { return ordinal_; }
  CUcontext context() const { return context_; }
  int32_t major() const { return major_; }
  int32_t minor() const { return minor_; }
  int32_t max_shared() const { return max_shared_; }  // bytes of shared memory of one block

  // "cuda:0 (NVIDIA H200, compute capability 9.0)"
  std::string description() const;

  // "cuda:0"
  std::string short_name() const;

  // Whether this is a child of the process that opened it: the driver must not be called for it.
  bool is_lost() const { return forks_ != forks(); }

 private:
  Device(const Driver& driver, int32_t ordinal) : driver_(driver), ordinal_(ordinal) {}
  int32_t attribute(int which) const;

  const Driver& driver_;
  int32_t ordinal_;
  CUdevice handle_ = 0;
  CUcontext context_ = nullptr;
  std::string name_;
  int32_t major_ = 0;
  int32_t minor_ = 0;
  int32_t max_shared_ = 0;
  uint32_t forks_ = forks();
};

using DevicePtr = std::shared_ptr<const Device>;

// Makes a device's context current in this thread while it lives.
class Scope {
 public:
  explicit Scope(const Device& device) : driver_(device.driver()) {
    CUcontext current = nullptr;
    driver_.ctx_get_current.raw(&current);
    if (current == device.context()) return;
    driver_.ctx_push_current(device.context());
    pushed_ = true;
  }
  ~Scope() {
    CUcontext popped = nullptr;
    if (pushed_) driver_.ctx_pop_current.raw(&popped);
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  const Driver& driver_;
  bool pushed_ = false;
};

// Makes a device's context current in this thread for code that is not ours, and after it what was
// current before: such code may leave another one behind.
class Visit {
 public:
  explicit Visit(const Device& device) : driver_(device.driver()) {
    driver_.ctx_push_current(device.context());
  }
  ~Visit() {
    CUcontext popped = nullptr;
    driver_.ctx_pop_current.raw(&popped);
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

 private:
  const Driver& driver_;
};

// Owner of device memory, aligned to 256 bytes.
class DeviceBlock {
 public:
  // Throws OUT_OF_MEMORY, which names `purpose`, the size and what is free.
  DeviceBlock(DevicePtr device, size_t size, const char* purpose);
  // Frees it, once all work that the GPU has been given is done.
  ~DeviceBlock();
  DeviceBlock(const DeviceBlock&) = delete;
  DeviceBlock& operator=(const DeviceBlock&) = delete;

  uint8_t* data() const { return data_; }  // an address of the GPU
  CUdeviceptr address() const { return reinterpret_cast<CUdeviceptr>(data_); }

 private:
  DevicePtr device_;
  uint8_t* data_ = nullptr;
  size_t size_;
};

// Move-only owner of page-locked host memory, which the GPU reaches too.
class PinnedBlock {
 public:
  PinnedBlock() = default;
  PinnedBlock(DevicePtr device, size_t size, const char* purpose);  // throws OUT_OF_MEMORY
  ~PinnedBlock();
  PinnedBlock(PinnedBlock&& other) noexcept { swap(other); }
  PinnedBlock& operator=(PinnedBlock&& other) noexcept {
    swap(other);
    return *this;
  }
  PinnedBlock(const PinnedBlock&) = delete;
  PinnedBlock& operator=(const PinnedBlock&) = delete;

  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  uint8_t* device_data() const;  // the same memory as kernels address it

 private:
  void swap(PinnedBlock& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  DevicePtr device_;
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

// Owner of an event.
class Event {
 public:
  explicit Event(DevicePtr device, unsigned flags = kEventDisableTiming);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  CUevent get() const { return event_; }

 private:
  DevicePtr device_;
  CUevent event_ = nullptr;
};

// Owner of a stream.
class Stream {
 public:
  explicit Stream(DevicePtr device);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  CUstream get() const { return stream_; }

 private:
  DevicePtr device_;
  CUstream stream_ = nullptr;
};

// Memory of the device. Throws OUT_OF_MEMORY, which names `purpose`, the size and what is free; the
// device must outlive it.
Block allocate_block(const Device& device, size_t size, const char* purpose);

// Memory for outputs, as the interface of other allocators: device memory, or page-locked memory of
// the host. The context of each is the Device, which must outlive its blocks.
aot_allocator device_allocator(const Device& device);
aot_allocator pinned_allocator(const Device& device);

}  // namespace aot_rt::cuda

#endif  // AOT_SRC_CUDA_DEVICE_H_
