// A program resolved for given sizes, whatever the device: where its buffers are, and what its
// launches are called with. A run is a loop over launches; nothing is computed again.
//
// There is one for each set of input sizes. What measured sizes decide is written into it, in
// place, when a run has read them: another count makes no other program.
#ifndef AOT_SRC_BOUND_PROGRAM_H_
#define AOT_SRC_BOUND_PROGRAM_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "bound_call.h"
#include "bound_sizes.h"
#include "memory.h"
#include "plan.h"
#include "weights.h"

namespace aot_rt {

// Belongs to one session, which is in one run at a time.
class BoundProgram : public BoundSizes {
 public:
  virtual ~BoundProgram() = default;
  BoundProgram(const BoundProgram&) = delete;
  BoundProgram& operator=(const BoundProgram&) = delete;

  // Before each run: what earlier ones have measured is unknown again, and no loop turns.
  void forget();
  // Binds the dims of a measured scope to what its step has read. Throws as BoundSizes.
  void enter(int32_t scope, const std::vector<int64_t>& values);
  void leave(int32_t scope) { leave_sizes(scope); }

  // Addresses of what changes between runs.
  void set_input(size_t index, void* address) { set(index, address); }
  void set_output(size_t index, void* address) { set(inputs().size() + index, address); }
  void set_arena(size_t scope, uint8_t* memory) { set(arena_place(scope), memory); }
  virtual void set_scratch(uint8_t* memory) = 0;

  // Slices of loop `step` are those of this turn from now on. Addresses of what they are parts of
  // must have been set.
  void set_turn(int32_t step, int64_t turn);

  // Points at the entries' bytes in `weights` (nullptr: in the package), which `generation` names.
  virtual void set_weights(const Container& container, uint64_t generation,
                           const Placement* weights);
  uint64_t weights_generation() const { return weights_generation_; }
  static constexpr uint64_t kNoWeights = ~uint64_t{0};  // the generation before the first

  // The present address of a buffer of the program.
  void* address(int32_t buffer) const { return slots_[static_cast<size_t>(buffer)]; }

  // The call of a call step, bound for the present sizes.
  BoundCall& call_of(const Step& step, DLDevice device);

  // Bytes of scratch that any one launch needs: of a worker or of a whole launch, as the device
  // counts it.
  int64_t scratch_bytes() const { return scratch_bytes_; }

  // About how much memory this takes, in bytes.
  virtual size_t footprint() const;

 protected:
  // Where one address goes.
  struct Place {
    uint32_t slot;
    int32_t launch;  // -1: the buffer's own slot
    int32_t buffer;  // whose offset in its arena is added; -1: none
  };
  using Places = std::vector<Place>;

  // `states`: the session's block, which must outlive this.
  BoundProgram(const Plan& plan, const Program& program, std::vector<int64_t> dims,
               uint8_t* states);

  // Binds the launches of the outermost scope; called once by the device's constructor.
  void bind_launches() { bind_launches(0); }
  // Work or grid of one launch, whose sizes are all known. Called again when they have changed.
  virtual void bind_launch(int32_t launch, const Step& step) = 0;
  // What a device keeps of addresses (graphs) is wrong for the launches of this scope.
  virtual void sizes_changed(int32_t /*scope*/) {}

  void need_scratch(int64_t bytes) { scratch_bytes_ = bytes > scratch_bytes_ ? bytes : scratch_bytes_; }

  // Launches are numbered in the order of their steps.
  size_t launch_count() const { return steps_.size(); }
  int32_t step_of(int32_t launch) const { return steps_[static_cast<size_t>(launch)]; }
  int32_t launch_of(int32_t step) const { return launch_of_[static_cast<size_t>(step)]; }
  // The first launch at or behind a step.
  int32_t first_launch(int32_t step) const;
  // Arguments of a launch; as long as this lives.
  void** buffers_of(int32_t launch) { return slots_.data() + first_slot_[static_cast<size_t>(launch)]; }
  int64_t* sizes_of(int32_t launch) { return sizes_.data() + first_size_[static_cast<size_t>(launch)]; }

  // Addresses, in the order: inputs, outputs, arenas, slices.
  const std::vector<Places>& places() const { return places_; }
  const std::vector<void*>& addresses() const { return addresses_; }

 private:
  size_t arena_place(size_t scope) const { return inputs().size() + outputs().size() + scope; }
  size_t slice_place(size_t slice) const {
    return inputs().size() + outputs().size() + program().scopes.size() + slice;
  }
  void lay_out();
  void place_buffer(int32_t buffer, uint32_t slot, int32_t launch);
  void bind_launches(int32_t scope);
  void set(size_t which, void* address);
  void set_slice(size_t slice, int64_t turn);

  uint8_t* states_;
  std::vector<int32_t> steps_;        // by launch
  std::vector<int32_t> launch_of_;    // by step; -1: no launch
  std::vector<size_t> first_slot_;    // by launch
  std::vector<size_t> first_size_;    // by launch
  std::vector<void*> slots_;          // one for each buffer, then the arguments of all launches
  std::vector<int64_t> sizes_;        // arguments of all launches
  std::vector<int32_t> slices_;       // buffers, in their order
  std::vector<Places> places_;        // where each address goes
  std::vector<void*> addresses_;      // the present ones
  std::vector<std::pair<uint32_t, int32_t>> entries_;  // slots that are in weights, buffers
  std::vector<std::pair<int32_t, int64_t>> turns_;     // of loops under way
  std::vector<std::vector<int64_t>> entered_;          // by scope: the values it was bound for last
  BoundCalls calls_;
  uint64_t weights_generation_ = kNoWeights;
  int64_t scratch_bytes_ = 0;
};

}  // namespace aot_rt

#endif  // AOT_SRC_BOUND_PROGRAM_H_
