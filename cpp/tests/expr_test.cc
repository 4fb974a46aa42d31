#include "expr.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "check.h"

namespace {

using aot_rt::Expr;
using aot_rt::Field;
using aot_rt::kUnbounded;
using aot_rt::Range;

const std::vector<std::string> kDims = {"s0", "s1"};

Expr parse(const char* text) {
  const auto json = nlohmann::json::parse(text);
  const Field field(json, "e");
  return Expr::parse(field, kDims);
}

int64_t eval(const char* text, int64_t s0 = 0, int64_t s1 = 0) {
  const int64_t dims[] = {s0, s1};
  return parse(text).eval(dims);
}

TEST(operators) {
  CHECK_EQ(eval("7"), int64_t{7});
  CHECK_EQ(eval("\"s1\"", 3, 4), int64_t{4});
  CHECK_EQ(eval(R"(["+", "s0", "s1", 1])", 3, 4), int64_t{8});
  CHECK_EQ(eval(R"(["*", 2, "s0", ["+", "s1", 1]])", 3, 4), int64_t{30});
  CHECK_EQ(eval(R"(["min", "s0", 5, "s1"])", 7, 6), int64_t{5});
  CHECK_EQ(eval(R"(["max", "s0", 5])", 7), int64_t{7});
  CHECK_EQ(eval(R"(["//", ["+", "s0", 3], 4])", 6), int64_t{2});
  CHECK_EQ(eval(R"(["//", ["+", "s0", -8], 4])", 1), int64_t{-2});
  CHECK_EQ(eval(R"(["%", ["+", "s0", -8], 4])", 1), int64_t{1});
}

TEST(constants_are_folded) {
  CHECK(parse(R"(["*", 3, ["+", 1, 1]])").is_constant());
  CHECK_EQ(parse(R"(["*", 3, ["+", 1, 1]])").constant(), int64_t{6});
  CHECK(!parse(R"(["*", 3, "s0"])").is_constant());
}

TEST(overflow_is_an_error) {
  constexpr int64_t kBig = int64_t{1} << 62;
  CHECK_FAILS(eval(R"(["*", "s0", 4])", kBig), AOT_SHAPE_MISMATCH, "exceeds 64 bits");
  CHECK_FAILS(eval(R"(["+", "s0", "s1"])", kBig, kBig), AOT_SHAPE_MISMATCH, "exceeds 64 bits");
  CHECK_FAILS(parse("[\"*\", 4611686018427387904, 4]"), AOT_CORRUPT_PACKAGE, "exceeds 64 bits");
}

TEST(divisors_are_positive) {
  CHECK_FAILS(eval(R"(["//", 4, "s0"])", 0), AOT_CORRUPT_PACKAGE, "division by 0");
  CHECK_FAILS(eval(R"(["%", 4, "s0"])", -2), AOT_CORRUPT_PACKAGE, "division by -2");
  CHECK_FAILS(parse(R"(["//", 4, 0])"), AOT_CORRUPT_PACKAGE, "division by 0");
}

TEST(malformed) {
  CHECK_FAILS(parse("\"s9\""), AOT_CORRUPT_PACKAGE, "unknown dim 's9'");
  CHECK_FAILS(parse("[\"-\", 1, 2]"), AOT_CORRUPT_PACKAGE, "unknown operator");
  CHECK_FAILS(parse("[\"+\", 1]"), AOT_CORRUPT_PACKAGE, "must be an integer, a dim, or");
  CHECK_FAILS(parse("[\"//\", 1, 2, 3]"), AOT_CORRUPT_PACKAGE, "must have two operands");
  CHECK_FAILS(parse("1.5"), AOT_CORRUPT_PACKAGE, "must be an integer, a dim, or");
  CHECK_FAILS(parse("{}"), AOT_CORRUPT_PACKAGE, "must be an integer, a dim, or");
  CHECK_FAILS(parse("[1, 2, 3]"), AOT_CORRUPT_PACKAGE, "e[0] must be a string");
  std::string deep = "1";
  for (int i = 0; i < 100; ++i) deep = "[\"+\", \"s0\", " + deep + "]";
  CHECK_FAILS(parse(deep.c_str()), AOT_CORRUPT_PACKAGE, "nested too deeply");
}

TEST(ranges_hold_all_values) {
  const std::vector<Range> ranges = {{1, 8}, {0, kUnbounded}};
  const auto range = [&ranges](const char* text) { return parse(text).range(ranges); };
  CHECK_EQ(range(R"(["+", ["*", 2, "s0"], 1])").min, int64_t{3});
  CHECK_EQ(range(R"(["+", ["*", 2, "s0"], 1])").max, int64_t{17});
  CHECK_EQ(range(R"(["*", "s0", "s1"])").max, kUnbounded);
  CHECK_EQ(range(R"(["min", "s1", 5])").max, int64_t{5});
  CHECK_EQ(range(R"(["//", "s0", 3])").max, int64_t{2});
  CHECK_EQ(range(R"(["%", "s1", 3])").max, int64_t{2});
  CHECK_EQ(range(R"(["*", -1, "s0"])").min, int64_t{-8});
}

TEST(text_is_infix) {
  CHECK_EQ(parse(R"(["+", ["*", 2, "s0"], 1])").text(kDims), "(2 * s0) + 1");
  CHECK_EQ(parse(R"(["min", "s0", 4])").text(kDims), "min(s0, 4)");
  CHECK_EQ(parse("12").text(kDims), "12");
}

}  // namespace

TEST_MAIN
