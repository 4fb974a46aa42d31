// The prover against evaluation: what it says of random expressions holds for all sizes tried.
#include "verify/prover.h"

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "check.h"

namespace {

using aot_rt::Equalities;
using aot_rt::Expr;
using aot_rt::Plan;
using aot_rt::Polynomials;
using aot_rt::Relation;
using aot_rt::Verdict;
using json = nlohmann::json;

Plan plan_of(const std::vector<aot_rt::Dim>& dims) {
  Plan plan;
  plan.dims = dims;
  for (size_t i = 0; i < dims.size(); ++i) plan.dim_names.push_back("s" + std::to_string(i));
  return plan;
}

aot_rt::Dim dim(int64_t min, int64_t max, int64_t multiple = 1) {
  aot_rt::Dim result;
  result.range = {min, max};
  result.multiple_of = multiple;
  return result;
}

Expr parse(const Plan& plan, const json& text) {
  const aot_rt::Field field(text, "e");
  return Expr::parse(field, plan.dim_names);
}

Expr parse(const Plan& plan, const char* text) { return parse(plan, json::parse(text)); }

Verdict judged(const Plan& plan, const char* left, Relation relation, const char* right) {
  const Equalities equal = aot_rt::equalities_of(plan);
  Polynomials polynomials(plan, equal);
  return judge(&polynomials, parse(plan, left), relation, parse(plan, right));
}

bool equal(const Plan& plan, const char* left, const char* right) {
  return judged(plan, left, Relation::kEqual, right) == Verdict::kTrue;
}

bool at_most(const Plan& plan, const char* left, const char* right) {
  return judged(plan, left, Relation::kLessEqual, right) == Verdict::kTrue;
}

TEST(equal_expressions_are_equal) {
  const Plan plan = plan_of({dim(0, 64), dim(1, aot_rt::kUnbounded), dim(8, 80, 8)});
  CHECK(equal(plan, R"(["*", 4, ["+", "s0", "s1"]])", R"(["+", ["*", "s1", 4], ["*", "s0", 4]])"));
  CHECK(equal(plan, R"(["//", ["*", 64, "s0"], 16])", R"(["*", "s0", 4])"));
  CHECK(equal(plan, R"(["*", 8, ["//", "s2", 8]])", R"("s2")"));
  CHECK(equal(plan, R"(["%", "s2", 4])", "0"));
  CHECK(equal(plan, R"(["max", "s1", 1])", R"("s1")"));
  CHECK(equal(plan, R"(["min", "s0", 64])", R"("s0")"));
  CHECK(equal(plan, R"(["max", "s0", "s1"])", R"(["max", "s1", "s0"])"));
  CHECK(equal(plan, R"(["//", ["+", "s0", 127, 128], 128])",
              R"(["+", 1, ["//", ["+", "s0", 127], 128]])"));
  CHECK(!equal(plan, R"(["//", "s0", 2])", R"("s0")"));
}

TEST(bounds_follow_from_ranges) {
  const Plan plan = plan_of({dim(0, 64), dim(1, aot_rt::kUnbounded), dim(8, 80, 8)});
  CHECK(at_most(plan, R"("s0")", "64"));
  CHECK(!at_most(plan, R"("s0")", "63"));
  CHECK(at_most(plan, R"("s0")", R"(["*", "s0", "s1"])"));
  CHECK(!at_most(plan, R"("s1")", R"(["*", "s0", "s1"])"));
  CHECK(judged(plan, "81", Relation::kLessEqual, R"("s2")") == Verdict::kFalse);
  CHECK(judged(plan, R"("s0")", Relation::kLess, R"("s0")") == Verdict::kFalse);
  CHECK(judged(plan, R"("s0")", Relation::kLess, "65") == Verdict::kTrue);
  CHECK(judged(plan, R"("s0")", Relation::kEqual, "70") == Verdict::kFalse);
  CHECK(judged(plan, R"("s0")", Relation::kEqual, "7") == Verdict::kUnknown);
}

TEST(checks_that_make_dims_equal_are_used) {
  Plan plan = plan_of({dim(0, 64), dim(0, 64)});
  CHECK(!equal(plan, R"("s1")", R"(["*", 2, "s0"])"));
  plan.checks.push_back(
      {parse(plan, R"("s1")"), Relation::kEqual, parse(plan, R"(["*", 2, "s0"])"), ""});
  CHECK(equal(plan, R"("s1")", R"(["*", 2, "s0"])"));
}

TEST(what_is_too_large_is_not_proved) {
  const Plan plan = plan_of({dim(0, aot_rt::kUnbounded)});
  const char* huge = R"(["*", "s0", 4611686018427387904, 4])";
  CHECK(judged(plan, huge, Relation::kLessEqual, "0") == Verdict::kUnknown);
}

json random_expr(std::mt19937* random, size_t dims, int depth) {
  const auto pick = [random](size_t count) { return static_cast<size_t>((*random)() % count); };
  if (depth == 0 || pick(5) == 0) {
    if (pick(2) == 0) return "s" + std::to_string(pick(dims));
    return static_cast<int64_t>(pick(12)) - 2;
  }
  static const char* const operators[] = {"+", "*", "min", "max", "//", "%", "+", "*"};
  const char* op = operators[pick(8)];
  json result = {op, random_expr(random, dims, depth - 1)};
  const bool divides = op[0] == '/' || op[0] == '%';
  result.push_back(divides ? json(pick(9) + 1) : random_expr(random, dims, depth - 1));
  return result;
}

TEST(verdicts_hold_for_all_sizes) {
  std::mt19937 random(7);
  int decided = 0;
  for (int round = 0; round < 4000; ++round) {
    const Plan plan = plan_of({dim(0, 9), dim(1 + round % 3, 20, 1 + round % 4), dim(2, 40, 4)});
    const Expr left = parse(plan, random_expr(&random, 3, 3));
    const Expr right = parse(plan, random_expr(&random, 3, 3));
    const auto relation = static_cast<Relation>(round % 3);
    const Equalities none;
    Polynomials polynomials(plan, none);
    const Verdict verdict = judge(&polynomials, left, relation, right);
    if (verdict == Verdict::kUnknown) continue;
    ++decided;
    for (int i = 0; i < 40; ++i) {
      std::vector<int64_t> dims;
      for (const aot_rt::Dim& d : plan.dims) {
        const int64_t first = (d.range.min + d.multiple_of - 1) / d.multiple_of;
        const int64_t last = d.range.max / d.multiple_of;
        dims.push_back((first + static_cast<int64_t>(random() % (last - first + 1))) *
                       d.multiple_of);
      }
      const bool truth = aot_rt::holds(left.eval(dims.data()), relation, right.eval(dims.data()));
      if (truth == (verdict == Verdict::kTrue)) continue;
      CHECK_EQ(left.text(plan.dim_names) + " and " + right.text(plan.dim_names), "decided rightly");
      break;
    }
  }
  CHECK(decided > 1000);
}

TEST(joined_and_replaced_expressions_are_what_they_say) {
  std::mt19937 random(9);
  const Plan plan = plan_of({dim(0, 9), dim(0, 9), dim(0, 9)});
  for (int round = 0; round < 2000; ++round) {
    const Expr outer = parse(plan, random_expr(&random, 3, 3));
    std::vector<Expr> values;
    for (int i = 0; i < 3; ++i) values.push_back(parse(plan, random_expr(&random, 3, 1)));
    const Expr whole = outer.with(values);
    const std::vector<int64_t> dims = {static_cast<int64_t>(random() % 10),
                                       static_cast<int64_t>(random() % 10),
                                       static_cast<int64_t>(random() % 10)};
    std::vector<int64_t> inner;
    for (const Expr& value : values) inner.push_back(value.eval(dims.data()));
    CHECK_EQ(whole.eval(dims.data()), outer.eval(inner.data()));
    CHECK(whole.is_constant() || outer.matches(values, whole));
    CHECK(!outer.matches(values, Expr::join(Expr::Kind::kAdd, whole, parse(plan, R"("s0")"))));
    const Expr sum = Expr::join(Expr::Kind::kAdd, outer, whole);
    CHECK_EQ(sum.eval(dims.data()), outer.eval(dims.data()) + whole.eval(dims.data()));
  }
}

}  // namespace

TEST_MAIN
