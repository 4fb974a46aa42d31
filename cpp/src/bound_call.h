// A call of a custom operator resolved for given sizes.
#ifndef AOT_SRC_BOUND_CALL_H_
#define AOT_SRC_BOUND_CALL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bound_sizes.h"
#include "operator_call.h"
#include "operators.h"
#include "plan.h"

namespace aot_rt {

// Belongs to one session. Not movable: the operator sees addresses inside of it.
class BoundCall {
 public:
  // `sizes` must know all that the call uses; `device`: where its buffers are. Throws
  // CORRUPT_PACKAGE when a tensor is larger than its buffer, SHAPE_MISMATCH when sizes overflow.
  BoundCall(const OperatorCall& call, const Program& program, const BoundSizes& sizes,
            DLDevice device);
  BoundCall(const BoundCall&) = delete;
  BoundCall& operator=(const BoundCall&) = delete;

  // Calls the operator; `address(buffer)` gives a buffer's present address. Throws OPERATOR_FAILED
  // without a place: the caller knows it.
  template <typename Address>
  void run(const Operator& code, void* stream, Address address) {
    for (size_t i = 0; i < tensors_.size(); ++i) tensors_[i].data = address(buffers_[i]);
    run(code, stream);
  }

 private:
  // What the operator is given; the runtime's part behind it, which `fail` reaches.
  struct Given {
    aot_operator_call call;
    std::string message;
  };
  static void fail(const aot_operator_call* call, const char* message);

  void bind_tensor(const TensorOperand& operand, const Program& program, const BoundSizes& sizes,
                   DLDevice device);
  void bind_argument(const OperatorArgument& argument, const BoundSizes& sizes);
  void run(const Operator& code, void* stream);

  const OperatorCall& call_;
  std::vector<DLTensor> tensors_;  // of all arguments, then the results
  std::vector<int32_t> buffers_;   // of each
  std::vector<int64_t> layouts_;   // shapes and strides
  std::vector<int64_t> ints_;      // of all arguments; so the two that follow
  std::vector<double> floats_;
  std::vector<const char*> strings_;
  std::vector<aot_argument> arguments_;
  Given given_{};
};

// The calls of a program at given sizes.
class BoundCalls {
 public:
  explicit BoundCalls(const Program& program) : calls_(program.calls.size()) {}

  // That of a call step of `program`, bound when it is first asked for. `sizes` and `device` are
  // the same until forget().
  BoundCall& of(const Program& program, const Step& step, const BoundSizes& sizes, DLDevice device);

  // All are bound again: sizes have changed.
  void forget() {
    for (std::unique_ptr<BoundCall>& call : calls_) call.reset();
  }

 private:
  std::vector<std::unique_ptr<BoundCall>> calls_;  // by position in the program's `calls`
};

}  // namespace aot_rt

#endif  // AOT_SRC_BOUND_CALL_H_
