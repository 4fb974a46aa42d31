// Failures inside the library: thrown as Error, turned into aot_status at the C interface.
#ifndef AOT_SRC_ERROR_H_
#define AOT_SRC_ERROR_H_

#include <exception>
#include <sstream>
#include <string>
#include <utility>

#include "aot/abi.h"

namespace aot_rt {

class Error : public std::exception {
 public:
  Error(aot_code code, std::string message, std::string origin = {})
      : code_(code), message_(std::move(message)), origin_(std::move(origin)) {}

  aot_code code() const { return code_; }
  const std::string& origin() const { return origin_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  aot_code code_;
  std::string message_;
  std::string origin_;
};

// The arguments printed one after the other.
template <typename... Args>
std::string cat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
}

template <typename... Args>
[[noreturn]] void fail(aot_code code, const Args&... args) {
  throw Error(code, cat(args...));
}

}  // namespace aot_rt

#endif  // AOT_SRC_ERROR_H_
