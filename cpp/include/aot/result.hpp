// A value, or the error that there is instead. Included by aot.hpp.
#ifndef AOT_RESULT_HPP_
#define AOT_RESULT_HPP_

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "aot/abi.h"

namespace aot {

// A failure: what a status says, as a value. See aot_code for the meaning of each code.
class Error : public std::runtime_error {
 public:
  Error(aot_code code, const std::string& message, std::string origin = {})
      : std::runtime_error(message), code_(code), origin_(std::move(origin)) {}

  // Takes over a status that is not NULL.
  static Error adopt(aot_status* status) {
    Error error(aot_status_code(status), aot_status_message(status), aot_status_origin(status));
    aot_status_free(status);
    return error;
  }

  aot_code code() const { return code_; }
  const char* code_name() const { return aot_code_name(code_); }
  // The model's source behind the failing step, or "".
  const std::string& origin() const { return origin_; }

 private:
  aot_code code_;
  std::string origin_;
};

// A T or the Error that there is instead.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : content_(std::move(value)) {}      // NOLINT: implicit, so that functions
  Result(Error error) : content_(std::move(error)) {}  // NOLINT: can return either

  bool ok() const { return content_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // The error; only if !ok().
  const Error& error() const { return std::get<1>(content_); }

  // The value; throws the Error if there is none (aborts where exceptions are off).
  T& value() & {
    require();
    return std::get<0>(content_);
  }
  const T& value() const& {
    require();
    return std::get<0>(content_);
  }
  T value() && {
    require();
    return std::move(std::get<0>(content_));
  }

 private:
  void require() const {
    if (ok()) return;
#if defined(__cpp_exceptions)
    throw std::get<1>(content_);
#else
    std::abort();
#endif
  }

  std::variant<T, Error> content_;
};

// Success without a value.
using Done = std::monostate;

// What a function of the C interface that gives nothing but a status returned.
inline Result<Done> done(aot_status* status) {
  if (status != nullptr) return Error::adopt(status);
  return Done{};
}

}  // namespace aot

#endif  // AOT_RESULT_HPP_
