// Custom operators in programs for GPUs, on the fake driver: what they are given, that their work
// keeps its place in the stream, that nobody waits for it, and how they fail.
#include <dlfcn.h>

#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "aot/aot.hpp"
#include "check.h"
#include "cuda/driver_abi.h"
#include "cuda_package.h"
#include "package_builder.h"

namespace {

using aot::OperatorCall;
using aot_test::Builder;
using aot_test::CudaRunning;
using aot_test::fake;
using aot_test::FakeMemory;
using aot_test::fetch;
using aot_test::json;
using aot_test::Opened;

constexpr const char* kName = "demo::scale";
constexpr int64_t kWidth = 8;
constexpr DLDataType kFloat32 = {kDLFloat, 32, 1};
// total of a row of ones: 2 · (8 + 0 + 1 + … + 7).
constexpr float kTotal = 72.0f;

template <typename... Args>
void driver(const char* symbol, Args... args) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  const auto function = reinterpret_cast<int (*)(Args...)>(dlsym(library, symbol));
  if (const int result = function(args...)) {
    throw std::runtime_error(std::string(symbol) + ": " + std::to_string(result));
  }
}

uint64_t address(const DLTensor& tensor) { return reinterpret_cast<uint64_t>(tensor.data); }

// A kernel of the fake driver, and the number 2 in its memory.
class Doubler {
 public:
  explicit Doubler(const char* kernel = "scale") {
    const std::string image = std::string("FAKE sm_90\n") + kernel + " 6\nend\n";
    driver("cuModuleLoadDataEx", &module_, image.c_str(), 0U, nullptr, nullptr);
    driver("cuModuleGetFunction", &function_, module_, kernel);
    driver("cuMemAlloc_v2", &factor_, sizeof(float));
  }
  ~Doubler() {
    driver("cuMemFree_v2", factor_);
    driver("cuModuleUnload", module_);
  }
  Doubler(const Doubler&) = delete;
  Doubler& operator=(const Doubler&) = delete;

  // Enqueues y = 2 x.
  void run(const DLTensor& x, const DLTensor& y, void* stream) {
    static const float two = 2.0f;
    driver("cuMemcpyHtoDAsync_v2", factor_, static_cast<const void*>(&two), sizeof(two), stream);
    uint64_t values[] = {address(x), factor_, address(y), 0, 0, 0};
    values[3] = static_cast<uint64_t>(OperatorCall::elements(x));
    void* parameters[6];
    for (int i = 0; i < 6; ++i) parameters[i] = &values[i];
    driver("cuLaunchKernel", function_, 1U, 1U, 1U, 128U, 1U, 1U, 0U, stream, parameters, nullptr);
  }

 private:
  void* module_ = nullptr;
  void* function_ = nullptr;
  uint64_t factor_ = 0;
};

// The same as an operator. What it needs of the GPU is made at the first call.
class Double {
 public:
  void operator()(const OperatorCall& call) const {
    if (*made_ == nullptr) *made_ = std::make_shared<Doubler>();
    (*made_)->run(call.tensor("x"), call.result(0), call.stream());
  }

 private:
  std::shared_ptr<std::shared_ptr<Doubler>> made_ = std::make_shared<std::shared_ptr<Doubler>>();
};

// An operator for GPUs while it is in scope.
class Given {
 public:
  explicit Given(std::function<void(const OperatorCall&)> function) {
    CHECK(aot::register_operator(kName, std::move(function), "cuda").ok());
  }
  ~Given() { CHECK(aot::unregister_operator(kName, "cuda").ok()); }
  Given(const Given&) = delete;
  Given& operator=(const Given&) = delete;
};

// `operator_package` with a program for GPUs, after `change` to the one for the CPU.
Builder cuda_package(const std::function<void(json&)>& change = [](json&) {}) {
  Builder b = aot_test::operator_package();
  change(b.program());
  aot_test::add_cuda(&b, {"sm_90"});
  return b;
}

