// What a long life costs: memory that does not grow with the sizes that runs find, none taken or
// given back where the same shapes come in turn.
#include <cstdint>
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

using aot_test::fake;
using aot_test::FakeLive;
using aot_test::Gate;
using aot_test::heap;
using aot_test::Meter;
using aot_test::Mishap;
using aot_test::Opened;
using aot_test::Owned;
using aot_test::Turn;

constexpr int64_t kMost = 8192;
constexpr int64_t kWidth = 1024;  // of rows that come and go: 4 KB each
constexpr float kTotal = 2 * (kWidth + kWidth * (kWidth - 1) / 2);

// The small package and a session of it that takes memory from a meter.
class Rows {
 public:
  explicit Rows(const char* device, bool enqueued = false)
      : package_(aot_test::small_cuda_package(kWidth)), enqueued_(enqueued) {
    aot_session_options options{};
    hooks_ = meter.hooks();
    options.allocator = &hooks_;
    session_ = Owned(package_.get(), device, options);
  }

  void run(int64_t rows) {
    const std::vector<float> x(static_cast<size_t>(rows * kWidth), 1.0f);
    std::vector<aot::Tensor> inputs;
    inputs.push_back(aot::Tensor::borrow(x.data(), {rows, kWidth}));
    if (!enqueued_) {
      const auto outputs = aot_test::run_on_host(session_.get(), inputs, 2);
      CHECK_EQ(outputs[1].data<float>()[rows - 1], kTotal);
      return;
    }
    const DLTensor* views[] = {&inputs[0].view()};
    DLManagedTensorVersioned* raw[2] = {};
    aot_run_options options{};
    options.struct_size = sizeof(options);
    options.stream = reinterpret_cast<void*>(1);
    aot_test::expect_ok(aot_session_run_with(session_.get(), views, 1, raw, 2, &options));
    for (DLManagedTensorVersioned* output : raw) output->deleter(output);
  }

  Meter meter;  // outlives the outputs

 private:
  Opened package_;
  aot_allocator hooks_{};
  Owned session_;
  bool enqueued_;
};

// Runs of so many counts, each one new.
void run_counts(aot_session* session, int64_t begin, int64_t end) {
  std::string wrong;
  for (int64_t count = begin; count < end && wrong.empty(); ++count) {
    wrong = aot_test::wrong_in(session, {kMost, count, Mishap::kNone, 1});
  }
  CHECK_EQ(wrong, "");
}

// Bytes of heap, of the caller's allocator and blocks of the GPU stay where they are.
void check_flat(const char* device) {
  const Gate gate;
  const Opened package(aot_test::changing_package(kMost));
  Meter meter;
  const aot_allocator hooks = meter.hooks();
  aot_session_options options{};
  options.allocator = &hooks;
  const Owned session(package.get(), device, options);
  run_counts(session.get(), kMost - 3, kMost + 1);
  run_counts(session.get(), 0, 1500);
  const int64_t bytes = heap().bytes;
  const int64_t blocks = meter.live;
  const FakeLive live = fake().live();
  run_counts(session.get(), 1500, 4500);
  constexpr int64_t kAllowed = 128 << 10;
  CHECK(heap().bytes - bytes < kAllowed);
  CHECK(meter.live - blocks <= 4);
  CHECK(fake().live().device_blocks - live.device_blocks <= 4);
  CHECK(fake().live().graphs - live.graphs <= 4);
}

// Where a bound serves, a new count costs no more than one that has been seen.
void check_no_plans(const char* device) {
  const Gate gate;
  const Opened package(aot_test::changing_package(kMost));
  const Owned session(package.get(), device);
  run_counts(session.get(), kMost, kMost + 1);
  const auto calls_of = [&](int64_t begin, int64_t step) {
    const int64_t before = heap().calls;
    for (int64_t i = 0; i < 100; ++i) {
      const Turn turn{kMost, begin + i * step, Mishap::kNone, 1};
      CHECK_EQ(aot_test::wrong_in(session.get(), turn), "");
    }
    return heap().calls - before;
  };
  calls_of(kMost, 0);
  const int64_t same = calls_of(kMost, 0);
  const int64_t fresh = calls_of(100, 7);
  // A GPU's graph gets new values written into its nodes.
  if (fresh > 2 * same) {
    aot_test::report(__FILE__, __LINE__,
                     aot_rt::cat(device, ": ", fresh, " allocations in 100 runs of new counts, ",
                                 same, " in those of one"));
  }
}

