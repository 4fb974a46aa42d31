// Sessions through the public interface: values, shapes, layouts, failures, hooks.
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "aot/aot.hpp"
#include "check.h"
#include "package_builder.h"

namespace {

using aot_test::Builder;
using aot_test::json;
using aot_test::Opened;

// A session on a package, through the C interface.
class Running {
 public:
  explicit Running(const Builder& builder, aot_session_options options = {}) : package_(builder) {
    options.struct_size = sizeof(options);
    status_ = aot_session_create(package_.get(), "cpu", &options, &session_);
  }
  ~Running() {
    aot_session_free(session_);
    aot_status_free(status_);
  }

  aot_session* get() const { return session_; }

  // Runs one input; throws what failed.
  std::vector<aot::Tensor> run(const aot::Tensor& input) {
    const DLTensor* views[] = {&input.view()};
    DLManagedTensorVersioned* outputs[2] = {};
    const size_t count = aot_package_output_count(package_.get());
    if (aot_status* status =
            aot_session_run_versioned(session_, views, 1, outputs, count, nullptr)) {
      CHECK(outputs[0] == nullptr);
      const aot::Error error = aot::Error::adopt(status);
      throw aot_rt::Error(error.code(), error.what(), error.origin());
    }
    std::vector<aot::Tensor> result;
    for (size_t i = 0; i < count; ++i) result.push_back(aot::Tensor::adopt(outputs[i]));
    return result;
  }

 private:
  Opened package_;
  aot_session* session_ = nullptr;
  aot_status* status_ = nullptr;
};

std::vector<float> numbers(int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i % 17) - 8);
  return values;
}

bool small_is_right(const std::vector<aot::Tensor>& outputs, const std::vector<float>& x,
                    int64_t rows, int64_t width) {
  if (outputs[0].shape() != aot::Tensor::Shape{rows, width}) return false;
  if (outputs[1].shape() != aot::Tensor::Shape{rows}) return false;
  for (int64_t i = 0; i < rows; ++i) {
    float total = 0;
    for (int64_t j = 0; j < width; ++j) {
      const float y = 2 * (x[static_cast<size_t>(i * width + j)] + static_cast<float>(j));
      if (outputs[0].data<float>()[i * width + j] != y) return false;
      total += y;
    }
    if (outputs[1].data<float>()[i] != total) return false;
  }
  return true;
}

TEST(every_size_of_the_range_in_any_order) {
  Running running(aot_test::small_package());
  for (const int64_t rows : {1, 64, 0, 2, 63, 0, 1, 64, 5}) {
    const auto x = numbers(rows * 8);
    CHECK(small_is_right(running.run(aot::Tensor::borrow(x.data(), {rows, 8})), x, rows, 8));
  }
}

TEST(more_sets_of_sizes_than_are_kept) {
  Running running(aot_test::small_package());
  for (int64_t round = 0; round < 3; ++round) {
    for (int64_t rows = 0; rows < 40; ++rows) {
      const auto x = numbers(rows * 8);
      CHECK(small_is_right(running.run(aot::Tensor::borrow(x.data(), {rows, 8})), x, rows, 8));
    }
  }
}

TEST(threads_give_the_same) {
  for (const int32_t threads : {1, 2, 5}) {
    aot_session_options options{};
    options.num_threads = threads;
    Running running(aot_test::small_package(256, 0), options);
    CHECK_EQ(aot_session_num_threads(running.get()), threads);
    for (const int64_t rows : {1, 3, 200, 1000}) {
      const auto x = numbers(rows * 256);
      CHECK(small_is_right(running.run(aot::Tensor::borrow(x.data(), {rows, 256})), x, rows, 256));
    }
  }
}

TEST(inputs_of_other_layouts_are_copied) {
  Running running(aot_test::small_package());
  const auto x = numbers(5 * 8);
  std::vector<float> columns(x.size());
  for (size_t i = 0; i < 5; ++i) {
    for (size_t j = 0; j < 8; ++j) columns[j * 5 + i] = x[i * 8 + j];
  }
  const auto transposed = aot::Tensor::borrow(columns.data(), {kDLFloat, 32, 1}, {5, 8}, {1, 5});
  CHECK(small_is_right(running.run(transposed), x, 5, 8));
  std::vector<char> shifted(x.size() * 4 + 1);
  std::memcpy(shifted.data() + 1, x.data(), x.size() * 4);
  const auto misaligned =
      aot::Tensor::borrow(shifted.data() + 1, {kDLFloat, 32, 1}, {5, 8}, {8, 1});
  CHECK(small_is_right(running.run(misaligned), x, 5, 8));
}

