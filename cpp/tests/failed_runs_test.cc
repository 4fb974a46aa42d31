// After a run that failed, at any step, a session behaves as if that run had never been: on the CPU
// and on the fake GPU.
#include <cstdint>
#include <string>
#include <vector>

#include "apart.h"
#include "changing_package.h"
#include "check.h"
#include "cuda_package.h"
#include "error.h"
#include "meter.h"

namespace {

using aot_test::changing_package;
using aot_test::Gate;
using aot_test::Meter;
using aot_test::Mishap;
using aot_test::Opened;
using aot_test::Owned;
using aot_test::Turn;
using aot_test::wrong_in;

constexpr Mishap kMishaps[] = {Mishap::kSize, Mishap::kKernel, Mishap::kOperator, Mishap::kCheck};

// A run that fails, then good ones of other sizes: smaller, as large, and larger ones.
void check_after(const char* device, Mishap mishap, const aot_session_options& options = {}) {
  const Gate gate;
  const Opened package(changing_package());
  const Owned session(package.get(), device, options);
  int reported = 0;
  const auto check = [&](const Turn& turn) {
    const std::string wrong = wrong_in(session.get(), turn);
    if (!wrong.empty() && ++reported < 3) {
      aot_test::report(device, static_cast<int>(mishap),
                       aot_rt::cat(turn.rows, " rows, count ", turn.count, ": ", wrong));
    }
  };
  for (const int64_t rows : {64, 64, 100}) {
    for (const int64_t bad : {2, 60, 0}) {
      for (const int64_t good : {4, 2, 64, 0}) {
        check({rows, bad, mishap, 3});
        check({rows, good, Mishap::kNone, 5});
      }
    }
  }
  check({5000, 64, mishap, 1});
  check({64, 3, Mishap::kNone, 2});
  check({9000, 64, Mishap::kNone, 2});
}

}  // namespace

TEST(a_size_out_of_range_on_the_cpu) { check_after("cpu", Mishap::kSize); }
TEST(a_kernel_fault_on_the_cpu) { check_after("cpu", Mishap::kKernel); }
TEST(an_operator_that_fails_on_the_cpu) { check_after("cpu", Mishap::kOperator); }
TEST(an_assertion_on_the_cpu) { check_after("cpu", Mishap::kCheck); }
TEST(a_size_out_of_range_on_a_gpu) { check_after("cuda", Mishap::kSize); }
TEST(a_kernel_fault_on_a_gpu) { check_after("cuda", Mishap::kKernel); }
TEST(an_operator_that_fails_on_a_gpu) { check_after("cuda", Mishap::kOperator); }
TEST(an_assertion_on_a_gpu) { check_after("cuda", Mishap::kCheck); }

TEST(failures_of_watched_runs) {
  for (const char* device : {"cpu", "cuda"}) {
    for (const bool profile : {true, false}) {
      aot_session_options options{};
      options.profile = profile ? 1 : 0;
      options.synchronous = profile ? 0 : 1;
      check_after(device, Mishap::kCheck, options);
      check_after(device, Mishap::kKernel, options);
    }
  }
}

TEST(failures_in_mixed_order) {
  for (const char* device : {"cpu", "cuda"}) {
    const Gate gate;
    const Opened package(changing_package());
    const Owned session(package.get(), device);
    uint32_t random = 1;
    int failed = 0;
    for (int i = 0; i < 300; ++i) {
      random = random * 1664525 + 1013904223;
      Turn turn;
      turn.rows = 64 + (random >> 8) % 40;
      turn.count = (random >> 16) % 65;
      turn.mishap = (random >> 24) % 2 == 0 ? Mishap::kNone : kMishaps[(random >> 26) % 4];
      if (!wrong_in(session.get(), turn).empty()) ++failed;
    }
    CHECK_EQ(failed, 0);
  }
}

// The caller's allocator has none left for the output whose size the run itself has found.
TEST(no_memory_for_a_measured_output) {
  const Gate gate;
  const Opened package(changing_package(4096));
  Meter meter;
  const aot_allocator hooks = meter.hooks();
  {
    aot_session_options options{};
    options.allocator = &hooks;
    const Owned session(package.get(), "cpu", options);
    CHECK_EQ(wrong_in(session.get(), {4096, 2, Mishap::kNone, 1}), "");
    for (const int64_t count : {4096, 1000}) {
      meter.refuse = meter.calls.load();
      CHECK_FAILS(aot_test::run_turn(session.get(), {4096, count, Mishap::kNone, 1}),
                  AOT_OUT_OF_MEMORY, "no memory for");
      meter.refuse = -1;
      CHECK_EQ(wrong_in(session.get(), {4096, 4, Mishap::kNone, 7}), "");
      CHECK_EQ(wrong_in(session.get(), {4096, 4096, Mishap::kNone, 7}), "");
      CHECK_EQ(wrong_in(session.get(), {5000, 3, Mishap::kNone, 7}), "");
    }
  }
  CHECK_EQ(meter.live.load(), 0);
}

// The same on a GPU, where each of a run's allocations fails once, in the driver.
TEST(no_memory_on_a_gpu) {
  const Gate gate;
  const Opened package(changing_package(4096));
  for (const char* symbol : {"cuMemAlloc_v2", "cuMemHostAlloc"}) {
    for (int skip = 0; skip < 8; ++skip) {
      const Owned session(package.get(), "cuda");
      CHECK_EQ(wrong_in(session.get(), {4096, 2, Mishap::kNone, 1}), "");
      aot_test::fake().fail(symbol, skip, 2);
      try {
        const std::string wrong = aot_test::run_turn(session.get(), {6000, 4096, Mishap::kNone, 1});
        CHECK_EQ(wrong, "");
      } catch (const aot_rt::Error& error) {
        CHECK_EQ(error.code(), AOT_OUT_OF_MEMORY);
      }
      aot_test::fake().fail(symbol, -1, 0);
      CHECK_EQ(wrong_in(session.get(), {6000, 4, Mishap::kNone, 7}), "");
      CHECK_EQ(wrong_in(session.get(), {7000, 4096, Mishap::kNone, 7}), "");
    }
  }
  CHECK_EQ(std::string(aot_test::fake().misuse()), "");
}

// Runs that are refused before their first kernel change neither states nor inputs.
TEST(refused_runs_change_nothing) {
  for (const char* device : {"cpu", "cuda"}) {
    const Opened package(aot_test::state_cuda_package());
    const Owned session(package.get(), device);
    const std::vector<float> before(8, 1.0f);
    aot_test::expect_ok(aot_session_set_state(session.get(), 0, before.data(), 32));
    std::vector<float> x(65 * 8, 2.0f);  // one row more than the contract allows
    std::vector<aot::Tensor> inputs;
    inputs.push_back(aot::Tensor::borrow(x.data(), {65, 8}));
    CHECK_FAILS(aot_test::run_on_host(session.get(), inputs, 2), AOT_SHAPE_MISMATCH, "batch");
    std::vector<float> state(8);
    aot_test::expect_ok(aot_session_get_state(session.get(), 0, state.data(), 32));
    CHECK(state == before);
    CHECK(x == std::vector<float>(65 * 8, 2.0f));
  }
}

TEST(all_kinds_one_after_the_other) {
  for (const char* device : {"cpu", "cuda"}) {
    for (const Mishap mishap : kMishaps) check_after(device, mishap);
  }
}

TEST_MAIN_APART(60)
