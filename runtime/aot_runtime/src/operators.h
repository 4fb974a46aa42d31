// Python callables as custom operators.
#ifndef AOT_PYTHON_OPERATORS_H_
#define AOT_PYTHON_OPERATORS_H_

#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>

#include "aot/aot.hpp"

namespace aot_python {

namespace py = pybind11;

// A tensor of a call, while the call lasts. On the host: readable, and if it is a result writable,
// through the buffer protocol (bfloat16 as its bits). Anywhere: through __dlpack__.
class OperatorTensor {
 public:
  // `stream`: of the call; nullptr on the host.
  OperatorTensor(const DLTensor& view, bool writable, void* stream)
      : view_(&view), writable_(writable), stream_(reinterpret_cast<int64_t>(stream)) {}

  py::buffer_info buffer() const;
  // For a consumer that works in the call's stream, or sees to the order itself.
  py::capsule dlpack(const py::object& stream, const py::object& max_version) const;
  DLDevice device() const { return require().device; }
  py::tuple shape() const;
  uint64_t address() const { return reinterpret_cast<uint64_t>(require().data); }
  int64_t stream() const { return stream_; }
  const char* dtype() const;
  void expire() { view_ = nullptr; }

 private:
  const DLTensor& require() const;

  const DLTensor* view_;
  bool writable_;
  int64_t stream_;
};

// `function(arguments, results, stream)`: a list with a value, None, a list of values or an
// OperatorTensor for each argument, a list of OperatorTensors, and the call's stream, 0 on the
// host. None takes away the operator's code for that kind of device; "" stands for the host.
void register_operator(const std::string& name, const std::string& device,
                       const py::object& function);

// Throws the Python exception of a run's error. Where a callable has failed in this thread, its
// exception is the cause.
[[noreturn]] void raise_run_error(const aot::Error& error);

}  // namespace aot_python

#endif  // AOT_PYTHON_OPERATORS_H_
