// Symbolic integers of the plan: compiled once to postfix, evaluated in int64 with overflow checks.
#ifndef AOT_SRC_EXPR_H_
#define AOT_SRC_EXPR_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "json_text.h"

namespace aot_rt {

inline constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

// A closed interval; `max` may be kUnbounded.
struct Range {
  int64_t min = 0;
  int64_t max = kUnbounded;
};

class Expr {
 public:
  Expr() = default;  // 0

  // Compiles docs/format.md's expression; `dims` are the names that it may use.
  static Expr parse(const Field& field, const std::vector<std::string>& dims);

  enum class Kind : uint8_t { kConstant, kDim, kAdd, kMul, kMin, kMax, kFloorDiv, kMod };
  struct Op {
    Kind kind;
    int64_t value;  // of a constant; index of a dim

    bool operator==(const Op& other) const { return kind == other.kind && value == other.value; }
  };

  explicit Expr(int64_t constant) : constant_(constant) {}
  // `left kind right`; a number where both are. Throws CORRUPT_PACKAGE when it grows too large.
  static Expr join(Kind kind, const Expr& left, const Expr& right);

  // The expression with `values[i]` for dim i. Throws as join.
  Expr with(const std::vector<Expr>& values) const;
  // Whether `other` is, operation for operation, this with `values`.
  bool matches(const std::vector<Expr>& values, const Expr& other) const;
  bool operator==(const Expr& other) const {
    return constant_ == other.constant_ && ops_ == other.ops_;
  }

  // What it computes, in postfix order; empty for a constant.
  const std::vector<Op>& ops() const { return ops_; }

  bool is_constant() const { return ops_.empty(); }
  int64_t constant() const { return constant_; }

  // The value for `dims`, one per dim of the plan. Throws SHAPE_MISMATCH on overflow and
  // CORRUPT_PACKAGE on a divisor that is not positive.
  int64_t eval(const int64_t* dims) const { return ops_.empty() ? constant_ : eval_ops(dims); }

  // Whether all dims that it uses have a value in `dims`, none being negative.
  bool known(const int64_t* dims) const;

  // action(dim) for every dim that it uses.
  template <typename Action>
  void each_dim(Action action) const {
    for (const Op& op : ops_) {
      if (op.kind == Kind::kDim) action(static_cast<int32_t>(op.value));
    }
  }

  // An interval that holds all values for dims within `ranges`.
  Range range(const std::vector<Range>& ranges) const;

  // Infix text for messages: "s0 * 2 + 1".
  std::string text(const std::vector<std::string>& dims) const;

 private:
  struct OpName {
    const char* name;
    Kind kind;
    bool binary;  // exactly two operands
  };
  static const OpName kNames[];

  static const OpName& find_op(const Field& field);
  void compile(const Field& field, const std::vector<std::string>& dims, int depth);
  void append(const Expr& other);
  void finish();
  int64_t eval_ops(const int64_t* dims) const;
  static bool apply(Kind kind, int64_t left, int64_t right, int64_t* result);
  static Range apply_range(Kind kind, Range left, Range right);

  std::vector<Op> ops_;  // empty: a constant
  int64_t constant_ = 0;
  int32_t stack_ = 0;  // greatest number of values held while evaluating
};

}  // namespace aot_rt

#endif  // AOT_SRC_EXPR_H_
