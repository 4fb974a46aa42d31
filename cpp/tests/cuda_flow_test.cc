// Control steps on the fake GPU: what the host reads between launches, slices, measured sizes.
#include <string>
#include <vector>

#include "check.h"
#include "cuda_package.h"
#include "flow_package.h"

namespace {

using aot_test::branch_step;
using aot_test::Builder;
using aot_test::CudaRunning;
using aot_test::fake;
using aot_test::FakeMemory;
using aot_test::fetch;
using aot_test::flow_package;
using aot_test::json;
using aot_test::Opened;

constexpr int64_t kWidth = aot_test::kFlowWidth;
constexpr DLDataType kFloat32 = {kDLFloat, 32, 1};

// total of a row of ones: 2 · (8 + 0 + 1 + … + 7).
constexpr float kTotal = 72.0f;

Opened on_cuda(Builder builder) {
  aot_test::add_cuda(&builder, {"sm_90"});
  return Opened(builder);
}

std::vector<float> ones(int64_t rows) {
  return std::vector<float>(static_cast<size_t>(rows * kWidth), 1.0f);
}

aot::Tensor as_rows(const std::vector<float>& x) {
  return aot::Tensor::borrow(x.data(), {static_cast<int64_t>(x.size()) / kWidth, kWidth});
}

std::vector<float> values(const aot::Tensor& tensor) {
  return {tensor.data<float>(), tensor.data<float>() + tensor.elements()};
}

Builder row_by_row() {
  Builder b = flow_package(true, 0, 0);
  aot_test::add_row_by_row(&b);
  return b;
}

// All three steps of the small package in one loop over the rows.
Builder all_by_row() {
  Builder b = row_by_row();
  json& buffers = b.program()["buffers"];
  for (const int of : {4, 5}) {
    json slice = buffers[9];
    const int64_t bytes = of == 4 ? aot_test::kFlowRow : int64_t{sizeof(float)};
    slice["bytes"] = bytes;
    slice["storage"]["of"] = of;
    slice["storage"]["stride"] = bytes;
    buffers.push_back(slice);
  }
  json& steps = b.program()["steps"];
  steps[0]["body"] = 3;
  steps[2]["buffers"] = {9, 2, 10};
  steps[2]["work"] = kWidth;
  steps[3]["buffers"] = {10, 11};
  steps[3]["work"] = 1;
  return b;
}

}  // namespace

TEST(loops_walk_over_slices) {
  const Opened package = on_cuda(row_by_row());
  CudaRunning running(package.get());
  for (const int64_t rows : {64, 0, 1, 3, 64}) {
    const std::vector<float> x = ones(rows);
    const auto totals = values(running.run(as_rows(x))[1]);
    CHECK(totals == std::vector<float>(static_cast<size_t>(rows), kTotal));
  }
  CHECK_EQ(std::string(fake().misuse()), "");
}

TEST(launches_between_control_steps_are_graphs) {
  const Opened package = on_cuda(all_by_row());
  CudaRunning running(package.get());
  fake().clear_calls();
  for (const int64_t rows : {5, 1, 5}) {
    const std::vector<float> x = ones(rows);
    const auto outputs = running.run(as_rows(x));
    CHECK(values(outputs[1]) == std::vector<float>(static_cast<size_t>(rows), kTotal));
    CHECK_EQ(values(outputs[0])[static_cast<size_t>(rows * kWidth - 1)], 16.0f);
  }
  // Turns but the first of each set of sizes.
  CHECK_EQ(fake().calls("cuGraphLaunch"), int64_t{4 + 0 + 5});
  CHECK_EQ(fake().calls("cuLaunchKernel"), int64_t{3 * 2});
  CHECK_EQ(std::string(fake().misuse()), "");
}

TEST(branches_read_what_the_gpu_computed) {
  for (const bool flag : {true, false}) {
    Builder b = flow_package(flag, 0);
    json& steps = b.program()["steps"];  // scale, or copy the sum as it is
    steps.insert(steps.begin() + 1, branch_step(1, 1));
    steps.insert(steps.begin() + 3, json{{"copy", 3}, {"to", 4}, {"origin", 0}});
    const Opened package = on_cuda(b);
    CudaRunning running(package.get());
    const std::vector<float> x = ones(3);
    for (int i = 0; i < 3; ++i) {
      const auto totals = values(running.run(as_rows(x))[1]);
      CHECK(totals == std::vector<float>(3, flag ? kTotal : kTotal / 2));
    }
  }
}