std::vector<float> ones(int64_t rows) {
  return std::vector<float>(static_cast<size_t>(rows * kWidth), 1.0f);
}

aot::Tensor as_rows(const std::vector<float>& x) {
  return aot::Tensor::borrow(x.data(), {static_cast<int64_t>(x.size()) / kWidth, kWidth});
}

std::vector<float> totals(CudaRunning* running, int64_t rows) {
  const std::vector<float> x = ones(rows);
  const aot::Tensor total = std::move(running->run(as_rows(x))[1]);
  return {total.data<float>(), total.data<float>() + rows};
}

std::vector<float> same(int64_t rows, float each) {
  return std::vector<float>(static_cast<size_t>(rows), each);
}

}  // namespace

TEST(it_is_called_with_memory_and_stream_of_the_gpu) {
  fake().configure(2, 9, 0, 12040, size_t{1} << 30);
  int calls = 0;
  void* stream = nullptr;
  const Double doubled;
  const Given given([&](const OperatorCall& call) {
    ++calls;
    stream = call.stream();
    for (const DLTensor* tensor : {&call.tensor("x"), &call.result(0)}) {
      CHECK_EQ(int{tensor->device.device_type}, int{kDLCUDA});
      CHECK_EQ(tensor->device.device_id, 1);
      CHECK(tensor->strides[0] == kWidth && tensor->byte_offset == 0);
    }
    CHECK_EQ(call.integer("rows"), call.tensor("x").shape[0]);
    CHECK_EQ(call.number("factor"), 2.0);
    CHECK(call.text("mode") == "plain" && call.flag("checked") && !call.has("bias"));
    doubled(call);
  });
  const Opened package(cuda_package());
  CudaRunning running(package.get(), {}, "cuda:1");
  for (const int64_t rows : {3, 64, 1, 3}) CHECK(totals(&running, rows) == same(rows, kTotal));
  CHECK_EQ(calls, 4);
  CHECK(stream != nullptr && stream == aot_session_stream(running.get()));
  CHECK_EQ(std::string(fake().misuse()), "");
  fake().configure(1, 9, 0, 12040, size_t{1} << 30);
}

TEST(runs_in_the_callers_stream_wait_for_nothing) {
  const Double doubled;
  void* stream = nullptr;
  const Given given([&](const OperatorCall& call) {
    stream = call.stream();
    doubled(call);
  });
  const Opened package(cuda_package());
  CudaRunning running(package.get());
  FakeMemory memory(4 * kWidth * sizeof(float));
  const aot::Tensor input =
      aot::Tensor::borrow(memory.address(), kFloat32, {4, kWidth}, {}, {kDLCUDA, 0});
  std::vector<std::vector<aot::Tensor>> kept;
  std::vector<std::vector<float>> values;
  for (int run = 0; run < 4; ++run) values.emplace_back(4 * kWidth, static_cast<float>(run));
  fake().clear_calls();
  for (const std::vector<float>& x : values) {
    memory.write(x.data(), x.size() * sizeof(float));
    kept.push_back(running.run(input, false, memory.stream()));
    CHECK(stream == memory.stream());
  }
  for (const char* wait : {"cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize"}) {
    CHECK_EQ(fake().calls(wait), 0);
  }
  for (size_t run = 0; run < kept.size(); ++run) {
    const auto expected = 2.0f * (8.0f * static_cast<float>(run) + 28.0f);
    CHECK(fetch(kept[run][1], memory.stream()) == same(4, expected));
  }
  CHECK_EQ(std::string(fake().misuse()), "");
}

