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

// Sizes that inputs decide are bound at construction and stay. Measured ones come and go with their
// scope, as often as its step is run: nothing is allocated for them.
class BoundSizes {
 public:
  // `dims`: one value per dim of the plan, already checked; Plan::kUnknown for those that are
  // measured later. `plan` and `program`, one of the plan's, must outlive this. Throws
  // SHAPE_MISMATCH (a check of the plan fails, sizes overflow) or CORRUPT_PACKAGE.
  BoundSizes(const Plan& plan, const Program& program, std::vector<int64_t> dims);

  const Plan& plan() const { return plan_; }
  const Program& program() const { return program_; }
  const std::vector<int64_t>& dims() const { return dims_; }
  const std::vector<BoundTensor>& inputs() const { return inputs_; }
  const std::vector<BoundTensor>& outputs() const { return outputs_; }
  bool knows(const Expr& expr) const { return expr.known(dims_.data()); }
  bool knows_output(size_t output) const { return known_outputs_[output]; }
  // Of the temporaries whose sizes are known in a scope and not around it.
  int64_t arena_bytes(int32_t scope = 0) const { return arena_bytes_[static_cast<size_t>(scope)]; }
  int64_t buffer_bytes(int32_t buffer) const { return bytes_[static_cast<size_t>(buffer)]; }
  // Where a temporary begins in its scope's arena, in bytes; -1 for other buffers.
  int64_t arena_offset(int32_t buffer) const { return offsets_[static_cast<size_t>(buffer)]; }

 protected:
  ~BoundSizes() = default;

  // Binds the dims of a scope, in its order, and all that depends on them. Throws as the
  // constructor; forget_sizes() is next then.
  void enter_sizes(int32_t scope, const std::vector<int64_t>& values);
  // Its dims are unknown from here on. What outputs were, and where temporaries lie, stays.
  void leave_sizes(int32_t scope);
  // No scope but the outermost is known, nor is any output whose size is measured.
  void forget_sizes();

 private:
  void bind_scope(int32_t scope);
  void evaluate_checks(const Scope& scope) const;
  void bind_tensor(const TensorSpec& spec, const char* what, BoundTensor* tensor) const;
  void bind_outputs(const Scope& scope);
  void bind_buffers(const Scope& scope);
  void bind_arena(int32_t scope);
  void check_results(int32_t scope) const;

  const Plan& plan_;
  const Program& program_;
  std::vector<int64_t> dims_;
  std::vector<BoundTensor> inputs_;
  std::vector<BoundTensor> outputs_;
  std::vector<int64_t> bytes_;        // by buffer
  std::vector<int64_t> offsets_;      // by buffer
  std::vector<int64_t> ends_;         // by arena slot
  std::vector<int64_t> arena_bytes_;  // by scope
  std::vector<bool> known_outputs_;
};

}  // namespace aot_rt

#endif  // AOT_SRC_BOUND_SIZES_H_
