#include "log.h"

#include <atomic>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace aot_python {
namespace {

constexpr size_t kMostMessages = 1000;  // between two returns to Python

struct Message {
  aot_log_level level;
  std::string text;
};

struct Queue {
  std::mutex mutex;
  std::vector<Message> messages;
  size_t lost = 0;
  std::atomic<bool> waiting{false};
};

// Never destroyed: threads of the library may log until the process ends.
Queue& queue() {
  static auto* const all = new Queue;
  return *all;
}

py::object& sink() {
  static auto* const callable = new py::object;
  return *callable;
}

std::vector<Message> take_messages() {
  Queue& all = queue();
  std::vector<Message> taken;
  const std::lock_guard<std::mutex> lock(all.mutex);
  taken.swap(all.messages);
  if (all.lost != 0) {
    taken.push_back({AOT_LOG_WARNING, std::to_string(all.lost) + " messages were lost"});
  }
  all.lost = 0;
  all.waiting.store(false);
  return taken;
}

}  // namespace

void keep_message(void* /*context*/, aot_log_level level, const char* message) {
  Queue& all = queue();
  const std::lock_guard<std::mutex> lock(all.mutex);
  try {
    if (all.messages.size() < kMostMessages) {
      all.messages.push_back({level, message});
    } else {
      ++all.lost;
    }
  } catch (const std::bad_alloc&) {
    ++all.lost;  // the library goes on without
  }
  all.waiting.store(true);
}

void set_log_sink(py::object callable) { sink() = std::move(callable); }

LogDrain::~LogDrain() {
  if (!queue().waiting.load(std::memory_order_relaxed) || !sink()) return;
  try {
    for (const Message& message : take_messages()) {
      sink()(static_cast<int>(message.level), message.text);
    }
  } catch (py::error_already_set& error) {
    error.discard_as_unraisable("aot_runtime's log");
  }
}

}  // namespace aot_python
