// Every allocation, every mapping and every CUDA call fails once, the first, the second, and so on
// until a whole life of packages and sessions passes without. Each time the call that failed is
// made again and works, results are right, and nothing is left behind.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "apart.h"
#include "changing_package.h"
#include "check.h"
#include "cuda_package.h"
#include "error.h"
#include "faults.h"
#include "meter.h"

namespace {

using aot_test::cat_status;
using aot_test::fake;
using aot_test::FakeLive;
using aot_test::Fault;
using aot_test::FaultsAllowed;
using aot_test::Gate;
using aot_test::Meter;
using aot_test::Mishap;
using aot_test::Owned;

// Sanitizers make a life ten times as long: they see a part of the faults, from the first to the
// last, and another one in each of the scenarios.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int64_t kStride = 7;
#else
constexpr int64_t kStride = 1;
#endif
constexpr int64_t kMostFaults = 200000;
constexpr int kLostGpu = 700;
constexpr int kMessages = 5;  // that a case writes

// The GPU is lost, and with it all that the process has there.
struct Lost {};

// What fails.
struct Kind {
  enum What { kNew, kSystem, kAllocator, kCuda } what;
  int result = 0;  // of the CUDA call
};

const char* name_of(const Kind& kind) {
  static const char* const names[] = {"allocation", "system call", "allocator's block",
                                      "CUDA call"};
  return names[kind.what];
}

// One life with one fault.
class Life {
 public:
  Life(const Kind& kind, int64_t skip) : kind_(kind), skip_(skip) {
    switch (kind.what) {
      case Kind::kNew:
        aot_test::order_fault(Fault::kNew, skip);
        break;
      case Kind::kSystem:
        aot_test::order_fault(Fault::kSystem, skip);
        break;
      case Kind::kAllocator:
        meter.refuse = skip;
        meter.once = true;
        break;
      case Kind::kCuda:
        fake().clear_calls();
        fake().fail(nullptr, static_cast<int>(skip), kind.result);
        break;
    }
  }
  ~Life() {
    aot_test::order_fault(Fault::kNew, -1);
    fake().fail(nullptr, -1, 0);
  }
  Life(const Life&) = delete;
  Life& operator=(const Life&) = delete;

  bool happened() const {
    if (kind_.what == Kind::kAllocator) return meter.refused;
    if (kind_.what == Kind::kCuda) return fake().calls(nullptr) > skip_;
    return aot_test::fault_happened();
  }

  // A call that may fail by the fault alone, once. `between` is what the caller does then.
  void attempt(const char* what, const std::function<aot_status*()>& call, aot_code wanted = AOT_OK,
               const std::function<void()>& between = nullptr) {
    if (passes(what, call, wanted, true)) return;
    if (kind_.what == Kind::kCuda && kind_.result == kLostGpu) throw Lost{};
    if (between != nullptr) between();
    if (!passes(what, call, wanted, false)) throw Lost{};
  }

  void wrong(const std::string& text) const {
    if (++wrong_count < kMessages) {
      aot_test::report(__FILE__, __LINE__,
                       aot_rt::cat(name_of(kind_), " ", skip_, " (", kind_.result, "): ", text));
    } else {
      ++aot_test::failures();
    }
  }

  Meter meter;
  static int wrong_count;

 private:
  bool passes(const char* what, const std::function<aot_status*()>& call, aot_code wanted,
              bool may_fail) {
    aot_status* status = nullptr;
    {
      const FaultsAllowed allowed;
      status = call();
    }
    const aot_code code = aot_status_code(status);
    const std::string message = cat_status(status);
    if (code == wanted) return true;
    if (!may_fail || excused_ || !happened()) {
      wrong(aot_rt::cat(what, may_fail ? " fails: " : " fails again: ", message));
      return !may_fail ? false : (throw Lost{}, false);
    }
    excused_ = true;
    const bool memory = kind_.what == Kind::kNew || kind_.what == Kind::kAllocator;
    if (code == AOT_INTERNAL || (memory && code != AOT_OUT_OF_MEMORY)) {
      wrong(aot_rt::cat(what, " fails as no caller can know: ", message));
    }
    return false;
  }

