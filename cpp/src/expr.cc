#include "expr.h"

#include <algorithm>

#include "error.h"

namespace aot_rt {
namespace {

constexpr int kMaxDepth = 64;
constexpr int kMaxStack = 256;
constexpr size_t kMaxOps = 4096;      // of an expression in the file
constexpr size_t kMaxJoined = 16384;  // of one made of others

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && a < 0 ? 1 : 0); }

// Arithmetic on interval ends: overflow saturates, kUnbounded stays.
int64_t add_ends(int64_t a, int64_t b) {
  if (a == kUnbounded || b == kUnbounded) return kUnbounded;
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kUnbounded : sum;
}

int64_t mul_ends(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  int64_t product = 0;
  const bool negative = (a < 0) != (b < 0);
  if (a == kUnbounded || b == kUnbounded || __builtin_mul_overflow(a, b, &product)) {
    return negative ? std::numeric_limits<int64_t>::min() : kUnbounded;
  }
  return product;
}

}  // namespace

const Expr::OpName Expr::kNames[] = {
    {"+", Kind::kAdd, false},   {"*", Kind::kMul, false},      {"min", Kind::kMin, false},
    {"max", Kind::kMax, false}, {"//", Kind::kFloorDiv, true}, {"%", Kind::kMod, true},
};

const Expr::OpName& Expr::find_op(const Field& field) {
  const std::string& name = field.text();
  for (const OpName& row : kNames) {
    if (name == row.name) return row;
  }
  field.wrong(cat("is '", name, "', an unknown operator"));
}

void Expr::compile(const Field& field, const std::vector<std::string>& dims, int depth) {
  if (depth > kMaxDepth) field.wrong("is nested too deeply");
  if (field.is_integer()) {
    ops_.push_back({Kind::kConstant, field.integer()});
    return;
  }
  if (field.is_string()) {
    const auto found = std::find(dims.begin(), dims.end(), field.text());
    if (found == dims.end()) field.wrong(cat("names an unknown dim '", field.text(), "'"));
    ops_.push_back({Kind::kDim, found - dims.begin()});
    return;
  }
  if (!field.is_array() || field.size() < 3) {
    field.wrong("must be an integer, a dim, or [operator, operand, operand, …]");
  }
  const Field head = field.at(size_t{0});
  const OpName& op = find_op(head);
  if (op.binary && field.size() != 3) field.wrong("must have two operands");
  for (size_t i = 1; i < field.size(); ++i) {
    const Field operand = field.at(i);
    compile(operand, dims, depth + 1);
    if (i > 1) ops_.push_back({op.kind, 0});
  }
}

Expr Expr::parse(const Field& field, const std::vector<std::string>& dims) {
  Expr expr;
  if (field.is_integer()) return Expr(field.integer());
  expr.compile(field, dims, 0);
  if (expr.ops_.size() > kMaxOps) field.wrong("is too large");
  try {
    expr.finish();
  } catch (const Error& error) {
    field.wrong(error.what());
  }
  return expr;
}

// Finds the height of the stack, and the value of what has no dims.
void Expr::finish() {
  int32_t height = 0;
  bool constant = true;
  for (const Op& op : ops_) {
    height += op.kind == Kind::kConstant || op.kind == Kind::kDim ? 1 : -1;
    stack_ = std::max(stack_, height);
    constant = constant && op.kind != Kind::kDim;
  }
  if (stack_ > kMaxStack) fail(AOT_CORRUPT_PACKAGE, "is too large");
  if (!constant || ops_.empty()) return;
  try {
    constant_ = eval_ops(nullptr);
  } catch (const Error& error) {
    fail(AOT_CORRUPT_PACKAGE, "is not a number: ", error.what());
  }
  ops_.clear();
  stack_ = 0;
}

void Expr::append(const Expr& other) {
  if (ops_.size() + other.ops_.size() >= kMaxJoined) {
    fail(AOT_CORRUPT_PACKAGE, "plan: an expression is too large");
  }
  if (other.ops_.empty()) {
    ops_.push_back({Kind::kConstant, other.constant_});
  } else {
    ops_.insert(ops_.end(), other.ops_.begin(), other.ops_.end());
  }
}

Expr Expr::join(Kind kind, const Expr& left, const Expr& right) {
  Expr result;
  if (left.is_constant() && right.is_constant() &&
      (right.constant_ > 0 || (kind != Kind::kFloorDiv && kind != Kind::kMod)) &&
      apply(kind, left.constant_, right.constant_, &result.constant_)) {
    return result;
  }
  result.constant_ = 0;
  result.append(left);
  result.append(right);
  result.ops_.push_back({kind, 0});
  result.stack_ = std::max(std::max(left.stack_, 1), 1 + std::max(right.stack_, 1));
  if (result.stack_ > kMaxStack) fail(AOT_CORRUPT_PACKAGE, "plan: an expression is too large");
  return result;
}

Expr Expr::with(const std::vector<Expr>& values) const {
  if (ops_.empty()) return *this;
  Expr result;
  for (const Op& op : ops_) {
    if (op.kind == Kind::kDim) {
      result.append(values[static_cast<size_t>(op.value)]);
    } else {
      result.ops_.push_back(op);
    }
  }
  try {
    result.finish();
  } catch (const Error& error) {
    fail(AOT_CORRUPT_PACKAGE, "plan: an expression ", error.what());
  }
  return result;
}

