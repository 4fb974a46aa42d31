// Control steps through the public interface: branches, loops over slices, sizes that a step reads,
// checks; and every way in which they can contradict themselves.
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "aot/aot.hpp"
#include "check.h"
#include "flow_package.h"
#include "package_builder.h"
#include "plan.h"

namespace {

using aot_test::add_measured;
using aot_test::add_row_by_row;
using aot_test::branch_step;
using aot_test::Builder;
using aot_test::flow_package;
using aot_test::json;
using aot_test::Opened;

constexpr int64_t kWidth = aot_test::kFlowWidth;
constexpr int64_t kRow = aot_test::kFlowRow;

struct Result {
  aot_code code = AOT_OK;
  std::string message;
  std::string origin;
  std::vector<int64_t> shape;  // of y
  std::vector<float> total;
};

// Runs `rows` rows of ones.
Result run(const Builder& builder, int64_t rows) {
  const Opened package(builder);
  aot_session* session = nullptr;
  CHECK(aot_session_create(package.get(), "cpu", nullptr, &session) == nullptr);
  std::vector<float> x(static_cast<size_t>(rows * kWidth), 1.0f);
  const aot::Tensor input = aot::Tensor::borrow(x.data(), {rows, kWidth});
  const DLTensor* views[] = {&input.view()};
  DLManagedTensorVersioned* outputs[2] = {};
  aot_status* status = aot_session_run_versioned(session, views, 1, outputs, 2, nullptr);
  Result result;
  result.code = aot_status_code(status);
  if (status != nullptr) {
    result.message = aot_status_message(status);
    const char* origin = aot_status_origin(status);
    result.origin = origin == nullptr ? "" : origin;
  } else {
    const DLTensor& y = outputs[0]->dl_tensor;
    const DLTensor& total = outputs[1]->dl_tensor;
    result.shape.assign(y.shape, y.shape + y.ndim);
    const auto* values = static_cast<const float*>(total.data);
    result.total.assign(values, values + total.shape[0]);
  }
  aot_status_free(status);
  for (DLManagedTensorVersioned* output : outputs) {
    if (output != nullptr) output->deleter(output);
  }
  aot_session_free(session);
  return result;
}

// total of a row of ones: 2 · (8 + 0 + 1 + … + 7).
constexpr float kTotal = 72.0f;

void read(Builder builder, const std::function<void(json&)>& change) {
  change(builder.plan);
  const aot_test::AlignedBytes bytes(builder.build());
  const auto container = aot_rt::Container::read(bytes.bytes());
  aot_rt::Plan::parse(container);
}

}  // namespace

TEST(loops_walk_over_slices) {
  for (const int64_t rows : {int64_t{0}, int64_t{1}, int64_t{64}}) {
    Builder b = flow_package(true, 0, 0);
    add_row_by_row(&b);
    const Result result = run(b, rows);
    CHECK_EQ(result.code, AOT_OK);
    CHECK(result.total == std::vector<float>(static_cast<size_t>(rows), kTotal));
  }
}

TEST(branches_take_one_arm) {
  for (const bool flag : {true, false}) {
    Builder b = flow_package(flag, 0);
    json& steps = b.program()["steps"];  // scale, or copy the sum as it is
    steps.insert(steps.begin() + 1, branch_step(1, 1));
    steps.insert(steps.begin() + 3, json{{"copy", 3}, {"to", 4}, {"origin", 0}});
    const Result result = run(b, 3);
    CHECK_EQ(result.code, AOT_OK);
    CHECK(result.total == std::vector<float>(3, flag ? kTotal : kTotal / 2));
  }
}

TEST(conditions_that_fail_at_once_run_no_body) {
  Builder b = flow_package(false, 0);
  json& steps = b.program()["steps"];
  steps.push_back({{"while", 6}, {"condition", 0}, {"body", 1}, {"origin", 0}});
  steps.push_back({{"copy", 0}, {"to", 4}, {"origin", 0}});
  CHECK_EQ(run(b, 2).total[1], kTotal);
}

TEST(checks_fail_runs_with_the_models_line) {
  for (const bool flag : {true, false}) {
    Builder b = flow_package(flag, 0);
    b.program()["steps"].push_back({{"check", 6}, {"message", "no luck"}, {"origin", 0}});
    const Result result = run(b, 1);
    CHECK_EQ(result.code, flag ? AOT_OK : AOT_INVALID_ARGUMENT);
    if (flag) continue;
    CHECK(result.message.find("no luck") != std::string::npos);
    CHECK_EQ(result.origin, "small.py:3 aten.add.Tensor");
  }
}

