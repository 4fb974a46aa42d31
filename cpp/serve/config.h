// What a model's config.json says.
#ifndef AOT_SERVE_CONFIG_H_
#define AOT_SERVE_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "aot/aot.hpp"

namespace serve {

struct Config {
  // "latest", "all" or numbers: which versions are served.
  bool all_versions = false;
  std::vector<std::string> versions;
  std::string device = "cpu";
  int32_t sessions = 0;       // 0: as many as there are cores, at most 4
  int32_t threads = 0;        // of a session; 0: the cores divided by the sessions
  std::vector<int32_t> cpus;  // that the sessions keep to; empty: all
  int64_t max_batch = 1;
  int64_t max_delay_us = 0;
  int64_t max_queue = 256;
  int64_t timeout_ms = 0;
  aot_limits limits{};
};

// Throws aot::Error; `where` begins its message. Unknown names are refused.
Config read_config(const std::string& text, const std::string& where);

// Sessions and threads as numbers, for a machine of so many cores.
void resolve_threads(Config& config, int32_t cores);

}  // namespace serve

#endif  // AOT_SERVE_CONFIG_H_
