// New values for weights: what a caller or a file gives, checked and made whole.
#ifndef AOT_SRC_WEIGHT_UPDATE_H_
#define AOT_SRC_WEIGHT_UPDATE_H_

#include <string>
#include <vector>

#include "aot/dlpack.h"
#include "plan.h"
#include "safetensors.h"
#include "weights.h"

namespace aot_rt {

// A new value of a weight, or, with `add` or the two factors, what is added to it: `value`, or
// scale · up · down for up (rows, rank) and down (rank, …), as low-rank adapters have them.
// Tensors are in the host's memory and borrowed.
struct WeightUpdate {
  std::string name;
  const DLTensor* value = nullptr;
  bool add = false;
  const DLTensor* up = nullptr;
  const DLTensor* down = nullptr;
  double scale = 1;
};

struct ReplaceOptions {
  bool partial = false;         // weights that are not given stay as they are
  bool restart = false;         // begin with the package's own weights, not with the present ones
  bool ignore_unknown = false;  // names that the model does not have
};

// Values after a replacement, and which are new; those are kKept.
struct Replacement {
  WeightValues values;
  Changed changed;
};

// Throws INVALID_ARGUMENT or SHAPE_MISMATCH, which name the weight: unknown, missing, given twice,
// of another type or shape; or the value to be added to is not kept.
Replacement apply_updates(const Plan& plan, const std::vector<WeightUpdate>& updates,
                          const WeightValues& before, const ReplaceOptions& options);

// The tensors of a safetensors file as updates; shapes are borrowed from the container. `tensors`
// holds what the updates point to.
std::vector<WeightUpdate> updates_from(const Container& file, std::vector<DLTensor>* tensors);

}  // namespace aot_rt

#endif  // AOT_SRC_WEIGHT_UPDATE_H_