TEST(outputs_outlive_session_and_package) {
  std::vector<aot::Tensor> outputs;
  const auto x = numbers(3 * 8);
  {
    Running running(aot_test::small_package());
    outputs = running.run(aot::Tensor::borrow(x.data(), {3, 8}));
  }
  CHECK(small_is_right(outputs, x, 3, 8));
}

TEST(outputs_are_not_overwritten_by_later_runs) {
  Running running(aot_test::small_package());
  const auto x = numbers(3 * 8);
  const auto first = running.run(aot::Tensor::borrow(x.data(), {3, 8}));
  const std::vector<float> zeros(24);
  const auto second = running.run(aot::Tensor::borrow(zeros.data(), {3, 8}));
  CHECK(small_is_right(first, x, 3, 8));
  CHECK(small_is_right(second, zeros, 3, 8));
}

TEST(steady_state_recycles_output_memory) {
  Running running(aot_test::small_package());
  const auto x = numbers(3 * 8);
  const void* before = nullptr;
  for (int i = 0; i < 5; ++i) {
    const auto outputs = running.run(aot::Tensor::borrow(x.data(), {3, 8}));
    if (before != nullptr) CHECK(outputs[0].raw() == before);
    before = outputs[0].raw();
  }
}

TEST(outputs_that_share_a_buffer_get_copies) {
  Builder builder = aot_test::small_package();
  json& outputs_of_plan = builder.plan["outputs"];
  json& x_spec = builder.plan["inputs"][0];
  outputs_of_plan.push_back(outputs_of_plan[0]);  // y again
  outputs_of_plan.push_back(x_spec);              // x itself
  outputs_of_plan.push_back(
      {{"name", "bias"}, {"dtype", "float32"}, {"shape", {8}}, {"strides", {1}}});
  outputs_of_plan.push_back(x_spec);  // a temporary
  builder.program()["outputs"] = {4, 5, 4, 0, 1, 3};
  Opened package(builder);
  aot_session* session = nullptr;
  CHECK(aot_session_create(package.get(), nullptr, nullptr, &session) == nullptr);
  const auto x = numbers(2 * 8);
  const auto input = aot::Tensor::borrow(x.data(), {2, 8});
  const DLTensor* views[] = {&input.view()};
  DLManagedTensor* outputs[6] = {};
  CHECK(aot_session_run(session, views, 1, outputs, 6, nullptr) == nullptr);
  const auto value = [&outputs](int i, int at) {
    return static_cast<const float*>(outputs[i]->dl_tensor.data)[at];
  };
  CHECK(outputs[0]->dl_tensor.data != outputs[2]->dl_tensor.data);
  CHECK(outputs[3]->dl_tensor.data != x.data());
  for (int at = 0; at < 16; ++at) {
    const float expected = x[static_cast<size_t>(at)];
    CHECK_EQ(value(2, at), value(0, at));
    CHECK_EQ(value(3, at), expected);
    CHECK_EQ(value(5, at), expected + static_cast<float>(at % 8));
  }
  CHECK_EQ(value(4, 7), 7.0f);
  for (DLManagedTensor* output : outputs) output->deleter(output);
  aot_session_free(session);
}

TEST(bad_indices_in_data_name_their_origin) {
  Running running(aot_test::gather_package());
  const std::vector<int64_t> good = {0, 4, 2};
  const std::vector<int64_t> bad = {0, 5, 2};
  for (int round = 0; round < 2; ++round) {
    try {
      running.run(aot::Tensor::borrow(bad.data(), {3}));
      CHECK(false);
    } catch (const aot_rt::Error& error) {
      CHECK_EQ(error.code(), AOT_INVALID_ARGUMENT);
      CHECK_EQ(error.origin(), "model.py:12 aten.embedding.default");
    }
    const auto outputs = running.run(aot::Tensor::borrow(good.data(), {3}));
    CHECK_EQ(outputs[0].data<float>()[1], 14.0f);
  }
}

