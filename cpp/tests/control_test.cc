// What ends a run early, bounds it, prepares it, and where its outputs go; on the CPU and on the
// fake GPU.
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "aot/aot.hpp"
#include "check.h"
#include "cuda_package.h"
#include "flow_package.h"
#include "package_builder.h"

namespace {

using aot_test::Builder;
using aot_test::json;
using aot_test::Opened;

constexpr int64_t kWidth = 8;
constexpr int64_t kRows = 4;
constexpr int64_t kRowBytes = kWidth * 4;

// A session by the C++ interface, over a package that a test made.
class Running {
 public:
  explicit Running(aot_package* package, const char* device = "cpu", aot_limits limits = {}) {
    limits.struct_size = sizeof(limits);
    aot_session_options options{};
    options.struct_size = sizeof(options);
    options.limits = &limits;
    made_ = aot_session_create(package, device, &options, &session_);
  }
  ~Running() {
    aot_status_free(made_);
    aot_session_free(session_);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  aot_session* get() const { return session_; }
  aot_code made() const { return aot_status_code(made_); }

  // Runs `rows` rows of ones; "" or what failed.
  aot_code run(int64_t rows = kRows, aot_run_options options = {}) {
    options.struct_size = sizeof(options);
    options.host_outputs = 1;
    const std::vector<float> x(static_cast<size_t>(rows * kWidth), 1.0F);
    const aot::Tensor input = aot::Tensor::borrow(x.data(), {rows, kWidth});
    const DLTensor* views[] = {&input.view()};
    DLManagedTensorVersioned* outputs[2] = {};
    aot_status* status = aot_session_run_with(session_, views, 1, outputs, 2, &options);
    const aot_code code = aot_status_code(status);
    message = aot_status_message(status);
    aot_status_free(status);
    fresh = 0;
    for (DLManagedTensorVersioned* output : outputs) {
      if (output == nullptr) continue;
      ++fresh;
      output->deleter(output);
    }
    return code;
  }

  std::string message;
  int fresh = 0;  // outputs that the last run made

 private:
  aot_session* session_ = nullptr;
  aot_status* made_ = nullptr;
};

// A loop that ends when it is told to.
Builder endless_package() {
  Builder b = aot_test::flow_package(true, 0);
  json& steps = b.program()["steps"];
  steps.push_back({{"while", 6}, {"condition", 0}, {"body", 1}, {"origin", 0}});
  steps.push_back({{"copy", 3}, {"to", 3}, {"origin", 0}});
  return b;
}

Builder plain_package() { return aot_test::small_cuda_package(kWidth); }

const char* const kDevices[] = {"cpu", "cuda"};

DLTensor place_of(std::vector<float>* memory, std::vector<int64_t>* shape) {
  DLTensor tensor{};
  tensor.data = memory->data();
  tensor.device = {kDLCPU, 0};
  tensor.dtype = {kDLFloat, 32, 1};
  tensor.ndim = static_cast<int32_t>(shape->size());
  tensor.shape = shape->data();
  return tensor;
}

}  // namespace

TEST(loops_end_at_the_limit_of_turns) {
  const Opened package(endless_package());
  aot_limits limits{};
  limits.loop_turns = 1000;
  Running running(package.get(), "cpu", limits);
  CHECK_EQ(running.run(), AOT_LIMIT_EXCEEDED);
  CHECK(running.message.find("1000 times") != std::string::npos);
}

TEST(runs_end_at_their_deadline) {
  const Opened package(endless_package());
  Running running(package.get());
  aot_run_options options{};
  options.timeout_ns = 20'000'000;
  CHECK_EQ(running.run(kRows, options), AOT_DEADLINE_EXCEEDED);
  aot_limits limits{};
  limits.run_ns = 10'000'000;
  Running bounded(package.get(), "cpu", limits);
  CHECK_EQ(bounded.run(), AOT_DEADLINE_EXCEEDED);
}

TEST(runs_are_cancelled_from_another_thread) {
  const Opened package(endless_package());
  Running running(package.get());
  aot::Cancellation cancellation = aot::Cancellation::create().value();
  aot_run_options options{};
  options.cancellation = cancellation.get();
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    cancellation.cancel();
  });
  CHECK_EQ(running.run(kRows, options), AOT_CANCELLED);
  other.join();
}

