// Names, and what lets programs and libraries of different age work together.
#include <cstddef>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "aot/aot.hpp"
#include "check.h"
#include "package_builder.h"

namespace {

using aot_test::AlignedBytes;
using aot_test::Opened;

std::string taken(aot_status* status, aot_code expected) {
  CHECK_EQ(int{aot_status_code(status)}, int{expected});
  std::string message = aot_status_message(status);
  aot_status_free(status);
  return message;
}

TEST(positions_by_name) {
  const Opened package(aot_test::state_package());
  size_t index = 9;
  CHECK(aot_package_find_input(package.get(), "x", &index) == nullptr);
  CHECK_EQ(index, size_t{0});
  CHECK(aot_package_find_output(package.get(), "total", &index) == nullptr);
  CHECK_EQ(index, size_t{1});
  CHECK(aot_package_find_state(package.get(), "bias", &index) == nullptr);
  CHECK_EQ(index, size_t{0});
  index = 9;
  CHECK_EQ(taken(aot_package_find_output(package.get(), "z", &index), AOT_NOT_FOUND),
           "the model has no output 'z'; it has 'y', 'total'");
  CHECK_EQ(index, size_t{9});
  taken(aot_package_find_input(package.get(), nullptr, &index), AOT_INVALID_ARGUMENT);
  taken(aot_package_find_input(package.get(), "x", nullptr), AOT_INVALID_ARGUMENT);
  const Opened stateless(aot_test::small_package());
  CHECK_EQ(taken(aot_package_find_state(stateless.get(), "bias", &index), AOT_NOT_FOUND),
           "the model has no state 'bias'; it has none");
}

TEST(runs_by_name_from_memory) {
  const AlignedBytes bytes(aot_test::small_package().build());
  const aot::Package package =
      aot::Package::open_memory(bytes.bytes().data, bytes.bytes().size).value();
  CHECK_EQ(package.find_output("total").value(), size_t{1});
  CHECK_EQ(package.find_input("none").error().code(), AOT_NOT_FOUND);
  CHECK_EQ(package.find_state("none").error().code(), AOT_NOT_FOUND);
  aot::Session session = aot::Session::create(package).value().clone().value();
  const std::vector<float> x(16, 1.0f);
  aot::NamedTensors inputs;
  inputs.emplace("x", aot::Tensor::borrow(x.data(), {2, 8}));
  const aot::NamedTensors outputs = session.run_named(inputs).value();
  CHECK_EQ(outputs.size(), size_t{2});
  CHECK_EQ(outputs.at("y").data<float>()[1], 4.0f);
  CHECK_EQ(outputs.at("total").data<float>()[0], 72.0f);
  inputs.emplace("z", aot::Tensor::borrow(x.data(), {2, 8}));
  CHECK_EQ(std::string(session.run_named(inputs).error().what()), "the model has no input 'z'");
  inputs.erase("x");
  CHECK_EQ(std::string(session.run_named(inputs).error().what()), "input 'x' is missing");
  CHECK_EQ(aot::Package::open_memory(bytes.bytes().data, 5).error().code(), AOT_CORRUPT_PACKAGE);
}

TEST(features_and_sizes) {
  std::set<std::string> names;
  for (size_t i = 0; aot_feature_name(i) != nullptr; ++i) {
    CHECK(names.insert(aot_feature_name(i)).second);
    CHECK_EQ(aot_has_feature(aot_feature_name(i)), 1);
  }
  CHECK(names.count("trace") == 1);
  CHECK_EQ(aot_has_feature("teleport"), 0);
  CHECK_EQ(aot_has_feature(nullptr), 0);
  CHECK_EQ(aot_struct_size("aot_tensor_info"), sizeof(aot_tensor_info));
  CHECK_EQ(aot_struct_size("aot_trace_event"), sizeof(aot_trace_event));
  CHECK_EQ(aot_struct_size("aot_nothing"), size_t{0});
  CHECK_EQ(aot_struct_size(nullptr), size_t{0});
}

TEST(dims_one_by_one) {
  const Opened package(aot_test::small_package());
  const aot_tensor_info* x = aot_package_input(package.get(), 0);
  CHECK_EQ(std::string(aot_tensor_dim(x, 0)->label), "batch");
  CHECK_EQ(aot_tensor_dim(x, 1)->size, int64_t{8});
  CHECK(aot_tensor_dim(x, 2) == nullptr);
  CHECK(aot_tensor_dim(nullptr, 0) == nullptr);
}

// A struct of a header to come: the present one with a field more.
template <typename Options>
struct Newer {
  Options known{};
  uint64_t added = 0;
  Newer() { known.struct_size = sizeof(*this); }
};

TEST(fields_that_the_library_does_not_know_are_refused) {
  const Opened package(aot_test::small_package());
  Newer<aot_session_options> options;
  aot_session* session = nullptr;
  CHECK(aot_session_create(package.get(), "cpu", &options.known, &session) == nullptr);
  aot_session_free(session);
  session = nullptr;
  options.added = uint64_t{1} << 63;  // the last byte alone
  const std::string message = taken(
      aot_session_create(package.get(), "cpu", &options.known, &session), AOT_INVALID_ARGUMENT);
  const std::string known = std::to_string(sizeof(aot_session_options));
  const std::string last = std::to_string(sizeof(options) - 1);
  CHECK(message.find("aot_session_options: byte " + last + " is set") == 0);
  CHECK(message.find(std::string("version ") + aot_runtime_version()) != std::string::npos);
  CHECK(message.find("knows the first " + known) != std::string::npos);
  CHECK(session == nullptr);
}

TEST(every_struct_that_a_caller_gives_is_read_so) {
  const Opened package(aot_test::swappable_package(true));
  aot_session* session = nullptr;
  aot_package* other = nullptr;
  Newer<aot_package_options> opening;
  opening.added = 1;
  taken(aot_package_open("x.pkg", &opening.known, &other), AOT_INVALID_ARGUMENT);

  aot_session_options options{};
  options.struct_size = sizeof(options);
  Newer<aot_executor> executor;
  executor.known.workers = 1;
  executor.known.run = [](void*, int32_t count, void (*task)(void*, int32_t), void* data) {
    for (int32_t i = 0; i < count; ++i) task(data, i);
  };
  executor.added = 1;
  options.executor = &executor.known;
  taken(aot_session_create(package.get(), "cpu", &options, &session), AOT_INVALID_ARGUMENT);
  executor.added = 0;
  CHECK(aot_session_create(package.get(), "cpu", &options, &session) == nullptr);

  options.executor = nullptr;
  Newer<aot_allocator> allocator;
  allocator.added = 1;
  options.allocator = &allocator.known;
  aot_session* refused = nullptr;
  CHECK(taken(aot_session_create(package.get(), "cpu", &options, &refused), AOT_INVALID_ARGUMENT)
            .find("aot_allocator: byte") == 0);

  options.allocator = nullptr;
  Newer<aot_limits> limits;
  limits.added = 1;
  options.limits = &limits.known;
  taken(aot_session_create(package.get(), "cpu", &options, &refused), AOT_INVALID_ARGUMENT);
  CHECK(refused == nullptr);

  Newer<aot_run_options> running;
  running.added = 1;
  taken(aot_session_run_with(session, nullptr, 0, nullptr, 0, &running.known),
        AOT_INVALID_ARGUMENT);
  Newer<aot_trace_options> tracing;
  tracing.added = 1;
  taken(aot_session_trace_begin(session, &tracing.known), AOT_INVALID_ARGUMENT);
  Newer<aot_replace_options> replacing;
  replacing.added = 1;
  taken(aot_package_replace_weights(package.get(), nullptr, 0, &replacing.known),
        AOT_INVALID_ARGUMENT);
  Newer<aot_weight_update> update;
  update.known.name = "base";
  update.added = 1;
  const aot_weight_update* updates[] = {&update.known};
  taken(aot_package_replace_weights(package.get(), updates, 1, nullptr), AOT_INVALID_ARGUMENT);
  aot_session_free(session);
}

TEST(profiles_in_elements_of_any_size) {
  const Opened package(aot_test::small_package());
  aot_session_options options{};
  options.struct_size = sizeof(options);
  options.profile = 1;
  aot_session* session = nullptr;
  CHECK(aot_session_create(package.get(), "cpu", &options, &session) == nullptr);
  struct Wider {
    aot_step_profile known;
    uint64_t added;
  };
  std::vector<Wider> wide(4);
  std::memset(static_cast<void*>(wide.data()), 0xff, sizeof(Wider) * wide.size());
  auto* const steps = reinterpret_cast<aot_step_profile*>(wide.data());
  size_t count = 0;
  CHECK(aot_session_step_profiles(session, steps, sizeof(Wider), 4, &count) == nullptr);
  CHECK_EQ(count, size_t{3});
  CHECK_EQ(std::string(wide[2].known.kernel), "row_sum");
  CHECK_EQ(wide[2].known.calls, uint64_t{0});
  CHECK_EQ(wide[2].added, uint64_t{0});
  CHECK_EQ(wide[3].added, ~uint64_t{0});  // behind the last
  const char* kernels[2] = {};
  CHECK(aot_session_step_profiles(session, reinterpret_cast<aot_step_profile*>(kernels),
                                  sizeof(const char*), 2, &count) == nullptr);
  CHECK_EQ(std::string(kernels[1]), "scale");
  taken(aot_session_step_profiles(session, steps, 0, 4, &count), AOT_INVALID_ARGUMENT);
  taken(aot_session_step_profiles(session, nullptr, sizeof(Wider), 4, &count),
        AOT_INVALID_ARGUMENT);
  aot_session_free(session);
}

}  // namespace

TEST_MAIN