TEST(sizes_are_read_and_bind_what_follows) {
  for (const int64_t count : {int64_t{0}, int64_t{2}, int64_t{5}, int64_t{-1}}) {
    const Result result = run(aot_test::measured_package(count), 4);
    const bool fits = count >= 0 && count <= 4;
    CHECK_EQ(result.code, fits ? AOT_OK : AOT_SHAPE_MISMATCH);
    if (fits) CHECK(result.shape == std::vector<int64_t>({count, kWidth}));
    if (!fits) CHECK(result.message.find("allowed 0 to 4") != std::string::npos);
  }
}

TEST(steps_that_contradict_themselves) {
  Builder rows = flow_package(true, 0, 0);
  add_row_by_row(&rows);
  const auto steps = [](json& p) -> json& { return p["programs"][0]["steps"]; };
  const auto buffers = [](json& p) -> json& { return p["programs"][0]["buffers"]; };
  read(rows, [](json&) {});
  CHECK_FAILS(read(rows, [&](json& p) { steps(p)[0]["body"] = 4; }), AOT_CORRUPT_PACKAGE,
              "steps[0] has parts beyond the steps around it");
  CHECK_FAILS(read(rows, [&](json& p) { steps(p)[0]["body"] = 0; }), AOT_CORRUPT_PACKAGE,
              "steps[1] uses 'row', a slice, outside of its loop");
  CHECK_FAILS(read(rows, [&](json& p) { buffers(p)[8]["storage"]["of"] = 7; }), AOT_CORRUPT_PACKAGE,
              "is a slice of a later buffer, or of another type");
  CHECK_FAILS(read(rows, [&](json& p) { buffers(p)[8]["storage"]["step"] = 2; }),
              AOT_CORRUPT_PACKAGE, "which is no counted loop");
  CHECK_FAILS(read(rows, [&](json& p) { steps(p)[0] = branch_step(1, 0); }), AOT_CORRUPT_PACKAGE,
              "which is no counted loop");
  CHECK_FAILS(read(rows, [&](json& p) { steps(p).push_back({{"check", 7}, {"message", ""}}); }),
              AOT_CORRUPT_PACKAGE, "steps[4] reads what is no bool");
  CHECK_FAILS(read(rows, [&](json& p) { steps(p).push_back({{"copy", 3}, {"to", 0}}); }),
              AOT_CORRUPT_PACKAGE, "steps[4] writes an input or an entry");
  CHECK_FAILS(read(rows, [&](json& p) { steps(p)[0]["repeat"] = "m0"; }), AOT_CORRUPT_PACKAGE,
              "names an unknown dim 'm0'");
}

TEST(slices_that_end_beyond_their_buffer_fail_the_run) {
  Builder b = flow_package(true, 0, 0);
  add_row_by_row(&b);
  b.program()["buffers"][9]["storage"]["stride"] = kRow + 4;
  CHECK_EQ(run(b, 1).code, AOT_OK);
  CHECK_EQ(run(b, 3).code, AOT_CORRUPT_PACKAGE);
}

TEST(measured_dims_that_contradict_themselves) {
  Builder b = flow_package(true, 2);
  add_measured(&b, 1, 4);
  const auto steps = [](json& p) -> json& { return p["programs"][0]["steps"]; };
  read(b, [](json&) {});
  CHECK_FAILS(read(b, [&](json& p) { steps(p)[0]["work"] = "m0"; }), AOT_CORRUPT_PACKAGE,
              "steps[0] uses 'm0' before it is known");
  CHECK_FAILS(read(b, [&](json& p) { steps(p)[2]["read"][0][1] = 6; }), AOT_CORRUPT_PACKAGE,
              "steps[2] reads what is no int64");
  CHECK_FAILS(read(b, [&](json& p) { steps(p)[2]["read"][0][0] = "s0"; }), AOT_CORRUPT_PACKAGE,
              "reads 's0', which is known already");
  CHECK_FAILS(read(b, [&](json& p) { steps(p).erase(2); }), AOT_CORRUPT_PACKAGE,
              "read no 'm0', a dim that inputs do not bind");
  CHECK_FAILS(read(b, [](json& p) { p["inputs"][0]["shape"][0] = "m0"; }), AOT_CORRUPT_PACKAGE,
              "has the measured dim 'm0'");
  CHECK_FAILS(read(b,
                   [&](json& p) {
                     p["outputs"][0]["shape"][0] = "m0";
                     steps(p).insert(steps(p).begin() + 2, branch_step(2, 0));
                   }),
              AOT_CORRUPT_PACKAGE, "a size of an output, inside of a branch or loop");
}

TEST_MAIN