TEST(checks_over_dims) {
  Builder builder = aot_test::small_package();
  builder.plan["checks"] = json::array(
      {{{"left", {"%", "s0", 4}}, {"relation", "=="}, {"right", 0}, {"message", "batch by fours"}},
       {{"left", "s0"}, {"relation", "<="}, {"right", 16}, {"message", "at most sixteen"}},
       {{"left", "s0"}, {"relation", "<"}, {"right", 16}, {"message", "fewer than sixteen"}}});
  Running running(builder);
  const auto x = numbers(64 * 8);
  const auto run = [&](int64_t rows) { running.run(aot::Tensor::borrow(x.data(), {rows, 8})); };
  run(8);
  CHECK_FAILS(run(7), AOT_SHAPE_MISMATCH, "batch by fours (s0 % 4 is 3, 0 is 0)");
  CHECK_FAILS(run(20), AOT_SHAPE_MISMATCH, "at most sixteen");
  CHECK_FAILS(run(16), AOT_SHAPE_MISMATCH, "fewer than sixteen");
}

TEST(plans_that_break_at_bind) {
  const auto x = numbers(64 * 8);
  const auto run = [&x](const Builder& builder) {
    Running running(builder);
    running.run(aot::Tensor::borrow(x.data(), {4, 8}));
  };
  Builder builder = aot_test::small_package();
  builder.program()["buffers"][3]["bytes"] = {"+", "s0", -100};
  CHECK_FAILS(run(builder), AOT_CORRUPT_PACKAGE, "the size of buffer 'sum' (s0 + -100)");
  builder = aot_test::small_package();
  builder.program()["buffers"][4]["bytes"] = {"*", 31, "s0"};
  CHECK_FAILS(run(builder), AOT_CORRUPT_PACKAGE, "output 'y' is larger than its buffer");
  builder = aot_test::small_package();
  builder.program()["buffers"][1]["bytes"] = {"*", 16, "s0"};
  CHECK_FAILS(run(builder), AOT_CORRUPT_PACKAGE, "reaches beyond its entry");
  builder = aot_test::small_package();
  builder.program()["steps"][0]["work"] = {"+", "s0", -5};
  CHECK_FAILS(run(builder), AOT_CORRUPT_PACKAGE, "work of step of 'add_bias' is -1");
  builder = aot_test::small_package();
  builder.program()["buffers"][3]["bytes"] = {"*", int64_t{1} << 62, "s0"};
  CHECK_FAILS(run(builder), AOT_SHAPE_MISMATCH, "exceeds 64 bits");
  builder.program()["buffers"][3]["bytes"] = {"*", int64_t{1} << 60, "s0"};
  CHECK_FAILS(run(builder), AOT_OUT_OF_MEMORY, "bytes of temporaries");
  builder = aot_test::small_package();
  builder.program()["steps"][2]["scratch"] = {"*", int64_t{1} << 60, "s0"};
  CHECK_FAILS(run(builder), AOT_OUT_OF_MEMORY, "scratch");
}

