// A package whose inputs decide how large its output is, and whether and where a run fails; and
// sessions of it, on any device.
#ifndef AOT_TESTS_CHANGING_PACKAGE_H_
#define AOT_TESTS_CHANGING_PACKAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "aot/aot.hpp"
#include "package_builder.h"

namespace aot_test {

constexpr int64_t kChangingWidth = 8;

// x [s0, 8] with s0 from `most` on, count int64[1] up to `most`, flag bool[1], index int64[1].
// total = (x + bias).sum(1) of all rows; y = 4 · (x + bias) of the first `count` rows. Where these
// are known: table[index] of five values, the operator "demo::gate", an assertion on the flag.
// Programs for the CPU and for the fake GPU.
Builder changing_package(int64_t most = 64);

// What a run is told to fail by.
enum class Mishap { kNone, kSize, kKernel, kOperator, kCheck };

// One run: x[i, j] = fill + i.
struct Turn {
  int64_t rows = 64;
  int64_t count = 4;
  Mishap mishap = Mishap::kNone;
  float fill = 1;
};

// The code that a mishap gives.
aot_code code_of(Mishap mishap);

// The operator "demo::gate" of all devices while it is in scope.
class Gate {
 public:
  Gate();
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
};

// A session, which may be NULL.
class Owned {
 public:
  Owned() = default;
  explicit Owned(aot_session* session) : session_(session) {}
  // Throws what failed.
  Owned(aot_package* package, const char* device, aot_session_options options = {});
  ~Owned() { aot_session_free(session_); }
  Owned(Owned&& other) noexcept : session_(other.session_) { other.session_ = nullptr; }
  Owned& operator=(Owned&& other) noexcept {
    std::swap(session_, other.session_);
    return *this;
  }
  aot_session* get() const { return session_; }

 private:
  aot_session* session_ = nullptr;
};

// Throws what failed, as aot_rt::Error, and frees it.
void expect_ok(aot_status* status);

// "CODE: message" of what failed, or "", and frees it.
std::string cat_status(aot_status* status);

// The outputs of one run, in host memory. Throws what failed.
std::vector<aot::Tensor> run_on_host(aot_session* session, const std::vector<aot::Tensor>& inputs,
                                     size_t output_count);

// One run of the changing package. Throws what failed; `wrong` is what the outputs are wrong in.
std::string run_turn(aot_session* session, const Turn& turn);

// The same where what the turn says is checked: "" when a good turn gave the right outputs, and a
// bad one its error.
std::string wrong_in(aot_session* session, const Turn& turn);

}  // namespace aot_test

#endif  // AOT_TESTS_CHANGING_PACKAGE_H_