// Shapes in turn, once each has been there a few times.
void check_alternating(const char* device, bool enqueued) {
  Rows rows(device, enqueued);
  const auto all = [&rows] {
    for (const int64_t count : {64, 1, 64, 2, 33, 1}) rows.run(count);
  };
  for (int i = 0; i < 4; ++i) all();
  const int64_t taken = rows.meter.calls;
  const int64_t released = rows.meter.released;
  fake().clear_calls();
  for (int i = 0; i < 10; ++i) all();
  CHECK_EQ(rows.meter.calls - taken, 0);
  CHECK_EQ(rows.meter.released - released, 0);
  for (const char* symbol : {"cuMemAlloc_v2", "cuMemFree_v2", "cuMemHostAlloc", "cuMemFreeHost"}) {
    CHECK_EQ(std::string(symbol) + " " + std::to_string(fake().calls(symbol)),
             std::string(symbol) + " 0");
  }
}

// The same with sizes far apart: large outputs beside tiny ones.
void check_alternating_counts(const char* device) {
  const Gate gate;
  const Opened package(aot_test::changing_package(kMost));
  Meter meter;
  const aot_allocator hooks = meter.hooks();
  aot_session_options options{};
  options.allocator = &hooks;
  const Owned session(package.get(), device, options);
  const auto all = [&session] {
    for (const int64_t count : {kMost, int64_t{1}, kMost, int64_t{2}}) {
      for (const int64_t rows : {kMost, 3 * kMost}) {
        CHECK_EQ(aot_test::wrong_in(session.get(), {rows, count, Mishap::kNone, 1}), "");
      }
    }
  };
  for (int i = 0; i < 3; ++i) all();
  const int64_t taken = meter.calls;
  fake().clear_calls();
  for (int i = 0; i < 5; ++i) all();
  CHECK_EQ(meter.calls - taken, 0);
  CHECK_EQ(fake().calls("cuMemAlloc_v2") + fake().calls("cuMemFree_v2"), 0);
}

}  // namespace

TEST(new_counts_take_no_memory_on_the_cpu) { check_flat("cpu"); }
TEST(new_counts_take_no_memory_on_a_gpu) { check_flat("cuda"); }
TEST(new_counts_make_no_plans_on_the_cpu) { check_no_plans("cpu"); }
TEST(new_counts_make_no_plans_on_a_gpu) { check_no_plans("cuda"); }
TEST(shapes_in_turn_on_the_cpu) { check_alternating("cpu", false); }
TEST(shapes_in_turn_on_a_gpu) { check_alternating("cuda", false); }
TEST(shapes_in_turn_on_a_stream) { check_alternating("cuda", true); }
TEST(counts_in_turn_on_the_cpu) { check_alternating_counts("cpu"); }
TEST(counts_in_turn_on_a_gpu) { check_alternating_counts("cuda"); }

// Sets of input sizes are kept resolved, but not for ever.
TEST(new_input_sizes_take_no_memory) {
  for (const char* device : {"cpu", "cuda"}) {
    const Opened package(aot_test::small_cuda_package());
    const Owned session(package.get(), device);
    const auto run = [&](int64_t begin, int64_t end) {
      for (int64_t rows = begin; rows < end; ++rows) {
        const std::vector<float> x(static_cast<size_t>(rows * 8), 1.0f);
        std::vector<aot::Tensor> inputs;
        inputs.push_back(aot::Tensor::borrow(x.data(), {rows, 8}));
        aot_test::run_on_host(session.get(), inputs, 2);
      }
    };
    for (int i = 0; i < 3; ++i) run(1, 65);
    const int64_t bytes = heap().bytes;
    for (int i = 0; i < 10; ++i) run(1, 65);
    CHECK(heap().bytes - bytes < (16 << 10));
  }
}

TEST_MAIN_APART(120)
