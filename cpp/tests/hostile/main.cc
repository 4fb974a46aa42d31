// Changes real packages at random, with all hashes right, and opens and runs each in a child
// process: no signal, no report of a sanitizer, no hang, no use of much memory.
//   aot_hostile [--device cuda] [--count N] [--first I] [--seed S] [--seconds T] [--save DIR]
//               [PACKAGE…]
// Without packages, those of the tests. The change with number I is the same in every run with its
// seed, whatever the others are.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "flow_package.h"
#include "hostile/mutate.h"
#include "hostile/run.h"
#include "sanitizer.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>

// What cannot be allocated must end in a status; what leaks is found at the end of each batch.
AOT_SANITIZER_OPTIONS(asan,
                      "allocator_may_return_null=1:max_allocation_size_mb=1024:"
                      "hard_rss_limit_mb=3000:detect_leaks=1:handle_abort=1:abort_on_error=0:"
                      "exitcode=99")
#endif

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kBatch = 200;
constexpr double kMostSeconds = 2;  // for one change
constexpr double kMostWait = 30;    // of which less than this on a processor
constexpr int64_t kMostResidentKilobytes = 1500 * 1024;
constexpr int kLostDevice = 96;  // exit codes of a batch's process
constexpr int kMuchMemory = 97;
constexpr int kLeaks = 98;

struct Arguments {
  uint64_t count = 1000;
  uint64_t first = 0;
  uint64_t seed = 1;
  double seconds = 0;  // 0: as long as it takes
  double most_seconds = kMostSeconds;
  std::string device = "cpu";
  std::string save;
  std::vector<std::string> packages;
};

