#include "caller.h"

#include <structmember.h>

#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "arrays.h"
#include "log.h"
#include "operators.h"

namespace aot_python {
namespace {

// A Python object with a vectorcall: arguments come as an array, without a tuple and a dict.
struct Caller {
  PyObject_HEAD;
  vectorcallfunc call;
  std::shared_ptr<ExchangedRuns> runs;
  py::ssize_t inputs;
  py::object build;
};

// What was thrown is the thread's exception then.
PyObject* give_up() {
  try {
    throw;
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

PyObject* call(PyObject* self, PyObject* const* args, size_t flags, PyObject* keywords) {
  const auto* const caller = reinterpret_cast<Caller*>(self);
  const py::ssize_t count = PyVectorcall_NARGS(flags);
  const bool plain = keywords == nullptr || PyTuple_GET_SIZE(keywords) == 0;
  if (!plain || count != caller->inputs) Py_RETURN_NOTIMPLEMENTED;
  try {
    const py::object outputs = caller->runs->run(args, static_cast<size_t>(count));
    if (!outputs) Py_RETURN_NOTIMPLEMENTED;
    return PyObject_CallOneArg(caller->build.ptr(), outputs.ptr());
  } catch (...) {
    return give_up();
  }
}

void destroy(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  auto* const caller = reinterpret_cast<Caller*>(self);
  std::destroy_at(&caller->runs);
  std::destroy_at(&caller->build);
  type->tp_free(self);
  Py_DECREF(type);
}

PyTypeObject* caller_type() {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(Caller, call), READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
                                {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                {Py_tp_members, members},
                                {0, nullptr}};
  static PyType_Spec spec = {
      "aot_runtime._native.Caller", sizeof(Caller), 0,
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  static PyObject* const type = PyType_FromSpec(&spec);
  return reinterpret_cast<PyTypeObject*>(type);
}

}  // namespace

py::object ExchangedRuns::run(PyObject* const* leaves, size_t count) {
  const Inputs inputs(leaves, count, *package_, &exchanges_);
  const Exchange* exchange = inputs.exchange();
  if (exchange == nullptr) return {};
  const bool on_gpu = inputs.any_on_gpu();
  aot::RunOptions options;
  options.host_outputs = !on_gpu;
  if (on_gpu && session_->device().device_type == kDLCUDA) {
    const std::optional<int64_t> current = inputs.current_stream();
    if (!current) return {};
    options.stream = reinterpret_cast<void*>(*current);
  }
  const LogDrain drain;
  std::optional<aot::Result<std::vector<aot::Tensor>>> result;
  {
    const py::gil_scoped_release release;
    result.emplace(session_->run(inputs.data(), inputs.size(), options));
  }
  if (!result->ok()) raise_run_error(result->error());
  std::vector<aot::Tensor>& tensors = result->value();
  py::list outputs(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    outputs[i] = to_object(*exchange, std::move(tensors[i]));
  }
  return std::move(outputs);
}

py::object make_caller(std::shared_ptr<ExchangedRuns> runs, py::ssize_t inputs, py::object build) {
  PyTypeObject* const type = caller_type();
  PyObject* const made = type == nullptr ? nullptr : type->tp_alloc(type, 0);
  if (made == nullptr) throw py::error_already_set();
  auto* const caller = reinterpret_cast<Caller*>(made);
  caller->call = call;
  new (&caller->runs) std::shared_ptr<ExchangedRuns>(std::move(runs));
  caller->inputs = inputs;
  new (&caller->build) py::object(std::move(build));
  return py::reinterpret_steal<py::object>(made);
}

}  // namespace aot_python
