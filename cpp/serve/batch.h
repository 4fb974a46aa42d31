// Calls that run together: their inputs one below the other, their outputs cut apart.
#ifndef AOT_SERVE_BATCH_H_
#define AOT_SERVE_BATCH_H_

#include <memory>
#include <string>
#include <vector>

#include "aot/aot.hpp"
#include "call.h"
#include "contract.h"

namespace serve {

// True when the first dimension of every input and output is one and the same free size, and runs
// leave nothing behind: only then may calls be joined.
bool can_batch(const Contract& contract);

// Sets `key` and `rows` of a call to a model that can_batch; leaves the key empty where the call
// must run alone, such as one that the model will refuse.
void set_batch_key(const Contract& contract, Call& call);

// The calls of one run. The scheduler's mutex guards `alive`.
class Batch {
 public:
  explicit Batch(aot_cancellation* cancellation) : cancellation_(cancellation) {}

  // A run that was cancelled since nobody wanted it is wanted again.
  void add(const std::shared_ptr<Call>& call);
  const std::vector<std::shared_ptr<Call>>& calls() const { return calls_; }
  int64_t rows() const { return rows_; }

  // One of the calls is not wanted any more; the run ends with the last.
  void leave();

  // The latest deadline of the calls.
  Clock::time_point deadline() const;

  // Inputs of all calls, valid while the batch and `memory` live. `memory` is kept between runs.
  std::vector<aot::Tensor> join(const Contract& contract, std::vector<std::vector<char>>& memory);

 private:
  std::vector<std::shared_ptr<Call>> calls_;
  int64_t rows_ = 0;
  size_t alive_ = 0;
  aot_cancellation* cancellation_;
};

}  // namespace serve

#endif  // AOT_SERVE_BATCH_H_