TEST(launches_on_both_sides_are_graphs_and_the_call_is_none) {
  int calls = 0;
  const Double doubled;
  const Given given([&](const OperatorCall& call) {
    ++calls;
    doubled(call);
  });
  const Opened package(cuda_package([](json& program) {
    json& steps = program["steps"];  // the first and the last three times each
    const json first = steps[0];
    const json last = steps[2];
    for (int i = 0; i < 2; ++i) steps.insert(steps.begin(), first);
    for (int i = 0; i < 2; ++i) steps.push_back(last);
  }));
  CudaRunning running(package.get());
  CHECK(totals(&running, 5) == same(5, kTotal));
  fake().clear_calls();
  for (int i = 0; i < 3; ++i) CHECK(totals(&running, 5) == same(5, kTotal));
  CHECK_EQ(fake().calls("cuGraphLaunch"), 6);
  CHECK_EQ(fake().calls("cuLaunchKernel"), 3);  // the operator's
  CHECK_EQ(calls, 4);
  CHECK_EQ(std::string(fake().misuse()), "");
}

TEST(what_it_changes_is_what_follows_reads) {
  const Double doubled;
  const Given given([&](const OperatorCall& call) {
    CHECK_EQ(call.argument("x").is_changed, 1);
    doubled(call);
    const auto bytes = static_cast<size_t>(OperatorCall::elements(call.tensor("x"))) * 4;
    driver("cuMemsetD8Async", address(call.tensor("x")), 0, bytes, call.stream());
  });
  const Opened package(cuda_package([](json& program) {
    program["steps"][1]["arguments"][0]["changed"] = true;
    program["steps"][2]["buffers"][0] = 3;  // the sum of what it has changed
  }));
  CudaRunning running(package.get());
  CHECK(totals(&running, 2) == same(2, 0.0f));
}

TEST(code_for_another_device_is_not_called) {
  const Builder b = cuda_package();
  const Opened package(b);
  const auto never = [](const OperatorCall&) { throw std::runtime_error("of another device"); };
  CHECK_FAILS(CudaRunning(package.get()), AOT_NOT_FOUND,
              "which nobody has given for cuda: register it for this device");
  CHECK(aot::register_operator(kName, never).ok());
  CHECK_FAILS(CudaRunning(package.get()), AOT_NOT_FOUND,
              "the model calls the custom operator 'demo::scale' at small.py:3 aten.add.Tensor, "
              "which nobody has given for cuda (there is code for cpu): register it for this "
              "device before you load the package (aot_register_operator_for;");
  {
    const Given given((Double()));
    CudaRunning running(package.get());
    CHECK(totals(&running, 2) == same(2, kTotal));
  }
  CHECK(aot::unregister_operator(kName).ok());
  const Given given((Double()));
  aot_session* session = nullptr;
  aot_status* const status = aot_session_create(package.get(), "cpu", nullptr, &session);
  CHECK_EQ(int{aot_status_code(status)}, int{AOT_NOT_FOUND});
  CHECK(std::string(aot_status_message(status)).find("for cpu (there is code for cuda)") !=
        std::string::npos);
  aot_status_free(status);
}

TEST(failures_end_the_run_and_leave_the_session_usable) {
  int calls = 0;
  const Double doubled;
  const Given given([&](const OperatorCall& call) {
    if (++calls % 2 != 0) throw std::runtime_error("no luck");
    doubled(call);
  });
  const Opened package(cuda_package());
  CudaRunning running(package.get());
  const std::vector<float> x = ones(2);
  for (int i = 0; i < 3; ++i) {
    CHECK_FAILS(running.run(as_rows(x)), AOT_OPERATOR_FAILED,
                "the custom operator 'demo::scale' failed: no luck, at small.py:3 aten.add.Tensor");
    CHECK(totals(&running, 2) == same(2, kTotal));
  }
  CHECK_EQ(std::string(fake().misuse()), "");
}

