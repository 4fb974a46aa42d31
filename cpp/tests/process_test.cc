// The runtime as part of a process: forks, signals, callbacks that call back, and arguments that
// are no arguments. Nothing of it may hang or crash.
#include <dirent.h>
#include <semaphore.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "apart.h"
#include "changing_package.h"
#include "check.h"
#include "cuda_package.h"
#include "error.h"
#include "sanitizer.h"
#include "workspace.h"

namespace {

using aot_test::in_child;
using aot_test::Opened;
using aot_test::Owned;

constexpr int64_t kWidth = 64;
constexpr int64_t kRows = 4096;  // enough for several threads
constexpr int kSeconds = 10;

aot_session_options threads(int32_t count) {
  aot_session_options options{};
  options.num_threads = count;
  return options;
}

// The status of a run of ones, which is freed, as "CODE: message"; "" when all totals are right.
std::string run(aot_session* session, int64_t rows = kRows, int64_t width = kWidth) {
  const std::vector<float> x(static_cast<size_t>(rows * width), 1.0f);
  std::vector<aot::Tensor> inputs;
  inputs.push_back(aot::Tensor::borrow(x.data(), {rows, width}));
  try {
    const auto outputs = aot_test::run_on_host(session, inputs, 2);
    const float expected = 2 * static_cast<float>(width + width * (width - 1) / 2);
    const float* total = outputs[1].data<float>();
    const bool right = std::all_of(total, total + rows, [&](float v) { return v == expected; });
    return right ? "" : "wrong totals";
  } catch (const aot_rt::Error& error) {
    return std::string(aot_code_name(error.code())) + ": " + error.what();
  }
}

bool says(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

int count_tasks() {
  DIR* folder = ::opendir("/proc/self/task");
  int count = 0;
  while (const dirent* entry = ::readdir(folder)) count += entry->d_name[0] != '.' ? 1 : 0;
  ::closedir(folder);
  return count;
}

// A run in a child either works, with the threads that the session says it has, or is refused with
// the reason.
void check_in_child(aot_session* session) {
  std::string wrong;
  for (int i = 0; i < 20 && wrong.empty(); ++i) wrong = run(session);
  if (says(wrong, "fork")) return;  // refused
  CHECK_EQ(wrong, "");
  CHECK(count_tasks() >= aot_session_num_threads(session));
}

}  // namespace

TEST(a_child_uses_its_parents_session) {
  const Opened package(aot_test::small_package(kWidth, 0));
  const Owned session(package.get(), "cpu", threads(3));
  CHECK_EQ(run(session.get()), "");
  CHECK_EQ(in_child(kSeconds, [&] { check_in_child(session.get()); }), "");
  CHECK_EQ(run(session.get()), "");
}

TEST(a_child_makes_a_session_of_its_parents_package) {
  const Opened package(aot_test::small_package(kWidth, 0));
  const Owned session(package.get(), "cpu", threads(3));
  CHECK_EQ(run(session.get()), "");
  const std::string end = in_child(kSeconds, [&] {
    const Owned own(package.get(), "cpu", threads(3));
    CHECK_EQ(run(own.get()), "");
    CHECK(count_tasks() >= 3);
  });
  CHECK_EQ(end, "");
}

TEST(a_childs_child) {
  const Opened package(aot_test::small_package(kWidth, 0));
  const Owned session(package.get(), "cpu", threads(2));
  CHECK_EQ(run(session.get()), "");
  const std::string end = in_child(2 * kSeconds, [&] {
    check_in_child(session.get());
    CHECK_EQ(in_child(kSeconds, [&] { check_in_child(session.get()); }), "");
  });
  CHECK_EQ(end, "");
}

TEST(a_child_frees_what_its_parent_made) {
  Opened package(aot_test::small_package(kWidth, 0));
  aot_session* session = nullptr;
  aot_session_options options = threads(3);
  options.struct_size = sizeof(options);
  aot_test::expect_ok(aot_session_create(package.get(), "cpu", &options, &session));
  CHECK_EQ(run(session), "");
  CHECK_EQ(in_child(kSeconds, [&] { aot_session_free(session); }), "");
  aot_session_free(session);
}

namespace {

std::string run_operator(aot_session* session) {
  const std::vector<float> x(3 * 8, 1.0f);
  std::vector<aot::Tensor> inputs;
  inputs.push_back(aot::Tensor::borrow(x.data(), {3, 8}));
  try {
    aot_test::run_on_host(session, inputs, 2);
    return "";
  } catch (const aot_rt::Error& error) {
    return std::string(aot_code_name(error.code())) + ": " + error.what();
  }
}

}  // namespace

// A thread sanitizer keeps the parent's threads in a child, and ends the child when it makes one
// whose number the system gives again.
#if !defined(__SANITIZE_THREAD__)

namespace {

sem_t g_entered;
sem_t g_leave;

// An operator that waits in its call until it is told to leave.
int wait_inside(const aot_operator_call* /*call*/, void* /*user*/) {
  ::sem_post(&g_entered);
  ::sem_wait(&g_leave);
  return 0;
}

}  // namespace

// The run stays in progress for ever in the child, where its thread is not: every call that would
// wait for it is refused with the reason.
TEST(a_run_is_in_progress_when_a_process_forks) {
  ::sem_init(&g_entered, 0, 0);
  ::sem_init(&g_leave, 0, 0);
  aot_test::expect_ok(aot_register_operator("demo::scale", wait_inside, nullptr, nullptr));
  const Opened package(aot_test::operator_package());
  const Owned session(package.get(), "cpu", threads(2));
  std::thread runner([&] { CHECK_EQ(run_operator(session.get()), ""); });
  ::sem_wait(&g_entered);
  const std::string end = in_child(kSeconds, [&] {
    CHECK(says(run_operator(session.get()), "fork"));
    const auto refused = [](aot_status* status) {
      const bool result = status != nullptr && says(aot_status_message(status), "fork");
      aot_status_free(status);
      return result;
    };
    size_t steps = 0;
    aot_session* clone = nullptr;
    CHECK(refused(aot_session_set_observer(session.get(), nullptr, nullptr)));
    CHECK(refused(aot_session_profile(session.get(), nullptr, 0, &steps)));
    CHECK(refused(aot_session_reset(session.get())));
    CHECK(refused(aot_session_clone(session.get(), &clone)));
  });
  CHECK_EQ(end, "");
  CHECK_EQ(in_child(kSeconds, [&] { const Owned fresh(package.get(), "cpu", threads(2)); }), "");
  ::sem_post(&g_leave);
  runner.join();
}

// The address sanitizer has a lock around its list of threads, of which a fork knows nothing: a
// child that makes a thread could wait for ever for one that its parent was making.
#if defined(__SANITIZE_ADDRESS__)
constexpr int32_t kThreadsOfChild = 1;
#else
constexpr int32_t kThreadsOfChild = 2;
#endif

// Forks at any moment of other threads' work: new sessions of the child work, or say why not.
TEST(forks_beside_threads_that_run) {
  const Opened package(aot_test::swappable_package(true, kWidth));
  const Owned session(package.get(), "cpu", threads(2));
  std::atomic<bool> over{false};
  std::vector<std::thread> others;
  others.emplace_back([&] {
    while (!over) CHECK_EQ(run(session.get(), 32), "");
  });
  others.emplace_back([&] {
    while (!over) const Owned made(package.get(), "cpu", threads(2));
  });
  others.emplace_back([&] {
    std::vector<float> shift(kWidth, 0.0f);
    const aot::Tensor value = aot::Tensor::borrow(shift.data(), {kWidth});
    aot_weight_update update{};
    update.struct_size = sizeof(update);
    update.name = "shift";
    update.value = &value.view();
    const aot_weight_update* const updates[] = {&update};
    aot_replace_options options{};
    options.struct_size = sizeof(options);
    options.partial = 1;
    while (!over) {
      aot_test::expect_ok(aot_package_replace_weights(package.get(), updates, 1, &options));
    }
  });
  std::string end;
  for (int i = 0; i < 60 && end.empty(); ++i) {
    end = in_child(kSeconds, [&] {
      try {
        const Owned own(package.get(), "cpu", threads(kThreadsOfChild));
        const std::string status = run(own.get(), 32);
        CHECK(status.empty() || says(status, "fork"));
      } catch (const aot_rt::Error& error) {
        CHECK(says(error.what(), "fork"));  // what it needs was being changed
      }
    });
  }
  over = true;
  for (std::thread& other : others) other.join();
  CHECK_EQ(end, "");
}

// Memory for a run is to be had in a child, whatever another thread was doing to the pool.
TEST(forks_beside_threads_in_the_pool_of_workspaces) {
  aot_rt::WorkspacePool pool(1);
  std::atomic<bool> over{false};
  std::thread other([&] {
    while (!over) pool.give_back(pool.take(nullptr));
  });
  std::string end;
  for (int i = 0; i < 200 && end.empty(); ++i) {
    end = in_child(kSeconds, [&] {
      std::unique_ptr<aot_rt::Workspace> workspace = pool.take(nullptr);
      CHECK_EQ(workspace->arenas.size(), size_t{1});
      pool.give_back(std::move(workspace));
    });
  }
  over = true;
  other.join();
  CHECK_EQ(end, "");
}

// A child does not wait for what a thread was making for the first time when its process forked.
TEST(forks_beside_the_first_use_of_the_library) {
  std::string end;
  for (int i = 0; i < 200 && end.empty(); ++i) {
    end = in_child(2 * kSeconds, [&] {
      aot_rt::WorkspacePool pool(1);
      std::thread first([&] { pool.give_back(pool.take(nullptr)); });
      for (volatile int wait = i * 100; wait > 0; wait = wait - 1) {
      }
      CHECK_EQ(in_child(kSeconds, [&] { pool.give_back(pool.take(nullptr)); }), "");
      first.join();
    });
  }
  CHECK_EQ(end, "");
}

#endif

// CUDA does not work in a child of a process that uses it.
TEST(gpus_after_a_fork) {
  const Opened package(aot_test::small_cuda_package());
  const Owned session(package.get(), "cuda");
  CHECK_EQ(run(session.get(), 6, 8), "");
  const int64_t calls = aot_test::fake().calls(nullptr);
  const std::string end = in_child(kSeconds, [&] {
    CHECK(says(run(session.get(), 6, 8), "fork"));
    CHECK_FAILS(Owned(package.get(), "cuda"), AOT_UNAVAILABLE, "fork");
    const Owned host(package.get(), "cpu");
    CHECK_EQ(run(host.get(), 6, 8), "");
    CHECK_EQ(aot_test::fake().calls(nullptr), calls);  // nothing was asked of the driver
  });
  CHECK_EQ(end, "");
  CHECK_EQ(run(session.get(), 6, 8), "");
}

TEST(a_child_frees_a_session_on_a_gpu) {
  const Opened package(aot_test::small_cuda_package());
  aot_session* session = nullptr;
  aot_test::expect_ok(aot_session_create(package.get(), "cuda", nullptr, &session));
  CHECK_EQ(run(session, 6, 8), "");
  const int64_t calls = aot_test::fake().calls(nullptr);
  const int64_t freed = aot_test::fake().calls("cuMemFree_v2");
  const std::string end = in_child(kSeconds, [&] {
    aot_session_free(session);
    CHECK_EQ(aot_test::fake().calls(nullptr), calls);
    CHECK_EQ(aot_test::fake().calls("cuMemFree_v2"), freed);
  });
  CHECK_EQ(end, "");
  aot_session_free(session);
}

namespace {

// Whether a thread blocks a signal, from its line in /proc.
bool blocks(const std::string& task, int signal) {
  std::ifstream status("/proc/self/task/" + task + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("SigBlk:", 0) != 0) continue;
    return (std::strtoull(line.c_str() + 7, nullptr, 16) >> (signal - 1) & 1) != 0;
  }
  return false;
}

volatile std::sig_atomic_t g_elsewhere = 0;
pthread_t g_main;

}  // namespace

