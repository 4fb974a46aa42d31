#include "log.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <ctime>

namespace serve {
namespace {

constexpr const char* kNames[] = {"debug", "info", "warning", "error"};

std::string now() {
  using std::chrono::system_clock;
  const auto time = system_clock::now();
  const std::time_t seconds = system_clock::to_time_t(time);
  const auto millis =
      std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count() % 1000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[40];
  const size_t length = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text + length, sizeof(text) - length, ".%03dZ", static_cast<int>(millis));
  return text;
}

}  // namespace

void Log::write(LogLevel level, const char* event, Fields fields) {
  if (!wants(level)) return;
  nlohmann::ordered_json line;
  line["time"] = now();
  line["level"] = kNames[static_cast<int>(level)];
  line["event"] = event;
  for (const auto& [name, value] : fields) line[name] = value;
  const std::string text =
      line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  const std::lock_guard<std::mutex> lock(mutex_);
  // A log that cannot be written must not end the service.
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

}  // namespace serve