TEST(arguments_of_the_c_interface) {
  Opened package(aot_test::small_package());
  aot_session* session = nullptr;
  const auto code = [](aot_status* status) {
    const aot_code result = aot_status_code(status);
    aot_status_free(status);
    return result;
  };
  CHECK_EQ(code(aot_package_open(nullptr, nullptr, nullptr)), AOT_INVALID_ARGUMENT);
  aot_package* other = nullptr;
  alignas(64) const char bytes[2] = {};
  const char* misaligned = bytes + 1;
  CHECK_EQ(code(aot_package_open_memory(misaligned, 1, nullptr, &other)), AOT_INVALID_ARGUMENT);
  CHECK_EQ(code(aot_session_create(nullptr, "cpu", nullptr, &session)), AOT_INVALID_ARGUMENT);
  CHECK_EQ(code(aot_session_create(package.get(), "cpu:x", nullptr, &session)),
           AOT_INVALID_ARGUMENT);
  aot_session_options options{};
  CHECK_EQ(code(aot_session_create(package.get(), "cpu", &options, &session)),
           AOT_INVALID_ARGUMENT);  // struct_size not set
  options.struct_size = sizeof(options);
  options.isa = "x86-64-v9";
  CHECK_EQ(code(aot_session_create(package.get(), "cpu", &options, &session)), AOT_UNAVAILABLE);
  options.isa = nullptr;
  options.num_threads = -1;
  CHECK_EQ(code(aot_session_create(package.get(), "cpu", &options, &session)),
           AOT_INVALID_ARGUMENT);
  options.num_threads = 1;
  aot_executor executor{sizeof(executor), nullptr, 0, nullptr};
  options.executor = &executor;
  CHECK_EQ(code(aot_session_create(package.get(), "cpu", &options, &session)),
           AOT_INVALID_ARGUMENT);
  options.executor = nullptr;
  aot_allocator allocator{sizeof(allocator), nullptr, nullptr, nullptr};
  options.allocator = &allocator;
  CHECK_EQ(code(aot_session_create(package.get(), "cpu", &options, &session)),
           AOT_INVALID_ARGUMENT);
  CHECK(session == nullptr);
  options.struct_size = offsetof(aot_session_options, allocator);  // an older caller's struct
  CHECK_EQ(code(aot_session_create(package.get(), "cpu", &options, &session)), AOT_OK);
  const auto x = numbers(8);
  const auto input = aot::Tensor::borrow(x.data(), {1, 8});
  const DLTensor* views[] = {&input.view()};
  DLManagedTensor* outputs[2] = {};
  CHECK_EQ(code(aot_session_run(session, views, 1, outputs, 1, nullptr)), AOT_INVALID_ARGUMENT);
  CHECK_EQ(code(aot_session_run(session, nullptr, 1, outputs, 2, nullptr)), AOT_INVALID_ARGUMENT);
  CHECK_EQ(code(aot_session_run(session, views, 1, nullptr, 2, nullptr)), AOT_INVALID_ARGUMENT);
  CHECK_EQ(code(aot_session_run(session, views, 1, outputs, 2, &session)), AOT_INVALID_ARGUMENT);
  DLTensor no_data = input.view();
  no_data.data = nullptr;
  views[0] = &no_data;
  CHECK_EQ(code(aot_session_run(session, views, 1, outputs, 2, nullptr)), AOT_INVALID_ARGUMENT);
  aot_session_free(session);
  aot_session_free(nullptr);
  aot_package_free(nullptr);
}

// The message of a session that cannot be made.
void create(const Builder& builder, const char* device) {
  Opened package(builder);
  aot_session* session = nullptr;
  if (aot_status* status = aot_session_create(package.get(), device, nullptr, &session)) {
    const aot::Error error = aot::Error::adopt(status);
    throw aot_rt::Error(error.code(), error.what());
  }
  aot_session_free(session);
}

TEST(devices_that_are_not_there) {
  Builder builder = aot_test::small_package();
  create(builder, "cpu");
  create(builder, "cpu:0");
  create(builder, nullptr);
  CHECK_FAILS(create(builder, "tpu"), AOT_UNAVAILABLE, "no device 'tpu': this runtime runs on cpu");
  CHECK_FAILS(create(builder, "cpu:1"), AOT_UNAVAILABLE, "no device 'cpu:1'");
  for (const char* bad : {"cpu:", "cpu:-1", "cpu:1x", "cpu:12345"}) {
    CHECK_FAILS(create(builder, bad), AOT_INVALID_ARGUMENT,
                "must be a name, or a name and a number");
  }
  aot_test::add_device_program(&builder, "tpu", "v1");
  builder.plan["programs"].erase(0);
  CHECK_FAILS(create(builder, "cpu"), AOT_UNAVAILABLE,
              "the package has nothing for device 'cpu': it was built for tpu v1");
}

TEST(programs_of_other_devices_change_nothing) {
  Builder builder = aot_test::small_package();
  aot_test::add_device_program(&builder, "tpu", "v1");
  Running running(builder);
  const auto x = numbers(8);
  const auto outputs = running.run(aot::Tensor::borrow(x.data(), {1, 8}));
  CHECK_EQ(outputs[0].data<float>()[3], 2 * (x[3] + 3));
}

TEST(descriptions_of_a_package) {
  Opened package(aot_test::small_package(8, 0, 4));
  const aot_tensor_info* x = aot_package_input(package.get(), 0);
  CHECK_EQ(std::string(x->name), "x");
  CHECK_EQ(std::string(x->dtype_name), "float32");
  CHECK_EQ(x->ndim, 2);
  CHECK_EQ(x->dims[0].size, int64_t{-1});
  CHECK_EQ(x->dims[0].max, int64_t{-1});
  CHECK_EQ(x->dims[0].multiple_of, int64_t{4});
  CHECK_EQ(std::string(x->dims[0].label), "batch");
  CHECK_EQ(x->dims[1].size, int64_t{8});
  CHECK(aot_package_input(package.get(), 1) == nullptr);
  CHECK_EQ(aot_package_output_count(package.get()), size_t{2});
  size_t size = 0;
  const char* plan = aot_package_plan(package.get(), &size);
  CHECK_EQ(json::parse(std::string(plan, size))["model"], "small");
  const aot_entry_info* bias = aot_package_find_entry(package.get(), "weights/bias");
  CHECK_EQ(bias->size, size_t{32});
  CHECK_EQ(static_cast<const float*>(bias->data)[7], 7.0f);
  CHECK_EQ(std::string(bias->dtype), "F32");
  CHECK(aot_package_find_entry(package.get(), "weights/none") == nullptr);
  CHECK(aot_package_entry(package.get(), aot_package_entry_count(package.get())) == nullptr);
}

