#include "cpu/kernel_library.h"

#include "check.h"
#include "cpu/isa.h"
#include "package_builder.h"

namespace {

using aot_test::Builder;

struct Loaded {
  explicit Loaded(const Builder& builder)
      : bytes(builder.build()),
        container(aot_rt::Container::read(bytes.bytes())),
        plan(aot_rt::Plan::parse(container)) {}

  const aot_rt::Program& program() const { return plan.programs[0]; }
  void load() const { aot_rt::KernelLibrary(program().libraries[0], program()); }

  aot_test::AlignedBytes bytes;
  aot_rt::Container container;
  aot_rt::Plan plan;
};

TEST(levels) {
  CHECK_EQ(aot_rt::isa_rank("x86-64-v3"), 3);
  CHECK_EQ(aot_rt::isa_rank("x86-64-v9"), 0);
  CHECK_EQ(std::string(aot_rt::isa_name(4)), "x86-64-v4");
  CHECK_EQ(std::string(aot_rt::isa_name(0)), "none");
  CHECK(aot_rt::cpu_isa_rank() >= 2);  // what the tests' kernels need
}

TEST(loads_and_unloads) {
  const Loaded loaded(aot_test::small_package());
  for (int i = 0; i < 3; ++i) {
    const aot_rt::KernelLibrary first(loaded.program().libraries[0], loaded.program());
    const aot_rt::KernelLibrary second(loaded.program().libraries[0], loaded.program());
    CHECK_EQ(first.isa(), "x86-64-v2");
    CHECK(first.kernel(0) != second.kernel(0));  // two libraries, in spite of equal names
  }
}

TEST(the_best_level_is_chosen) {
  Builder builder = aot_test::small_package();
  builder.add_library("x86-64-v9");
  const Loaded loaded(builder);
  CHECK_EQ(aot_rt::choose_library(loaded.program(), "").isa, "x86-64-v2");
  CHECK_EQ(aot_rt::choose_library(loaded.program(), "x86-64-v2").isa, "x86-64-v2");
  CHECK_FAILS(aot_rt::choose_library(loaded.program(), "x86-64-v9"), AOT_UNAVAILABLE,
              "no CPU kernels for x86-64-v9: the package has x86-64-v2, x86-64-v9; this CPU "
              "supports up to x86-64-v");
  CHECK_FAILS(aot_rt::choose_library(loaded.program(), "x86-64-v3"), AOT_UNAVAILABLE,
              "no CPU kernels for x86-64-v3");
}

TEST(levels_may_have_programs_of_their_own) {
  Builder builder = aot_test::small_package();
  builder.program()["arch"] = "x86-64-v2";
  aot_test::json other = builder.program();
  other["arch"] = "x86-64-v9";
  other["libraries"][0]["isa"] = "x86-64-v9";
  builder.plan["programs"].insert(builder.plan["programs"].begin(), other);
  const Loaded loaded(builder);
  const auto programs = loaded.plan.programs_for("cpu");
  CHECK_EQ(programs.size(), size_t{2});
  for (const char* isa : {"", "x86-64-v2"}) {
    CHECK_EQ(aot_rt::choose_cpu_program(programs, isa).arch, "x86-64-v2");
  }
  CHECK_FAILS(aot_rt::choose_cpu_program(programs, "x86-64-v9"), AOT_UNAVAILABLE,
              "the package has x86-64-v9, x86-64-v2; this CPU supports up to x86-64-v");
}

TEST(no_library_at_all) {
  Builder builder = aot_test::small_package();
  builder.program()["libraries"] = aot_test::json::array();
  const Loaded loaded(builder);
  CHECK_FAILS(aot_rt::choose_library(loaded.program(), ""), AOT_UNAVAILABLE,
              "no CPU kernels for this CPU: the package has none");
}

TEST(changed_code_is_not_loaded) {
  Builder builder = aot_test::small_package();
  builder.entries[0].bytes[5000] = static_cast<char>(builder.entries[0].bytes[5000] ^ 1);
  CHECK_FAILS(Loaded(builder).load(), AOT_CORRUPT_PACKAGE,
              "checksum of 'kernels/cpu/x86-64-v2' is ");
}

TEST(code_that_is_no_library) {
  Builder builder = aot_test::small_package();
  builder.program()["libraries"] = aot_test::json::array();
  builder.add("kernels/cpu/bad", "U8", {4}, "ABCD");
  builder.program()["libraries"].push_back(
      {{"entry", "kernels/cpu/bad"},
       {"isa", "x86-64-v2"},
       {"sha256", builder.plan["entries"]["kernels/cpu/bad"]}});
  CHECK_FAILS(Loaded(builder).load(), AOT_DEVICE_ERROR, "cannot load 'kernels/cpu/bad'");
}

TEST(a_table_that_is_not_the_plans) {
  Builder builder = aot_test::small_package();
  builder.program()["libraries"][0]["isa"] = "x86-64-v3";
  CHECK_FAILS(Loaded(builder).load(), AOT_CORRUPT_PACKAGE, "is built for x86-64-v2");
  builder = aot_test::small_package();
  builder.program()["kernels"][1]["name"] = "other";
  CHECK_FAILS(Loaded(builder).load(), AOT_CORRUPT_PACKAGE,
              "kernel 1 is 'scale', the plan says 'other'");
  builder = aot_test::small_package();
  builder.program()["kernels"].push_back({{"name", "more"}});
  CHECK_FAILS(Loaded(builder).load(), AOT_CORRUPT_PACKAGE, "has 5 kernels, the plan 6");
}

}  // namespace

TEST_MAIN
