// The C interface of timelines and of names for profilers.
#include <cstdint>
#include <memory>
#include <utility>

#include "aot/abi.h"
#include "handles.h"
#include "status.h"
#include "trace.h"

struct aot_trace {
  std::unique_ptr<const aot_rt::Trace> value;
};

namespace {

using aot_rt::guard;
using aot_rt::require;

constexpr uint64_t kDefaultEvents = 65536;
constexpr uint64_t kMostEvents = uint64_t{1} << 32;

aot_rt::TraceOptions trace_options(const aot_trace_options* given) {
  const auto read = aot_rt::read_options(given, "aot_trace_options");
  if (read.capacity > kMostEvents) {
    aot_rt::fail(AOT_INVALID_ARGUMENT, "aot_trace_options: capacity is ", read.capacity,
                 ", at most ", kMostEvents);
  }
  if (read.no_events != 0 && read.nvtx == 0) {
    aot_rt::fail(AOT_INVALID_ARGUMENT,
                 "aot_trace_options: with no_events, and without nvtx, nothing would be traced");
  }
  const uint64_t capacity = read.capacity == 0 ? kDefaultEvents : read.capacity;
  return {read.no_events != 0 ? 0 : static_cast<size_t>(capacity), read.nvtx != 0};
}

}  // namespace

aot_status* aot_session_trace_begin(aot_session* session, const aot_trace_options* options) {
  return guard([&] {
    require(session, "session");
    session->value->begin_trace(trace_options(options));
  });
}

aot_status* aot_session_trace_end(aot_session* session, aot_trace** trace) {
  return guard([&] {
    require(session, "session");
    require(trace, "trace");
    auto made = std::make_unique<aot_trace>();
    made->value = session->value->end_trace();
    *trace = made.release();
  });
}

size_t aot_trace_count(const aot_trace* trace) { return trace->value->size(); }

const aot_trace_event* aot_trace_event_at(const aot_trace* trace, size_t index) {
  return index < trace->value->size() ? &(*trace->value)[index] : nullptr;
}

uint64_t aot_trace_dropped(const aot_trace* trace) { return trace->value->dropped(); }

void aot_trace_free(aot_trace* trace) { delete trace; }

aot_status* aot_package_write_perf_map(aot_package* package) {
  return guard([&] {
    require(package, "package");
    package->value->write_perf_map();
  });
}