TEST(a_session_is_good_after_a_cancelled_run) {
  const Opened package(plain_package());
  for (const char* device : kDevices) {
    Running running(package.get(), device);
    CHECK_EQ(running.run(), AOT_OK);
    aot::Cancellation cancellation = aot::Cancellation::create().value();
    aot_run_options options{};
    options.cancellation = cancellation.get();
    CHECK_EQ(running.run(kRows, options), AOT_OK);
    cancellation.cancel();
    CHECK_EQ(running.run(kRows, options), AOT_CANCELLED);
    CHECK_EQ(running.run(), AOT_OK);
    cancellation.reset();
    CHECK_EQ(running.run(kRows, options), AOT_OK);
  }
}

TEST(memory_has_limits) {
  const Opened package(plain_package());
  for (const char* device : kDevices) {
    aot_limits outputs{};
    outputs.output_bytes = 16 * kRowBytes;
    Running few(package.get(), device, outputs);
    CHECK_EQ(few.run(kRows), AOT_OK);
    CHECK_EQ(few.run(64), AOT_LIMIT_EXCEEDED);
    CHECK(few.message.find("output_bytes") != std::string::npos);
    CHECK_EQ(few.run(kRows), AOT_OK);
    aot_limits arena{};
    arena.arena_bytes = 1024;
    Running small(package.get(), device, arena);
    CHECK_EQ(small.run(1), AOT_OK);
    CHECK_EQ(small.run(64), AOT_LIMIT_EXCEEDED);
    CHECK(small.message.find("arena_bytes") != std::string::npos);
    CHECK_EQ(small.run(1), AOT_OK);
  }
  aot_limits negative{};
  negative.loop_turns = -1;
  CHECK_EQ(Running(package.get(), "cpu", negative).made(), AOT_INVALID_ARGUMENT);
  const Opened states(aot_test::state_package());
  aot_limits state{};
  state.state_bytes = 1;
  CHECK_EQ(Running(states.get(), "cpu", state).made(), AOT_LIMIT_EXCEEDED);
}

TEST(resolved_plans_have_a_limit) {
  const Opened package(plain_package());
  for (const char* device : kDevices) {
    aot_limits limits{};
    limits.plan_bytes = 1;
    Running running(package.get(), device, limits);
    for (int64_t rows = 1; rows < 8; ++rows) CHECK_EQ(running.run(rows), AOT_OK);
    aot_memory_info info{};
    info.struct_size = sizeof(info);
    CHECK(aot_session_memory(running.get(), &info) == nullptr);
    CHECK_EQ(info.plans, int64_t{1});
  }
}

TEST(outputs_go_into_the_callers_memory) {
  const Opened package(plain_package());
  for (const char* device : kDevices) {
    Running running(package.get(), device);
    std::vector<float> y(kRows * kWidth, -1.0F);
    std::vector<int64_t> shape{kRows, kWidth};
    const DLTensor place = place_of(&y, &shape);
    const DLTensor* places[] = {&place, nullptr};
    aot_run_options options{};
    options.outputs = places;
    CHECK_EQ(running.run(kRows, options), AOT_OK);
    CHECK_EQ(running.fresh, 1);
    for (int64_t j = 0; j < kWidth; ++j) {  // 2 · (x + bias) of the second row
      CHECK_EQ(y[static_cast<size_t>(kWidth + j)], 2.0F + 2.0F * static_cast<float>(j));
    }
  }
}

TEST(outputs_are_copied_into_other_strides) {
  const Opened package(plain_package());
  for (const char* device : kDevices) {
    Running running(package.get(), device);
    std::vector<float> y(kRows * kWidth, -1.0F);
    std::vector<int64_t> shape{kRows, kWidth};
    std::vector<int64_t> strides{1, kRows};
    DLTensor place = place_of(&y, &shape);
    place.strides = strides.data();
    const DLTensor* places[] = {&place, nullptr};
    aot_run_options options{};
    options.outputs = places;
    CHECK_EQ(running.run(kRows, options), AOT_OK);
    CHECK_EQ(y[static_cast<size_t>(3 * kRows)], 8.0F);  // column 3
  }
}

