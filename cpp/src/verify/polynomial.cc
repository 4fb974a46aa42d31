#include "verify/polynomial.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace aot_rt {
namespace {

using Kind = Expr::Kind;

constexpr size_t kMaxTerms = 128;
constexpr size_t kMaxDegree = 16;
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();  // as an end: open
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

// Ends of intervals. An open end stays open, and what overflows becomes one.
int64_t add_ends(int64_t a, int64_t b, int64_t open) {
  int64_t sum = 0;
  return a == open || b == open || __builtin_add_overflow(a, b, &sum) ? open : sum;
}

int64_t multiply_ends(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  int64_t product = 0;
  const bool open = a == kLeast || a == kMost || b == kLeast || b == kMost;
  if (open || __builtin_mul_overflow(a, b, &product)) {
    return (a < 0) != (b < 0) ? kLeast : kMost;
  }
  return product;
}

Range multiply_ranges(Range a, Range b) {
  const int64_t ends[] = {multiply_ends(a.min, b.min), multiply_ends(a.min, b.max),
                          multiply_ends(a.max, b.min), multiply_ends(a.max, b.max)};
  return {*std::min_element(ends, ends + 4), *std::max_element(ends, ends + 4)};
}

bool is_constant(const Polynomial& p) { return p.empty() || (p.size() == 1 && p[0].atoms.empty()); }

int64_t constant_of(const Polynomial& p) { return p.empty() ? 0 : p[0].factor; }

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && a < 0 ? 1 : 0); }

// Sorts, adds equal products up, drops zeros.
Polynomials::Maybe normal(Polynomial terms) {
  std::sort(terms.begin(), terms.end());
  Polynomial result;
  for (Term& term : terms) {
    if (!result.empty() && result.back().atoms == term.atoms) {
      if (__builtin_add_overflow(result.back().factor, term.factor, &result.back().factor)) {
        return {};
      }
    } else {
      if (!result.empty() && result.back().factor == 0) result.pop_back();
      result.push_back(std::move(term));
    }
  }
  if (!result.empty() && result.back().factor == 0) result.pop_back();
  if (result.size() > kMaxTerms) return {};
  return result;
}

}  // namespace

Equalities equalities_of(const Plan& plan) {
  Equalities found;
  for (const Check& check : plan.checks) {
    if (check.relation != Relation::kEqual) continue;
    for (const auto& [dim, other] :
         {std::pair(&check.left, &check.right), std::pair(&check.right, &check.left)}) {
      if (dim->ops().size() != 1) continue;
      const auto id = static_cast<int32_t>(dim->ops()[0].value);
      bool later = true;
      other->each_dim([&later, id](int32_t used) { later = later && used < id; });
      if (later) found.emplace(id, other);
    }
  }
  return found;
}

Polynomial Polynomials::constant(int64_t value) {
  Polynomial terms;
  if (value != 0) terms.push_back({{}, value});
  return terms;
}

Polynomials::Maybe Polynomials::add(const Polynomial& left, const Polynomial& right) {
  Polynomial terms = left;
  terms.insert(terms.end(), right.begin(), right.end());
  return normal(std::move(terms));
}

Polynomials::Maybe Polynomials::subtract(const Polynomial& left, const Polynomial& right) {
  const Maybe negative = multiply(right, constant(-1));
  return negative ? add(left, *negative) : Maybe();
}

Polynomials::Maybe Polynomials::multiply(const Polynomial& left, const Polynomial& right) {
  if (left.size() * right.size() > kMaxTerms) return {};
  Polynomial terms;
  for (const Term& a : left) {
    for (const Term& b : right) {
      Term term;
      if (a.atoms.size() + b.atoms.size() > kMaxDegree ||
          __builtin_mul_overflow(a.factor, b.factor, &term.factor)) {
        return {};
      }
      std::merge(a.atoms.begin(), a.atoms.end(), b.atoms.begin(), b.atoms.end(),
                 std::back_inserter(term.atoms));
      terms.push_back(std::move(term));
    }
  }
  return normal(std::move(terms));
}

Range Polynomials::range(const Polynomial& polynomial) const {
  Range sum{0, 0};
  for (const Term& term : polynomial) {
    Range product{term.factor, term.factor};
    for (const int32_t id : term.atoms) {
      product = multiply_ranges(product, atoms_[static_cast<size_t>(id)]);
    }
    sum = {add_ends(sum.min, product.min, kLeast), add_ends(sum.max, product.max, kMost)};
  }
  return sum;
}

int32_t Polynomials::add_atom(Range range) {
  atoms_.push_back(range);
  return static_cast<int32_t>(atoms_.size() - 1);
}

Polynomials::Maybe Polynomials::dim(int32_t id) {
  const auto found = dims_.find(id);
  if (found != dims_.end()) return found->second;
  Maybe value;
  if (id == assumed_.zero) {
    value = constant(0);
  } else if (const auto equal = equal_.find(id); equal != equal_.end()) {
    value = of(*equal->second);
  }
  if (!value) value = dim_in_range(id);
  dims_[id] = value;
  return value;
}

