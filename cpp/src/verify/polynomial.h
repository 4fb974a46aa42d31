// Expressions in a form in which equal ones are equal: sums of products over what cannot be split.
#ifndef AOT_SRC_VERIFY_POLYNOMIAL_H_
#define AOT_SRC_VERIFY_POLYNOMIAL_H_

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "expr.h"
#include "plan.h"

namespace aot_rt {

// `factor` times the product of atoms, sorted, one for each power.
struct Term {
  std::vector<int32_t> atoms;
  int64_t factor = 0;

  bool operator==(const Term& other) const {
    return factor == other.factor && atoms == other.atoms;
  }
  bool operator<(const Term& other) const {
    return atoms != other.atoms ? atoms < other.atoms : factor < other.factor;
  }
};

// Terms of distinct products, sorted; none is 0.
using Polynomial = std::vector<Term>;

// What is assumed of a plan's dims beside their ranges.
struct Assumed {
  std::vector<int32_t> positive;  // dims that are 1 or more
  int32_t zero = -1;              // a dim that is 0
};

// Dims that a check of the plan says to be an expression of earlier dims. Checks are made before
// what follows from them.
using Equalities = std::map<int32_t, const Expr*>;
Equalities equalities_of(const Plan& plan);

// The polynomials over one plan's dims. A dim is its least value plus its multiple times an atom
// that is 0 or more, so that ranges and multiples are in the form itself. Quotients, remainders,
// minima and maxima that cannot be resolved are atoms, too. An operation gives nothing when it
// overflows or has too many terms.
class Polynomials {
 public:
  using Maybe = std::optional<Polynomial>;

  // All but the last live as long as this.
  Polynomials(const Plan& plan, const Equalities& equal, Assumed assumed = {})
      : plan_(plan), equal_(equal), assumed_(std::move(assumed)) {}

  Maybe of(const Expr& expr);
  static Maybe subtract(const Polynomial& left, const Polynomial& right);
  // An interval that holds its values; an open end is the least or greatest int64.
  Range range(const Polynomial& polynomial) const;

 private:
  using Key = std::tuple<Expr::Kind, Polynomial, Polynomial>;

  static Polynomial constant(int64_t value);
  static Maybe add(const Polynomial& left, const Polynomial& right);
  static Maybe multiply(const Polynomial& left, const Polynomial& right);
  Maybe dim(int32_t id);
  Maybe dim_in_range(int32_t id);
  Maybe apply(Expr::Kind kind, const Polynomial& left, const Polynomial& right);
  Maybe least(Expr::Kind kind, const Polynomial& left, const Polynomial& right);
  Maybe divide(Expr::Kind kind, const Polynomial& left, const Polynomial& right);
  Polynomial atom(Expr::Kind kind, const Polynomial& left, const Polynomial& right);
  int32_t add_atom(Range range);

  const Plan& plan_;
  const Equalities& equal_;
  Assumed assumed_;
  std::map<int32_t, Maybe> dims_;
  std::vector<Range> atoms_;
  std::map<Key, int32_t> known_;
};

}  // namespace aot_rt

#endif  // AOT_SRC_VERIFY_POLYNOMIAL_H_
