#include "trace_context.h"

#include <algorithm>
#include <cstdint>
#include <random>

namespace serve {
namespace {

std::string random_digits(size_t count) {
  // Identifiers, no secrets.
  thread_local std::mt19937_64 numbers{std::random_device{}()};
  std::string text;
  while (text.size() < count) {
    uint64_t number = numbers();
    for (int i = 0; i < 16 && text.size() < count; ++i, number >>= 4) {
      text.push_back("0123456789abcdef"[number & 15]);
    }
  }
  return text;
}

bool is_id(std::string_view text) {
  const auto digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return std::all_of(text.begin(), text.end(), digit) &&
         text.find_first_not_of('0') != std::string_view::npos;
}

}  // namespace

TraceContext read_trace_context(std::string_view traceparent) {
  TraceContext context;
  context.span_id = random_digits(16);
  // version-trace-parent-flags; what a later version adds comes behind a dash.
  const bool whole = traceparent.size() >= 55 && traceparent[2] == '-' && traceparent[35] == '-' &&
                     traceparent[52] == '-' && traceparent.substr(0, 2) != "ff" &&
                     is_id(traceparent.substr(3, 32)) && is_id(traceparent.substr(36, 16));
  if (whole) {
    context.trace_id = traceparent.substr(3, 32);
    context.parent_id = traceparent.substr(36, 16);
  } else {
    context.trace_id = random_digits(32);
  }
  return context;
}

}  // namespace serve
