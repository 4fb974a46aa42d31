// What a program needs to know of given sizes, whatever the device: tensors, buffers, arena.
#ifndef AOT_SRC_BOUND_SIZES_H_
#define AOT_SRC_BOUND_SIZES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "plan.h"

namespace aot_rt {

struct BoundTensor {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  // in elements
  int64_t span = 0;              // bytes from the first element to behind the last; 0 when empty
  bool contiguous = false;       // strides are those of C order
};

// The value of an expression that must not be negative; `what` and `name` are for the message.
// Throws CORRUPT_PACKAGE or SHAPE_MISMATCH.
int64_t evaluate_count(const Expr& expr, const int64_t* dims, const char* what,
                       const std::string& name);

// Immutable after construction.
class BoundSizes {
 public:
  // `dims`: one value per dim of the plan, already checked; Plan::kUnknown for those that are
  // measured later: what needs them is not bound. `program`: one of the plan's. Throws
  // SHAPE_MISMATCH (a check of the plan fails, sizes overflow) or CORRUPT_PACKAGE.
  BoundSizes(const Plan& plan, const Program& program, std::vector<int64_t> dims);

  const std::vector<int64_t>& dims() const { return dims_; }
  const std::vector<BoundTensor>& inputs() const { return inputs_; }
  const std::vector<BoundTensor>& outputs() const { return outputs_; }
  bool knows(const Expr& expr) const { return expr.known(dims_.data()); }
  // Of a launch: all sizes, also those of its buffers in `program`. False for a control step.
  bool knows(const Program& program, const Step& step) const;
  bool knows_output(size_t output) const { return known_outputs_[output]; }
  // Of the temporaries whose sizes are known in a scope and not around it.
  int64_t arena_bytes(int32_t scope = 0) const { return arena_bytes_[static_cast<size_t>(scope)]; }
  int64_t buffer_bytes(int32_t buffer) const { return bytes_[static_cast<size_t>(buffer)]; }
  // Where a temporary begins in its scope's arena, in bytes; -1 for other buffers.
  int64_t arena_offset(int32_t buffer) const { return offsets_[static_cast<size_t>(buffer)]; }

 private:
  void evaluate_checks(const Plan& plan) const;
  BoundTensor bind_tensor(const TensorSpec& spec, const char* what) const;
  void bind_outputs(const Plan& plan, const Program& program);
  void bind_buffers(const Plan& plan, const Program& program);
  void bind_arena(const Program& program);

  std::vector<int64_t> dims_;
  std::vector<BoundTensor> inputs_;
  std::vector<BoundTensor> outputs_;
  std::vector<int64_t> bytes_;        // by buffer
  std::vector<int64_t> offsets_;      // by buffer
  std::vector<int64_t> arena_bytes_;  // by scope
  std::vector<bool> known_outputs_;
};

}  // namespace aot_rt

#endif  // AOT_SRC_BOUND_SIZES_H_
