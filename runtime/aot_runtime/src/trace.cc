#include "trace.h"

#include <array>

namespace aot_python {
namespace {

namespace py = pybind11;

// By aot_trace_kind.
constexpr std::array<const char*, 9> kKinds = {"run",     "prepare", "kernel", "chunk", "call",
                                               "control", "copy",    "wait",   "launch"};

const char* kind_name(int32_t kind) {
  const auto index = static_cast<size_t>(kind);
  return index < kKinds.size() ? kKinds[index] : "other";
}

py::object or_none(int64_t value) {
  return value < 0 ? py::object(py::none()) : py::object(py::int_(value));
}

}  // namespace

py::tuple describe_trace(const aot::Trace& trace) {
  py::list events;
  for (size_t i = 0; i < trace.size(); ++i) {
    const aot_trace_event& event = trace[i];
    events.append(py::make_tuple(kind_name(event.kind), event.name, event.what, event.origin,
                                 event.on_device != 0, event.track, event.begin_ns, event.end_ns,
                                 event.run, or_none(event.step), event.worker, or_none(event.bytes),
                                 event.flow));
  }
  return py::make_tuple(trace.dropped(), events);
}

}  // namespace aot_python
