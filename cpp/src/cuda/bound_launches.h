// A program of device code resolved for given sizes: a run is a loop over launches, or one launch
// of a graph of them; nothing is computed again.
#ifndef AOT_SRC_CUDA_BOUND_LAUNCHES_H_
#define AOT_SRC_CUDA_BOUND_LAUNCHES_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "bound_sizes.h"
#include "cuda/device_program.h"
#include "cuda/graph.h"
#include "plan.h"

namespace aot_rt::cuda {

// Belongs to one session. Every kernel parameter is eight bytes, kept in `values_`; addresses that
// change between runs are written there, and the launches that they belong to are marked.
class BoundLaunches : public BoundSizes {
 public:
  // As BoundSizes; loads the kernels that it launches. `fault_words`: one int32 per step of the
  // program, in memory that the GPU reaches; must outlive this.
  BoundLaunches(const Plan& plan, DeviceProgram& code, std::vector<int64_t> dims,
                int32_t* fault_words);
  BoundLaunches(const BoundLaunches&) = delete;
  BoundLaunches& operator=(const BoundLaunches&) = delete;

  const std::vector<Launch>& launches() const { return launches_; }
  // Bytes of device memory that a run needs: the arena and behind it the kernels' scratch.
  int64_t memory_bytes() const { return memory_bytes_; }

  void set_input(size_t index, void* address) { set(inputs_places_[index], address); }
  void set_output(size_t index, void* address) { set(output_places_[index], address); }
  // Points at new memory, if `generation` is not that of the last call.
  void set_memory(uint64_t generation, uint8_t* memory);

  // The present address of a buffer of the program.
  void* address(int32_t buffer) const {
    return reinterpret_cast<void*>(values_[static_cast<size_t>(buffer)]);
  }

  // A graph of the launches with their present parameters, made at the first call.
  Graph& graph(const Device& device);

  uint64_t runs = 0;        // completed or enqueued
  bool graph_works = true;  // false once the driver has refused

 private:
  struct Place {
    uint32_t value;  // in `values_`
    int32_t launch;  // -1: the buffer's own value
    int64_t offset;  // from the beginning of the memory; for places in it
  };
  using Places = std::vector<Place>;

  void bind_steps(DeviceProgram& code, int32_t* fault_words);
  void bind_buffer(DeviceProgram& code, int32_t buffer, uint32_t value, int32_t launch);
  void set(const Places& places, void* address);
  void write(const Place& place, uint64_t value) {
    values_[place.value] = value;
    if (place.launch >= 0) launches_[static_cast<size_t>(place.launch)].changed = true;
  }

  std::vector<Launch> launches_;
  std::vector<uint64_t> values_;   // one per buffer, then the parameters of all launches
  std::vector<void*> parameters_;  // addresses of parameters, as the driver takes them
  std::vector<Places> inputs_places_;
  std::vector<Places> output_places_;
  Places memory_places_;
  int64_t memory_bytes_ = 0;
  uint64_t generation_ = 0;
  std::unique_ptr<Graph> graph_;
};

}  // namespace aot_rt::cuda

#endif  // AOT_SRC_CUDA_BOUND_LAUNCHES_H_
