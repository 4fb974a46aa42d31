// A program of device code resolved for given sizes: a run is a loop over launches, or one launch
// of a graph of them; nothing is computed again.
#ifndef AOT_SRC_CUDA_BOUND_LAUNCHES_H_
#define AOT_SRC_CUDA_BOUND_LAUNCHES_H_

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "bound_sizes.h"
#include "cuda/device_program.h"
#include "cuda/graph.h"
#include "plan.h"

namespace aot_rt::cuda {

// Belongs to one session. Every kernel parameter is eight bytes, kept in `values_`; addresses that
// change between runs (of each input, output and arena, and of the scratch) are written there.
class BoundLaunches : public BoundSizes {
 public:
  // As BoundSizes; loads the kernels that it launches. `fault_words`: one int32 per step of the
  // program, in memory that the GPU reaches. `states`: the session's block. Both must outlive this.
  BoundLaunches(const Plan& plan, const Program& program, DeviceProgram& code,
                std::vector<int64_t> dims, uint8_t* states, int32_t* fault_words);
  BoundLaunches(const BoundLaunches&) = delete;
  BoundLaunches& operator=(const BoundLaunches&) = delete;

  const std::vector<Launch>& launches() const { return launches_; }
  // The launch of the program's step of that number; nullptr: it has nothing to do.
  const Launch* launch_of(int32_t step) const {
    const int32_t position = position_[static_cast<size_t>(step)];
    return position < 0 ? nullptr : &launches_[static_cast<size_t>(position)];
  }
  int64_t scratch_bytes() const { return scratch_bytes_; }  // of any one launch

  void set_input(size_t index, void* address) { set(index, address); }
  void set_output(size_t index, void* address) { set(inputs().size() + index, address); }
  void set_arena(size_t scope, uint8_t* memory) {
    set(inputs().size() + outputs().size() + scope, memory);
  }
  void set_scratch(uint8_t* memory) { set(addresses_.size() - 1, memory); }

  // Slices of loop `step` are those of this turn from now on. Addresses of what they are parts of
  // must have been set.
  void set_turn(int32_t step, int64_t turn);

  // Points at entries in `weights`, and drops graphs, which have other addresses: none of them may
  // be running. `generation`, from 1, names the weights.
  void set_weights(const Container& container, uint64_t generation, const Placement* weights);
  uint64_t weights_generation() const { return weights_generation_; }

  // The present address of a buffer of the program.
  void* address(int32_t buffer) const {
    return reinterpret_cast<void*>(values_[static_cast<size_t>(buffer)]);
  }

  // A graph of the launches with their present parameters: one made for the same addresses, else
  // another patched, or a new one while addresses keep changing. A caller who keeps an output while
  // the next run makes another gives two sets of addresses in turn.
  const Graph& graph(const Device& device);

  uint64_t runs = 0;        // completed or enqueued
  bool graph_works = true;  // false once the driver has refused

 private:
  struct Place {
    uint32_t value;  // in `values_`
    int32_t launch;  // -1: the buffer's own value
    int64_t offset;  // from the address
  };
  using Places = std::vector<Place>;
  struct SlicePlace {
    int32_t buffer;
    std::vector<uint32_t> values;
  };
  struct Variant {
    std::unique_ptr<Graph> graph;
    std::vector<uint64_t> addresses;  // that it has
  };

  void bind_steps(const Plan& plan, DeviceProgram& code, int32_t* fault_words);
  void bind_buffer(const Plan& plan, int32_t buffer, uint32_t value, int32_t launch);
  void bind_slice(int32_t buffer, uint32_t value);
  void set(size_t which, void* address);
  void patch(Variant* variant);
  // How many addresses differ from the present ones.
  int64_t distance(const Variant& variant) const;

  const Program& program_;
  uint8_t* states_;
  std::vector<Launch> launches_;
  std::vector<int32_t> position_;    // by step of the program: in `launches_`, or -1
  std::vector<uint64_t> values_;     // one per buffer, then the parameters of all launches
  std::vector<void*> parameters_;    // addresses of parameters, as the driver takes them
  std::vector<Places> places_;       // where each address goes
  std::vector<uint64_t> addresses_;  // of inputs, outputs, arenas, scratch; 0: nothing uses it
  std::vector<SlicePlace> slices_;   // in the order of the buffers
  std::vector<std::pair<uint32_t, int32_t>>
      entries_;  // values that are entries' addresses, buffers
  uint64_t weights_generation_ = 0;
  int64_t scratch_bytes_ = 0;
  std::vector<Variant> variants_;  // at most kMaxVariants
  int64_t patches_ = 0;            // of all variants
};

}  // namespace aot_rt::cuda

#endif  // AOT_SRC_CUDA_BOUND_LAUNCHES_H_
