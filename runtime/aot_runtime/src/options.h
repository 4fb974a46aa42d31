// What callers of Python allow, as the C++ interface takes it.
#ifndef AOT_RUNTIME_SRC_OPTIONS_H_
#define AOT_RUNTIME_SRC_OPTIONS_H_

#include <pybind11/pybind11.h>

#include "aot/aot.hpp"

namespace aot_python {

namespace py = pybind11;

// Names and numbers of `Limits.as_native`.
aot_limits read_limits(const py::dict& given);

// (keys, signatures, trust_weights, operator_libraries, code or None, require_proved, limits)
aot::Policy read_policy(const py::tuple& row);

}  // namespace aot_python

#endif  // AOT_RUNTIME_SRC_OPTIONS_H_
