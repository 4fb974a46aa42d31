#include "json_text.h"

#include <nlohmann/json.hpp>
#include <string>

#include "check.h"

namespace {

using aot_rt::Bytes;
using aot_rt::Field;

Bytes bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

TEST(well_formed_utf8) {
  for (const char* good : {"", "abc", "\xc2\x80", "\xe0\xa0\x80", "\xed\x9f\xbf",
                           "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    CHECK(aot_rt::is_utf8(bytes(good)));
  }
}

TEST(malformed_utf8) {
  for (const char* bad :
       {"\x80", "\xc0\xaf", "\xc1\xbf", "\xe0\x9f\xbf" /* overlong */,
        "\xed\xa0\x80" /* surrogate */, "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80" /* too great */,
        "\xf5\x80\x80\x80", "\xc2", "\xe1\x80", "\xf1\x80\x80", "\xe1\x80x", "\xff"}) {
    CHECK(!aot_rt::is_utf8(bytes(bad)));
  }
}

TEST(mistakes_in_the_text_are_named) {
  CHECK_FAILS(aot_rt::parse_json(bytes("{\"a\": \"\xff\"}"), "plan"), AOT_CORRUPT_PACKAGE,
              "plan: not valid UTF-8");
  CHECK_FAILS(aot_rt::parse_json(bytes("{\"a\": 1"), "plan"), AOT_CORRUPT_PACKAGE,
              "plan: not valid JSON: parse error");
  CHECK_FAILS(aot_rt::parse_json(bytes("{\"a\": 1, \"b\": {\"c\": 1, \"c\": 2}}"), "plan"),
              AOT_CORRUPT_PACKAGE, "plan: duplicate key 'c'");
  CHECK_EQ(aot_rt::parse_json(bytes("[{\"a\": 1}, {\"a\": 2}]"), "plan")->size(), size_t{2});
}

TEST(fields_know_where_they_are) {
  const auto json = nlohmann::json::parse(
      R"({"a": [{"b": "text"}], "n": -3, "big": 18446744073709551615, "half": 0.5})");
  const Field root(json, "plan");
  const Field a = root.at("a");
  const Field first = a.at(size_t{0});
  const Field b = first.at("b");
  CHECK_EQ(b.text(), "text");
  CHECK_FAILS(b.integer(), AOT_CORRUPT_PACKAGE, "plan.a[0].b must be an integer");
  CHECK_FAILS(first.at("c"), AOT_CORRUPT_PACKAGE, "plan.a[0] has no member 'c'");
  CHECK_FAILS(a.at("c"), AOT_CORRUPT_PACKAGE, "plan.a must be an object");
  CHECK_FAILS(root.size(), AOT_CORRUPT_PACKAGE, "plan must be an array");
  CHECK_FAILS(a.text(), AOT_CORRUPT_PACKAGE, "plan.a must be a string");
  const Field n = root.at("n");
  CHECK_EQ(n.integer(), int64_t{-3});
  CHECK_FAILS(n.integer_from(0), AOT_CORRUPT_PACKAGE, "plan.n is -3, must be at least 0");
  CHECK_FAILS(n.id(5), AOT_CORRUPT_PACKAGE, "plan.n is -3, but there are 5");
  const Field big = root.at("big");
  CHECK_FAILS(big.integer(), AOT_CORRUPT_PACKAGE, "does not fit in 64 bits");
  const Field half = root.at("half");
  CHECK_FAILS(half.integer(), AOT_CORRUPT_PACKAGE, "must be an integer");
}

}  // namespace

TEST_MAIN