bool Expr::matches(const std::vector<Expr>& values, const Expr& other) const {
  if (ops_.size() == 1 && ops_[0].kind == Kind::kDim) {
    return values[static_cast<size_t>(ops_[0].value)] == other;
  }
  if (ops_.empty() || other.ops_.empty()) {
    return ops_.empty() && other.ops_.empty() && constant_ == other.constant_;
  }
  auto at = other.ops_.begin();
  for (const Op& op : ops_) {
    const Op value{Kind::kConstant,
                   op.kind == Kind::kDim ? values[static_cast<size_t>(op.value)].constant_ : 0};
    const Op* first = &op;
    size_t count = 1;
    if (op.kind == Kind::kDim) {
      const std::vector<Op>& ops = values[static_cast<size_t>(op.value)].ops_;
      first = ops.empty() ? &value : ops.data();
      count = std::max<size_t>(ops.size(), 1);
    }
    if (static_cast<size_t>(other.ops_.end() - at) < count) return false;
    if (!std::equal(first, first + count, at)) return false;
    at += static_cast<std::ptrdiff_t>(count);
  }
  return at == other.ops_.end();
}

bool Expr::apply(Kind kind, int64_t left, int64_t right, int64_t* result) {
  switch (kind) {
    case Kind::kAdd:
      return !__builtin_add_overflow(left, right, result);
    case Kind::kMul:
      return !__builtin_mul_overflow(left, right, result);
    case Kind::kMin:
      *result = std::min(left, right);
      return true;
    case Kind::kMax:
      *result = std::max(left, right);
      return true;
    case Kind::kFloorDiv:
    case Kind::kMod:
      if (right <= 0) fail(AOT_CORRUPT_PACKAGE, "plan: division by ", right);
      *result = floor_div(left, right);
      if (kind == Kind::kMod) *result = left - *result * right;
      return true;
    case Kind::kConstant:
    case Kind::kDim:
      break;
  }
  fail(AOT_INTERNAL, "expression operator without a meaning");
}

int64_t Expr::eval_ops(const int64_t* dims) const {
  int64_t stack[kMaxStack];
  int32_t top = 0;
  for (const Op& op : ops_) {
    if (op.kind == Kind::kConstant) {
      stack[top++] = op.value;
    } else if (op.kind == Kind::kDim) {
      stack[top++] = dims[op.value];
    } else {
      --top;
      if (!apply(op.kind, stack[top - 1], stack[top], &stack[top - 1])) {
        fail(AOT_SHAPE_MISMATCH, "sizes are too large: a product or sum exceeds 64 bits");
      }
    }
  }
  return stack[0];
}

bool Expr::known(const int64_t* dims) const {
  bool all = true;
  each_dim([&all, dims](int32_t dim) { all = all && dims[dim] >= 0; });
  return all;
}

Range Expr::apply_range(Kind kind, Range left, Range right) {
  switch (kind) {
    case Kind::kAdd:
      return {add_ends(left.min, right.min), add_ends(left.max, right.max)};
    case Kind::kMul: {
      const int64_t ends[] = {mul_ends(left.min, right.min), mul_ends(left.min, right.max),
                              mul_ends(left.max, right.min), mul_ends(left.max, right.max)};
      return {*std::min_element(ends, ends + 4), *std::max_element(ends, ends + 4)};
    }
    case Kind::kMin:
      return {std::min(left.min, right.min), std::min(left.max, right.max)};
    case Kind::kMax:
      return {std::max(left.min, right.min), std::max(left.max, right.max)};
    case Kind::kFloorDiv: {
      const int64_t least = std::max<int64_t>(right.min, 1);
      const int64_t most = std::max<int64_t>(right.max, 1);
      return {floor_div(left.min, left.min < 0 ? least : most),
              left.max == kUnbounded ? kUnbounded : floor_div(left.max, least)};
    }
    case Kind::kMod:
      return {0, right.max == kUnbounded ? kUnbounded : std::max<int64_t>(right.max - 1, 0)};
    case Kind::kConstant:
    case Kind::kDim:
      break;
  }
  return {};
}

Range Expr::range(const std::vector<Range>& ranges) const {
  if (ops_.empty()) return {constant_, constant_};
  std::vector<Range> stack;
  for (const Op& op : ops_) {
    if (op.kind == Kind::kConstant) {
      stack.push_back({op.value, op.value});
    } else if (op.kind == Kind::kDim) {
      stack.push_back(ranges[static_cast<size_t>(op.value)]);
    } else {
      const Range right = stack.back();
      stack.pop_back();
      stack.back() = apply_range(op.kind, stack.back(), right);
    }
  }
  return stack.back();
}

std::string Expr::text(const std::vector<std::string>& dims) const {
  if (ops_.empty()) return std::to_string(constant_);
  struct Part {
    std::string text;
    bool atom;
  };
  std::vector<Part> stack;
  for (const Op& op : ops_) {
    if (op.kind == Kind::kConstant) {
      stack.push_back({std::to_string(op.value), true});
    } else if (op.kind == Kind::kDim) {
      stack.push_back({dims[static_cast<size_t>(op.value)], true});
    } else {
      const Part right = stack.back();
      stack.pop_back();
      Part& left = stack.back();
      const OpName* name = kNames;
      while (name->kind != op.kind) ++name;
      if (op.kind == Kind::kMin || op.kind == Kind::kMax) {
        left = {cat(name->name, "(", left.text, ", ", right.text, ")"), true};
      } else {
        const auto quoted = [](const Part& part) {
          return part.atom ? part.text : cat("(", part.text, ")");
        };
        left = {cat(quoted(left), " ", name->name, " ", quoted(right)), false};
      }
    }
  }
  return stack.back().text;
}

}  // namespace aot_rt
