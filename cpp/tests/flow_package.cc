#include "flow_package.h"

#include <string>

namespace aot_test {
namespace {

json entry(const std::string& name) { return {{"kind", "entry"}, {"entry", name}, {"offset", 0}}; }

json buffer(const char* name, const char* dtype, const json& bytes, const json& storage) {
  return {{"name", name}, {"dtype", dtype}, {"bytes", bytes}, {"storage", storage}};
}

}  // namespace

Builder flow_package(bool flag, int64_t count, int loop) {
  Builder b = small_package(kFlowWidth);
  b.add("weights/flag", "BOOL", json::array({1}), std::string(1, flag ? '\1' : '\0'));
  b.add("weights/count", "I64", json::array({1}),
        std::string(reinterpret_cast<const char*>(&count), sizeof(count)));
  json& buffers = b.program()["buffers"];
  buffers.push_back(buffer("flag", "bool", 1, entry("weights/flag")));
  buffers.push_back(buffer("count", "int64", 8, entry("weights/count")));
  for (const int of : {0, 3}) {
    const json slice = {{"kind", "slice"}, {"of", of}, {"stride", kFlowRow}, {"step", loop}};
    buffers.push_back(buffer("row", "float32", kFlowRow, slice));
  }
  return b;
}

json branch_step(int64_t then, int64_t otherwise) {
  return {{"branch", 6}, {"then", then}, {"else", otherwise}, {"origin", 0}};
}

void add_row_by_row(Builder* builder) {
  json& steps = builder->program()["steps"];
  steps[0]["buffers"] = {8, 1, 9};
  steps[0]["work"] = 1;
  steps.insert(steps.begin(), json{{"repeat", "s0"}, {"body", 1}, {"origin", 0}});
}

void add_measured(Builder* builder, int64_t body, int64_t most) {
  builder->plan["dims"].push_back({{"name", "m0"},
                                   {"label", "found"},
                                   {"min", 0},
                                   {"max", most},
                                   {"multiple_of", 1},
                                   {"source", nullptr}});
  json& steps = builder->program()["steps"];
  steps.insert(
      steps.end() - body,
      json{{"read", json::array({json::array({"m0", 7})})}, {"body", body}, {"origin", 0}});
}

Builder flow_package(bool flag, int64_t count) {
  Builder b = flow_package(flag, count, 0);
  json& buffers = b.program()["buffers"];
  buffers.erase(9);
  buffers.erase(8);
  return b;
}

Builder measured_package(int64_t count) {
  Builder b = flow_package(true, count);
  add_measured(&b, 2, 4);
  b.plan["outputs"][0]["shape"][0] = "m0";
  b.program()["buffers"][4]["bytes"] = {"*", kFlowRow, "m0"};
  json& steps = b.program()["steps"];
  steps[2]["work"] = {"*", kFlowWidth, "m0"};
  steps[3]["buffers"] = {3, 5};  // the sum, not scaled: it does not depend on m0
  return b;
}

}  // namespace aot_test
