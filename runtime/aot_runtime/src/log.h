// Messages of the library on their way to Python's logging.
#ifndef AOT_RUNTIME_SRC_LOG_H_
#define AOT_RUNTIME_SRC_LOG_H_

#include <pybind11/pybind11.h>

#include "aot/aot.hpp"

namespace aot_python {

namespace py = pybind11;

// Takes a message from any thread, which may hold locks of the library's. So it never waits for the
// GIL, whose holder may wait for that lock: the message goes to Python when a call returns there.
void keep_message(void* context, aot_log_level level, const char* message);

// What messages go to: a callable of (level, message).
void set_log_sink(py::object sink);

// Gives the messages kept meanwhile to Python when it goes. Made and destroyed with the GIL held.
class LogDrain {
 public:
  LogDrain() = default;
  ~LogDrain();
  LogDrain(const LogDrain&) = delete;
  LogDrain& operator=(const LogDrain&) = delete;
};

}  // namespace aot_python

#endif  // AOT_RUNTIME_SRC_LOG_H_