Polynomials::Maybe Polynomials::dim_in_range(int32_t id) {
  const Dim& described = plan_.dims[static_cast<size_t>(id)];
  const int64_t multiple = described.multiple_of;
  int64_t min = described.range.min;
  if (std::find(assumed_.positive.begin(), assumed_.positive.end(), id) !=
      assumed_.positive.end()) {
    min = std::max<int64_t>(min, 1);
  }
  int64_t first = 0;  // the least multiple that is at least `min`
  if (__builtin_add_overflow(min, multiple - 1, &first)) return {};
  first = first / multiple * multiple;
  const int64_t most = described.range.max;
  const int64_t turns = most == kUnbounded ? kMost : std::max<int64_t>(most - first, 0) / multiple;
  return normal({{{}, first}, {{add_atom({0, turns})}, multiple}});
}

Polynomial Polynomials::atom(Kind kind, const Polynomial& left, const Polynomial& right) {
  const auto found = known_.find({kind, left, right});
  if (found != known_.end()) return {{{found->second}, 1}};
  const Range a = range(left);
  const Range b = range(right);
  Range result{kLeast, kMost};
  if (kind == Kind::kMin) result = {std::min(a.min, b.min), std::min(a.max, b.max)};
  if (kind == Kind::kMax) result = {std::max(a.min, b.min), std::max(a.max, b.max)};
  if (kind == Kind::kMod) result = {0, b.max == kMost ? kMost : std::max<int64_t>(b.max - 1, 0)};
  if (kind == Kind::kFloorDiv) {
    const int64_t least = std::max<int64_t>(b.min, 1);
    const int64_t most = std::max<int64_t>(b.max, 1);
    if (a.min != kLeast) result.min = floor_div(a.min, a.min < 0 ? least : most);
    if (a.max != kMost) result.max = floor_div(a.max, a.max < 0 ? most : least);
  }
  const int32_t id = add_atom(result);
  known_.emplace(Key{kind, left, right}, id);
  return {{{id}, 1}};
}

Polynomials::Maybe Polynomials::least(Kind kind, const Polynomial& left, const Polynomial& right) {
  const Maybe difference = subtract(right, left);
  if (!difference) return {};
  const Range ends = range(*difference);
  const bool minimum = kind == Kind::kMin;
  if (ends.min >= 0) return minimum ? left : right;
  if (ends.max <= 0) return minimum ? right : left;
  return left < right ? atom(kind, left, right) : atom(kind, right, left);
}

// Takes out what the divisor divides: (64·a + r) // 64 is a + r // 64.
Polynomials::Maybe Polynomials::divide(Kind kind, const Polynomial& left, const Polynomial& right) {
  if (!is_constant(right) || constant_of(right) <= 0) return atom(kind, left, right);
  const int64_t divisor = constant_of(right);
  Polynomial whole;
  Polynomial rest;
  for (const Term& term : left) {
    const int64_t quotient = floor_div(term.factor, divisor);
    const int64_t remainder = term.factor - quotient * divisor;
    if (term.atoms.empty() || remainder == 0) {
      whole.push_back({term.atoms, quotient});
      rest.push_back({term.atoms, remainder});
    } else {
      rest.push_back(term);
    }
  }
  const Maybe quotient = normal(std::move(whole));
  const Maybe remainder = normal(std::move(rest));
  if (!quotient || !remainder) return {};
  const Range ends = range(*remainder);
  const bool small = ends.min >= 0 && ends.max < divisor;
  if (kind == Kind::kMod) return small ? remainder : atom(kind, *remainder, right);
  return small ? quotient : add(*quotient, atom(kind, *remainder, right));
}

Polynomials::Maybe Polynomials::apply(Kind kind, const Polynomial& left, const Polynomial& right) {
  switch (kind) {
    case Kind::kAdd:
      return add(left, right);
    case Kind::kMul:
      return multiply(left, right);
    case Kind::kMin:
    case Kind::kMax:
      return least(kind, left, right);
    case Kind::kFloorDiv:
    case Kind::kMod:
      return divide(kind, left, right);
    case Kind::kConstant:
    case Kind::kDim:
      break;
  }
  return {};
}

Polynomials::Maybe Polynomials::of(const Expr& expr) {
  if (expr.is_constant()) return constant(expr.constant());
  std::vector<Polynomial> stack;
  for (const Expr::Op& op : expr.ops()) {
    Maybe value;
    if (op.kind == Kind::kConstant) {
      value = constant(op.value);
    } else if (op.kind == Kind::kDim) {
      value = dim(static_cast<int32_t>(op.value));
    } else {
      const Polynomial right = std::move(stack.back());
      stack.pop_back();
      value = apply(op.kind, stack.back(), right);
      stack.pop_back();
    }
    if (!value) return {};
    stack.push_back(*std::move(value));
  }
  return std::move(stack.back());
}

}  // namespace aot_rt
