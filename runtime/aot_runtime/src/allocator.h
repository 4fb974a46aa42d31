// A Python object as the source of a GPU's memory.
#ifndef AOT_RUNTIME_SRC_ALLOCATOR_H_
#define AOT_RUNTIME_SRC_ALLOCATOR_H_

#include <pybind11/pybind11.h>

#include <cstddef>
#include <memory>

#include "aot/aot.hpp"

namespace aot_python {

namespace py = pybind11;

// Calls `allocate(size, alignment) -> address or None` and `release(address, size)`, with the GIL.
// What they raise is reported as Python reports what it cannot raise; a failed `allocate` has no
// memory. Lives as long as its blocks. Made and dropped with the GIL held.
class PythonAllocator : public std::enable_shared_from_this<PythonAllocator> {
 public:
  explicit PythonAllocator(py::object allocator) : allocator_(std::move(allocator)) {}

  aot_allocator as_native();

 private:
  static void* allocate(void* context, size_t size, size_t alignment);
  static void release(void* context, void* data, size_t size, size_t alignment);

  py::object allocator_;
  size_t blocks_ = 0;                      // the GIL guards it
  std::shared_ptr<PythonAllocator> self_;  // while there are blocks
};

}  // namespace aot_python

#endif  // AOT_RUNTIME_SRC_ALLOCATOR_H_
