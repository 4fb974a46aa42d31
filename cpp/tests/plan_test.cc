// One test per way in which a plan can contradict itself.
#include "plan.h"

#include <functional>

#include "check.h"
#include "package_builder.h"

namespace {

using aot_test::Builder;
using aot_test::json;

// Parses the small package's plan after `change`.
void parse(const std::function<void(json&)>& change) {
  Builder builder = aot_test::small_package();
  change(builder.plan);
  const aot_test::AlignedBytes bytes(builder.build());
  const auto container = aot_rt::Container::read(bytes.bytes());
  aot_rt::Plan::parse(container);
}

// The same for its program for the CPU.
void parse_program(const std::function<void(json&)>& change) {
  parse([&change](json& p) { change(p["programs"][0]); });
}

// The same for a program of a device whose kernels have code of their own.
void parse_device_program(const std::function<void(json&)>& change) {
  Builder builder = aot_test::small_package();
  aot_test::add_device_program(&builder, "tpu", "v1");
  change(builder.plan["programs"][1]);
  const aot_test::AlignedBytes bytes(builder.build());
  const auto container = aot_rt::Container::read(bytes.bytes());
  aot_rt::Plan::parse(container);
}

TEST(a_good_plan) {
  const aot_test::AlignedBytes bytes(aot_test::small_package().build());
  const auto container = aot_rt::Container::read(bytes.bytes());
  const auto plan = aot_rt::Plan::parse(container);
  CHECK_EQ(plan.model, "small");
  CHECK_EQ(plan.programs.size(), size_t{1});
  const aot_rt::Program& program = plan.programs[0];
  CHECK_EQ(program.device, "cpu");
  CHECK_EQ(program.steps.size(), size_t{3});
  CHECK_EQ(program.kernel_of(program.steps[1]).name, "scale");
  CHECK(program.kernels[1].entry == nullptr);
  CHECK_EQ(plan.origin_of(program.steps[0]), "small.py:3 aten.add.Tensor");
  CHECK_EQ(plan.origin_of(program.steps[1]), "");
  CHECK_EQ(plan.dims[0].range.max, int64_t{64});
}

TEST(no_plan) {
  json header = {{"__metadata__", {{"format", "aot-package"}, {"format_version", "1.0"}}}};
  const aot_test::AlignedBytes bytes(aot_test::assemble(header.dump(), ""));
  const auto container = aot_rt::Container::read(bytes.bytes());
  CHECK_FAILS(aot_rt::Plan::parse(container), AOT_CORRUPT_PACKAGE, "the package has no plan");
}

TEST(changed_plan) {
  Builder builder = aot_test::small_package();
  builder.metadata["plan_sha256"] = std::string(64, '0');
  const aot_test::AlignedBytes bytes(builder.build());
  const auto container = aot_rt::Container::read(bytes.bytes());
  CHECK_FAILS(aot_rt::Plan::parse(container), AOT_CORRUPT_PACKAGE, "checksum of the plan");
}

TEST(versions) {
  CHECK_FAILS(parse([](json& p) { p["format"] = {2, 0}; }), AOT_INCOMPATIBLE, "plan format 2");
  CHECK_FAILS(parse([](json& p) { p["format"] = 1; }), AOT_CORRUPT_PACKAGE, "must be an array");
  CHECK_FAILS(parse([](json& p) { p["format"] = {1, 0, 0}; }), AOT_CORRUPT_PACKAGE,
              "[major, minor]");
  parse([](json& p) { p["new_key"] = {{"ignored", true}}; });
}

TEST(every_key_is_required) {
  for (const char* key : {"format", "compiler", "model", "dims", "inputs", "outputs", "checks",
                          "origins", "programs", "entries"}) {
    CHECK_FAILS(parse([key](json& p) { p.erase(key); }), AOT_CORRUPT_PACKAGE,
                std::string("plan has no member '") + key + "'");
  }
  for (const char* key :
       {"device", "arch", "buffers", "arena", "libraries", "kernels", "steps", "outputs"}) {
    CHECK_FAILS(parse_program([key](json& p) { p.erase(key); }), AOT_CORRUPT_PACKAGE,
                std::string("plan.programs[0] has no member '") + key + "'");
  }
  for (const char* key :
       {"sha256", "symbol", "threads", "shared", "scratch", "scratch_alignment", "faults"}) {
    CHECK_FAILS(parse_device_program([key](json& p) { p["kernels"][0].erase(key); }),
                AOT_CORRUPT_PACKAGE,
                std::string("plan.programs[1].kernels[0] has no member '") + key + "'");
  }
}

TEST(newer_words) {
  CHECK_FAILS(parse_program([](json& p) { p["buffers"][3]["dtype"] = "float4"; }), AOT_UNSUPPORTED,
              "plan.programs[0].buffers[3].dtype is 'float4'");
  CHECK_FAILS(parse_program([](json& p) { p["buffers"][3]["storage"]["kind"] = "cloud"; }),
              AOT_UNSUPPORTED, "plan.programs[0].buffers[3].storage.kind is 'cloud'");
}

TEST(dims) {
  CHECK_FAILS(parse([](json& p) { p["dims"].push_back(p["dims"][0]); }), AOT_CORRUPT_PACKAGE,
              "as another dim");
  CHECK_FAILS(parse([](json& p) { p["dims"][0]["source"]["input"] = 1; }), AOT_CORRUPT_PACKAGE,
              "plan.dims[0].source.input is 1, but there are 1");
  CHECK_FAILS(parse([](json& p) { p["dims"][0]["source"]["axis"] = 2; }), AOT_CORRUPT_PACKAGE,
              "plan.dims[0].source.axis is 2, but there are 2");
  CHECK_FAILS(parse([](json& p) { p["dims"][0]["source"]["divisor"] = 0; }), AOT_CORRUPT_PACKAGE,
              "plan.dims[0].source.divisor is 0");
  CHECK_FAILS(parse([](json& p) { p["dims"][0]["min"] = -1; }), AOT_CORRUPT_PACKAGE,
              "plan.dims[0].min is -1");
  CHECK_FAILS(parse([](json& p) { p["dims"][0]["min"] = 65; }), AOT_CORRUPT_PACKAGE,
              "plan.dims[0].max is 64, must be at least 65");
  CHECK_FAILS(parse([](json& p) { p["dims"][0]["multiple_of"] = 0; }), AOT_CORRUPT_PACKAGE,
              "plan.dims[0].multiple_of is 0");
}

TEST(tensors) {
  CHECK_FAILS(parse([](json& p) { p["inputs"][0]["dtype"] = "int32"; }), AOT_CORRUPT_PACKAGE,
              "plan.programs[0].buffers[0] ('x'): its dtype is not that of its input");
  CHECK_FAILS(parse([](json& p) { p["outputs"][1]["dtype"] = "int32"; }), AOT_CORRUPT_PACKAGE,
              "plan.programs[0].outputs[1]: the buffer's dtype is not the output's");
  CHECK_FAILS(parse_program([](json& p) { p["outputs"] = {4}; }), AOT_CORRUPT_PACKAGE,
              "plan.programs[0].outputs names 1 buffers, the plan has 2 outputs");
  CHECK_FAILS(parse_program([](json& p) { p["outputs"][1] = 6; }), AOT_CORRUPT_PACKAGE,
              "plan.programs[0].outputs[1] is 6, but there are 6");
  CHECK_FAILS(parse([](json& p) { p["outputs"][1]["strides"] = {1, 1}; }), AOT_CORRUPT_PACKAGE,
              "plan.outputs[1].strides must be as long as the shape");
  CHECK_FAILS(parse([](json& p) { p["inputs"][0]["shape"] = json(std::vector<int>(65, 1)); }),
              AOT_CORRUPT_PACKAGE, "has too many dimensions");
}

TEST(buffers) {
  CHECK_FAILS(parse_program([](json& p) { p["buffers"][1]["storage"]["entry"] = "weights/none"; }),
              AOT_CORRUPT_PACKAGE, "names an entry 'weights/none' that is not there");
  CHECK_FAILS(parse_program([](json& p) { p["buffers"][1]["storage"]["offset"] = -4; }),
              AOT_CORRUPT_PACKAGE, "offset is -4");
  CHECK_FAILS(parse_program([](json& p) { p["buffers"][1]["storage"]["offset"] = 4; }),
              AOT_CORRUPT_PACKAGE, "reaches beyond its entry 'weights/bias'");
  CHECK_FAILS(parse_program([](json& p) { p["buffers"][1]["bytes"] = 36; }), AOT_CORRUPT_PACKAGE,
              "reaches beyond its entry 'weights/bias'");
  CHECK_FAILS(parse_program([](json& p) {
                p["buffers"][1]["bytes"] = 28;
                p["buffers"][1]["storage"]["offset"] = 2;
              }),
              AOT_CORRUPT_PACKAGE, "does not begin at a multiple of its element size");
  CHECK_FAILS(parse_program([](json& p) { p["buffers"][4]["storage"]["index"] = 2; }),
              AOT_CORRUPT_PACKAGE, "index is 2, but there are 2");
  CHECK_FAILS(parse_program([](json& p) { p["buffers"][4]["storage"]["index"] = 1; }),
              AOT_CORRUPT_PACKAGE,
              "plan.programs[0].buffers[4] ('y') is not the buffer of its output");
  CHECK_FAILS(parse_program([](json& p) { p["buffers"].push_back(p["buffers"][0]); }),
              AOT_CORRUPT_PACKAGE,
              "plan.programs[0].buffers[6] ('x') is a second buffer of its input");
}

TEST(arena) {
  CHECK_FAILS(parse_program([](json& p) { p["arena"] = json::array(); }), AOT_CORRUPT_PACKAGE,
              "is stored in the arena, but has no place there");
  const json more = {{"buffer", 4}, {"above", json::array()}};
  CHECK_FAILS(parse_program([&more](json& p) { p["arena"].push_back(more); }), AOT_CORRUPT_PACKAGE,
              "placed in the arena, but is stored elsewhere");
  CHECK_FAILS(parse_program([](json& p) { p["arena"].push_back(p["arena"][0]); }),
              AOT_CORRUPT_PACKAGE, "plan.programs[0].arena[1].buffer is placed twice");
  CHECK_FAILS(parse_program([](json& p) { p["arena"][0]["above"] = json::array({3}); }),
              AOT_CORRUPT_PACKAGE, "plan.programs[0].arena[0].above[0] is not placed before");
}

TEST(steps) {
  CHECK_FAILS(parse_program([](json& p) { p["steps"][0]["kernel"] = 5; }), AOT_CORRUPT_PACKAGE,
              "plan.programs[0].steps[0].kernel is 5, but there are 5");
  CHECK_FAILS(parse_program([](json& p) { p["steps"][2]["buffers"][1] = -1; }), AOT_CORRUPT_PACKAGE,
              "plan.programs[0].steps[2].buffers[1] is -1");
  CHECK_FAILS(parse_program([](json& p) { p["steps"][0]["origin"] = 1; }), AOT_CORRUPT_PACKAGE,
              "plan.programs[0].steps[0].origin is 1");
  CHECK_FAILS(parse_program([](json& p) { p["steps"][0]["grain"] = 0; }), AOT_CORRUPT_PACKAGE,
              "plan.programs[0].steps[0].grain is 0");
  CHECK_FAILS(parse_program([](json& p) { p["steps"][0]["work"] = "s7"; }), AOT_CORRUPT_PACKAGE,
              "plan.programs[0].steps[0].work names an unknown dim 's7'");
}

TEST(programs) {
  CHECK_FAILS(parse([](json& p) { p["programs"].push_back(p["programs"][0]); }),
              AOT_CORRUPT_PACKAGE, "plan.programs[1] is a second program for cpu");
  Builder builder = aot_test::small_package();
  aot_test::add_device_program(&builder, "tpu", "v1");
  const aot_test::AlignedBytes bytes(builder.build());
  const auto container = aot_rt::Container::read(bytes.bytes());
  const auto plan = aot_rt::Plan::parse(container);
  CHECK_EQ(plan.list_programs(), "cpu (x86-64-v2), tpu v1");
  CHECK_EQ(plan.programs_for("tpu").size(), size_t{1});
  CHECK(plan.programs_for("cuda").empty());
  const aot_rt::Program& program = *plan.programs_for("tpu")[0];
  const aot_rt::Kernel& kernel = program.kernels[0];
  CHECK_EQ(kernel.entry->name, "kernels/tpu/v1/scale");
  CHECK_EQ(kernel.symbol, "scale");
  CHECK_EQ(kernel.threads, 128);
  CHECK(!kernel.faults);
  CHECK(!kernel.waits);  // packages of format 1.0 do not say
  const int64_t dims[] = {5};
  CHECK_EQ(program.steps[0].grid[0].eval(dims), int64_t{5});
  CHECK_EQ(program.steps[0].grid[2].eval(dims), int64_t{1});
}

TEST(device_kernels) {
  const auto fails = [](const char* key, const json& value, const std::string& problem) {
    CHECK_FAILS(parse_device_program([&](json& p) { p["kernels"][0][key] = value; }),
                AOT_CORRUPT_PACKAGE, "plan.programs[1].kernels[0]." + std::string(key) + problem);
  };
  fails("entry", "kernels/none", " names an entry");
  fails("symbol", "", " is empty");
  fails("threads", 0, " is 0");
  fails("threads", 1025, " is above 1024");
  fails("shared", -1, " is -1");
  fails("scratch", int64_t{1} << 41, " is too large");
  fails("scratch_alignment", 24, " must be a power of 2");
  fails("faults", 1, " must be true or false");
  fails("waits", "yes", " must be true or false");
  CHECK_FAILS(parse_device_program([](json& p) { p["steps"][0].erase("grid"); }),
              AOT_CORRUPT_PACKAGE, "plan.programs[1].steps[0] has no member 'grid'");
  CHECK_FAILS(parse_device_program([](json& p) { p["steps"][0]["grid"] = {1, 1}; }),
              AOT_CORRUPT_PACKAGE, "plan.programs[1].steps[0].grid must be three numbers");
  CHECK_FAILS(parse_device_program([](json& p) { p["kernels"].push_back({{"name", "other"}}); }),
              AOT_CORRUPT_PACKAGE, "plan.programs[1].kernels[1]: some kernels have entries");
  CHECK_FAILS(parse_device_program([](json& p) {
                p["libraries"].push_back({{"entry", p["kernels"][0]["entry"]},
                                          {"isa", "v1"},
                                          {"sha256", p["kernels"][0]["sha256"]}});
              }),
              AOT_CORRUPT_PACKAGE, "plan.programs[1] has libraries and kernels with entries");
}

TEST(checks) {
  const json row = {{"left", "s0"}, {"relation", ">"}, {"right", 1}, {"message", "m"}};
  CHECK_FAILS(parse([&row](json& p) { p["checks"].push_back(row); }), AOT_CORRUPT_PACKAGE,
              "plan.checks[0].relation is '>'");
}

TEST(libraries) {
  CHECK_FAILS(parse_program([](json& p) { p["libraries"][0]["entry"] = "kernels/none"; }),
              AOT_CORRUPT_PACKAGE, "plan.programs[0].libraries[0].entry names an entry");
}

}  // namespace

TEST_MAIN
