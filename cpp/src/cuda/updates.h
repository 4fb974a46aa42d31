// New values of states and inputs on their way to where they belong.
#ifndef AOT_SRC_CUDA_UPDATES_H_
#define AOT_SRC_CUDA_UPDATES_H_

#include <vector>

#include "cuda/bound_launches.h"
#include "cuda/device.h"
#include "memory.h"
#include "plan.h"

namespace aot_rt::cuda {

// Belongs to one session.
class Updates {
 public:
  // `states`: the block of the session's states; must outlive this.
  Updates(const Device& device, const Plan& plan, const Program& program, const DeviceBlock& states)
      : device_(device), plan_(plan), program_(program), states_(states) {}

  // Whether an input that changes is in host memory: it is written when the run is over.
  bool any_on_host(const DLTensor* const* inputs) const;

  // Enqueues copies to states, to inputs on the device, and of the others to the host. Throws
  // OUT_OF_MEMORY.
  void enqueue(const BoundLaunches& bound, const DLTensor* const* inputs, CUstream stream);

  // Writes inputs in host memory, once the stream is done.
  void finish(const BoundLaunches& bound, const DLTensor* const* inputs);

 private:
  const Device& device_;
  const Plan& plan_;
  const Program& program_;
  const DeviceBlock& states_;
  std::vector<Block> fetched_;  // by update, for inputs on the host
};

}  // namespace aot_rt::cuda

#endif  // AOT_SRC_CUDA_UPDATES_H_
