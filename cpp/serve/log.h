// One JSON object a line on stderr.
#ifndef AOT_SERVE_LOG_H_
#define AOT_SERVE_LOG_H_

#include <initializer_list>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace serve {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

class Log {
 public:
  using Fields = std::initializer_list<std::pair<const char*, nlohmann::json>>;

  explicit Log(LogLevel least) : least_(least) {}

  bool wants(LogLevel level) const { return level >= least_; }
  // {"time": "2026-01-02T03:04:05.678Z", "level": "info", "event": "load", …}. From any thread.
  void write(LogLevel level, const char* event, Fields fields);

 private:
  const LogLevel least_;
  std::mutex mutex_;
};

}  // namespace serve

#endif  // AOT_SERVE_LOG_H_
