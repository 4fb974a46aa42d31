// Tests that may crash, hang, or must begin in a process without threads: each case, or a part of
// one, runs in a process of its own, which is killed when it takes too long.
#ifndef AOT_TESTS_APART_H_
#define AOT_TESTS_APART_H_

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <thread>

#include "check.h"

namespace aot_test {

// What became of a process: "" when it ended with 0.
inline std::string wait_for_child(pid_t child, int seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  int state = 0;
  while (::waitpid(child, &state, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &state, 0);
      return "did not end within " + std::to_string(seconds) + " s";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  if (WIFSIGNALED(state)) return "ended by signal " + std::to_string(WTERMSIG(state));
  const int code = WEXITSTATUS(state);
  return code == 0 ? "" : "exit code " + std::to_string(code);
}

// Runs `body` in a child that ends at once when it returns, or throws; its failed checks are on
// stderr. Gives what became of the child.
inline std::string in_child(int seconds, const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) return "cannot fork";
  if (child != 0) return wait_for_child(child, seconds);
  failures() = 0;
  try {
    body();
  } catch (const std::exception& error) {
    report("child", 0, std::string("uncaught: ") + error.what());
  }
  std::fflush(nullptr);
  ::_exit(failures() == 0 ? 0 : 1);
}

// Runs every case in a process of its own, which ends as programs do: leaks are looked for. With an
// argument, those whose names contain it.
inline int run_all_apart(int seconds, const char* part) {
  size_t ran = 0;
  for (const Case& one : cases()) {
    if (part != nullptr && std::string(one.name).find(part) == std::string::npos) continue;
    ++ran;
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      failures() = 0;
      try {
        one.body();
      } catch (const std::exception& error) {
        report(one.name, 0, std::string("uncaught: ") + error.what());
      }
      std::exit(failures() == 0 ? 0 : 1);
    }
    const std::string end = child < 0 ? "cannot fork" : wait_for_child(child, seconds);
    if (end.empty()) continue;
    report(one.name, 0, end);
    std::fprintf(stderr, "FAILED %s\n", one.name);
  }
  std::printf("%zu tests, %d failed\n", ran, failures());
  return failures() == 0 && ran != 0 ? 0 : 1;
}

}  // namespace aot_test

// `seconds`: what a case may take.
#define TEST_MAIN_APART(seconds)                                                 \
  int main(int count, char** arguments) {                                        \
    return aot_test::run_all_apart(seconds, count > 1 ? arguments[1] : nullptr); \
  }

#endif  // AOT_TESTS_APART_H_
