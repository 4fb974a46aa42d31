// A request to a model on its way through the server, and what came of it.
#ifndef AOT_SERVE_CALL_H_
#define AOT_SERVE_CALL_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aot/aot.hpp"

namespace serve {

using Clock = std::chrono::steady_clock;
constexpr Clock::time_point kNever = Clock::time_point::max();

inline double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

// Memory of an input. `data` lies in the call's storage, and is of the size that the shape says.
struct Input {
  const void* data = nullptr;
  size_t bytes = 0;
  std::vector<int64_t> shape;
};

// An output that the client wants.
struct Wish {
  size_t index = 0;
  bool binary = false;
};

// What a client asks of a model, in the model's order of inputs, whole and of the right types; the
// sizes are the runtime's to judge.
struct InferRequest {
  std::string id;
  std::vector<Input> inputs;
  std::vector<Wish> outputs;
  int64_t timeout_ns = 0;  // 0: none
  std::vector<std::shared_ptr<void>> storage;
};

// What a run gave, C-contiguous in the host's memory.
class Outputs {
 public:
  // Takes a run's outputs over; those of other strides are copied.
  explicit Outputs(std::vector<aot::Tensor> tensors);

  const aot::Tensor& operator[](size_t index) const { return tensors_[index]; }
  size_t size() const { return tensors_.size(); }

 private:
  std::vector<aot::Tensor> tensors_;
  std::vector<std::vector<char>> copies_;
};

// What came of a call: an error, or rows of outputs that it may share with others.
struct Outcome {
  std::optional<aot::Error> error;
  std::shared_ptr<const Outputs> outputs;
  int64_t first_row = 0;
  int64_t rows = -1;  // -1: all that there are
  double queue_s = 0;
  double run_s = 0;
  int64_t batch_rows = 1;
};

// One output of an outcome, as its call gets it: C-contiguous memory that the outcome keeps.
struct OutputRows {
  OutputRows(const Outcome& outcome, size_t index);

  std::vector<int64_t> shape;
  const void* data;
  size_t bytes;
};

class Batch;

// Made by a protocol, given to a Scheduler, which calls `done` once, from any thread.
struct Call {
  InferRequest request;
  Clock::time_point arrived;
  Clock::time_point deadline = kNever;
  std::function<void(Outcome)> done;

  // The scheduler's own, guarded by its mutex.
  enum class State { kNew, kQueued, kTaken, kDone };
  State state = State::kNew;
  std::optional<aot::Error> ended;  // why it is not wanted any more
  Batch* batch = nullptr;
  std::string key;   // what it must have in common with others to run with them; "": runs alone
  int64_t rows = 1;  // sizes of the batch dimension
};

}  // namespace serve

#endif  // AOT_SERVE_CALL_H_