  Kind kind_;
  int64_t skip_;
  bool excused_ = false;
};

int Life::wrong_count = 0;

// A session made under the fault.
Owned make_session(Life* life, aot_package* package, const char* device, bool profile = false) {
  const aot_allocator hooks = life->meter.hooks();
  aot_session_options options{};
  options.struct_size = sizeof(options);
  options.num_threads = 2;
  options.allocator = &hooks;
  options.profile = profile ? 1 : 0;
  aot_session* session = nullptr;
  life->attempt("aot_session_create",
                [&] { return aot_session_create(package, device, &options, &session); });
  return Owned(session);
}

// Inputs and outputs of runs whose calls alone are under the fault.
struct Call {
  std::vector<float> x;
  std::vector<int64_t> numbers;  // count, index
  bool flag = true;
  std::vector<aot::Tensor> inputs;
  std::vector<const DLTensor*> views;
  std::vector<aot::Tensor> outputs;

  void run(Life* life, aot_session* session, aot_code wanted = AOT_OK,
           const std::function<void()>& between = nullptr) {
    views.clear();
    for (const aot::Tensor& tensor : inputs) views.push_back(&tensor.view());
    DLManagedTensorVersioned* raw[2] = {};
    aot_run_options options{};
    options.struct_size = sizeof(options);
    options.host_outputs = 1;
    life->attempt(
        "aot_session_run_with",
        [&] { return aot_session_run_with(session, views.data(), views.size(), raw, 2, &options); },
        wanted, between);
    outputs.clear();
    if (wanted != AOT_OK) return;
    for (DLManagedTensorVersioned* managed : raw) outputs.push_back(aot::Tensor::adopt(managed));
  }
};

// Runs rows of ones; gives the first total, having compared it with the others.
float run_rows(Life* life, aot_session* session, int64_t rows,
               const std::function<void()>& between = nullptr) {
  Call call;
  call.x.assign(static_cast<size_t>(rows * 8), 1.0f);
  call.inputs.push_back(aot::Tensor::borrow(call.x.data(), {rows, 8}));
  const std::function<void()> again = [&] {
    call.x.assign(call.x.size(), 1.0f);  // the state package changes it
    if (between != nullptr) between();
  };
  call.run(life, session, AOT_OK, again);
  const float* total = call.outputs[1].data<float>();
  for (int64_t i = 1; i < rows; ++i) {
    if (total[i] != total[0]) life->wrong("totals differ");
  }
  return total[0];
}

void expect(Life* life, const char* what, float value, float wanted) {
  if (value != wanted) life->wrong(aot_rt::cat(what, " is ", value, ", expected ", wanted));
}

// One run of the changing package.
void run_changing(Life* life, aot_session* session, int64_t rows, int64_t count, bool good) {
  Call call;
  for (int64_t i = 0; i < rows * 8; ++i) call.x.push_back(static_cast<float>(i / 8));
  call.numbers = {count, 1};
  call.flag = good;
  call.inputs.push_back(aot::Tensor::borrow(call.x.data(), {rows, 8}));
  call.inputs.push_back(aot::Tensor::borrow(&call.numbers[0], {1}));
  call.inputs.push_back(aot::Tensor::borrow(&call.flag, {1}));
  call.inputs.push_back(aot::Tensor::borrow(&call.numbers[1], {1}));
  call.run(life, session, good ? AOT_OK : AOT_INVALID_ARGUMENT);
  if (!good) return;
  if (call.outputs[0].shape() != std::vector<int64_t>({count, 8})) {
    life->wrong(aot_rt::cat("y has ", call.outputs[0].shape()[0], " rows, expected ", count));
    return;
  }
  for (int64_t i = 0; i < count * 8; ++i) {
    if (call.outputs[0].data<float>()[i] != 4 * static_cast<float>(i / 8 + i % 8)) {
      life->wrong(aot_rt::cat("element ", i, " of y"));
      return;
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    if (call.outputs[1].data<float>()[i] != static_cast<float>(8 * i + 28)) {
      life->wrong(aot_rt::cat("total ", i));
      return;
    }
  }
}

// A package that lives as long as one life, opened without faults.
class Fresh {
 public:
  explicit Fresh(const aot_test::AlignedBytes& bytes) {
    aot_test::expect_ok(
        aot_package_open_memory(bytes.bytes().data, bytes.bytes().size, nullptr, &package_));
  }
  ~Fresh() { aot_package_free(package_); }
  Fresh(const Fresh&) = delete;
  Fresh& operator=(const Fresh&) = delete;
  aot_package* get() const { return package_; }

 private:
  aot_package* package_ = nullptr;
};

const aot_test::AlignedBytes& changing_bytes() {
  static const aot_test::AlignedBytes bytes(aot_test::changing_package().build());
  return bytes;
}

const aot_test::AlignedBytes& state_bytes() {
  static const aot_test::AlignedBytes bytes(aot_test::state_cuda_package().build());
  return bytes;
}

const aot_test::AlignedBytes& weights_bytes() {
  static const aot_test::AlignedBytes bytes([] {
    aot_test::Builder builder = aot_test::swappable_package(true);
    aot_test::add_cuda(&builder, {"sm_90"});
    return builder.build();
  }());
  return bytes;
}

void live_with_sizes(Life* life, const char* device) {
  const Fresh package(changing_bytes());
  const Owned session = make_session(life, package.get(), device);
  run_changing(life, session.get(), 64, 4, true);
  run_changing(life, session.get(), 64, 9, true);
  run_changing(life, session.get(), 100, 64, true);
  run_changing(life, session.get(), 64, 2, false);
  run_changing(life, session.get(), 64, 4, true);
  run_changing(life, session.get(), 100, 5, true);
}

void live_with_states(Life* life, const char* device) {
  const std::vector<float> first = {0, 1, 2, 3, 4, 5, 6, 7};
  const std::vector<float> second = {1, 2, 3, 4, 5, 6, 7, 8};  // x + bias
  std::vector<float> read(8);
  const Fresh package(state_bytes());
  const Owned session = make_session(life, package.get(), device);
  const auto set = [&](const std::vector<float>& values) {
    aot_test::expect_ok(aot_session_set_state(session.get(), 0, values.data(), 32));
  };
  expect(life, "the first total", run_rows(life, session.get(), 1, [&] { set(first); }), 72);
  expect(life, "the second total", run_rows(life, session.get(), 1, [&] { set(second); }), 88);
  life->attempt("aot_session_set_state",
                [&] { return aot_session_set_state(session.get(), 0, second.data(), 32); });
  life->attempt("aot_session_get_state",
                [&] { return aot_session_get_state(session.get(), 0, read.data(), 32); });
  if (read != second) life->wrong("the state that was set");
  aot_session* copy = nullptr;
  life->attempt("aot_session_clone", [&] { return aot_session_clone(session.get(), &copy); });
  const Owned clone(copy);
  life->attempt("aot_session_reset", [&] { return aot_session_reset(session.get()); });
  life->attempt("aot_session_get_state",
                [&] { return aot_session_get_state(session.get(), 0, read.data(), 32); });
  if (read != first) life->wrong("the state after a reset");
  life->attempt("aot_session_get_state",
                [&] { return aot_session_get_state(clone.get(), 0, read.data(), 32); });
  if (read != second) life->wrong("the clone's state");
}

// The base of the bias becomes `from`, `from` + 1, …
void replace(Life* life, aot_package* package, float from, const std::function<void()>& after) {
  std::vector<float> base;
  for (int i = 0; i < 8; ++i) base.push_back(from + static_cast<float>(i));
  const aot::Tensor value = aot::Tensor::borrow(base.data(), {8});
  aot_weight_update update{};
  update.struct_size = sizeof(update);
  update.name = "base";
  update.value = &value.view();
  const aot_weight_update* const updates[] = {&update};
  aot_replace_options options{};
  options.struct_size = sizeof(options);
  options.partial = 1;
  life->attempt(
      "aot_package_replace_weights",
      [&] { return aot_package_replace_weights(package, updates, 1, &options); }, AOT_OK, after);
}

void live_with_weights(Life* life, const char* device) {
  const Fresh package(weights_bytes());
  const Owned session = make_session(life, package.get(), device);
  expect(life, "a total", run_rows(life, session.get(), 3), 72);
  replace(life, package.get(), 10, [&] {
    expect(life, "a total after a replacement that failed", run_rows(life, session.get(), 3), 72);
  });
  expect(life, "a total with new weights", run_rows(life, session.get(), 3), 232);
  const Owned other = make_session(life, package.get(), device);
  expect(life, "a total of another session", run_rows(life, other.get(), 5), 232);
  replace(life, package.get(), 0, [&] {
    expect(life, "a total after a second failure", run_rows(life, other.get(), 5), 232);
  });
  expect(life, "a total with the first weights", run_rows(life, session.get(), 3), 72);
}

void live_watched(Life* life, const char* device) {
  const Fresh package(weights_bytes());
  const Owned session = make_session(life, package.get(), device, true);
  int seen = 0;
  const auto observe = [](void* context, size_t, size_t, const void*, size_t) {
    ++*static_cast<int*>(context);
  };
  run_rows(life, session.get(), 2);
  life->attempt("aot_session_set_observer",
                [&] { return aot_session_set_observer(session.get(), observe, &seen); });
  expect(life, "an observed total", run_rows(life, session.get(), 2), 72);
  if (seen < 8) life->wrong("an observer that was not called");
  life->attempt("aot_session_set_observer",
                [&] { return aot_session_set_observer(session.get(), nullptr, nullptr); });
  aot_step_profile steps[3] = {};
  size_t count = 0;
  life->attempt("aot_session_profile_reset",
                [&] { return aot_session_profile_reset(session.get()); });
  run_rows(life, session.get(), 2, [&] { aot_session_profile_reset(session.get()); });
  life->attempt("aot_session_profile",
                [&] { return aot_session_profile(session.get(), steps, 3, &count); });
  if (count != 3 || steps[0].calls != 1) life->wrong("a profile");
}

using Scenario = void (*)(Life* life, const char* device);

// From a file to the first run, and the end of all.
void live_from_a_file(Life* life, const char* device) {
  static const std::string path = [] {
    const char* folder = std::getenv("TMPDIR");
    const std::string name =
        aot_rt::cat(folder != nullptr ? folder : "/tmp", "/aot_fault_test.", ::getpid(), ".pkg");
    std::ofstream(name, std::ios::binary) << aot_test::small_cuda_package().build();
    return name;
  }();
  aot_package* package = nullptr;
  aot_package_options options{};
  options.struct_size = sizeof(options);
  options.verify = 1;
  life->attempt("aot_package_open",
                [&] { return aot_package_open(path.c_str(), &options, &package); });
  struct Free {
    aot_package* package;
    ~Free() { aot_package_free(package); }
  } const owner{package};
  const Owned session = make_session(life, package, device);
  expect(life, "a total", run_rows(life, session.get(), 3), 72);
}

int64_t alive(const FakeLive& live) {
  return live.device_blocks + live.host_blocks + live.contexts + live.modules + live.streams +
         live.events + live.graphs;
}

// One life without a fault.
void live_well(Scenario scenario, const char* device) {
  Life life({Kind::kNew, 0}, -1);
  try {
    scenario(&life, device);
  } catch (const Lost&) {
    life.wrong("a life without a fault fails");
  }
}

// One life with a fault that leaves nothing behind; whether it has happened.
bool live(Scenario scenario, const char* device, const Kind& kind, int64_t skip) {
  const int64_t blocks = aot_test::heap().blocks;
  const int64_t before = alive(fake().live());
  Life life(kind, skip);
  const bool happened = [&] {
    try {
      scenario(&life, device);
    } catch (const Lost&) {
    } catch (const aot_rt::Error& error) {
      life.wrong(aot_rt::cat("uncaught: ", error.what()));
    }
    return life.happened();
  }();
  fake().revive();
  if (life.meter.live != 0) life.wrong(aot_rt::cat(life.meter.live, " of the allocator's blocks"));
  if (alive(fake().live()) != before) {
    life.wrong(aot_rt::cat(alive(fake().live()) - before, " things are left on the GPU"));
  }
  // A worker lets go of its session a moment after the session's end: of one before this life
  // perhaps within it, where the machine is busy.
  for (int i = 0; i < 20000 && aot_test::heap().blocks > blocks; ++i) ::usleep(1000);
  if (aot_test::heap().blocks > blocks) {
    life.wrong(aot_rt::cat(aot_test::heap().blocks - blocks, " blocks of the heap are left"));
  }
  return happened;
}

// All lives of a scenario, each with one more that does not fail before the one that does.
void fail_each(Scenario scenario, const char* device, const Kind& kind) {
  const Gate gate;
  for (int i = 0; i < 3; ++i) live_well(scenario, device);  // what is made only once
  ::usleep(100000);  // workers let go of the sessions: what is counted from now on stays
  int64_t skip = 0;
  while (skip < kMostFaults && live(scenario, device, kind, skip)) {
    if (kind.what == Kind::kCuda && kind.result == kLostGpu) {
      live_well(scenario, device);
    }
    skip += kStride;
  }
  CHECK(skip < kMostFaults);
  std::fprintf(stderr, "%s, %s: up to %lld of them failed\n", device, name_of(kind),
               static_cast<long long>(skip));  // NOLINT(google-runtime-int)
}

void fail_each_of_the_host(Scenario scenario) {
  for (const char* device : {"cpu", "cuda"}) {
    fail_each(scenario, device, {Kind::kNew, 0});
    fail_each(scenario, device, {Kind::kSystem, 0});
    fail_each(scenario, device, {Kind::kAllocator, 0});
  }
}

// CUDA_ERROR_INVALID_VALUE, OUT_OF_MEMORY, ILLEGAL_ADDRESS, NOT_SUPPORTED, UNKNOWN.
void fail_each_of_the_gpu(Scenario scenario) {
  for (const int result : {1, 2, kLostGpu, 801, 999}) {
    fail_each(scenario, "cuda", {Kind::kCuda, result});
  }
}

}  // namespace

TEST(the_host_fails_with_sizes) { fail_each_of_the_host(live_with_sizes); }
TEST(the_host_fails_with_states) { fail_each_of_the_host(live_with_states); }
TEST(the_host_fails_with_weights) { fail_each_of_the_host(live_with_weights); }
TEST(the_host_fails_when_watched) { fail_each_of_the_host(live_watched); }
TEST(the_host_fails_when_opening) { fail_each_of_the_host(live_from_a_file); }
TEST(the_gpu_fails_with_sizes) { fail_each_of_the_gpu(live_with_sizes); }
TEST(the_gpu_fails_with_states) { fail_each_of_the_gpu(live_with_states); }
TEST(the_gpu_fails_with_weights) { fail_each_of_the_gpu(live_with_weights); }
TEST(the_gpu_fails_when_watched) { fail_each_of_the_gpu(live_watched); }
TEST(the_gpu_fails_when_opening) { fail_each_of_the_gpu(live_from_a_file); }

TEST_MAIN_APART(120)
