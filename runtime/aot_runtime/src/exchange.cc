#include "exchange.h"

namespace aot_python {
namespace {

constexpr char kAttribute[] = "__dlpack_c_exchange_api__";
constexpr char kCapsule[] = "dlpack_exchange_api";

const Exchange* find_in_type(py::handle type) {
  const py::object content = py::getattr(type, "__dict__", py::none());
  if (content.is_none() || !content.contains(kAttribute)) return nullptr;
  const py::object capsule = content[kAttribute];
  if (PyCapsule_IsValid(capsule.ptr(), kCapsule) == 0) return nullptr;
  const auto* exchange =
      static_cast<const Exchange*>(PyCapsule_GetPointer(capsule.ptr(), kCapsule));
  const bool known = exchange->version.major == DLPACK_MAJOR_VERSION;
  return known && exchange->view_object != nullptr ? exchange : nullptr;
}

// Tensors of torch that are part of a graph of gradients give no memory; the table does not say so.
bool requires_grad(py::handle object) {
  static PyObject* const name = PyUnicode_InternFromString("requires_grad");
  const auto value = py::reinterpret_steal<py::object>(PyObject_GetAttr(object.ptr(), name));
  if (!value) PyErr_Clear();
  return value && value.ptr() != Py_False;
}

}  // namespace

const Exchange* Exchanges::find(py::handle object) {
  auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(object.ptr()));
  const Exchange* exchange = exchange_;
  if (type != type_.ptr()) {
    exchange = find_in_type(type);  // may run Python, and so other threads
    exchange_ = exchange;
    type_ = py::reinterpret_borrow<py::object>(type);
  }
  return exchange != nullptr && !requires_grad(object) ? exchange : nullptr;
}

std::optional<int64_t> current_stream(const Exchange& exchange, DLDevice device) {
  constexpr int64_t kDefaultStream = 1;  // CUDA's own number for the legacy default stream
  void* stream = nullptr;
  if (exchange.current_stream(device.device_type, device.device_id, &stream) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  return stream == nullptr ? kDefaultStream : reinterpret_cast<int64_t>(stream);
}

py::object to_object(const Exchange& exchange, aot::Tensor tensor) {
  void* object = nullptr;
  if (exchange.to_object(tensor.release(), &object) != 0) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(static_cast<PyObject*>(object));
}

}  // namespace aot_python
