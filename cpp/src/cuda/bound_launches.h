// A program of device code resolved for given sizes: a run is a loop over launches, or launches of
// graphs of them; nothing is computed again.
#ifndef AOT_SRC_CUDA_BOUND_LAUNCHES_H_
#define AOT_SRC_CUDA_BOUND_LAUNCHES_H_

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "bound_call.h"
#include "bound_sizes.h"
#include "cuda/device_program.h"
#include "cuda/graph.h"
#include "plan.h"

namespace aot_rt::cuda {

// Launches in a row with the graphs of them.
struct Segment {
  struct Variant {
    std::unique_ptr<Graph> graph;
    std::vector<uint64_t> addresses;  // that it has
  };

  int32_t begin = 0;  // the first of its steps
  LaunchRange launches;
  std::vector<bool> uses;         // by address: some launch has it
  std::vector<Variant> variants;  // at most kMaxVariants
  int64_t patches = 0;            // of all variants
  uint64_t runs = 0;              // completed or enqueued
  bool graph_works = true;        // false once the driver has refused
};

// Belongs to one session. Every kernel parameter is eight bytes, kept in `values_`; addresses that
// change between runs (of each input, output and arena, of the scratch and of slices) are written
// there.
class BoundLaunches : public BoundSizes {
 public:
  // As BoundSizes; loads the kernels that it launches. `fault_words`: one int32 per step of the
  // program, in memory that the GPU reaches. `states`: the session's block. Both must outlive this.
  BoundLaunches(const Plan& plan, const Program& program, DeviceProgram& code,
                std::vector<int64_t> dims, uint8_t* states, int32_t* fault_words);
  BoundLaunches(const BoundLaunches&) = delete;
  BoundLaunches& operator=(const BoundLaunches&) = delete;

  const std::vector<Launch>& launches() const { return launches_; }
  int64_t scratch_bytes() const { return scratch_bytes_; }  // of any one launch

  void set_input(size_t index, void* address) { set(index, address); }
  void set_output(size_t index, void* address) { set(inputs().size() + index, address); }
  void set_arena(size_t scope, uint8_t* memory) {
    set(inputs().size() + outputs().size() + scope, memory);
  }
  void set_scratch(uint8_t* memory) { set(scratch_place(), memory); }

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

  // The launches of the program's steps from `begin` to before `end`, launches all of them. The
  // reference holds as long as this lives.
  Segment& segment(int32_t begin, int32_t end);

  // The call of a call step, which the GPU of that number runs.
  BoundCall& call_of(const Step& step, DLDevice device) {
    return calls_.of(program_, step, *this, device);
  }

  // A graph of the launches with their present parameters: one made for the same addresses, else
  // another patched, or a new one while addresses keep changing. A caller who keeps an output while
  // the next run makes another gives two sets of addresses in turn.
  const Graph& graph(const Device& device, Segment* segment);

 private:
  struct Place {
    uint32_t value;  // in `values_`
    int32_t launch;  // -1: the buffer's own value
    int64_t offset;  // from the address
  };
  using Places = std::vector<Place>;
  size_t scratch_place() const { return addresses_.size() - slices_.size() - 1; }
  void bind_steps(const Plan& plan, DeviceProgram& code, int32_t* fault_words);
  void bind_buffer(const Plan& plan, int32_t buffer, uint32_t value, int32_t launch);
  size_t place_of_slice(int32_t buffer) const;
  void set(size_t which, void* address);
  void patch(Segment* segment, Segment::Variant* variant);
  // How many addresses that the segment uses differ from the present ones.
  int64_t distance(const Segment& segment, const Segment::Variant& variant) const;

  const Program& program_;
  uint8_t* states_;
  std::vector<Launch> launches_;
  std::vector<uint64_t> values_;   // one per buffer, then the parameters of all launches
  std::vector<void*> parameters_;  // addresses of parameters, as the driver takes them
  std::vector<int32_t> slices_;    // buffers
  std::vector<Places> places_;     // where each address goes
  // Of inputs, outputs, arenas, the scratch, slices; 0: nothing uses it.
  std::vector<uint64_t> addresses_;
  std::vector<std::pair<uint32_t, int32_t>>
      entries_;  // values that are entries' addresses, buffers
  uint64_t weights_generation_ = 0;
  int64_t scratch_bytes_ = 0;
  std::list<Segment> segments_;
  BoundCalls calls_;
};

}  // namespace aot_rt::cuda

#endif  // AOT_SRC_CUDA_BOUND_LAUNCHES_H_
