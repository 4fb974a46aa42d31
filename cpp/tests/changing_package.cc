#include "changing_package.h"

#include <string>
#include <utility>

#include "check.h"
#include "cuda_package.h"
#include "error.h"

namespace aot_test {
namespace {

constexpr int64_t kRow = kChangingWidth * 4;
constexpr int64_t kTable = 5;
constexpr int64_t kBadIndex = 99;

// The gate is closed for runs of this thread: operators are called in the thread that runs.
thread_local bool t_closed = false;

int gate(const aot_operator_call* call, void* /*user*/) {
  if (!t_closed) return 0;
  call->fail(call, "the gate is closed");
  return 1;
}

json tensor(const char* name, const char* dtype, json shape, json strides) {
  return {{"name", name},
          {"dtype", dtype},
          {"shape", std::move(shape)},
          {"strides", std::move(strides)}};
}

json buffer(const char* name, json bytes, json storage, const char* dtype = "float32") {
  return {{"name", name},
          {"dtype", dtype},
          {"bytes", std::move(bytes)},
          {"storage", std::move(storage)}};
}

json input(int index) { return {{"kind", "input"}, {"index", index}}; }

json step(int kernel, json buffers, json sizes, json work, int64_t scratch = 0) {
  return {{"kernel", kernel},
          {"buffers", std::move(buffers)},
          {"sizes", std::move(sizes)},
          {"work", std::move(work)},
          {"grain", 4},
          {"scratch", scratch},
          {"origin", 0}};
}

json gate_step() {
  const json found = {{"buffer", 11}, {"shape", {1}}};
  const json passed = {{"buffer", 12}, {"shape", {1}}};
  return {{"call", "demo::gate"},
          {"arguments",
           json::array({{{"name", "x"}, {"kind", "tensor"}, {"values", json::array({found})}}})},
          {"results", json::array({passed})},
          {"origin", 0}};
}

void add_buffers(Builder* b) {
  const json row_of_found = {"*", kRow, "m0"};
  json& buffers = b->program()["buffers"];
  buffers[4]["bytes"] = row_of_found;
  buffers.push_back(buffer("count", 8, input(1), "int64"));
  buffers.push_back(buffer("flag", 1, input(2), "bool"));
  buffers.push_back(buffer("index", 8, input(3), "int64"));
  buffers.push_back(
      buffer("table", 4 * kTable, {{"kind", "entry"}, {"entry", "weights/table"}, {"offset", 0}}));
  buffers.push_back(buffer("picked", row_of_found, {{"kind", "arena"}}));
  buffers.push_back(buffer("found", 4, {{"kind", "arena"}}));
  buffers.push_back(buffer("passed", 4, {{"kind", "arena"}}));
  b->program()["arena"] = json::array({{{"buffer", 3}, {"above", json::array()}},
                                       {{"buffer", 11}, {"above", {3}}},
                                       {{"buffer", 12}, {"above", {3, 11}}},
                                       {{"buffer", 10}, {"above", json::array()}}});
}

}  // namespace

Builder changing_package(int64_t most) {
  Builder b = small_package(kChangingWidth, 0);
  b.plan["dims"][0]["min"] = most;
  b.plan["dims"].push_back({{"name", "m0"},
                            {"label", "found"},
                            {"min", 0},
                            {"max", most},
                            {"multiple_of", 1},
                            {"source", nullptr}});
  b.plan["inputs"].push_back(tensor("count", "int64", {1}, {1}));
  b.plan["inputs"].push_back(tensor("flag", "bool", {1}, {1}));
  b.plan["inputs"].push_back(tensor("index", "int64", {1}, {1}));
  b.plan["outputs"][0]["shape"][0] = "m0";
  b.add_floats("weights/table", {10, 11, 12, 13, 14});
  add_buffers(&b);
  const json work = {"*", kChangingWidth, "m0"};
  b.program()["steps"] = json::array(
      {step(0, {0, 1, 3}, {kChangingWidth}, "s0"), step(2, {3, 5}, {kChangingWidth}, "s0", kRow),
       json{{"read", json::array({json::array({"m0", 6})})}, {"body", 5}, {"origin", 0}},
       step(1, {3, 2, 10}, json::array(), work), step(1, {10, 2, 4}, json::array(), work),
       step(3, {9, 8, 11}, {kTable}, 1), gate_step(),
       json{{"check", 7}, {"message", "no luck"}, {"origin", 0}}});
  add_cuda(&b, {"sm_90"});
  return b;
}

aot_code code_of(Mishap mishap) {
  switch (mishap) {
    case Mishap::kNone:
      return AOT_OK;
    case Mishap::kSize:
      return AOT_SHAPE_MISMATCH;
    case Mishap::kOperator:
      return AOT_OPERATOR_FAILED;
    case Mishap::kKernel:
    case Mishap::kCheck:
      return AOT_INVALID_ARGUMENT;
  }
  return AOT_INTERNAL;
}

Gate::Gate() {
  for (const char* device : {"cpu", "cuda"}) {
    expect_ok(aot_register_operator_for(device, "demo::gate", gate, nullptr, nullptr));
  }
}

Gate::~Gate() {
  for (const char* device : {"cpu", "cuda"}) {
    aot_status_free(aot_register_operator_for(device, "demo::gate", nullptr, nullptr, nullptr));
  }
}

void expect_ok(aot_status* status) {
  if (status == nullptr) return;
  const aot_rt::Error error(aot_status_code(status), aot_status_message(status));
  aot_status_free(status);
  throw error;
}

std::string cat_status(aot_status* status) {
  if (status == nullptr) return "";
  const std::string text =
      aot_rt::cat(aot_code_name(aot_status_code(status)), ": ", aot_status_message(status));
  aot_status_free(status);
  return text;
}

Owned::Owned(aot_package* package, const char* device, aot_session_options options) {
  options.struct_size = sizeof(options);
  expect_ok(aot_session_create(package, device, &options, &session_));
}

std::vector<aot::Tensor> run_on_host(aot_session* session, const std::vector<aot::Tensor>& inputs,
                                     size_t output_count) {
  std::vector<const DLTensor*> views;
  for (const aot::Tensor& tensor : inputs) views.push_back(&tensor.view());
  std::vector<DLManagedTensorVersioned*> raw(output_count);
  const aot_run_options options = [] {
    aot_run_options made{};
    made.struct_size = sizeof(made);
    made.host_outputs = 1;
    return made;
  }();
  expect_ok(
      aot_session_run_with(session, views.data(), views.size(), raw.data(), raw.size(), &options));
  std::vector<aot::Tensor> outputs;
  for (DLManagedTensorVersioned* managed : raw) outputs.push_back(aot::Tensor::adopt(managed));
  return outputs;
}

std::string run_turn(aot_session* session, const Turn& turn) {
  std::vector<float> x(static_cast<size_t>(turn.rows * kChangingWidth));
  float* next = x.data();  // loops as the sanitizers' builds, which optimise nothing, run them fast
  for (int64_t i = 0; i < turn.rows; ++i) {
    const float row = turn.fill + static_cast<float>(i);
    for (const float* end = next + kChangingWidth; next != end;) *next++ = row;
  }
  const int64_t count = turn.mishap == Mishap::kSize ? turn.rows + (int64_t{1} << 40) : turn.count;
  const int64_t index = turn.mishap == Mishap::kKernel ? kBadIndex : 1;
  const bool flag = turn.mishap != Mishap::kCheck;
  std::vector<aot::Tensor> inputs;
  inputs.push_back(aot::Tensor::borrow(x.data(), {turn.rows, kChangingWidth}));
  inputs.push_back(aot::Tensor::borrow(&count, {1}));
  inputs.push_back(aot::Tensor::borrow(&flag, {1}));
  inputs.push_back(aot::Tensor::borrow(&index, {1}));
  t_closed = turn.mishap == Mishap::kOperator;
  const std::vector<aot::Tensor> outputs = run_on_host(session, inputs, 2);
  if (outputs[0].shape() != std::vector<int64_t>({turn.count, kChangingWidth})) {
    return aot_rt::cat("y has ", outputs[0].shape()[0], " rows, expected ", turn.count);
  }
  const float* totals = outputs[1].data<float>();
  const float* y = outputs[0].data<float>();
  for (int64_t i = 0; i < turn.rows; ++i) {
    const float row = turn.fill + static_cast<float>(i);
    if (totals[i] != 8 * row + 28) return aot_rt::cat("total of row ", i);
    for (int64_t j = 0; i < turn.count && j < kChangingWidth; ++j) {
      if (*y++ != 4 * (row + static_cast<float>(j))) return aot_rt::cat("y in row ", i);
    }
  }
  return "";
}

std::string wrong_in(aot_session* session, const Turn& turn) {
  try {
    const std::string wrong = run_turn(session, turn);
    if (turn.mishap != Mishap::kNone) return "a run that must fail did not";
    return wrong;
  } catch (const aot_rt::Error& error) {
    if (error.code() == code_of(turn.mishap)) return "";
    return aot_rt::cat(aot_code_name(error.code()), ": ", error.what());
  }
}

}  // namespace aot_test
