// Custom operators: registered and carried, what they are given, how they fail, how long they live,
// and every way in which a call step can contradict itself.
#include <atomic>
#include <cstddef>
#include <fstream>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "aot/aot.hpp"
#include "check.h"
#include "package_builder.h"
#include "plan.h"

namespace {

using aot::OperatorCall;
using aot_test::Builder;
using aot_test::json;
using aot_test::Opened;

constexpr const char* kName = "demo::scale";
constexpr int64_t kWidth = 8;
// total of a row of ones: 2 · (8 + 0 + 1 + … + 7).
constexpr float kTotal = 72.0f;

// An operator while it is in scope.
class Given {
 public:
  explicit Given(std::function<void(const OperatorCall&)> function) {
    CHECK(aot::register_operator(kName, std::move(function)).ok());
  }
  ~Given() { CHECK(aot::unregister_operator(kName).ok()); }
  Given(const Given&) = delete;
  Given& operator=(const Given&) = delete;
};

void scale_by(const OperatorCall& call, float factor) {
  const DLTensor& x = call.tensor("x");
  for (int64_t i = 0; i < OperatorCall::elements(x); ++i) {
    OperatorCall::data<float>(call.result(0))[i] = OperatorCall::data<const float>(x)[i] * factor;
  }
}

void doubled(const OperatorCall& call) { scale_by(call, 2.0f); }

// A session, through the C interface; what fails is thrown.
class Running {
 public:
  explicit Running(const Opened& package) {
    check(aot_session_create(package.get(), "cpu", nullptr, &session_));
  }
  ~Running() { aot_session_free(session_); }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  // The totals of so many rows of ones.
  std::vector<float> run(int64_t rows) {
    std::vector<float> x(static_cast<size_t>(rows * kWidth), 1.0f);
    const aot::Tensor input = aot::Tensor::borrow(x.data(), {rows, kWidth});
    const DLTensor* views[] = {&input.view()};
    DLManagedTensorVersioned* outputs[2] = {};
    check(aot_session_run_versioned(session_, views, 1, outputs, 2, nullptr));
    const aot::Tensor y = aot::Tensor::adopt(outputs[0]);
    const aot::Tensor total = aot::Tensor::adopt(outputs[1]);
    return std::vector<float>(total.data<float>(), total.data<float>() + rows);
  }

 private:
  static void check(aot_status* status) {
    if (status == nullptr) return;
    const aot::Error error = aot::Error::adopt(status);
    throw aot_rt::Error(error.code(), cat_origin(error));
  }
  static std::string cat_origin(const aot::Error& error) {
    return std::string(error.what()) + " [" + error.origin() + "]";
  }