// Signals are the program's: they do not interrupt our threads, whose stacks and locks are ours.
TEST(workers_block_signals) {
  g_main = ::pthread_self();
  struct sigaction action{};
  action.sa_handler = [](int) { g_elsewhere = g_elsewhere + (pthread_self() != g_main ? 1 : 0); };
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGUSR1, &action, nullptr);
  const Opened package(aot_test::small_package(kWidth, 0));
  const Owned session(package.get(), "cpu", threads(4));
  for (int i = 0; i < 20; ++i) CHECK_EQ(run(session.get()), "");
  int others = 0;
  DIR* folder = ::opendir("/proc/self/task");
  while (const dirent* entry = ::readdir(folder)) {
    const std::string task = entry->d_name;
    if (task[0] == '.' || task == std::to_string(::getpid())) continue;
    ++others;
    for (const int signal : {SIGUSR1, SIGINT, SIGTERM, SIGALRM, SIGCHLD, SIGPROF}) {
      if (!blocks(task, signal)) {
        aot_test::report(__FILE__, __LINE__, "a worker takes signal " + std::to_string(signal));
      }
    }
  }
  ::closedir(folder);
  CHECK(others >= 3);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    CHECK(!blocks(std::to_string(::getpid()), fault));
  }
  CHECK(!blocks(std::to_string(::getpid()), SIGUSR1));  // the caller's mask is as it was
  for (int i = 0; i < 200; ++i) {
    ::kill(::getpid(), SIGUSR1);
    CHECK_EQ(run(session.get(), 64), "");
  }
  CHECK_EQ(static_cast<int>(g_elsewhere), 0);
}

