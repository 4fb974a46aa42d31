#include "operators.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"

namespace aot_python {
namespace {

// The exception of the callable that failed last in this thread, until the run's error is raised. A
// plain pointer: threads end without the GIL.
thread_local PyObject* last_failure = nullptr;

void keep_failure(PyObject* exception) {
  Py_XINCREF(exception);
  std::swap(last_failure, exception);
  Py_XDECREF(exception);
}

// "ValueError: what it says"
std::string describe(const py::error_already_set& error) {
  const std::string kind = py::str(error.type().attr("__name__"));
  const std::string text = py::str(error.value());
  return text.empty() ? kind : kind + ": " + text;
}

// The tensors of one call, which end with it whoever still holds them.
class Tensors {
 public:
  explicit Tensors(void* stream) : stream_(stream) {}
  ~Tensors() {
    for (const py::object& tensor : made_) tensor.cast<OperatorTensor&>().expire();
  }
  Tensors(const Tensors&) = delete;
  Tensors& operator=(const Tensors&) = delete;

  py::object add(const DLTensor& view, bool writable) {
    made_.push_back(py::cast(OperatorTensor(view, writable, stream_)));
    return made_.back();
  }

 private:
  void* stream_;
  std::vector<py::object> made_;
};

py::object element(const aot_argument& argument, size_t index, Tensors* tensors) {
  switch (argument.kind) {
    case AOT_ARGUMENT_TENSOR:
      return tensors->add(argument.tensors[index], argument.is_changed != 0);
    case AOT_ARGUMENT_INT:
      return py::int_(argument.ints[index]);
    case AOT_ARGUMENT_BOOL:
      return py::bool_(argument.ints[index] != 0);
    case AOT_ARGUMENT_FLOAT:
      return py::float_(argument.floats[index]);
    case AOT_ARGUMENT_STRING:
      return py::str(argument.strings[index]);
    default:
      return py::none();
  }
}

py::object value_of(const aot_argument& argument, Tensors* tensors) {
  if (argument.is_list == 0) return element(argument, 0, tensors);
  py::list items;
  for (size_t i = 0; i < argument.count; ++i) items.append(element(argument, i, tensors));
  return items;
}

int call_python(const aot_operator_call* call, void* user) {
  const py::gil_scoped_acquire gil;
  try {
    Tensors tensors(call->stream);
    py::list arguments;
    for (size_t i = 0; i < call->argument_count; ++i) {
      arguments.append(value_of(call->arguments[i], &tensors));
    }
    py::list results;
    for (size_t i = 0; i < call->result_count; ++i) {
      results.append(tensors.add(call->results[i], true));
    }
    py::reinterpret_borrow<py::object>(static_cast<PyObject*>(user))(
        arguments, results, reinterpret_cast<int64_t>(call->stream));
    return 0;
  } catch (const py::error_already_set& error) {
    keep_failure(error.value().ptr());
    call->fail(call, describe(error).c_str());
  } catch (const std::exception& error) {
    call->fail(call, error.what());
  }
  return 1;
}

void release_python(void* user) {
  const py::gil_scoped_acquire gil;
  Py_DECREF(static_cast<PyObject*>(user));
}

}  // namespace

const DLTensor& OperatorTensor::require() const {
  if (view_ == nullptr) throw py::buffer_error("a tensor of an operator's call that is over");
  return *view_;
}

const char* OperatorTensor::dtype() const { return dtype_name(require().dtype); }

py::buffer_info OperatorTensor::buffer() const {
  if (device().device_type != kDLCPU) throw py::buffer_error("this tensor is on a GPU");
  return buffer_of(require(), !writable_);
}

py::tuple OperatorTensor::shape() const {
  const DLTensor& view = require();
  py::tuple sizes(static_cast<size_t>(view.ndim));
  for (int32_t i = 0; i < view.ndim; ++i) {
    sizes[static_cast<size_t>(i)] = py::int_(view.shape[i]);
  }
  return sizes;
}

namespace {

// What a consumer of DLPack owns of a tensor of a call; the memory is the runtime's.
struct Lent {
  DLManagedTensorVersioned managed;
  std::vector<int64_t> layout;  // shape, then strides
};

DLManagedTensorVersioned* lend(const DLTensor& view) {
  auto lent = std::make_unique<Lent>();
  lent->layout.assign(view.shape, view.shape + view.ndim);
  lent->layout.insert(lent->layout.end(), view.strides, view.strides + view.ndim);
  lent->managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  lent->managed.manager_ctx = lent.get();
  lent->managed.deleter = [](DLManagedTensorVersioned* self) {
    delete static_cast<Lent*>(self->manager_ctx);
  };
  lent->managed.flags = 0;  // arguments are read-only by agreement: not all libraries take a flag
  lent->managed.dl_tensor = view;
  lent->managed.dl_tensor.shape = lent->layout.data();
  lent->managed.dl_tensor.strides = lent->layout.data() + view.ndim;
  return &lent.release()->managed;
}

}  // namespace

py::capsule OperatorTensor::dlpack(const py::object& stream, const py::object& max_version) const {
  const DLTensor& view = require();
  const int64_t wanted = wanted_stream(stream);
  if (stream_ != 0 && wanted != stream_ && wanted != kNoOrder) {
    throw py::buffer_error("a tensor of an operator's call in stream " + std::to_string(stream_) +
                           " is asked for in stream " + std::to_string(wanted) +
                           ": let the library work in the call's");
  }
  return to_capsule(lend(view), max_version);
}

void register_operator(const std::string& name, const std::string& kind,
                       const py::object& function) {
  const std::string device = kind.empty() ? "cpu" : kind;
  const auto raise_if = [](const aot::Result<aot::Done>& result) {
    if (!result.ok()) raise(result.error());
  };
  if (function.is_none()) {
    const auto result = [&] {
      const py::gil_scoped_release free;  // what is released takes it
      return aot::unregister_operator(name, device);
    }();
    raise_if(result);
    return;
  }
  function.inc_ref();  // the registry's
  PyObject* const user = function.ptr();
  aot_status* const status = [&] {
    const py::gil_scoped_release free;
    return aot_register_operator_for(device.c_str(), name.c_str(), call_python, user,
                                     release_python);
  }();
  if (status != nullptr) function.dec_ref();
  raise_if(aot::done(status));
}

void raise_run_error(const aot::Error& error) {
  PyObject* const cause = std::exchange(last_failure, nullptr);
  if (cause == nullptr) raise(error);
  if (error.code() != AOT_OPERATOR_FAILED) {
    Py_DECREF(cause);
    raise(error);
  }
  const auto owned = py::reinterpret_steal<py::object>(cause);
  try {
    raise(error);
  } catch (py::error_already_set& raised) {
    PyException_SetCause(raised.value().ptr(), owned.inc_ref().ptr());
    throw;
  }
}

}  // namespace aot_python