TEST(a_context_that_it_leaves_behind_does_no_harm) {
  fake().configure(2, 9, 0, 12040, size_t{1} << 30);
  const Double doubled;
  const Given given([&](const OperatorCall& call) {
    doubled(call);
    void* context = nullptr;  // as cudaSetDevice(1) does
    driver("cuCtxPopCurrent_v2", &context);
    driver("cuDevicePrimaryCtxRetain", &context, 1);
    driver("cuCtxPushCurrent_v2", context);
    driver("cuDevicePrimaryCtxRelease_v2", 1);
  });
  const Opened package(cuda_package());
  {
    CudaRunning running(package.get());
    std::set<void*> seen;  // current contexts behind each step
    const auto observe = [](void* context, size_t, size_t, const void*, size_t) {
      void* current = nullptr;
      driver("cuCtxGetCurrent", &current);
      static_cast<std::set<void*>*>(context)->insert(current);
    };
    CHECK(aot_session_set_observer(running.get(), observe, &seen) == nullptr);
    for (int i = 0; i < 3; ++i) CHECK(totals(&running, 2) == same(2, kTotal));
    CHECK_EQ(seen.size(), size_t{1});
  }
  void* current = nullptr;
  driver("cuCtxGetCurrent", &current);
  CHECK(current == nullptr);
  CHECK_EQ(std::string(fake().misuse()), "");
  fake().configure(1, 9, 0, 12040, size_t{1} << 30);
}

TEST(calls_are_profiled_and_watched) {
  const Given given((Double()));
  const Opened package(cuda_package());
  aot_session_options options{};
  options.profile = 1;
  CudaRunning running(package.get(), options);
  for (int i = 0; i < 2; ++i) totals(&running, 2);
  std::vector<aot_step_profile> steps(3);
  size_t count = 0;
  CHECK(aot_session_profile(running.get(), steps.data(), steps.size(), &count) == nullptr);
  CHECK_EQ(count, size_t{3});
  CHECK_EQ(std::string(steps[1].kernel), "call demo::scale");
  for (const aot_step_profile& step : steps) CHECK_EQ(step.calls, uint64_t{2});
  std::vector<float> seen;
  const auto observe = [](void* context, size_t step, size_t buffer, const void* data,
                          size_t size) {
    const auto* values = static_cast<const float*>(data);
    if (step != 1 || buffer != 4) return;
    static_cast<std::vector<float>*>(context)->assign(values, values + size / sizeof(float));
  };
  CHECK(aot_session_set_observer(running.get(), observe, &seen) == nullptr);
  totals(&running, 1);
  CHECK(seen == std::vector<float>({2, 4, 6, 8, 10, 12, 14, 16}));
}

TEST(work_that_crashes_is_named_in_synchronous_sessions) {
  {
    const Given given([](const OperatorCall& call) {
      Doubler crash("crash");
      crash.run(call.tensor("x"), call.result(0), call.stream());
    });
    const Opened package(cuda_package());
    aot_session_options options{};
    options.synchronous = 1;
    CudaRunning running(package.get(), options);
    const std::vector<float> x = ones(2);
    CHECK_FAILS(running.run(as_rows(x)), AOT_DEVICE_ERROR,
                "running custom operator 'demo::scale' (small.py:3 aten.add.Tensor)");
  }
  fake().revive();
  fake().clear_misuse();
}

TEST(a_package_carries_code_for_gpus) {
  std::ifstream file(AOT_TEST_OPERATORS, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  Builder b = cuda_package();
  const std::string name = "operators/cpu+cuda/demo.so";
  b.add(name, "U8", json::array({bytes.str().size()}), bytes.str());
  const json library = {{"entry", name}, {"sha256", b.plan["entries"][name]}};
  for (json& program : b.plan["programs"]) {
    program["operator_libraries"] = json::array({library});
  }
  const Opened package(b);
  CudaRunning running(package.get());
  CHECK(totals(&running, 3) == same(3, kTotal / 2));  // its code for GPUs copies
  aot_session* session = nullptr;
  CHECK(aot_session_create(package.get(), "cpu", nullptr, &session) == nullptr);
  aot_session_free(session);
  const Opened lacking(
      cuda_package([&](json& program) { program["steps"][1]["call"] = "demo::other"; }));
  CHECK_FAILS(CudaRunning(lacking.get()), AOT_NOT_FOUND, "'demo::other'");
}

TEST_MAIN
