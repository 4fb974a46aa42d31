// The weights that runs read: how a device keeps them, and how a replacement reaches it.
//
// A package has weights of its own and, once some have been replaced, values that take their place.
// Each device that sessions run on has a WeightPlace: where every entry that its program reads lies
// now. A run takes the present placement when it begins and keeps it alive until it ends.
#ifndef AOT_SRC_WEIGHTS_H_
#define AOT_SRC_WEIGHTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "aot/dlpack.h"
#include "plan.h"
#include "safetensors.h"

namespace aot_rt {

// Bytes in the host's or a device's memory, freed with the last holder; 64-byte aligned.
using SharedBytes = std::shared_ptr<const uint8_t>;

// Where entries lie, by their position in the container. An empty list, and nullptr in it, stand
// for the package's own bytes.
using Placement = std::vector<SharedBytes>;

// Where an entry lies.
const uint8_t* entry_bytes(const Entry& entry, const Container& container,
                           const Placement* placement);

// The present value of one of the model's weights.
struct WeightValue {
  enum class State : uint8_t {
    kPackaged,  // the package's own; in its entry, if it has one
    kKept,      // `bytes`, in the host's memory
    kGone,      // replaced, and not kept: only what follows from it is there
  };
  State state = State::kPackaged;
  SharedBytes bytes;
};

// The value in the host's memory; nullptr when nobody has it.
const uint8_t* host_bytes(const WeightSpec& spec, const WeightValue& value);

// By position in Plan::weights.
using WeightValues = std::vector<WeightValue>;

// What one device does with weights. Functions are called by one thread at a time.
class WeightDevice {
 public:
  virtual ~WeightDevice() = default;

  // The program that reads them; lives as long as the package.
  virtual const Program& program() const = 0;

  // The package's own weights, where the device reads them.
  virtual Placement package_weights() = 0;

  // Bytes of the host's memory, where the device reads them.
  virtual SharedBytes store(const SharedBytes& bytes, size_t size) = 0;

  // Runs a routine of the program on weights in the host's memory; where the device reads the
  // result.
  virtual SharedBytes derive(const Routine& routine, const DLTensor* const* sources) = 0;
};

// Which weights a replacement changes, by position.
using Changed = std::vector<bool>;

// The placement after a change: `before`, with the entries that follow from changed weights stored
// or derived anew. Throws INVALID_ARGUMENT, which names the weights that are changed nowhere and
// not kept but needed, and what the device's functions throw.
Placement place_changes(WeightDevice& device, const Plan& plan, const Container& container,
                        const Placement& before, const WeightValues& values,
                        const Changed& changed);

}  // namespace aot_rt

#endif  // AOT_SRC_WEIGHTS_H_
