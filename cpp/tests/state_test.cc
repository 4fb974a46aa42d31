// States and changed inputs through the public interface: what a run leaves behind, and refusals.
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "aot/aot.hpp"
#include "check.h"
#include "package_builder.h"

namespace {

using aot_test::Builder;
using aot_test::json;
using aot_test::Opened;
using aot_test::state_package;

constexpr size_t kWidth = 8;
constexpr size_t kBytes = kWidth * sizeof(float);
using Row = std::vector<float>;

struct Session {
  explicit Session(aot_package* package) {
    if (aot_status* status = aot_session_create(package, "cpu", nullptr, &raw)) {
      throw aot::Error::adopt(status);
    }
  }
  explicit Session(aot_session* owned) : raw(owned) {}
  ~Session() { aot_session_free(raw); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Runs one row, which the run changes; the code of the failure.
  aot_code run(const aot::Tensor& row) const {
    const DLTensor* views[] = {&row.view()};
    DLManagedTensorVersioned* outputs[2] = {};
    aot_status* status = aot_session_run_versioned(raw, views, 1, outputs, 2, nullptr);
    for (DLManagedTensorVersioned* output : outputs) {
      if (output != nullptr) output->deleter(output);
    }
    const aot_code code = aot_status_code(status);
    aot_status_free(status);
    return code;
  }
  aot_code run(Row* row) const {
    return run(aot::Tensor::borrow(row->data(), {1, static_cast<int64_t>(kWidth)}));
  }

  Row bias() const {
    Row values(kWidth);
    CHECK(aot_session_get_state(raw, 0, values.data(), kBytes) == nullptr);
    return values;
  }

  aot_session* raw = nullptr;
};

aot_code free_code(aot_status* status) {
  const aot_code code = aot_status_code(status);
  aot_status_free(status);
  return code;
}

const Row kFirst = {0, 1, 2, 3, 4, 5, 6, 7};

aot_code open_code(const Builder& builder) {
  try {
    const Opened package(builder);
  } catch (const aot_rt::Error& error) {
    return error.code();
  }
  return AOT_OK;
}

}  // namespace

TEST(runs_change_state_and_input) {
  const Opened package(state_package());
  const Session session(package.get());
  Row x(kWidth, 1);
  CHECK_EQ(session.run(&x), AOT_OK);
  CHECK(x == Row({1, 2, 3, 4, 5, 6, 7, 8}));
  CHECK(session.bias() == x);
  CHECK_EQ(session.run(&x), AOT_OK);
  CHECK(x == Row({2, 4, 6, 8, 10, 12, 14, 16}));
  CHECK(session.bias() == x);
}

TEST(states_are_described) {
  const Opened package(state_package());
  CHECK_EQ(aot_package_state_count(package.get()), size_t{1});
  const aot_tensor_info& info = *aot_package_state(package.get(), 0);
  CHECK_EQ(std::string(info.name), std::string("bias"));
  CHECK_EQ(info.dims[0].size, int64_t{8});
  CHECK(aot_package_state(package.get(), 1) == nullptr);
  CHECK_EQ(aot_package_input(package.get(), 0)->changed, 1);
  CHECK_EQ(aot_package_output(package.get(), 0)->changed, 0);
}

TEST(sessions_reset_and_clones) {
  const Opened package(state_package());
  const Session one(package.get());
  const Session two(package.get());
  Row x(kWidth, 1);
  CHECK_EQ(one.run(&x), AOT_OK);
  CHECK(two.bias() == kFirst);
  aot_session* raw = nullptr;
  CHECK(aot_session_clone(one.raw, &raw) == nullptr);
  const Session copy(raw);
  CHECK(copy.bias() == one.bias());
  CHECK(aot_session_reset(one.raw) == nullptr);
  CHECK(one.bias() == kFirst);
  CHECK(copy.bias() != kFirst);
}

TEST(set_state_is_what_the_next_run_reads) {
  const Opened package(state_package());
  const Session session(package.get());
  const Row zeros(kWidth, 0);
  CHECK(aot_session_set_state(session.raw, 0, zeros.data(), kBytes) == nullptr);
  Row x(kWidth, 3);
  CHECK_EQ(session.run(&x), AOT_OK);
  CHECK(x == Row(kWidth, 3));
}

TEST(wrong_positions_and_sizes_are_refused) {
  const Opened package(state_package());
  const Session session(package.get());
  Row values(kWidth);
  for (const auto& [index, size] : {std::pair<size_t, size_t>{1, kBytes}, {0, kBytes - 1}}) {
    CHECK_EQ(free_code(aot_session_get_state(session.raw, index, values.data(), size)),
             AOT_INVALID_ARGUMENT);
    CHECK_EQ(free_code(aot_session_set_state(session.raw, index, values.data(), size)),
             AOT_INVALID_ARGUMENT);
  }
  CHECK_EQ(free_code(aot_session_get_state(session.raw, 0, nullptr, kBytes)), AOT_INVALID_ARGUMENT);
  CHECK_EQ(free_code(aot_session_clone(session.raw, nullptr)), AOT_INVALID_ARGUMENT);
}

TEST(a_refused_run_changes_nothing) {
  const Opened package(state_package());
  const Session session(package.get());
  Row x(kWidth, 1);
  const auto narrow = aot::Tensor::borrow(x.data(), {1, 4});
  CHECK_EQ(session.run(narrow), AOT_SHAPE_MISMATCH);
  const auto repeated =
      aot::Tensor::borrow(x.data(), aot::dtype_of<float>(), {1, 8}, {8, 0}, {kDLCPU, 0});
  CHECK_EQ(session.run(repeated), AOT_INVALID_ARGUMENT);
  CHECK(x == Row(kWidth, 1));
  CHECK(session.bias() == kFirst);
}

TEST(changed_inputs_keep_their_strides) {
  const Opened package(state_package());
  const Session session(package.get());
  Row x(2 * kWidth, 1);
  const auto every_other =
      aot::Tensor::borrow(x.data(), aot::dtype_of<float>(), {1, 8}, {16, 2}, {kDLCPU, 0});
  CHECK_EQ(session.run(every_other), AOT_OK);
  for (size_t i = 0; i < x.size(); ++i) {
    CHECK_EQ(x[i], i % 2 == 0 ? 1 + static_cast<float>(i / 2) : 1);
  }
}

TEST(zeros_need_no_entry) {
  Builder builder = state_package();
  builder.plan["states"][0]["entry"] = nullptr;
  const Opened package(builder);
  const Session session(package.get());
  CHECK(session.bias() == Row(kWidth, 0));
}

TEST(clones_keep_the_options_that_were_copied) {
  const Opened package(state_package());
  aot_session* raw = nullptr;
  {
    aot_session_options options{};
    options.struct_size = sizeof(options);
    options.num_threads = 3;
    CHECK(aot_session_create(package.get(), "cpu", &options, &raw) == nullptr);
  }
  const Session session(raw);
  CHECK(aot_session_clone(session.raw, &raw) == nullptr);
  const Session copy(raw);
  CHECK_EQ(aot_session_num_threads(copy.raw), 3);
}

TEST(plans_whose_states_or_updates_are_wrong) {
  const std::vector<std::pair<const char*, json>> patches = {
      {"/states/0/shape", {9}},
      {"/states/0/shape", {-8}},
      {"/states/0/shape", {int64_t{1} << 40, int64_t{1} << 40}},
      {"/states/0/dtype", "float64"},
      {"/states/0/entry", "weights/none"},
      {"/programs/0/buffers/1/storage/index", 1},
      {"/programs/0/buffers/1/bytes", 36},
      {"/programs/0/buffers/1/dtype", "int32"},
      {"/programs/0/updates/0/input", 1},
      {"/programs/0/updates/0/buffer", 99},
      {"/programs/0/updates/0/buffer", 4},
      {"/programs/0/updates/1/state", 1},
      {"/programs/0/updates", json::array()},
      {"/inputs/0/changed", false},
  };
  for (const auto& [path, value] : patches) {
    Builder builder = state_package();
    builder.plan[json::json_pointer(path)] = value;
    const aot_code code = open_code(builder);
    if (code != AOT_CORRUPT_PACKAGE) std::fprintf(stderr, "%s\n", path);
    CHECK_EQ(code, AOT_CORRUPT_PACKAGE);
  }
  Builder twice = state_package();
  twice.plan["states"].push_back(twice.plan["states"][0]);
  CHECK_EQ(open_code(twice), AOT_CORRUPT_PACKAGE);
}

TEST(unknown_storage_is_for_a_newer_runtime) {
  Builder builder = state_package();
  builder.program()["buffers"][1]["storage"] = {{"kind", "elsewhere"}};
  CHECK_EQ(open_code(builder), AOT_UNSUPPORTED);
}

TEST_MAIN