TEST(verify_reads_every_entry) {
  const auto open = [](const Builder& builder, int32_t verify) {
    const aot_test::AlignedBytes bytes(builder.build());
    aot_package_options options{};
    options.struct_size = sizeof(options);
    options.verify = verify;
    aot_package* package = nullptr;
    aot_status* status =
        aot_package_open_memory(bytes.bytes().data, bytes.bytes().size, &options, &package);
    aot_package_free(package);
    if (status == nullptr) return;
    const aot::Error error = aot::Error::adopt(status);
    throw aot_rt::Error(error.code(), error.what());
  };
  Builder builder = aot_test::small_package();
  open(builder, 1);
  builder.entries[1].bytes[0] = 1;
  open(builder, 0);
  CHECK_FAILS(open(builder, 1), AOT_CORRUPT_PACKAGE, "checksum of 'weights/bias' is");
  builder = aot_test::small_package();
  builder.plan["entries"].erase("weights/bias");
  CHECK_FAILS(open(builder, 1), AOT_CORRUPT_PACKAGE, "no checksum for entry 'weights/bias'");
  builder = aot_test::small_package();
  builder.plan["entries"]["weights/none"] = "00";
  CHECK_FAILS(open(builder, 1), AOT_CORRUPT_PACKAGE, "'weights/none', which is not there");
}

TEST(files_are_checked_when_they_are_read) {
  Builder builder = aot_test::small_package();
  builder.add("files/labels", "U8", {3}, "a b");
  builder.add("files/sub/empty", "U8", {0}, "");
  {
    const aot_test::AlignedBytes bytes(builder.build());
    const auto package = aot::Package::open_memory(bytes.bytes().data, bytes.bytes().size).value();
    CHECK_EQ(package.read_file("labels").value(), "a b");
    CHECK_EQ(package.read_file("sub/empty").value().size(), size_t{0});
    const auto none = package.read_file("plan");
    CHECK(none.error().code() == AOT_NOT_FOUND);
    CHECK_EQ(std::string(none.error().what()),
             "package 'small' carries no file 'plan'; it carries 'labels', 'sub/empty'");
    const aot_entry_info* file = nullptr;
    aot_status* status = aot_package_read_file(package.get(), nullptr, &file);
    CHECK(aot::Error::adopt(status).code() == AOT_INVALID_ARGUMENT);
    CHECK(file == nullptr);
  }
  for (Builder::Entry& entry : builder.entries) {
    if (entry.name == "files/labels") entry.bytes = "a c";
  }
  const aot_test::AlignedBytes bytes(builder.build());
  const auto package = aot::Package::open_memory(bytes.bytes().data, bytes.bytes().size).value();
  CHECK(package.read_file("labels").error().code() == AOT_CORRUPT_PACKAGE);
  CHECK(package.read_file("sub/empty").ok());
}

// Refuses the n-th allocation, for every n until a run succeeds.
TEST(every_allocation_may_fail) {
  struct Limit {
    int left = 0;
    int live = 0;
  };
  const auto x = numbers(3 * 8);
  bool done = false;
  for (int n = 0; !done && n < 50; ++n) {
    Limit limit{n, 0};
    aot_allocator allocator{sizeof(allocator), &limit,
                            [](void* context, size_t size, size_t alignment) -> void* {
                              auto* self = static_cast<Limit*>(context);
                              if (self->left-- <= 0) return nullptr;
                              ++self->live;
                              return std::aligned_alloc(alignment, (size + 63) / 64 * 64);
                            },
                            [](void* context, void* data, size_t, size_t) {
                              --static_cast<Limit*>(context)->live;
                              std::free(data);
                            }};
    {
      aot_session_options options{};
      options.allocator = &allocator;
      Running running(aot_test::small_package(), options);
      try {
        CHECK(small_is_right(running.run(aot::Tensor::borrow(x.data(), {3, 8})), x, 3, 8));
        done = true;
      } catch (const aot_rt::Error& error) {
        CHECK_EQ(error.code(), AOT_OUT_OF_MEMORY);
      }
      limit.left = 1000;  // the session stays usable
      CHECK(small_is_right(running.run(aot::Tensor::borrow(x.data(), {3, 8})), x, 3, 8));
    }
    CHECK_EQ(limit.live, 0);
  }
  CHECK(done);
}

