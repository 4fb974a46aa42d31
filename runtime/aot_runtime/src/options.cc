#include "options.h"

#include <pybind11/stl.h>

#include <string>
#include <utility>
#include <vector>

namespace aot_python {

aot_limits read_limits(const py::dict& given) {
  aot_limits limits{};
  const std::pair<const char*, int64_t*> rows[] = {
      {"plan_bytes", &limits.plan_bytes},   {"arena_bytes", &limits.arena_bytes},
      {"state_bytes", &limits.state_bytes}, {"output_bytes", &limits.output_bytes},
      {"loop_turns", &limits.loop_turns},   {"run_ns", &limits.run_ns},
  };
  for (const auto& [name, field] : rows) {
    if (given.contains(name)) *field = given[name].cast<int64_t>();
  }
  return limits;
}

aot::Policy read_policy(const py::tuple& row) {
  aot::Policy policy;
  policy.keys = row[0].cast<std::vector<std::string>>();
  policy.signatures = row[1].cast<size_t>();
  policy.trust_weights = row[2].cast<bool>();
  policy.operator_libraries = row[3].cast<bool>();
  policy.only_listed_code = !row[4].is_none();
  if (policy.only_listed_code) policy.code = row[4].cast<std::vector<std::string>>();
  policy.require_proved = row[5].cast<bool>();
  policy.limits = read_limits(row[6].cast<py::dict>());
  return policy;
}

}  // namespace aot_python
