#include "cuda/device.h"

#include "error.h"

namespace aot_rt::cuda {
namespace {

constexpr unsigned kPinnedFlags = kHostAllocPortable | kHostAllocDeviceMap;

// What a failed allocation says; other failures are the driver's to describe.
[[noreturn]] void fail_allocation(const Device& device, CUresult result, const char* call,
                                  size_t size, const char* purpose) {
  const Driver& driver = device.driver();
  if (result != kOutOfMemory) {
    driver.fail(result, call, cat("allocating ", size, " bytes of ", purpose));
  }
  size_t unused = 0;
  size_t total = 0;
  const bool known = driver.mem_get_info.raw(&unused, &total) == kSuccess;
  fail(AOT_OUT_OF_MEMORY, "no memory on ", device.short_name(), " for ", size, " bytes of ",
       purpose, known ? cat(": ", unused, " of ", total, " bytes are free") : std::string());
}

const Device& device_of(void* context) { return *static_cast<const Device*>(context); }

void* allocate_device(void* context, size_t size, size_t /*alignment*/) {
  const Device& device = device_of(context);
  const Scope scope(device);
  CUdeviceptr address = 0;
  if (device.driver().mem_alloc.raw(&address, size) != kSuccess) return nullptr;
  return reinterpret_cast<void*>(address);
}

// Blocks come back when their last user is gone, maybe in a thread that has never seen the GPU,
// maybe while the process ends: a failure has nobody to be told to.
void release_device(void* context, void* data, size_t /*size*/, size_t /*alignment*/) {
  const Device& device = device_of(context);
  const Driver& driver = device.driver();
  if (device.is_lost() || driver.ctx_push_current.raw(device.context()) != kSuccess) return;
  driver.mem_free.raw(reinterpret_cast<CUdeviceptr>(data));
  CUcontext popped = nullptr;
  driver.ctx_pop_current.raw(&popped);
}

void* allocate_pinned(void* context, size_t size, size_t /*alignment*/) {
  const Device& device = device_of(context);
  const Scope scope(device);
  void* data = nullptr;
  if (device.driver().mem_host_alloc.raw(&data, size, kPinnedFlags) != kSuccess) return nullptr;
  return data;
}

void release_pinned(void* context, void* data, size_t /*size*/, size_t /*alignment*/) {
  const Device& device = device_of(context);
  const Driver& driver = device.driver();
  if (device.is_lost() || driver.ctx_push_current.raw(device.context()) != kSuccess) return;
  driver.mem_free_host.raw(data);
  CUcontext popped = nullptr;
  driver.ctx_pop_current.raw(&popped);
}

}  // namespace

DevicePtr Device::open(int32_t ordinal) {
  const Driver& driver = Driver::get();
  int count = 0;
  driver.device_get_count(&count);
  if (ordinal < 0 || ordinal >= count) {
    fail(AOT_UNAVAILABLE, "no device cuda:", ordinal, ": this process sees ", count, " GPU",
         count == 1 ? "" : "s", count > 0 ? cat(", cuda:0 to cuda:", count - 1) : std::string());
  }
  std::shared_ptr<Device> device(new Device(driver, ordinal));
  driver.device_get(&device->handle_, ordinal);
  char name[256] = {};
  driver.device_get_name(name, sizeof(name) - 1, device->handle_);
  device->name_ = name;
  device->major_ = device->attribute(kComputeCapabilityMajor);
  device->minor_ = device->attribute(kComputeCapabilityMinor);
  device->max_shared_ = device->attribute(kMaxSharedPerBlockOptin);
  driver.primary_retain(&device->context_, device->handle_);
  return device;
}

Device::~Device() {
  if (context_ != nullptr && !is_lost()) driver_.primary_release.raw(handle_);
}

int32_t Device::attribute(int which) const {
  int value = 0;
  driver_.device_get_attribute(&value, which, handle_);
  return value;
}

std::string Device::short_name() const { return cat("cuda:", ordinal_); }

std::string Device::description() const {
  return cat("cuda:", ordinal_, " (", name_, ", compute capability ", major_, ".", minor_, ")");
}

Block allocate_block(const Device& device, size_t size, const char* purpose) {
  const Scope scope(device);
  const size_t bytes = size == 0 ? 1 : size;
  CUdeviceptr address = 0;
  const CUresult result = device.driver().mem_alloc.raw(&address, bytes);
  if (result != kSuccess) fail_allocation(device, result, "cuMemAlloc", bytes, purpose);
  return Block::adopt(device_allocator(device), reinterpret_cast<uint8_t*>(address), bytes);
}

DeviceBlock::DeviceBlock(DevicePtr device, size_t size, const char* purpose)
    : device_(std::move(device)), size_(size == 0 ? 1 : size) {
  const Scope scope(*device_);
  CUdeviceptr address = 0;
  const CUresult result = device_->driver().mem_alloc.raw(&address, size_);
  if (result != kSuccess) fail_allocation(*device_, result, "cuMemAlloc", size_, purpose);
  data_ = reinterpret_cast<uint8_t*>(address);
}

DeviceBlock::~DeviceBlock() { release_device(const_cast<Device*>(device_.get()), data_, size_, 0); }

PinnedBlock::PinnedBlock(DevicePtr device, size_t size, const char* purpose)
    : device_(std::move(device)), size_(size == 0 ? 1 : size) {
  const Scope scope(*device_);
  void* data = nullptr;
  const CUresult result = device_->driver().mem_host_alloc.raw(&data, size_, kPinnedFlags);
  if (result != kSuccess) fail_allocation(*device_, result, "cuMemHostAlloc", size_, purpose);
  data_ = static_cast<uint8_t*>(data);
}

PinnedBlock::~PinnedBlock() {
  if (data_ != nullptr) release_pinned(const_cast<Device*>(device_.get()), data_, size_, 0);
}

uint8_t* PinnedBlock::device_data() const {
  const Scope scope(*device_);
  CUdeviceptr address = 0;
  device_->driver().mem_host_get_device_pointer(&address, data_, 0);
  return reinterpret_cast<uint8_t*>(address);
}

Event::Event(DevicePtr device, unsigned flags) : device_(std::move(device)) {
  const Scope scope(*device_);
  device_->driver().event_create(&event_, flags);
}

Event::~Event() {
  if (!device_->is_lost()) device_->driver().event_destroy.raw(event_);
}

// Not kStreamNonBlocking: the stream then keeps its order with the default stream, where a library
// that got an output through DLPack works on it, also after it has dropped the output.
Stream::Stream(DevicePtr device) : device_(std::move(device)) {
  const Scope scope(*device_);
  device_->driver().stream_create(&stream_, kStreamDefault);
}

Stream::~Stream() {
  if (!device_->is_lost()) device_->driver().stream_destroy.raw(stream_);
}

aot_allocator device_allocator(const Device& device) {
  return aot_allocator{sizeof(aot_allocator), const_cast<Device*>(&device), allocate_device,
                       release_device};
}

aot_allocator pinned_allocator(const Device& device) {
  return aot_allocator{sizeof(aot_allocator), const_cast<Device*>(&device), allocate_pinned,
                       release_pinned};
}

}  // namespace aot_rt::cuda
