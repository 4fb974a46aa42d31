#include "allocator.h"

#include <cstdint>
#include <utility>

namespace aot_python {

aot_allocator PythonAllocator::as_native() {
  return aot_allocator{sizeof(aot_allocator), this, allocate, release};
}

void* PythonAllocator::allocate(void* context, size_t size, size_t alignment) {
  auto* self = static_cast<PythonAllocator*>(context);
  const py::gil_scoped_acquire gil;
  try {
    const py::object address = self->allocator_.attr("allocate")(size, alignment);
    if (address.is_none()) return nullptr;
    auto* const data = reinterpret_cast<void*>(address.cast<uintptr_t>());
    if (data != nullptr && self->blocks_++ == 0) self->self_ = self->shared_from_this();
    return data;
  } catch (py::error_already_set& error) {
    error.discard_as_unraisable("a device_allocator's allocate");
  } catch (const py::cast_error&) {
    PyErr_SetString(PyExc_TypeError, "allocate must return an address, or None");
    PyErr_WriteUnraisable(self->allocator_.ptr());
  }
  return nullptr;
}

void PythonAllocator::release(void* context, void* data, size_t size, size_t /*alignment*/) {
  auto* self = static_cast<PythonAllocator*>(context);
  const py::gil_scoped_acquire gil;
  std::shared_ptr<PythonAllocator> last;
  if (--self->blocks_ == 0) last = std::move(self->self_);
  try {
    self->allocator_.attr("release")(reinterpret_cast<uintptr_t>(data), size);
  } catch (py::error_already_set& error) {
    error.discard_as_unraisable("a device_allocator's release");
  }
}

}  // namespace aot_python
