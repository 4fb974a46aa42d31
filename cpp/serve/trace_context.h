// W3C trace context: what ties a log line to the request that a client traces.
#ifndef AOT_SERVE_TRACE_CONTEXT_H_
#define AOT_SERVE_TRACE_CONTEXT_H_

#include <string>
#include <string_view>

namespace serve {

struct TraceContext {
  std::string trace_id;   // 32 hexadecimal digits
  std::string parent_id;  // the client's span, or ""
  std::string span_id;    // ours

  // As the protocol hands it on: "00-<trace>-<span>-01".
  std::string header() const { return "00-" + trace_id + "-" + span_id + "-01"; }
};

// From the header `traceparent`; a new trace where it is missing or malformed.
TraceContext read_trace_context(std::string_view traceparent);

}  // namespace serve

#endif  // AOT_SERVE_TRACE_CONTEXT_H_
