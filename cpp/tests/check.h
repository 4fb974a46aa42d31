// Tests in a few lines: TEST(name) { CHECK(…); CHECK_EQ(a, b); CHECK_FAILS(call, CODE, "text"); }
// A program of tests ends with TEST_MAIN and exits with 1 if a check failed.
#ifndef AOT_TESTS_CHECK_H_
#define AOT_TESTS_CHECK_H_

#include <cstdio>
#include <exception>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "error.h"

namespace aot_test {

struct Case {
  const char* file;
  const char* name;
  std::function<void()> body;
};

inline std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

inline int& failures() {
  static int count = 0;
  return count;
}

inline bool add_case(const char* file, const char* name, std::function<void()> body) {
  cases().push_back({file, name, std::move(body)});
  return true;
}

inline void report(const char* file, int line, const std::string& text) {
  std::fprintf(stderr, "%s:%d: %s\n", file, line, text.c_str());
  ++failures();
}

// Runs `call` and checks that it throws `code` with a message that contains `part`.
inline void check_fails(const char* file, int line, const std::function<void()>& call,
                        aot_code code, const std::string& part) {
  try {
    call();
    report(file, line, "expected a failure: " + part);
  } catch (const aot_rt::Error& error) {
    const std::string message = error.what();
    if (error.code() != code || message.find(part) == std::string::npos) {
      report(file, line,
             std::string("got ") + aot_code_name(error.code()) + ": " + message + "; expected " +
                 aot_code_name(code) + ": …" + part);
    }
  }
}

// Runs the cases of the file whose path ends with that: all of a program's where it is empty.
inline int run_all(const std::string& file = "") {
  size_t ran = 0;
  for (const Case& one : cases()) {
    const std::string path = one.file;
    if (path.size() < file.size() || path.substr(path.size() - file.size()) != file) continue;
    ++ran;
    const int before = failures();
    try {
      one.body();
    } catch (const std::exception& error) {
      report(one.name, 0, std::string("uncaught: ") + error.what());
    }
    if (failures() != before) std::fprintf(stderr, "FAILED %s\n", one.name);
  }
  std::printf("%zu tests, %d failed checks\n", ran, failures());
  return failures() == 0 && ran != 0 ? 0 : 1;
}

}  // namespace aot_test

#define TEST(name)                                                                   \
  static void test_##name();                                                         \
  static const bool added_##name = aot_test::add_case(__FILE__, #name, test_##name); \
  static void test_##name()

#define CHECK(condition) \
  ((condition) ? (void)0 : aot_test::report(__FILE__, __LINE__, "not true: " #condition))

#define CHECK_EQ(left, right)                                             \
  do {                                                                    \
    const auto left_value = (left);                                       \
    const auto right_value = (right);                                     \
    if (!(left_value == right_value)) {                                   \
      std::ostringstream text;                                            \
      text << #left " is " << left_value << ", expected " << right_value; \
      aot_test::report(__FILE__, __LINE__, text.str());                   \
    }                                                                     \
  } while (false)

#define CHECK_FAILS(call, code, part) \
  aot_test::check_fails(__FILE__, __LINE__, [&] { call; }, code, part)

#define TEST_MAIN \
  int main() { return aot_test::run_all(); }

#endif  // AOT_TESTS_CHECK_H_