// What parent and child share.
struct Progress {
  std::atomic<uint64_t> at;       // the change that is being tried
  std::atomic<uint64_t> ran;      // how many gave results
  std::atomic<uint64_t> refused;  // how many were refused when opened or run
};

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    std::exit(2);
  }
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The time that a process has used on processors.
double processor_seconds(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  std::string word;
  for (int i = 3; i < 14; ++i) fields >> word;
  double user = 0;
  double system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

class Campaign {
 public:
  explicit Campaign(Arguments arguments) : arguments_(std::move(arguments)) {
    for (const std::string& path : arguments_.packages) {
      originals_.push_back(aot_hostile::take_apart(read_file(path)));
    }
    if (originals_.empty()) take_test_packages();
    void* shared = ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) std::exit(2);
    progress_ = new (shared) Progress{};
  }

  int run() {
    check_originals();
    const auto start = Clock::now();
    const uint64_t end = arguments_.first + arguments_.count;
    uint64_t next = arguments_.first;
    while (next < end) {
      const std::chrono::duration<double> spent = Clock::now() - start;
      if (arguments_.seconds > 0 && spent.count() > arguments_.seconds) break;
      next = batch(next, std::min(next + kBatch, end));
    }
    std::printf("%llu changes: %llu gave results, %llu were refused, %d failures\n",
                number(next - arguments_.first), number(progress_->ran), number(progress_->refused),
                failures_);
    return failures_ == 0 ? 0 : 1;
  }

 private:
  // Packages that need no compiler: a temporary, states, weights to replace, indices, loops, sizes.
  void take_test_packages() {
    aot_test::Builder looping = aot_test::flow_package(true, 3, 0);
    aot_test::add_row_by_row(&looping);
    aot_test::Builder branching = aot_test::flow_package(true, 3);
    auto& steps = branching.program()["steps"];
    steps.insert(steps.begin() + 1, aot_test::branch_step(1, 1));
    add("small", aot_test::small_package(16, 0, 4));
    add("state", aot_test::state_package());
    add("swappable", aot_test::swappable_package(true));
    add("gather", aot_test::gather_package());
    add("looping", looping);
    add("branching", branching);
    add("measured", aot_test::measured_package(3));
  }

  void add(const char* name, aot_test::Builder builder) {
    aot_test::declare(&builder);
    originals_.push_back(std::move(builder));
    arguments_.packages.push_back(std::string("no file (") + name + ")");
  }

  static unsigned long long number(uint64_t value) { return value; }

  // What is not changed runs; in a child, so that the next ones begin without threads.
  void check_originals() {
    for (size_t i = 0; i < originals_.size(); ++i) {
      const pid_t child = ::fork();
      if (child == 0) {
        aot_test::Builder builder = originals_[i];
        aot_hostile::Random random(arguments_.seed);
        const std::string file = aot_hostile::put_together(&builder);
        const int code = aot_hostile::open_and_run(file, builder.plan, arguments_.device, &random);
        ::_exit(std::min(code, 255));
      }
      int status = 0;
      ::waitpid(child, &status, 0);
      if (status == 0) continue;
      std::printf("%s does not run unchanged: status %d\n", arguments_.packages[i].c_str(), status);
      ++failures_;
    }
  }

  // A change by its number: what it did, and the file that it makes.
  std::string make(uint64_t id, aot_test::Builder* builder, std::string* file) const {
    aot_hostile::Random random(arguments_.seed * 1000003 + id);
    *builder = originals_[id % originals_.size()];
    const std::string done = aot_hostile::change(builder, &random);
    *file = aot_hostile::put_together(builder);
    return done;
  }

  void try_one(uint64_t id) {
    aot_test::Builder builder;
    std::string file;
    make(id, &builder, &file);
    aot_hostile::Random random(id);
    const int code = aot_hostile::open_and_run(file, builder.plan, arguments_.device, &random);
    if (code == aot_hostile::kLost) ::_exit(kLostDevice);
    ++(code == 0 ? progress_->ran : progress_->refused);
  }

  // Tries changes in a child. Gives the next to be tried.
  uint64_t batch(uint64_t first, uint64_t end) {
    progress_->at = first;
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      for (uint64_t id = first; id < end; ++id) {
        progress_->at = id;
        try_one(id);
      }
      progress_->at = end;
#if defined(__SANITIZE_ADDRESS__)
      if (__lsan_do_recoverable_leak_check() != 0) ::_exit(kLeaks);
#endif
      struct rusage usage{};
      ::getrusage(RUSAGE_SELF, &usage);
      ::_exit(usage.ru_maxrss > kMostResidentKilobytes ? kMuchMemory : 0);
    }
    int status = 0;
    const bool hung = !wait_for(child, &status);
    const uint64_t at = progress_->at;
    if (!hung && WIFEXITED(status) && WEXITSTATUS(status) == 0) return end;
    report(at, hung, status);
    return std::min(at + 1, end);
  }

  // False when one change takes too long; the child is killed then.
  bool wait_for(pid_t child, int* status) const {
    uint64_t seen = progress_->at;
    auto since = Clock::now();
    double before = processor_seconds(child);
    while (::waitpid(child, status, WNOHANG) == 0) {
      ::usleep(2000);
      const uint64_t at = progress_->at;
      if (at != seen) {
        seen = at;
        since = Clock::now();
        before = processor_seconds(child);
      }
      const std::chrono::duration<double> spent = Clock::now() - since;
      if (spent.count() <= arguments_.most_seconds) continue;
      // On a busy machine a child may wait long for its turn.
      const bool waits = processor_seconds(child) - before <= arguments_.most_seconds;
      if (waits && spent.count() <= kMostWait) continue;
      ::kill(child, SIGKILL);
      ::waitpid(child, status, 0);
      return false;
    }
    return true;
  }

  void report(uint64_t id, bool hung, int status) {
    ++failures_;
    std::string how = hung ? "hangs" : "";
    if (!hung && WIFSIGNALED(status)) how = "signal " + std::to_string(WTERMSIG(status));
    if (!hung && WIFEXITED(status)) {
      const int code = WEXITSTATUS(status);
      how = code == kLeaks        ? "leaks in the batch before"
            : code == kMuchMemory ? "much memory in the batch before"
            : code == kLostDevice ? "harm to the GPU"
                                  : "exit code " + std::to_string(code) + " (see the report above)";
    }
    aot_test::Builder builder;
    std::string file;
    const std::string done = make(id, &builder, &file);
    const std::string& package = arguments_.packages[id % originals_.size()];
    std::printf("FAILURE %s: --seed %llu --first %llu --count 1 with %s: %s\n", how.c_str(),
                number(arguments_.seed), number(id), package.c_str(), done.c_str());
    std::fflush(stdout);
    if (arguments_.save.empty()) return;
    std::ofstream(arguments_.save + "/" + std::to_string(id) + ".pkg", std::ios::binary) << file;
  }

  Arguments arguments_;
  std::vector<aot_test::Builder> originals_;
  Progress* progress_ = nullptr;
  int failures_ = 0;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind("--", 0) != 0) {
      arguments.packages.push_back(word);
      continue;
    }
    const std::string value = i + 1 < argc ? argv[++i] : "";
    if (word == "--count") arguments.count = std::strtoull(value.c_str(), nullptr, 10);
    if (word == "--first") arguments.first = std::strtoull(value.c_str(), nullptr, 10);
    if (word == "--seed") arguments.seed = std::strtoull(value.c_str(), nullptr, 10);
    if (word == "--seconds") arguments.seconds = std::strtod(value.c_str(), nullptr);
    if (word == "--most-seconds") arguments.most_seconds = std::strtod(value.c_str(), nullptr);
    if (word == "--device") arguments.device = value;
    if (word == "--save") arguments.save = value;
  }
  return arguments;
}

}  // namespace

int main(int argc, char** argv) { return Campaign(parse(argc, argv)).run(); }