  aot_session* session_ = nullptr;
};

std::vector<float> totals(int64_t rows, float each) {
  return std::vector<float>(static_cast<size_t>(rows), each);
}

std::string file_bytes(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

// The package carries that library.
Builder carrying(const std::string& bytes) {
  Builder b = aot_test::operator_package();
  const std::string name = "operators/cpu/demo.so";
  b.add(name, "U8", json::array({bytes.size()}), bytes);
  b.program()["operator_libraries"] =
      json::array({{{"entry", name}, {"sha256", b.plan["entries"][name]}}});
  return b;
}

void read(Builder builder, const std::function<void(json&)>& change) {
  change(builder.program());
  const aot_test::AlignedBytes bytes(builder.build());
  const auto container = aot_rt::Container::read(bytes.bytes());
  aot_rt::Plan::parse(container);
}

}  // namespace

TEST(a_registered_operator_runs_at_every_size) {
  const Given given(doubled);
  const Opened package(aot_test::operator_package());
  Running session(package);
  for (const int64_t rows : {int64_t{3}, int64_t{0}, int64_t{64}, int64_t{3}}) {
    CHECK(session.run(rows) == totals(rows, kTotal));
  }
}

TEST(it_sees_all_arguments_of_its_schema) {
  int calls = 0;
  const Given given([&calls](const OperatorCall& call) {
    ++calls;
    doubled(call);
    CHECK_EQ(std::string(call.raw().name), kName);
    CHECK(call.raw().struct_size == sizeof(aot_operator_call));
    CHECK(call.raw().stream == nullptr);
    CHECK_EQ(call.raw().argument_count, 7u);
    CHECK_EQ(call.raw().result_count, 1u);
    const DLTensor& x = call.tensor("x");
    CHECK(x.ndim == 2 && x.shape[0] == 5 && x.shape[1] == kWidth);
    CHECK(x.strides[0] == kWidth && x.strides[1] == 1 && x.byte_offset == 0);
    CHECK(x.dtype.code == kDLFloat && x.dtype.bits == 32 && x.dtype.lanes == 1);
    CHECK(x.device.device_type == kDLCPU);
    CHECK(call.result(0).shape[0] == 5 && call.result(0).data != x.data);
    CHECK_EQ(call.number("factor"), 2.0);
    CHECK_EQ(call.integer("rows"), 5);
    CHECK(call.text("mode") == "plain");
    CHECK(call.flag("checked"));
    const aot_argument& axes = call.argument("axes");
    CHECK(axes.is_list == 1 && axes.count == 2 && axes.ints[0] == 0 && axes.ints[1] == 1);
    CHECK(!call.has("bias") && call.has("x"));
  });
  const Opened package(aot_test::operator_package());
  Running(package).run(5);
  CHECK_EQ(calls, 1);
}

TEST(what_it_changes_is_said) {
  const Given given([](const OperatorCall& call) {
    CHECK_EQ(call.argument("x").is_changed, 1);
    doubled(call);
    OperatorCall::data<float>(call.tensor("x"))[0] = 9.0f;
  });
  Builder b = aot_test::operator_package();
  b.program()["steps"][1]["arguments"][0]["changed"] = true;
  b.program()["steps"][2]["buffers"][0] = 3;  // the sum of what it has changed
  const Opened package(b);
  CHECK(Running(package).run(1) == totals(1, kTotal / 2 + 8.0f));
}

TEST(accessors_refuse_other_kinds) {
  std::string problem;
  const Given given([&problem](const OperatorCall& call) {
    try {
      call.integer("factor");
    } catch (const std::invalid_argument& error) {
      problem = error.what();
    }
    call.tensor("axis");
  });
  const Opened package(aot_test::operator_package());
  CHECK_FAILS(Running(package).run(1), AOT_OPERATOR_FAILED,
              "the custom operator 'demo::scale' failed: there is no argument 'axis'");
  CHECK_EQ(problem, "the argument 'factor' is of another kind");
}

TEST(a_missing_operator_is_named_with_its_line_when_a_session_is_made) {
  const Opened package(aot_test::operator_package());
  CHECK_FAILS(Running(package).run(1), AOT_NOT_FOUND,
              "the model calls the custom operator 'demo::scale' at small.py:3 aten.add.Tensor, "
              "which nobody has given for cpu: register it for this device before you load the "
              "package (aot_register_operator_for; in Python aot_runtime.register_operator), or "
              "package with --operator-library and the shared library that holds it [small.py:3");
  CHECK(aot::register_operator("demo::scale2", doubled).ok());
  CHECK_FAILS(Running(package).run(1), AOT_NOT_FOUND, "demo::scale");
  CHECK(aot::unregister_operator("demo::scale2").ok());
  CHECK(!aot::register_operator("", doubled).ok());
}

TEST(devices_that_code_cannot_be_for) {
  for (const char* device : {"gpu", "cuda:1", ""}) {
    const auto made = aot::register_operator(kName, doubled, device);
    CHECK(!made.ok() && made.error().code() == AOT_UNAVAILABLE);
    CHECK_EQ(std::string(made.error().what()),
             std::string("no device '") + device + "': this runtime runs on cpu, cuda");
  }
  aot_status* const status = aot_register_operator_for(nullptr, kName, nullptr, nullptr, nullptr);
  CHECK_EQ(std::string(aot_status_message(status)), "device is NULL");
  aot_status_free(status);
}

TEST(libraries_of_older_and_newer_runtimes_find_their_way) {
  static std::vector<std::string> added;
  added.clear();
  aot_operator_registry registry{};
  registry.abi_version = AOT_OPERATOR_ABI_VERSION;
  registry.add = [](const aot_operator_registry*, const char* name, aot_operator_fn, void*,
                    void (*)(void*)) {
    added.emplace_back(name);
    return 0;
  };
  registry.add_for = [](const aot_operator_registry*, const char* device, const char* name,
                        aot_operator_fn, void*, void (*)(void*)) {
    added.push_back(std::string(device) + " " + name);
    return 0;
  };
  registry.struct_size = offsetof(aot_operator_registry, add_for);
  CHECK_EQ(aot::add_operator<doubled>(&registry, "a::b"), 0);
  CHECK(aot::add_operator<doubled>(&registry, "a::b", "cuda") != 0);
  registry.struct_size = sizeof(registry);
  CHECK_EQ(aot::add_operator<doubled>(&registry, "a::b"), 0);
  CHECK_EQ(aot::add_operator<doubled>(&registry, "a::b", "cuda"), 0);
  CHECK(added == std::vector<std::string>({"a::b", "cpu a::b", "cuda a::b"}));
}

TEST(failures_come_with_the_operators_words_and_the_models_line) {
  const Opened package(aot_test::operator_package());
  {
    const Given given([](const OperatorCall&) { throw std::runtime_error("no luck"); });
    CHECK_FAILS(Running(package).run(1), AOT_OPERATOR_FAILED,
                "the custom operator 'demo::scale' failed: no luck, at small.py:3 aten.add.Tensor "
                "[small.py:3 aten.add.Tensor]");
  }
  {
    const Given given([](const OperatorCall&) { throw 3; });
    CHECK_FAILS(Running(package).run(1), AOT_OPERATOR_FAILED, "no std::exception");
  }
  const auto returns = [](const aot_operator_call*, void*) { return 7; };
  CHECK(aot_register_operator(kName, returns, nullptr, nullptr) == nullptr);
  CHECK_FAILS(Running(package).run(1), AOT_OPERATOR_FAILED, "failed: it returned 7");
  CHECK(aot::unregister_operator(kName).ok());
}

TEST(a_session_stays_usable_after_a_failure) {
  int calls = 0;
  const Given given([&calls](const OperatorCall& call) {
    if (++calls == 1) throw std::runtime_error("once");
    doubled(call);
  });
  const Opened package(aot_test::operator_package());
  Running session(package);
  CHECK_FAILS(session.run(2), AOT_OPERATOR_FAILED, "once");
  CHECK(session.run(2) == totals(2, kTotal));
}

TEST(sessions_keep_what_they_were_made_with) {
  static int released = 0;
  released = 0;
  const auto call = [](const aot_operator_call* given, void* user) {
    return aot::run_operator(
        given, [user](const OperatorCall& inner) { scale_by(inner, *static_cast<float*>(user)); });
  };
  const auto release = [](void*) { ++released; };
  float two = 2.0f;
  float four = 4.0f;
  const Opened package(aot_test::operator_package());
  {
    CHECK(aot_register_operator(kName, call, &two, release) == nullptr);
    Running old(package);
    CHECK(aot_register_operator(kName, call, &four, release) == nullptr);
    CHECK_EQ(released, 0);
    Running fresh(package);
    CHECK(old.run(1) == totals(1, kTotal));
    CHECK(fresh.run(1) == totals(1, 2 * kTotal));
    CHECK(aot::unregister_operator(kName).ok());
    CHECK(fresh.run(1) == totals(1, 2 * kTotal));
    CHECK_EQ(released, 0);
  }
  CHECK_EQ(released, 2);
}

TEST(sessions_run_and_operators_are_registered_at_the_same_time) {
  const Given given(doubled);
  const Opened package(aot_test::operator_package());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&package, &wrong, t] {
      Running session(package);
      for (int i = 0; i < 50; ++i) {
        if (session.run(1 + t + i % 5) != totals(1 + t + i % 5, kTotal)) ++wrong;
        if (!aot::register_operator(kName, doubled).ok()) ++wrong;
        if (i % 10 == 0 && Running(package).run(2) != totals(2, kTotal)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(wrong.load(), 0);
}

TEST(a_package_carries_its_operators_and_prefers_them) {
  const Opened package(carrying(file_bytes(AOT_TEST_OPERATORS)));
  CHECK(Running(package).run(3) == totals(3, kTotal));
  const Given given([](const OperatorCall& call) { scale_by(call, 5.0f); });
  CHECK(Running(package).run(3) == totals(3, kTotal));
  Builder other = carrying(file_bytes(AOT_TEST_OPERATORS));
  other.program()["steps"][1]["arguments"][3]["values"][0] = "fancy";
  const Opened failing(other);
  CHECK_FAILS(Running(failing).run(1), AOT_OPERATOR_FAILED, "the mode is not plain");
}

TEST(carried_libraries_that_do_not_serve) {
  const Opened refusing(carrying(file_bytes(AOT_TEST_REFUSING)));
  CHECK_FAILS(Running(refusing).run(1), AOT_INCOMPATIBLE,
              "'operators/cpu/demo.so' does not serve this runtime");
  const Opened kernels(carrying(aot_test::kernel_binary()));
  CHECK_FAILS(Running(kernels).run(1), AOT_CORRUPT_PACKAGE,
              "does not export aot_operator_library_init");
  const Opened text(carrying("no shared object"));
  CHECK_FAILS(Running(text).run(1), AOT_DEVICE_ERROR, "cannot load 'operators/cpu/demo.so'");
  Builder changed = carrying(file_bytes(AOT_TEST_OPERATORS));
  changed.program()["operator_libraries"][0]["sha256"] = std::string(64, '0');
  const Opened damaged(changed);
  CHECK_FAILS(Running(damaged).run(1), AOT_CORRUPT_PACKAGE, "checksum of 'operators/cpu/demo.so'");
}

TEST(tensors_larger_than_their_buffers_fail_the_run) {
  const Given given(doubled);
  Builder b = aot_test::operator_package();
  b.program()["steps"][1]["results"][0]["shape"][1] = kWidth + 1;
  const Opened package(b);
  CHECK_FAILS(Running(package).run(1), AOT_CORRUPT_PACKAGE,
              "('call demo::scale'): the bytes of operand 1");
  b.program()["steps"][1]["results"][0]["shape"] = {int64_t{1} << 62, 8};
  const Opened huge(b);
  CHECK_FAILS(Running(huge).run(1), AOT_SHAPE_MISMATCH, "sizes are too large");
}

TEST(profiles_name_calls) {
  const Given given(doubled);
  const Opened package(aot_test::operator_package());
  aot_session_options options{};
  options.struct_size = sizeof(options);
  options.profile = 1;
  aot_session* session = nullptr;
  CHECK(aot_session_create(package.get(), "cpu", &options, &session) == nullptr);
  aot_step_profile steps[3];
  size_t count = 0;
  CHECK(aot_session_profile(session, steps, 3, &count) == nullptr);
  CHECK_EQ(std::string(steps[1].kernel), "call demo::scale");
  aot_session_free(session);
}

TEST(calls_that_contradict_themselves) {
  const Builder good = aot_test::operator_package();
  const auto call = [](json& p) -> json& { return p["steps"][1]; };
  const auto argument = [&call](json& p, int index) -> json& {
    return call(p)["arguments"][index];
  };
  read(good, [](json&) {});
  CHECK_FAILS(read(good, [&](json& p) { call(p)["call"] = ""; }), AOT_CORRUPT_PACKAGE,
              "steps[1].call is empty");
  CHECK_FAILS(read(good, [&](json& p) { call(p).erase("results"); }), AOT_CORRUPT_PACKAGE,
              "steps[1] has no member 'results'");
  CHECK_FAILS(read(good, [&](json& p) { argument(p, 0)["values"][0]["buffer"] = 9; }),
              AOT_CORRUPT_PACKAGE, "values[0].buffer is 9, but there are 6");
  CHECK_FAILS(read(good, [&](json& p) { argument(p, 0)["values"][0]["shape"][0] = "s7"; }),
              AOT_CORRUPT_PACKAGE, "names an unknown dim 's7'");
  CHECK_FAILS(read(good, [&](json& p) { argument(p, 0)["kind"] = "complex"; }), AOT_UNSUPPORTED,
              "arguments[0].kind is 'complex', which this runtime does not know");
  CHECK_FAILS(read(good, [&](json& p) { argument(p, 6)["kind"] = "none[]"; }), AOT_UNSUPPORTED,
              "'none[]'");
  CHECK_FAILS(read(good, [&](json& p) { argument(p, 1)["values"].push_back(1.0); }),
              AOT_CORRUPT_PACKAGE, "arguments[1].values has 2 elements for the kind float");
  CHECK_FAILS(read(good, [&](json& p) { argument(p, 6)["values"].push_back(1.0); }),
              AOT_CORRUPT_PACKAGE, "arguments[6].values has 1 elements for the kind none");
  CHECK_FAILS(read(good, [&](json& p) { argument(p, 1)["values"][0] = "large"; }),
              AOT_CORRUPT_PACKAGE, "values[0] must be a number, or inf, -inf or nan");
  CHECK_FAILS(read(good, [&](json& p) { argument(p, 4)["values"][0] = 1; }), AOT_CORRUPT_PACKAGE,
              "values[0] must be true or false");
  CHECK_FAILS(read(good, [&](json& p) { call(p)["results"][0]["buffer"] = 1; }),
              AOT_CORRUPT_PACKAGE, "steps[1] writes an input or an entry");
  CHECK_FAILS(read(good, [&](json& p) { call(p)["results"][0]["buffer"] = 3; }),
              AOT_CORRUPT_PACKAGE,
              "steps[1] writes 'sum', which it also reads or writes otherwise");
  CHECK_FAILS(read(good, [&](json& p) { call(p)["results"].push_back(call(p)["results"][0]); }),
              AOT_CORRUPT_PACKAGE, "steps[1] writes 'y', which it also reads or writes otherwise");
  CHECK_FAILS(read(good, [&](json& p) { argument(p, 1)["changed"] = true; }), AOT_CORRUPT_PACKAGE,
              "arguments[1].changed is for tensors");
  CHECK_FAILS(read(good,
                   [&](json& p) {
                     argument(p, 0)["changed"] = true;
                     argument(p, 0)["values"][0]["buffer"] = 0;
                   }),
              AOT_CORRUPT_PACKAGE, "steps[1] writes an input or an entry");
  read(good, [&](json& p) { argument(p, 1)["values"][0] = "-inf"; });
}

TEST_MAIN