namespace {

// What a callback of a run does with the session that runs it, and how often it was refused.
struct Intruder {
  aot_session* session = nullptr;
  int tried = 0;
  int refused = 0;

  void count(aot_status* status) {
    ++tried;
    if (status != nullptr && *aot_status_message(status) != '\0') ++refused;
    aot_status_free(status);
  }

  void call_all() {
    const std::vector<float> x(8, 1.0f);
    const aot::Tensor input = aot::Tensor::borrow(x.data(), {1, 8});
    const DLTensor* views[] = {&input.view()};
    DLManagedTensor* outputs[2] = {};
    size_t steps = 0;
    aot_session* clone = nullptr;
    count(aot_session_run(session, views, 1, outputs, 2, nullptr));
    count(aot_session_set_observer(session, nullptr, nullptr));
    count(aot_session_profile(session, nullptr, 0, &steps));
    count(aot_session_profile_reset(session));
    count(aot_session_reset(session));
    count(aot_session_clone(session, &clone));
  }

  static void observe(void* context, size_t /*step*/, size_t /*buffer*/, const void* /*data*/,
                      size_t /*size*/) {
    static_cast<Intruder*>(context)->call_all();
  }
  static int operate(const aot_operator_call* /*call*/, void* user) {
    static_cast<Intruder*>(user)->call_all();
    return 0;
  }
};

void check_observer(const char* device) {
  const Opened package(aot_test::small_cuda_package());
  const Owned session(package.get(), device);
  Intruder intruder;
  intruder.session = session.get();
  aot_test::expect_ok(aot_session_set_observer(session.get(), Intruder::observe, &intruder));
  CHECK_EQ(run(session.get(), 6, 8), "");
  CHECK(intruder.tried > 0);
  CHECK_EQ(intruder.refused, intruder.tried);
  aot_test::expect_ok(aot_session_set_observer(session.get(), nullptr, nullptr));
  CHECK_EQ(run(session.get(), 6, 8), "");
}

}  // namespace

