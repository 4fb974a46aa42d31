// Any JSON as an expression, or two: evaluated, joined, and judged. What is proved of two of them
// holds for the sizes tried.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "error.h"
#include "verify/prover.h"

namespace {

using aot_rt::Expr;
using aot_rt::Relation;
using aot_rt::Verdict;

aot_rt::Plan two_dims() {
  aot_rt::Plan plan;
  plan.dims.resize(2);
  plan.dims[0].range = {0, 64};
  plan.dims[1].range = {8, 800};
  plan.dims[1].multiple_of = 8;
  plan.dim_names = {"s0", "s1"};
  return plan;
}

void judge_both(const aot_rt::Plan& plan, const Expr& left, const Expr& right) {
  const aot_rt::Equalities none;
  aot_rt::Polynomials polynomials(plan, none);
  const Verdict verdict = judge(&polynomials, left, Relation::kLessEqual, right);
  if (verdict == Verdict::kUnknown) return;
  for (const int64_t first : {0, 1, 7, 64}) {
    for (const int64_t second : {8, 16, 800}) {
      const int64_t dims[] = {first, second};
      const bool truth = holds(left.eval(dims), Relation::kLessEqual, right.eval(dims));
      if (truth != (verdict == Verdict::kTrue)) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const aot_rt::Plan plan = two_dims();
  try {
    const aot_rt::JsonPtr json = aot_rt::parse_json({data, size}, "expression");
    const aot_rt::Field whole(*json, "expression");
    const Expr left = Expr::parse(whole, plan.dim_names);
    judge_both(plan, left, Expr::join(Expr::Kind::kMul, left, left));
    if (!whole.is_array() || whole.size() < 3) return 0;
    const aot_rt::Field part = whole.at(size_t{1});
    judge_both(plan, left, Expr::parse(part, plan.dim_names));
  } catch (const aot_rt::Error&) {
    return 0;
  }
  return 0;
}
