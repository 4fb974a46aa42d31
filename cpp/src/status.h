// The border between C++ exceptions and aot_status.
#ifndef AOT_SRC_STATUS_H_
#define AOT_SRC_STATUS_H_

#include <exception>
#include <new>
#include <string>

#include "aot/abi.h"
#include "error.h"

struct aot_status {
  aot_code code;
  std::string message;
  std::string origin;
};

namespace aot_rt {

// A new status; the static out-of-memory status when there is no memory for one.
aot_status* make_status(aot_code code, const char* message, const std::string& origin) noexcept;

// Runs `body` and turns whatever it throws into a status.
template <typename Body>
aot_status* guard(Body&& body) noexcept {
  try {
    body();
    return nullptr;
  } catch (const Error& error) {
    return make_status(error.code(), error.what(), error.origin());
  } catch (const std::bad_alloc&) {
    return make_status(AOT_OUT_OF_MEMORY, "out of memory", {});
  } catch (const std::exception& error) {
    return make_status(AOT_INTERNAL, error.what(), {});
  } catch (...) {
    return make_status(AOT_INTERNAL, "unknown exception", {});
  }
}

}  // namespace aot_rt

#endif  // AOT_SRC_STATUS_H_
