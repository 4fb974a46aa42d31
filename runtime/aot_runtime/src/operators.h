// Python callables as custom operators.
#ifndef AOT_PYTHON_OPERATORS_H_
#define AOT_PYTHON_OPERATORS_H_

#include <pybind11/pybind11.h>

#include <string>

#include "aot/aot.hpp"

namespace aot_python {

namespace py = pybind11;

// A tensor of a call: readable, and if it is a result writable, through the buffer protocol
// (bfloat16 as its bits) while the call lasts.
class OperatorTensor {
 public:
  OperatorTensor(const DLTensor& view, bool writable) : view_(&view), writable_(writable) {}

  py::buffer_info buffer() const;
  const char* dtype() const;
  void expire() { view_ = nullptr; }

 private:
  const DLTensor& require() const;

  const DLTensor* view_;
  bool writable_;
};

// `function(arguments, results)`: a list with a value, None, a list of values or an OperatorTensor
// for each argument, and a list of OperatorTensors. None takes the operator's code away.
void register_operator(const std::string& name, const py::object& function);

// Throws the Python exception of a run's error. Where a callable has failed in this thread, its
// exception is the cause.
[[noreturn]] void raise_run_error(const aot::Error& error);

}  // namespace aot_python

#endif  // AOT_PYTHON_OPERATORS_H_
