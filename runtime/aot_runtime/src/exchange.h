// Arrays of libraries that publish DLPack's table of C functions (torch since 2.10): read, and made
// of outputs, without a call of Python.
#ifndef AOT_PYTHON_EXCHANGE_H_
#define AOT_PYTHON_EXCHANGE_H_

#include <pybind11/pybind11.h>

#include <optional>

#include "aot/aot.hpp"

namespace aot_python {

namespace py = pybind11;

// DLPackExchangeAPI of DLPack 1.2 and later, whose 1.0 aot/dlpack.h declares: the layout of an ABI.
// Functions give 0, or -1 with a Python exception set; they need the GIL and order no streams.
struct Exchange {
  DLPackVersion version;
  const void* older;
  void* allocate;
  void* managed_from_object;
  int (*to_object)(DLManagedTensorVersioned* tensor, void** object);  // takes the tensor over
  int (*view_object)(void* object, DLTensor* view);  // may be null; valid until control returns
  int (*current_stream)(DLDeviceType type, int32_t index, void** stream);
};

// The tables of the types that are asked for. Needs the GIL.
class Exchanges {
 public:
  // The table of an object's own type (a subclass may mean something else by its memory); nullptr
  // if it has none, or if the object must be asked in Python, which knows why it gives no memory.
  const Exchange* find(py::handle object);

 private:
  py::object type_;  // that was asked for last; most models see one
  const Exchange* exchange_ = nullptr;
};

// The stream in which the library works now on that GPU, as DLPack numbers streams, if it says so.
std::optional<int64_t> current_stream(const Exchange& exchange, DLDevice device);

// An output as an array of the library. Throws the library's exception.
py::object to_object(const Exchange& exchange, aot::Tensor tensor);

}  // namespace aot_python

#endif  // AOT_PYTHON_EXCHANGE_H_
