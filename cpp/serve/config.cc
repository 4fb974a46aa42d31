#include "config.h"

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

namespace serve {
namespace {

using nlohmann::json;

class Reader {
 public:
  explicit Reader(const std::string& where) : where_(where) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw aot::Error(AOT_INVALID_ARGUMENT, where_ + ": " + what);
  }

  int64_t number(const std::string& name, const json& value, int64_t least, int64_t most) const {
    if (value.is_number_integer() && value >= least && value <= most) return value.get<int64_t>();
    fail("'" + name + "' must be a whole number from " + std::to_string(least) + " to " +
         std::to_string(most) + ", not " + value.dump());
  }

 private:
  std::string where_;
};

void read_versions(const Reader& reader, const json& value, Config& config) {
  if (value == "latest") return;
  if (value == "all") {
    config.all_versions = true;
    return;
  }
  if (!value.is_array() || value.empty()) {
    reader.fail("'versions' must be \"latest\", \"all\" or a list of numbers");
  }
  for (const json& version : value) {
    config.versions.push_back(std::to_string(reader.number("versions", version, 0, INT64_MAX)));
  }
}

void read_limits(const Reader& reader, const json& value, aot_limits& limits) {
  const std::map<std::string, int64_t*> fields = {
      {"plan_bytes", &limits.plan_bytes},   {"arena_bytes", &limits.arena_bytes},
      {"state_bytes", &limits.state_bytes}, {"output_bytes", &limits.output_bytes},
      {"loop_turns", &limits.loop_turns},   {"run_ns", &limits.run_ns}};
  if (!value.is_object()) reader.fail("'limits' must be an object");
  for (const auto& [name, field] : value.items()) {
    const auto found = fields.find(name);
    if (found == fields.end()) reader.fail("'limits' has no '" + name + "'");
    *found->second = reader.number(name, field, 0, INT64_MAX);
  }
}

}  // namespace

Config read_config(const std::string& text, const std::string& where) {
  const Reader reader(where);
  const json given = json::parse(text, nullptr, false);
  if (!given.is_object()) reader.fail("this is no JSON object");
  Config config;
  const auto small = [&reader](int32_t& field, int64_t least, int64_t most) {
    return [&reader, &field, least, most](const std::string& name, const json& value) {
      field = static_cast<int32_t>(reader.number(name, value, least, most));
    };
  };
  const auto large = [&reader](int64_t& field, int64_t least, int64_t most) {
    return [&reader, &field, least, most](const std::string& name, const json& value) {
      field = reader.number(name, value, least, most);
    };
  };
  using Read = std::function<void(const std::string&, const json&)>;
  const std::map<std::string, Read> fields = {
      {"versions", [&](const auto&, const json& v) { read_versions(reader, v, config); }},
      {"limits", [&](const auto&, const json& v) { read_limits(reader, v, config.limits); }},
      {"device",
       [&](const auto&, const json& v) {
         if (!v.is_string()) reader.fail("'device' must be a string such as \"cpu\"");
         config.device = v.get<std::string>();
       }},
      {"cpus",
       [&](const auto& name, const json& v) {
         if (!v.is_array()) reader.fail("'cpus' must be a list of numbers");
         for (const json& cpu : v) {
           config.cpus.push_back(static_cast<int32_t>(reader.number(name, cpu, 0, 1023)));
         }
       }},
      {"sessions", small(config.sessions, 1, 1024)},
      {"threads", small(config.threads, 1, 1024)},
      {"max_batch", large(config.max_batch, 1, 65536)},
      {"max_delay_us", large(config.max_delay_us, 0, 10'000'000)},
      {"max_queue", large(config.max_queue, 1, 1'000'000)},
      {"timeout_ms", large(config.timeout_ms, 1, 86'400'000)}};
  for (const auto& [name, value] : given.items()) {
    const auto found = fields.find(name);
    if (found == fields.end()) {
      std::string known;
      for (const auto& [field, read] : fields) known += (known.empty() ? "" : ", ") + field;
      reader.fail("there is no '" + name + "'; there are " + known);
    }
    found->second(name, value);
  }
  return config;
}

void resolve_threads(Config& config, int32_t cores) {
  if (!config.cpus.empty()) cores = static_cast<int32_t>(config.cpus.size());
  if (config.sessions == 0) config.sessions = std::clamp(cores, 1, 4);
  if (config.threads == 0) config.threads = std::max(1, cores / config.sessions);
}

}  // namespace serve
