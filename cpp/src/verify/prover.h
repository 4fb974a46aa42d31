// Proves facts over all sizes that a plan allows, and keeps what it cannot prove.
#ifndef AOT_SRC_VERIFY_PROVER_H_
#define AOT_SRC_VERIFY_PROVER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "plan.h"
#include "verify/fact.h"
#include "verify/polynomial.h"

namespace aot_rt {

enum class Verdict : uint8_t { kTrue, kFalse, kUnknown };

// What is known of `left relation right` for all values that the polynomials allow.
Verdict judge(Polynomials* polynomials, const Expr& left, Relation relation, const Expr& right);

// Takes the facts of one program. Its arguments live as long as this.
class Prover {
 public:
  Prover(const Plan& plan, const Equalities& equal, const Program& program, Unproved* unproved);

  // Keeps the fact if it is true at some sizes only, as far as is known. Throws CORRUPT_PACKAGE
  // when it is false at all sizes.
  void require(Fact fact);

  // Whether a fact is true wherever what is assumed is.
  bool proves(const Fact& fact, const Assumed& assumed) const;

  // The least value of an expression, or less.
  int64_t least(const Expr& expr);
  // Whether it is a multiple of `divisor`, which is above 0, at all sizes.
  bool divides(int64_t divisor, const Expr& expr);

  [[noreturn]] void fail(const Fact& fact) const {
    fail_fact(plan_, program_, unproved_.where, fact, nullptr);
  }
  const Plan& plan() const { return plan_; }
  const Program& program() const { return program_; }
  const std::string& where() const { return unproved_.where; }

 private:
  const Plan& plan_;
  const Equalities& equal_;
  const Program& program_;
  Unproved& unproved_;
  Polynomials all_;
  std::vector<int32_t> scopes_;  // by dim: where it is known
};

}  // namespace aot_rt

#endif  // AOT_SRC_VERIFY_PROVER_H_
