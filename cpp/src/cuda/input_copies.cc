#include "cuda/input_copies.h"

#include <cstring>
#include <string>
#include <utility>

#include "contract.h"
#include "error.h"
#include "strided_copy.h"

namespace aot_rt::cuda {
namespace {

constexpr uintptr_t kAlignment = 16;  // what kernels rely on
constexpr size_t kSmall = 1024;       // bytes that are copied at once rather than waited for

std::string list(const std::vector<int64_t>& values) {
  std::string text = "[";
  for (const int64_t value : values) text += cat(text.size() == 1 ? "" : ", ", value);
  return text + "]";
}

}  // namespace

InputCopies::InputCopies(DevicePtr device, const DeviceMemory& memory, const Plan& plan)
    : device_(std::move(device)),
      memory_(memory),
      plan_(plan),
      copies_(plan.inputs.size()),
      ordered_(plan.inputs.size()),
      read_(device_) {}

bool InputCopies::needs_copy(const DLTensor& tensor, const BoundTensor& bound) {
  if (bound.span == 0 || tensor.data == nullptr) return false;
  const uintptr_t address = reinterpret_cast<uintptr_t>(tensor.data) + tensor.byte_offset;
  return on_host(tensor) || address % kAlignment != 0;
}

void* InputCopies::place(size_t index, const DLTensor& tensor, const BoundTensor& bound,
                         CUstream stream) {
  if (bound.span == 0) return nullptr;
  if (tensor.data == nullptr) {
    fail(AOT_INVALID_ARGUMENT, input_name(plan_, index), " has no data");
  }
  if (on_host(tensor)) return from_host(index, tensor, bound, stream);
  if (!strides_match(tensor, bound)) {
    fail(AOT_INVALID_ARGUMENT, input_name(plan_, index), " is on the GPU with strides ",
         list(strides_of(tensor)), ", the kernels read strides ", list(bound.strides),
         bound.contiguous ? ": give a contiguous copy, such as x.contiguous()"
                          : ": give a copy in that memory format");
  }
  const uintptr_t address = reinterpret_cast<uintptr_t>(tensor.data) + tensor.byte_offset;
  if (address % kAlignment == 0) return reinterpret_cast<void*>(address);
  const CUdeviceptr copy = room(index, bound);
  device_->driver().memcpy_dtod_async(copy, address, static_cast<size_t>(bound.span), stream);
  return reinterpret_cast<void*>(copy);
}

void* InputCopies::from_host(size_t index, const DLTensor& tensor, const BoundTensor& bound,
                             CUstream stream) {
  const auto span = static_cast<size_t>(bound.span);
  const auto* from = static_cast<const uint8_t*>(tensor.data) + tensor.byte_offset;
  const bool in_order = strides_match(tensor, bound);
  if (!in_order || span <= kSmall) {
    Block& ordered = ordered_[index];
    if (ordered.size() < span) ordered = Block(default_allocator(), span, "a copy of an input");
    if (in_order) {
      std::memcpy(ordered.data(), from, span);
    } else {
      strided_copy(ordered.data(), bound.strides, from, strides_of(tensor), bound.sizes,
                   plan_.inputs[index].dtype->size);
    }
    from = ordered.data();
  } else {
    reading_ = true;  // page-locked memory of the caller is read later; no other is
  }
  const CUdeviceptr copy = room(index, bound);
  device_->driver().memcpy_htod_async(copy, from, span, stream);
  return reinterpret_cast<void*>(copy);
}

CUdeviceptr InputCopies::room(size_t index, const BoundTensor& bound) {
  Block& copy = copies_[index];
  const auto span = static_cast<size_t>(bound.span);
  if (copy.size() < span) {
    copy = {};  // first, so that old and new are not held together
    copy = memory_.allocate(span, "a copy of an input");
  }
  return reinterpret_cast<CUdeviceptr>(copy.data());
}

void InputCopies::finish_reading(CUstream stream) {
  if (!reading_) return;
  const Driver& driver = device_->driver();
  driver.event_record(read_.get(), stream);
  driver.event_synchronize(read_.get());
  reading_ = false;
}

}  // namespace aot_rt::cuda