TEST(an_observer_that_calls_its_session_is_refused) { check_observer("cpu"); }
TEST(an_observer_that_calls_its_session_on_a_gpu_is_refused) { check_observer("cuda"); }

TEST(an_operator_that_calls_its_session_is_refused) {
  Intruder intruder;
  aot_test::expect_ok(aot_register_operator("demo::scale", Intruder::operate, &intruder, nullptr));
  const Opened package(aot_test::operator_package());
  const Owned session(package.get(), "cpu");
  intruder.session = session.get();
  CHECK_EQ(run_operator(session.get()), "");
  CHECK_EQ(intruder.tried, 6);
  CHECK_EQ(intruder.refused, 6);
}

// Another session is free for a callback to use.
TEST(an_observer_that_calls_another_session) {
  const Opened package(aot_test::small_package());
  const Owned session(package.get(), "cpu");
  const Owned other(package.get(), "cpu");
  struct Other {
    aot_session* session;
    int right = 0;
  } context{other.get()};
  const auto observe = [](void* self, size_t, size_t, const void*, size_t) {
    auto* it = static_cast<Other*>(self);
    if (run(it->session, 2, 8).empty()) ++it->right;
  };
  aot_test::expect_ok(aot_session_set_observer(session.get(), observe, &context));
  CHECK_EQ(run(session.get(), 6, 8), "");
  CHECK_EQ(context.right, 3 + 3 + 2);
}

// Every tensor of an update without data is refused, and nothing has changed.
TEST(weights_without_data) {
  for (const bool originals : {true, false}) {
    const Opened package(aot_test::swappable_package(originals));
    const Owned session(package.get(), "cpu");
    const std::vector<float> ones(8, 1.0f);
    const aot::Tensor whole = aot::Tensor::borrow(ones.data(), {8});
    const aot::Tensor column = aot::Tensor::borrow(ones.data(), {8, 1});
    const aot::Tensor row = aot::Tensor::borrow(ones.data(), {1, 1});
    for (int which = 0; which < 4; ++which) {
      DLTensor none = which == 2 ? column.view() : which == 3 ? row.view() : whole.view();
      none.data = nullptr;
      aot_weight_update update{};
      update.struct_size = sizeof(update);
      update.name = "base";
      update.add = which != 0 ? 1 : 0;
      if (which < 2) {
        update.value = &none;
      } else {
        update.up = which == 2 ? &none : &column.view();
        update.down = which == 3 ? &none : &row.view();
      }
      const aot_weight_update* const updates[] = {&update};
      aot_replace_options options{};
      options.struct_size = sizeof(options);
      options.partial = 1;
      aot_status* status = aot_package_replace_weights(package.get(), updates, 1, &options);
      CHECK_EQ(aot_status_code(status), AOT_INVALID_ARGUMENT);
      CHECK(says(aot_status_message(status), "base"));
      aot_status_free(status);
      CHECK_EQ(run(session.get(), 4, 8), "");
    }
  }
}

#if defined(__SANITIZE_THREAD__)
// Children of processes with threads start threads of their own here.
AOT_SANITIZER_OPTIONS(tsan, "die_after_fork=0")
#endif

TEST_MAIN_APART(40)
