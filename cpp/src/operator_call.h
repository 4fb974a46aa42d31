// A call of a custom operator, as the plan describes it.
#ifndef AOT_SRC_OPERATOR_CALL_H_
#define AOT_SRC_OPERATOR_CALL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "aot/operator_abi.h"
#include "expr.h"
#include "json_text.h"

namespace aot_rt {

// A buffer of the program as a C-contiguous tensor.
struct TensorOperand {
  int32_t buffer = 0;
  std::vector<Expr> shape;
};

// One argument; the list of its kind has its elements, the others are empty.
struct OperatorArgument {
  std::string name;
  aot_argument_kind kind = AOT_ARGUMENT_NONE;
  bool list = false;
  bool changed = false;  // of tensors: in place
  std::vector<TensorOperand> tensors;
  std::vector<Expr> ints;
  std::vector<double> floats;
  std::vector<int64_t> bools;  // 0 and 1
  std::vector<std::string> strings;

  size_t count() const {
    return tensors.size() + ints.size() + floats.size() + bools.size() + strings.size();
  }
};

struct OperatorCall {
  std::string name;  // "ns::name", "ns::name.overload"
  std::string step;  // "call ns::name": how profiles name it
  std::vector<OperatorArgument> arguments;
  std::vector<TensorOperand> results;

  // action(operand) for every tensor: those of the arguments, then the results.
  template <typename Action>
  void each_tensor(Action action) const {
    for (const OperatorArgument& argument : arguments) {
      for (const TensorOperand& operand : argument.tensors) action(operand);
    }
    for (const TensorOperand& operand : results) action(operand);
  }

  // action(expr) for every size and integer.
  template <typename Action>
  void each_expr(Action action) const {
    each_tensor([&action](const TensorOperand& operand) {
      for (const Expr& size : operand.shape) action(size);
    });
    for (const OperatorArgument& argument : arguments) {
      for (const Expr& value : argument.ints) action(value);
    }
  }
};

// Reads a call step. `dims`: the plan's; `buffers`: how many the program has. Throws
// CORRUPT_PACKAGE, or UNSUPPORTED for a kind of argument that a newer minor version brought.
OperatorCall parse_operator_call(const Field& field, const std::vector<std::string>& dims,
                                 size_t buffers);

}  // namespace aot_rt

#endif  // AOT_SRC_OPERATOR_CALL_H_