TEST(conditions_that_fail_at_once_run_no_body) {
  Builder b = flow_package(false, 0);
  json& steps = b.program()["steps"];
  steps.push_back({{"while", 6}, {"condition", 0}, {"body", 1}, {"origin", 0}});
  steps.push_back({{"copy", 0}, {"to", 4}, {"origin", 0}});
  const Opened package = on_cuda(b);
  CudaRunning running(package.get());
  const std::vector<float> x = ones(2);
  CHECK_EQ(values(running.run(as_rows(x))[1])[1], kTotal);
}

TEST(checks_fail_runs_and_leave_the_session_usable) {
  Builder b = flow_package(false, 0);
  b.program()["steps"].push_back({{"check", 6}, {"message", "no luck"}, {"origin", 0}});
  const Opened package = on_cuda(b);
  const int64_t blocks = fake().live().device_blocks;
  {
    CudaRunning running(package.get());
    const std::vector<float> x = ones(2);
    for (int i = 0; i < 3; ++i) {
      CHECK_FAILS(running.run(as_rows(x)), AOT_INVALID_ARGUMENT,
                  "an assertion of the model fails: no luck");
    }
  }
  CHECK_EQ(fake().live().device_blocks, blocks);
  CHECK_EQ(std::string(fake().misuse()), "");
}

TEST(sizes_are_read_and_bind_what_follows) {
  for (const int64_t count : {int64_t{0}, int64_t{2}, int64_t{4}}) {
    const Opened package = on_cuda(aot_test::measured_package(count));
    CudaRunning running(package.get());
    for (const int64_t rows : {4, 7, 4}) {
      const std::vector<float> x = ones(rows);
      const auto outputs = running.run(as_rows(x));
      CHECK(outputs[0].shape() == std::vector<int64_t>({count, kWidth}));
      if (count > 0) CHECK_EQ(values(outputs[0])[kWidth - 1], 16.0f);
      CHECK(values(outputs[1]) == std::vector<float>(static_cast<size_t>(rows), kTotal / 2));
    }
  }
  const Opened package = on_cuda(aot_test::measured_package(5));
  CudaRunning running(package.get());
  const std::vector<float> x = ones(4);
  CHECK_FAILS(running.run(as_rows(x)), AOT_SHAPE_MISMATCH, "allowed 0 to 4");
}

TEST(control_steps_follow_the_callers_stream) {
  const Opened package = on_cuda(aot_test::measured_package(2));
  CudaRunning running(package.get());
  FakeMemory memory(4 * kWidth * sizeof(float));
  const aot::Tensor input =
      aot::Tensor::borrow(memory.address(), kFloat32, {4, kWidth}, {}, {kDLCUDA, 0});
  for (int run = 0; run < 3; ++run) {
    const std::vector<float> x(4 * kWidth, static_cast<float>(run));
    memory.write(x.data(), x.size() * sizeof(float));
    const auto outputs = running.run(input, false, memory.stream());
    CHECK_EQ(fetch(outputs[0], memory.stream())[1], 2.0f * static_cast<float>(run + 1));
  }
  CHECK(aot_session_synchronize(running.get()) == nullptr);
  CHECK_EQ(std::string(fake().misuse()), "");
}

TEST(control_steps_are_watched_and_profiled) {
  for (const bool profile : {true, false}) {
    aot_session_options options{};
    options.profile = profile ? 1 : 0;
    options.synchronous = profile ? 0 : 1;
    const Opened package = on_cuda(row_by_row());
    CudaRunning running(package.get(), options);
    const std::vector<float> x = ones(3);
    CHECK(values(running.run(as_rows(x))[1]) == std::vector<float>(3, kTotal));
    if (!profile) continue;
    std::vector<aot_step_profile> steps(4);
    size_t count = 0;
    CHECK(aot_session_profile(running.get(), steps.data(), steps.size(), &count) == nullptr);
    CHECK_EQ(count, size_t{4});
    CHECK_EQ(steps[1].calls, uint64_t{3});  // a turn for each row
  }
}

TEST_MAIN
