// Timelines as Python takes them.
#ifndef AOT_RUNTIME_SRC_TRACE_H_
#define AOT_RUNTIME_SRC_TRACE_H_

#include <pybind11/pybind11.h>

#include "aot/aot.hpp"

namespace aot_python {

// (events that were dropped, a tuple for each other one in the order of aot_runtime.TraceEvent)
pybind11::tuple describe_trace(const aot::Trace& trace);

}  // namespace aot_python

#endif  // AOT_RUNTIME_SRC_TRACE_H_
