// Tests that may crash, hang, or must begin in a process without threads: each case, or a part of
// one, runs in a process of its own, which is killed when it takes too long.
#ifndef AOT_TESTS_APART_H_
#define AOT_TESTS_APART_H_

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>

#include "check.h"

namespace aot_test {

// Processor time that a process has had, in ticks of the system's clock; 0 when it has ended.
inline int64_t processor_ticks(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);
  const size_t name = text.rfind(')');
  if (name == std::string::npos) return 0;
  std::istringstream fields(text.substr(name + 1));
  std::string other;
  for (int i = 0; i < 11; ++i) fields >> other;  // state to cmajflt
  int64_t user = 0, system = 0;
  fields >> user >> system;
  return user + system;
}

// Says when a process has had its time. One that a busy machine lets wait has more: it still gets
// somewhere, as one that hangs does not.
class Patience {
 public:
  Patience(pid_t process, int seconds) : process_(process), most_(seconds) {}

  bool is_over() {
    const auto now = std::chrono::steady_clock::now();
    if (now < begun_ + most_ || now < looked_ + kLook) return false;
    looked_ = now;
    const int64_t before = ticks_;
    ticks_ = processor_ticks(process_);
    return ticks_ == before || now > begun_ + kBusy * most_ ||
           ticks_ > 2 * most_.count() * ::sysconf(_SC_CLK_TCK);
  }

 private:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr int kBusy = 8;
  static constexpr std::chrono::seconds kLook{5};
  const pid_t process_;
  const std::chrono::seconds most_;
  const Time begun_ = std::chrono::steady_clock::now();
  Time looked_ = begun_;
  int64_t ticks_ = -1;
};

// What became of a process: "" when it ended with 0.
inline std::string wait_for_child(pid_t child, int seconds) {
  Patience patience(child, seconds);
  int state = 0;
  while (::waitpid(child, &state, WNOHANG) == 0) {
    if (patience.is_over()) {
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