TEST(memory_for_outputs_must_fit) {
  const Opened package(plain_package());
  Running running(package.get());
  std::vector<float> y(kRows * kWidth);
  std::vector<int64_t> shape{kRows, kWidth};
  const auto code_of = [&](const DLTensor& place) {
    const DLTensor* places[] = {&place, nullptr};
    aot_run_options options{};
    options.outputs = places;
    return running.run(kRows, options);
  };
  DLTensor place = place_of(&y, &shape);
  place.dtype = {kDLInt, 32, 1};
  CHECK_EQ(code_of(place), AOT_INVALID_ARGUMENT);
  place = place_of(&y, &shape);
  place.data = nullptr;
  CHECK_EQ(code_of(place), AOT_INVALID_ARGUMENT);
  place = place_of(&y, &shape);
  place.ndim = 1;
  CHECK_EQ(code_of(place), AOT_SHAPE_MISMATCH);
  place = place_of(&y, &shape);
  place.shape = nullptr;
  CHECK_EQ(code_of(place), AOT_INVALID_ARGUMENT);
  place = place_of(&y, &shape);
  place.device = {kDLCUDA, 0};
  CHECK_EQ(code_of(place), AOT_INVALID_ARGUMENT);
  std::vector<int64_t> repeated{0, 1};
  place = place_of(&y, &shape);
  place.strides = repeated.data();
  CHECK_EQ(code_of(place), AOT_INVALID_ARGUMENT);
  shape[0] = kRows + 1;
  CHECK_EQ(code_of(place_of(&y, &shape)), AOT_SHAPE_MISMATCH);
  CHECK_EQ(running.run(), AOT_OK);
}

TEST(sizes_of_outputs_are_known_before_a_run) {
  const Opened package(plain_package());
  const Opened measured(aot_test::measured_package(2));
  std::vector<int64_t> shape{kRows, kWidth};
  std::vector<float> none;
  DLTensor input = place_of(&none, &shape);
  input.data = nullptr;
  const DLTensor* inputs[] = {&input};
  int64_t sizes[2] = {};
  for (const char* device : kDevices) {
    Running running(package.get(), device);
    CHECK(aot_session_output_sizes(running.get(), inputs, 1, 0, sizes, 2) == nullptr);
    CHECK_EQ(sizes[0], kRows);
    CHECK_EQ(sizes[1], kWidth);
    aot_status* status = aot_session_output_sizes(running.get(), inputs, 1, 2, sizes, 2);
    CHECK_EQ(aot_status_code(status), AOT_INVALID_ARGUMENT);
    aot_status_free(status);
  }
  Running running(measured.get());
  CHECK(aot_session_output_sizes(running.get(), inputs, 1, 0, sizes, 2) == nullptr);
  CHECK_EQ(sizes[0], int64_t{-1});
}

TEST(prewarmed_sessions_need_no_memory_at_their_first_run) {
  const Opened package(plain_package());
  std::vector<int64_t> shape{kRows, kWidth};
  std::vector<float> none;
  DLTensor input = place_of(&none, &shape);
  input.data = nullptr;
  const DLTensor* inputs[] = {&input};
  Running running(package.get(), "cuda");
  CHECK(aot_session_prewarm(running.get(), inputs, 1) == nullptr);
  aot_test::fake().clear_calls();
  CHECK_EQ(running.run(), AOT_OK);
  CHECK_EQ(aot_test::fake().calls("cuModuleLoadDataEx"), int64_t{0});
  // The copy of an input on the host, and memory of the host for outputs, depend on the run.
  CHECK_EQ(aot_test::fake().calls("cuMemAlloc_v2"), int64_t{1});
}

TEST(idle_sessions_hold_no_temporaries) {
  const Opened package(plain_package());
  for (const char* device : kDevices) {
    Running first(package.get(), device);
    Running second(package.get(), device);
    CHECK_EQ(first.run(64), AOT_OK);
    CHECK_EQ(second.run(64), AOT_OK);
    aot_memory_info one{};
    aot_memory_info two{};
    one.struct_size = two.struct_size = sizeof(one);
    CHECK(aot_session_memory(first.get(), &one) == nullptr);
    CHECK(aot_session_memory(second.get(), &two) == nullptr);
    CHECK_EQ(one.workspace_bytes + two.workspace_bytes, int64_t{0});
    CHECK(one.shared_bytes > 0);
    CHECK_EQ(one.shared_bytes, two.shared_bytes);  // the same one served both
    CHECK(aot_session_trim(first.get()) == nullptr);
    CHECK(aot_session_memory(first.get(), &one) == nullptr);
    CHECK_EQ(one.shared_bytes + one.output_bytes + one.plans, int64_t{0});
    CHECK_EQ(first.run(64), AOT_OK);
  }
}

TEST(captured_streams_are_refused) {
  const Opened package(plain_package());
  Running running(package.get(), "cuda");
  const aot_test::FakeMemory memory(4);  // for its stream
  aot_run_options options{};
  options.stream = memory.stream();
  aot_test::fake().capture(memory.stream());
  CHECK_EQ(running.run(kRows, options), AOT_UNSUPPORTED);
  CHECK(running.message.find("capturing") != std::string::npos);
  aot_test::fake().capture(nullptr);
  CHECK_EQ(running.run(kRows, options), AOT_OK);
}

TEST_MAIN