TEST(misaligned_allocators_are_refused) {
  aot_allocator allocator{
      sizeof(allocator), nullptr,
      [](void*, size_t size, size_t) -> void* {
        return static_cast<char*>(std::malloc(size + 128)) + 8;
      },
      [](void*, void* data, size_t, size_t) { std::free(static_cast<char*>(data) - 8); }};
  aot_session_options options{};
  options.allocator = &allocator;
  Running running(aot_test::small_package(), options);
  const auto x = numbers(8);
  CHECK_FAILS(running.run(aot::Tensor::borrow(x.data(), {1, 8})), AOT_INVALID_ARGUMENT,
              "not aligned to 64");
}

TEST(observers_see_every_buffer_of_every_step) {
  Running running(aot_test::small_package());
  std::vector<std::string> seen;
  const auto watch = [](void* context, size_t step, size_t buffer, const void* data, size_t size) {
    static_cast<std::vector<std::string>*>(context)->push_back(
        std::to_string(step) + "/" + std::to_string(buffer) + "/" + std::to_string(size) +
        (data != nullptr ? "" : "!"));
  };
  CHECK(aot_session_set_observer(running.get(), watch, &seen) == nullptr);
  const auto x = numbers(2 * 8);
  running.run(aot::Tensor::borrow(x.data(), {2, 8}));
  const std::vector<std::string> expected = {"0/0/64", "0/1/32", "0/3/64", "1/3/64",
                                             "1/2/4",  "1/4/64", "2/4/64", "2/5/8"};
  CHECK(seen == expected);
  CHECK(aot_session_set_observer(running.get(), nullptr, nullptr) == nullptr);
  running.run(aot::Tensor::borrow(x.data(), {2, 8}));
  CHECK_EQ(seen.size(), expected.size());
}

TEST(profiles_count_steps) {
  aot_session_options options{};
  options.profile = 1;
  Running running(aot_test::small_package(), options);
  const auto x = numbers(2 * 8);
  for (int i = 0; i < 3; ++i) running.run(aot::Tensor::borrow(x.data(), {2, 8}));
  running.run(aot::Tensor::borrow(x.data(), {0, 8}));  // no work, no step
  aot_step_profile steps[3] = {};
  size_t count = 0;
  CHECK(aot_session_profile(running.get(), steps, 3, &count) == nullptr);
  CHECK_EQ(count, size_t{3});
  CHECK_EQ(steps[0].calls, uint64_t{3});
  CHECK_EQ(std::string(steps[0].kernel), "add_bias");
  CHECK_EQ(std::string(steps[0].origin), "small.py:3 aten.add.Tensor");
  CHECK(aot_session_profile_reset(running.get()) == nullptr);
  CHECK(aot_session_profile(running.get(), steps, 3, &count) == nullptr);
  CHECK_EQ(steps[0].calls, uint64_t{0});
}

TEST(the_log_says_what_was_loaded) {
  std::string text;
  const auto log = [](void* context, aot_log_level, const char* message) {
    *static_cast<std::string*>(context) += std::string(message) + "\n";
  };
  const aot_test::AlignedBytes bytes(aot_test::small_package().build());
  aot_package_options options{sizeof(options), 0, log, &text, nullptr, nullptr, 0};
  aot_package* package = nullptr;
  aot_session* session = nullptr;
  CHECK(aot_package_open_memory(bytes.bytes().data, bytes.bytes().size, &options, &package) ==
        nullptr);
  CHECK(aot_session_create(package, "cpu", nullptr, &session) == nullptr);
  CHECK(text.find("package 'small' for cpu (x86-64-v2)") != std::string::npos);
  CHECK(text.find("kernels of x86-64-v2") != std::string::npos);
  aot_package_free(package);
  aot_session_free(session);
}

}  // namespace

TEST_MAIN
