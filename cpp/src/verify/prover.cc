#include "verify/prover.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace aot_rt {
namespace {

Verdict judge(Range difference, Relation relation) {
  if (relation == Relation::kLess) {
    if (difference.min > 0) return Verdict::kTrue;
    return difference.max <= 0 ? Verdict::kFalse : Verdict::kUnknown;
  }
  if (relation == Relation::kLessEqual) {
    if (difference.min >= 0) return Verdict::kTrue;
    return difference.max < 0 ? Verdict::kFalse : Verdict::kUnknown;
  }
  if (difference.min == 0 && difference.max == 0) return Verdict::kTrue;
  return difference.min > 0 || difference.max < 0 ? Verdict::kFalse : Verdict::kUnknown;
}

}  // namespace

Verdict judge(Polynomials* polynomials, const Expr& left, Relation relation, const Expr& right) {
  if (left.is_constant() && right.is_constant()) {
    return holds(left.constant(), relation, right.constant()) ? Verdict::kTrue : Verdict::kFalse;
  }
  if (left == right) return relation == Relation::kLess ? Verdict::kFalse : Verdict::kTrue;
  const Polynomials::Maybe from = polynomials->of(left);
  const Polynomials::Maybe to = polynomials->of(right);
  if (!from || !to) return Verdict::kUnknown;
  const Polynomials::Maybe difference = Polynomials::subtract(*to, *from);
  if (!difference) return Verdict::kUnknown;
  return judge(polynomials->range(*difference), relation);
}

Prover::Prover(const Plan& plan, const Equalities& equal, const Program& program,
               Unproved* unproved)
    : plan_(plan),
      equal_(equal),
      program_(program),
      unproved_(*unproved),
      all_(plan, equal),
      scopes_(plan.dims.size(), 0) {
  unproved->facts.resize(program.scopes.size());
  for (size_t scope = 0; scope < program.scopes.size(); ++scope) {
    for (const int32_t dim : program.scopes[scope].dims) {
      scopes_[static_cast<size_t>(dim)] = static_cast<int32_t>(scope);
    }
  }
}

void Prover::require(Fact fact) {
  if (fact.guard.is_constant() && fact.guard.constant() <= 0) return;
  const Verdict verdict = judge(&all_, fact.left, fact.relation, fact.right);
  if (verdict == Verdict::kTrue) return;
  if (verdict == Verdict::kFalse) fail(fact);
  int32_t scope = 0;
  for (const Expr* expr : {&fact.left, &fact.right, &fact.guard}) {
    expr->each_dim([this, &scope](int32_t dim) {
      scope = std::max(scope, scopes_[static_cast<size_t>(dim)]);
    });
  }
  unproved_.facts[static_cast<size_t>(scope)].push_back(std::move(fact));
}

int64_t Prover::least(const Expr& expr) {
  const Polynomials::Maybe value = all_.of(expr);
  return value ? all_.range(*value).min : std::numeric_limits<int64_t>::min();
}

bool Prover::divides(int64_t divisor, const Expr& expr) {
  const Expr rest = Expr::join(Expr::Kind::kMod, expr, Expr(divisor));
  return judge(&all_, rest, Relation::kEqual, Expr(0)) == Verdict::kTrue;
}

bool Prover::proves(const Fact& fact, const Assumed& assumed) const {
  Polynomials some(plan_, equal_, assumed);
  return judge(&some, fact.left, fact.relation, fact.right) == Verdict::kTrue;
}

}  // namespace aot_rt
