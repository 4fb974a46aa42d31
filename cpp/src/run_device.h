// What a session needs of the device that it runs on. `Session` decides what happens when; a device
// knows how.
#ifndef AOT_SRC_RUN_DEVICE_H_
#define AOT_SRC_RUN_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "aot/abi.h"
#include "bound_program.h"
#include "memory.h"
#include "operators.h"
#include "output_pool.h"
#include "run_control.h"
#include "trace.h"

namespace aot_rt {

// Time of one step, summed.
struct StepCounter {
  uint64_t calls = 0;
  uint64_t nanoseconds = 0;
};

// What is the same for a whole run. Belongs to the session; a device may read it from begin() to
// finish() or abandon().
struct RunView {
  void* stream = nullptr;  // the caller's; nullptr: none
  const RunControl* control = nullptr;
  aot_observer_fn observer = nullptr;
  void* observer_context = nullptr;
  StepCounter* counters = nullptr;  // by step; nullptr: nothing is timed
  Trace* trace = nullptr;           // nullptr: the run is not traced
};

// Belongs to one session, whose lock is held wherever this is called, but for what is constant.
// Every run is begin(), then what it does in order, then finish() or, when anything has thrown,
// abandon(): after either the device is as if no run were under way.
class RunDevice {
 public:
  virtual ~RunDevice() = default;

  // Constant.
  virtual const std::string& isa() const = 0;  // of the loaded kernels; "sm_90" on such a device
  virtual int32_t num_threads() const = 0;     // of the host
  virtual DLDevice where() const = 0;
  virtual void* stream() const { return nullptr; }  // its own, if it has streams
  // Whether its memory is another than the host's: results that the host shall have are fetched.
  virtual bool is_apart() const = 0;

  // Memory of the device. Throws OUT_OF_MEMORY, which says what for.
  virtual Block allocate(size_t bytes, const char* purpose) const = 0;
  virtual OutputPoolPtr make_output_pool() const = 0;
  virtual OutputPoolPtr make_host_output_pool() const = 0;  // where the device is apart

  // How many sets of sizes are worth keeping.
  virtual size_t most_plans() const { return 32; }
  virtual std::unique_ptr<BoundProgram> bind(std::vector<int64_t> dims, uint8_t* states) = 0;
  // All of it has been dropped by whoever held it; it may have been launched.
  virtual void forget(std::unique_ptr<BoundProgram> bound) { bound.reset(); }

  // Copies between the host's memory and the device's outside of runs, over when they return;
  // `from` nullptr: zeros.
  virtual void load(void* to, const void* from, size_t bytes) = 0;
  virtual void store(void* to, const void* from, size_t bytes) = 0;

  // Begins a run: what follows is ordered behind all earlier ones. Throws what they have found
  // wrong since.
  virtual void begin(const RunView& run) = 0;
  // Names the memory whose users follow each other in this run's order; see OutputPool.
  virtual const void* queue() const { return nullptr; }
  // The address at which kernels read an input: its own or that of a copy.
  virtual void* place_input(size_t index, const DLTensor& tensor, const BoundTensor& bound) = 0;
  // Points at weights that may be new, once no earlier run needs the old ones.
  virtual void set_weights(BoundProgram& bound, const Container& container, uint64_t generation,
                           const Placement* weights) = 0;
  // Launches from the step `begin` to before `end`; steps that are none are skipped.
  virtual void launch(BoundProgram& bound, int32_t begin, int32_t end) = 0;
  // Calls the custom operator of a call step. Throws OPERATOR_FAILED without a place.
  virtual void call(BoundProgram& bound, int32_t step, const Operator& code) = 0;
  // Copies within the device's memory.
  virtual void copy(void* to, const void* from, size_t bytes) = 0;
  // Waits for all before it, and copies to the host.
  virtual void read(void* to, const void* from, size_t bytes) = 0;
  // Copies to the host; there when the run is over.
  virtual void fetch(void* to, const void* from, size_t bytes) = 0;

  // All that the run does has been given to the device. `over`: it shall be over when this returns;
  // else it may still go on in the caller's stream. Throws what it found wrong.
  virtual void finish(bool over) = 0;
  // Ends a run that failed, at any point: waits for what was launched, forgets what it found.
  virtual void abandon() noexcept = 0;
  // Whether a run that finish() left may still go on.
  virtual bool is_busy() const { return false; }
  // Waits for that run, and throws what it found wrong.
  virtual void synchronize() {}
};

}  // namespace aot_rt

#endif  // AOT_SRC_RUN_DEVICE_H_
