// Hostile packages by construction: each breaks one rule of the verifier and no other.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "aot/abi.h"
#include "check.h"
#include "flow_package.h"
#include "package_builder.h"
#include "plan.h"
#include "safetensors.h"

namespace {

using aot_test::Builder;
using aot_test::json;
using aot_test::Opened;

using Change = std::function<void(Builder&)>;

// Opens what `change` makes of a package that declares what its kernels touch.
void open(Builder builder, const Change& change) {
  aot_test::declare(&builder);
  change(builder);
  const Opened opened(builder);
}

void open_small(const Change& change) { open(aot_test::small_package(), change); }

json& buffer(Builder& b, size_t id) { return b.program()["buffers"][id]; }
json& step(Builder& b, size_t id) { return b.program()["steps"][id]; }

void check_status(aot_status* status) {
  if (status == nullptr) return;
  const aot_rt::Error error(aot_status_code(status), aot_status_message(status));
  aot_status_free(status);
  throw error;
}

// Opens a package and runs it on four rows; throws what fails.
void run(const Builder& builder) {
  const Opened opened(builder);
  aot_session* session = nullptr;
  check_status(aot_session_create(opened.get(), "cpu", nullptr, &session));
  std::vector<float> x(32, 1.0f);
  std::vector<int64_t> shape = {4, 8};
  DLTensor tensor{};
  tensor.data = x.data();
  tensor.device = {kDLCPU, 0};
  tensor.ndim = 2;
  tensor.dtype = {kDLFloat, 32, 1};
  tensor.shape = shape.data();
  const DLTensor* inputs[] = {&tensor};
  DLManagedTensor* outputs[2] = {};
  aot_status* status = aot_session_run(session, inputs, 1, outputs, 2, nullptr);
  for (DLManagedTensor* output : outputs) {
    if (output != nullptr) output->deleter(output);
  }
  aot_session_free(session);
  check_status(status);
}

// The facts that are left to be checked in a run, and whether the arena is.
std::pair<size_t, bool> left(const Builder& builder) {
  const aot_test::AlignedBytes bytes(builder.build());
  const auto container = aot_rt::Container::read(bytes.bytes());
  const auto plan = aot_rt::Plan::parse(container);
  CHECK(plan.declared);
  const aot_rt::Unproved& unproved = plan.programs[0].unproved;
  size_t count = 0;
  for (const auto& facts : unproved.facts) count += facts.size();
  return {count, unproved.arena};
}

TEST(good_packages_are_proved_for_all_sizes) {
  Builder looping = aot_test::flow_package(true, 3, 0);
  aot_test::add_row_by_row(&looping);
  Builder gathers = aot_test::gather_package();
  Builder measured = aot_test::measured_package(2);
  for (const Builder& good :
       {aot_test::small_package(), aot_test::small_package(16, 0, 4), aot_test::operator_package(),
        aot_test::swappable_package(true), looping, gathers}) {
    Builder declared = good;
    aot_test::declare(&declared);
    CHECK_EQ(left(declared).first, size_t{0});
    CHECK(!left(declared).second);
  }
  // Of no rows there is no new value of the state's 8 numbers.
  Builder state = aot_test::state_package();
  aot_test::declare(&state);
  CHECK_EQ(left(state).first, size_t{1});
  // The source is up to 64 rows, of which up to 4 are scaled: which is more, only a run knows.
  aot_test::declare(&measured);
  CHECK_EQ(left(measured).first, size_t{1});
}

TEST(packages_of_format_1_0_are_trusted_and_say_so) {
  const Builder old = aot_test::small_package();
  const aot_test::AlignedBytes bytes(old.build());
  const auto container = aot_rt::Container::read(bytes.bytes());
  CHECK(!aot_rt::Plan::parse(container).declared);
  std::string warning;
  aot_package_options options{};
  options.struct_size = sizeof(options);
  options.log = [](void* context, aot_log_level level, const char* text) {
    if (level == AOT_LOG_WARNING) *static_cast<std::string*>(context) = text;
  };
  options.log_context = &warning;
  aot_package* package = nullptr;
  CHECK(aot_package_open_memory(bytes.bytes().data, bytes.bytes().size, &options, &package) ==
        nullptr);
  aot_package_free(package);
  CHECK(warning.find("its launches are trusted, not proved") != std::string::npos);
}

TEST(declarations_are_demanded_by_format_1_1) {
  Builder b = aot_test::small_package();
  b.plan["format"] = {1, 1};
  CHECK_FAILS(
      Opened(b).get(), AOT_CORRUPT_PACKAGE,
      "plan.programs[0]: the code 'kernels/cpu/x86-64-v2' does not declare what its kernels");
}

// Opens the small package with `text` behind its kernels' code.
void open_with(const std::string& text) {
  open_small([&text](Builder& b) {
    Builder bare = aot_test::small_package();
    for (size_t i = 0; i < b.entries.size(); ++i) {
      if (b.entries[i].name != "kernels/cpu/x86-64-v2") continue;
      b.entries[i].bytes = bare.entries[i].bytes + text;
      b.entries[i].shape = {b.entries[i].bytes.size()};
    }
  });
}

TEST(declarations_are_read_strictly) {
  CHECK_FAILS(open_with(std::string(7, '\xff') + "\x7f" + "AOTDECL1"), AOT_CORRUPT_PACKAGE,
              "declarations of 'kernels/cpu/x86-64-v2' are said to have 9223372036854775807 bytes");
  std::string cut = aot_test::declarations(aot_test::test_declarations());
  cut.erase(0, 1);
  CHECK_FAILS(open_with(cut), AOT_CORRUPT_PACKAGE, "not valid JSON");
  const auto fails = [](const std::function<void(json&)>& change, const char* message) {
    json kernels = aot_test::test_declarations();
    change(kernels[0]);
    CHECK_FAILS(open_with(aot_test::declarations(kernels)), AOT_CORRUPT_PACKAGE, message);
  };
  fails([](json& k) { k["work"] = "v2"; }, "kernels[0].work names an unknown dim 'v2'");
  fails([](json& k) { k["buffers"][0]["access"] = "all"; }, "must be read, write or update");
  fails([](json& k) { k["dims"][0]["multiple_of"] = 0; }, "is 0, must be at least 1");
  fails([](json& k) { k["dims"][0] = {{"min", 4}, {"max", 3}, {"multiple_of", 1}}; },
        "is 3, must be at least 4");
  const auto relation = [](const json& row) { return json::array({row}); };
  fails([&](json& k) { k["relations"] = relation({"v0", "<=", 1, 2}); },
        "must be [left, relation, right]");
  fails([&](json& k) { k["relations"] = relation({"v0", ">", 1}); }, "must be ==, <= or <");
  fails([](json& k) { k["sizes"] = json(std::vector<int>(5000, 1)); }, "has 5000 items, at most");
  fails([](json& k) { k.erase("scratch"); }, "has no member 'scratch'");
  fails([](json& k) { k["name"] = "other"; },
        "plan.programs[0].kernels[0] is 'add_bias', 'kernels/cpu/x86-64-v2' declares 'other'");
  json four = aot_test::test_declarations();
  four.erase(4);
  CHECK_FAILS(open_with(aot_test::declarations(four)), AOT_CORRUPT_PACKAGE,
              "declares 4 kernels, the plan has 5");
}

// What fails to open when the small package's declarations and plan are changed so.
void fails(const Change& change, const std::string& message) {
  CHECK_FAILS(open_small(change), AOT_CORRUPT_PACKAGE, message);
}

void fails_declared(const std::function<void(json&)>& change, const std::string& message) {
  json kernels = aot_test::test_declarations();
  change(kernels);
  Builder b = aot_test::small_package();
  aot_test::declare(&b, kernels);
  CHECK_FAILS(Opened(b).get(), AOT_CORRUPT_PACKAGE, message);
}

TEST(launches_give_what_their_kernel_takes) {
  fails([](Builder& b) { step(b, 0)["values"].erase(1); },
        "plan.programs[0].steps[0] ('add_bias') gives 1 values, the kernel declares 2");
  fails([](Builder& b) { step(b, 0)["buffers"].erase(1); },
        "gives 2 buffers, the kernel declares 3");
  fails([](Builder& b) { step(b, 1)["sizes"] = {8}; }, "gives 1 sizes, the kernel declares 0");
  fails([](Builder& b) { step(b, 0)["sizes"] = {9}; },
        "size argument 0 (9) must be equal to what the kernel declares (8)");
  fails([](Builder& b) { step(b, 1)["work"] = {"+", 1, {"*", 8, "s0"}}; },
        "the work (1 + (8 * s0)) must be equal to what the kernel declares (8 * s0)");
  fails([](Builder& b) { step(b, 2)["scratch"] = 31; },
        "the scratch that the kernel declares (32) must be at most what the step gives (31)");
}

TEST(values_are_in_their_variables_ranges) {
  fails_declared([](json& k) { k[0]["dims"][1]["min"] = 9; },
                 "the least value that the kernel declares for variable 1 (9) must be at most the "
                 "value that the step gives (8)");
  fails_declared([](json& k) { k[0]["dims"][1]["max"] = 7; },
                 "the value that the step gives for variable 1 (8) must be at most the greatest "
                 "that the kernel declares (7)");
  fails_declared([](json& k) { k[0]["dims"][1]["multiple_of"] = 3; },
                 "the rest of the value of variable 1 by the multiple that the kernel declares (2) "
                 "must be equal to nothing (0)");
  fails_declared([](json& k) { k[0]["relations"] = json::array({{{"*", 2, "v1"}, "<", 16}}); },
                 "the left side of the kernel's relation 0 (16) must be below the right side (16)");
}

TEST(arguments_are_what_kernels_touch) {
  fails([](Builder& b) { step(b, 0)["buffers"] = {0, 2, 3}; },
        "the bytes that the kernel touches of argument 1 (32) must be at most the size of buffer "
        "'factor' (4)");
  fails(
      [](Builder& b) {
        b.plan["dims"][0]["min"] = 1;
        step(b, 2)["buffers"] = {5, 5};
      },
      "the bytes that the kernel touches of argument 0 ((4 * s0) * 8) must be at most the size "
      "of buffer 'total' (4 * s0)");
  fails([](Builder& b) { buffer(b, 1)["dtype"] = "int32"; },
        "gives 'bias' of int32 for argument 1, the kernel declares float32");
  fails([](Builder& b) { buffer(b, 3)["dtype"] = "int8"; },
        "gives 'sum' of int8 for argument 2, the kernel declares float32");
  fails([](Builder& b) { step(b, 0)["buffers"] = {3, 1, 0}; },
        "writes an input or an entry, 'x', as argument 2");
}

TEST(a_temporary_may_hold_several_types_of_one_size) {
  open_small([](Builder& b) { buffer(b, 3)["dtype"] = "int32"; });
}

TEST(buffers_lie_within_what_they_are_stored_in) {
  fails(
      [](Builder& b) {
        b.plan["dims"][0]["min"] = 1;
        buffer(b, 0)["bytes"] = {"+", 1, {"*", 32, "s0"}};
      },
      "plan.programs[0].buffers[0]: the size of buffer 'x' (1 + (32 * s0)) must be at most the "
      "bytes of its input");
  fails([](Builder& b) { buffer(b, 0)["bytes"] = 400000; },
        "the size of buffer 'x' (400000) must be at most the bytes of its input");
  fails([](Builder& b) { buffer(b, 1)["bytes"] = {"+", 33, "s0"}; },
        "the end of buffer 'bias' (33 + s0) must be at most the size of its entry (32)");
  fails([](Builder& b) { buffer(b, 4)["bytes"] = {"+", -100, "s0"}; },
        "the least size (0) must be at most the size of buffer 'y' (-100 + s0)");
  Builder fixed = aot_test::small_package();
  fixed.plan["outputs"][0]["shape"][0] = 65;
  CHECK_FAILS(open(fixed, [](Builder& b) { buffer(b, 4)["bytes"] = {"*", 32, "s0"}; }),
              AOT_CORRUPT_PACKAGE,
              "the bytes of output 0 (2080) must be at most the size of its buffer 'y'");
}

TEST(updates_have_a_value_of_their_size) {
  const auto fails_state = [](const Change& change, const char* message) {
    CHECK_FAILS(open(aot_test::state_package(), change), AOT_CORRUPT_PACKAGE, message);
  };
  // The input that changes has 8 numbers a row.
  fails_state(
      [](Builder& b) {
        b.program()["buffers"].push_back(buffer(b, 3));
        b.program()["buffers"][6]["bytes"] = {"*", 28, "s0"};
        b.program()["arena"].push_back({{"buffer", 6}, {"above", {3}}});
        b.plan["dims"][0]["min"] = 1;
        b.program()["updates"][0]["buffer"] = 6;
      },
      "the bytes that update 0 copies");
  fails_state([](Builder& b) { b.plan["dims"][0]["max"] = 0; },
              "the bytes that update 1 copies (32) must be at most the size of buffer 'sum'");
}

TEST(slices_end_within_their_wholes_in_every_turn) {
  const auto fails_slice = [](const Change& change, const char* message) {
    Builder b = aot_test::flow_package(true, 3, 0);
    aot_test::add_row_by_row(&b);
    CHECK_FAILS(open(b, change), AOT_CORRUPT_PACKAGE, message);
  };
  fails_slice([](Builder& b) { buffer(b, 8)["storage"]["stride"] = -32; },
              "the least stride (0) must be at most the stride of slice 'row' (-32)");
  fails_slice(
      [](Builder& b) {
        b.plan["dims"][0]["min"] = 2;
        buffer(b, 8)["storage"]["stride"] = 64;
      },
      "the end of slice 'row' in the last turn");
  fails_slice([](Builder& b) { step(b, 0)["repeat"] = {"+", "s0", 1}; },
              "the end of slice 'row' in the last turn");
  fails_slice([](Builder& b) { step(b, 0)["repeat"] = {"+", "s0", -100}; },
              "no turns (0) must be at most the turns of the loop (s0 + -100)");
}

// A slice whose size is measured inside of its loop: as large as what a run finds there.
TEST(what_is_measured_in_a_loop_is_checked_in_the_run) {
  const auto run_with = [](int64_t count) {
    Builder b = aot_test::flow_package(true, count, 0);
    aot_test::add_row_by_row(&b);
    b.plan["dims"].push_back({{"name", "m0"},
                              {"label", "m0"},
                              {"min", 0},
                              {"max", 64},
                              {"multiple_of", 1},
                              {"source", nullptr}});
    buffer(b, 9)["bytes"] = {"*", 32, "m0"};
    json& steps = b.program()["steps"];
    steps.insert(steps.begin() + 1,
                 json{{"read", json::array({json::array({"m0", 7})})}, {"body", 1}, {"origin", 0}});
    steps[0]["body"] = 2;
    aot_test::declare(&b);
    run(b);
  };
  run_with(1);
  CHECK_FAILS(run_with(3), AOT_CORRUPT_PACKAGE, "the end of slice 'row' in the last turn");
  CHECK_FAILS(run_with(0), AOT_CORRUPT_PACKAGE, "the bytes that the kernel touches of argument 2");
}

TEST(steps_copy_and_read_within_buffers) {
  const auto fails_step = [](const json& made, const Change& change, const char* message) {
    Builder b = aot_test::flow_package(true, 3);
    b.program()["steps"].push_back(made);
    CHECK_FAILS(open(b, change), AOT_CORRUPT_PACKAGE, message);
  };
  const json copy = {{"copy", 5}, {"to", 3}, {"origin", 0}};
  fails_step(
      copy, [](Builder& b) { b.plan["dims"][0]["min"] = 1; },
      "the size of buffer 'total' (4 * s0) must be equal to the size of the copy's target");
  const json check = {{"check", 6}, {"message", "no"}, {"origin", 0}};
  fails_step(
      check, [](Builder& b) { buffer(b, 6)["bytes"] = 0; },
      "what the step reads (1) must be at most the size of buffer 'flag' (0)");
  const json read = {{"read", json::array({json::array({"m0", 7})})}, {"body", 0}, {"origin", 0}};
  fails_step(
      read,
      [](Builder& b) {
        buffer(b, 7)["bytes"] = 4;
        b.plan["dims"].push_back({{"name", "m0"},
                                  {"label", "m0"},
                                  {"min", 0},
                                  {"max", 9},
                                  {"multiple_of", 1},
                                  {"source", nullptr}});
      },
      "what the step reads (8) must be at most the size of buffer 'count' (4)");
}

TEST(operands_of_operators_lie_within_buffers) {
  const auto fails_call = [](const json& shape, const char* message) {
    CHECK_FAILS(open(aot_test::operator_package(),
                     [&shape](Builder& b) {
                       b.plan["dims"][0]["min"] = 1;
                       step(b, 1)["results"][0]["shape"] = shape;
                     }),
                AOT_CORRUPT_PACKAGE, message);
  };
  fails_call({"s0", 9},
             "the bytes of operand 1 ((4 * s0) * 9) must be at most the size of its buffer");
  fails_call({"s0", -1}, "the least size (0) must be at most a size of operand 1 (-1)");
}

TEST(routines_leave_what_is_derived) {
  const auto fails_routine = [](const Change& change, const char* message) {
    CHECK_FAILS(open(aot_test::swappable_package(true), change), AOT_CORRUPT_PACKAGE, message);
  };
  const auto routine = [](Builder& b) -> json& { return b.program()["weights"]["routines"][0]; };
  // One element, eight times: the result has the right shape, and its memory 4 bytes.
  fails_routine(
      [&routine](Builder& b) {
        routine(b)["results"][0]["strides"] = {0};
        routine(b)["buffers"][2]["bytes"] = 4;
        routine(b)["steps"] = json::array();
      },
      "plan.programs[0].weights.routines[0].buffers[2]: the bytes of the derived entry (32) must "
      "be "
      "at most the size of the result's buffer 'result' (4)");
  fails_routine([&routine](Builder& b) { routine(b)["steps"][0]["buffers"] = {0, 1, 0}; },
                "plan.programs[0].weights.routines[0].steps[0] ('add_bias') writes an input");
}

TEST(outputs_are_no_slices_and_need_no_sizes_of_loops) {
  Builder b = aot_test::flow_package(true, 3, 0);
  aot_test::add_row_by_row(&b);
  CHECK_FAILS(open(b,
                   [](Builder& changed) {
                     changed.program()["outputs"][0] = 9;
                     buffer(changed, 4)["storage"] = {{"kind", "arena"}};
                     changed.program()["arena"].push_back({{"buffer", 4}, {"above", {3}}});
                   }),
              AOT_CORRUPT_PACKAGE, "plan.programs[0].outputs[0] is a slice");
  Builder loop = aot_test::flow_package(true, 3);
  json& steps = loop.program()["steps"];
  steps.insert(steps.begin(),
               {json{{"repeat", 2}, {"body", 1}, {"origin", 0}},
                json{{"read", json::array({json::array({"m0", 7})})}, {"body", 0}, {"origin", 0}}});
  CHECK_FAILS(open(loop,
                   [](Builder& changed) {
                     changed.plan["dims"].push_back({{"name", "m0"},
                                                     {"label", "m0"},
                                                     {"min", 0},
                                                     {"max", 9},
                                                     {"multiple_of", 1},
                                                     {"source", nullptr}});
                     buffer(changed, 4)["bytes"] = {"*", 32, "s0", "m0"};
                   }),
              AOT_CORRUPT_PACKAGE, "a size of an output, inside of a branch or loop");
}

TEST(temporaries_alive_together_lie_apart) {
  // A second temporary, written where the first is read.
  const auto second = [](Builder& b, const json& above) {
    b.program()["buffers"].push_back(buffer(b, 3));
    b.program()["buffers"][6]["name"] = "twice";
    b.program()["arena"].push_back({{"buffer", 6}, {"above", above}});
    step(b, 1)["buffers"] = {3, 2, 6};
    step(b, 2)["buffers"] = {6, 5};
    step(b, 2)["kernel"] = 2;
    json copy = {{"copy", 6}, {"to", 4}, {"origin", 0}};
    b.program()["steps"].push_back(copy);
  };
  open_small([&second](Builder& b) { second(b, {3}); });
  Builder b = aot_test::small_package();
  aot_test::declare(&b);
  second(b, json::array());
  CHECK(left(b).second);
  CHECK_FAILS(run(b), AOT_CORRUPT_PACKAGE, "are in use at one time and share memory");
  // Of constant size: found when the package is opened.
  CHECK_FAILS(open(aot_test::small_package(),
                   [&second](Builder& fixed) {
                     second(fixed, json::array());
                     std::string text = fixed.plan.dump();
                     for (size_t at = text.find("\"s0\""); at != std::string::npos;
                          at = text.find("\"s0\"")) {
                       text.replace(at, 4, "4");
                     }
                     fixed.plan = json::parse(text);
                     fixed.plan["dims"] = json::array();
                   }),
              AOT_CORRUPT_PACKAGE, "buffers 'twice' (128 bytes at 0) and 'sum' (128 bytes at 0)");
}

}  // namespace

TEST_MAIN
