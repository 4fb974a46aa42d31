#include "status.h"

#include <stdexcept>
#include <string>

#include "aot/aot.hpp"
#include "check.h"

namespace {

template <typename Body>
std::string outcome(Body body) {
  aot_status* status = aot_rt::guard(body);
  const std::string text =
      std::string(aot_code_name(aot_status_code(status))) + ": " + aot_status_message(status);
  aot_status_free(status);
  return text;
}

TEST(whatever_is_thrown_becomes_a_status) {
  CHECK_EQ(outcome([] {}), "OK: ");
  CHECK_EQ(outcome([] { aot_rt::fail(AOT_NOT_FOUND, "no ", 3); }), "NOT_FOUND: no 3");
  CHECK_EQ(outcome([] { throw std::bad_alloc(); }), "OUT_OF_MEMORY: out of memory");
  CHECK_EQ(outcome([] { throw std::runtime_error("bug"); }), "INTERNAL: bug");
  CHECK_EQ(outcome([] { throw 1; }), "INTERNAL: unknown exception");
}

TEST(origin_travels) {
  aot_status* status =
      aot_rt::guard([] { throw aot_rt::Error(AOT_INVALID_ARGUMENT, "index", "m.py:1 op"); });
  CHECK_EQ(std::string(aot_status_origin(status)), "m.py:1 op");
  const aot::Error error = aot::Error::adopt(status);
  CHECK_EQ(error.origin(), "m.py:1 op");
  CHECK_EQ(std::string(error.code_name()), "INVALID_ARGUMENT");
}

TEST(null_is_success) {
  CHECK_EQ(aot_status_code(nullptr), AOT_OK);
  CHECK_EQ(std::string(aot_status_message(nullptr)), "");
  CHECK_EQ(std::string(aot_status_origin(nullptr)), "");
  aot_status_free(nullptr);
}

TEST(every_code_has_its_own_name) {
  for (int a = AOT_OK; a <= AOT_OPERATOR_FAILED; ++a) {
    const std::string name = aot_code_name(static_cast<aot_code>(a));
    CHECK(name != "UNKNOWN");
    for (int b = AOT_OK; b < a; ++b) CHECK(name != aot_code_name(static_cast<aot_code>(b)));
  }
  CHECK_EQ(std::string(aot_code_name(static_cast<aot_code>(99))), "UNKNOWN");
}

TEST(results_hold_one_of_two) {
  aot::Result<int> good(7);
  CHECK(good.ok() && good.value() == 7);
  aot::Result<int> bad(aot::Error(AOT_UNAVAILABLE, "nothing"));
  CHECK(!bad);
  CHECK_EQ(bad.error().code(), AOT_UNAVAILABLE);
  bool thrown = false;
  try {
    static_cast<void>(bad.value());
  } catch (const aot::Error& error) {
    thrown = std::string(error.what()) == "nothing";
  }
  CHECK(thrown);
}

}  // namespace

TEST_MAIN
