// Sessions on the fake GPU: values, inputs and outputs in both memories, streams, graphs, leaks.
#include <algorithm>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "cuda_package.h"

namespace {

using aot_test::Builder;
using aot_test::CudaRunning;
using aot_test::fake;
using aot_test::FakeLive;
using aot_test::FakeMemory;
using aot_test::fetch;
using aot_test::gather_cuda_package;
using aot_test::Opened;
using aot_test::PinnedFloats;
using aot_test::small_cuda_package;

constexpr int64_t kWidth = 8;
constexpr DLDataType kFloat32 = {kDLFloat, 32, 1};

std::vector<float> numbers(int64_t count, int start = 0) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>((i + start) % 17) - 8);
  return values;
}

bool right(const std::vector<float>& y, const std::vector<float>& total,
           const std::vector<float>& x) {
  for (size_t i = 0; i < x.size(); ++i) {
    if (y[i] != 2 * (x[i] + static_cast<float>(i % kWidth))) return false;
  }
  for (size_t row = 0; row < total.size(); ++row) {
    float sum = 0;
    for (size_t i = 0; i < kWidth; ++i) sum += y[row * kWidth + i];
    if (total[row] != sum) return false;
  }
  return y.size() == x.size() && total.size() * kWidth == x.size();
}

bool right(const std::vector<aot::Tensor>& outputs, const std::vector<float>& x) {
  const auto values = [](const aot::Tensor& t) {
    return std::vector<float>(t.data<float>(), t.data<float>() + t.elements());
  };
  return right(values(outputs[0]), values(outputs[1]), x);
}

bool right(const std::vector<aot::Tensor>& outputs, const std::vector<float>& x, void* stream) {
  return right(fetch(outputs[0], stream), fetch(outputs[1], stream), x);
}

aot::Tensor on_gpu(const void* data, int64_t rows, int32_t gpu = 0) {
  return aot::Tensor::borrow(data, kFloat32, {rows, kWidth}, {}, {kDLCUDA, gpu});
}

aot::Tensor on_host(const std::vector<float>& x) {
  return aot::Tensor::borrow(x.data(), {static_cast<int64_t>(x.size()) / kWidth, kWidth});
}

// Checks at its end that a test left nothing on the GPU and used the driver as it wants to be used.
class Clean {
 public:
  Clean() : before_(fake().live()) {
    fake().clear_misuse();
    fake().clear_calls();
  }
  ~Clean() {
    const FakeLive after = fake().live();
    CHECK_EQ(after.device_blocks, before_.device_blocks);
    CHECK_EQ(after.host_blocks, before_.host_blocks);
    CHECK_EQ(after.contexts, before_.contexts);
    CHECK_EQ(after.modules, before_.modules);
    CHECK_EQ(after.streams, before_.streams);
    CHECK_EQ(after.events, before_.events);
    CHECK_EQ(after.graphs, before_.graphs);
    CHECK_EQ(std::string(fake().misuse()), std::string());
  }

 private:
  FakeLive before_;
};

}  // namespace

TEST(host_arrays_in_and_out) {
  const Clean clean;
  const Opened package(small_cuda_package());
  CudaRunning running(package.get());
  CHECK_EQ(std::string(aot_session_isa(running.get())), std::string("sm_90"));
  CHECK_EQ(int{aot_session_device(running.get()).device_type}, int{kDLCUDA});
  for (const int64_t rows : {5, 5, 5, 64, 1, 5}) {
    const std::vector<float> x = numbers(rows * kWidth, static_cast<int>(rows));
    const auto outputs = running.run(on_host(x));
    CHECK_EQ(int{outputs[0].view().device.device_type}, int{kDLCPU});
    CHECK(right(outputs, x));
  }
}

TEST(empty_inputs) {
  const Clean clean;
  const Opened package(small_cuda_package());
  CudaRunning running(package.get());
  for (int i = 0; i < 3; ++i) {
    const auto outputs = running.run(aot::Tensor::borrow(static_cast<float*>(nullptr), {0, 8}));
    CHECK_EQ(outputs[0].elements(), 0);
  }
  CHECK_EQ(fake().calls("cuLaunchKernel"), 0);
}

TEST(host_arrays_in_other_strides) {
  const Clean clean;
  const Opened package(small_cuda_package());
  CudaRunning running(package.get());
  const std::vector<float> x = numbers(5 * kWidth);
  std::vector<float> columns(x.size());
  for (size_t r = 0; r < 5; ++r) {
    for (size_t c = 0; c < kWidth; ++c) columns[c * 5 + r] = x[r * kWidth + c];
  }
  CHECK(right(running.run(aot::Tensor::borrow(columns.data(), kFloat32, {5, 8}, {1, 5})), x));
}

TEST(device_tensors_are_read_in_place) {
  const Clean clean;
  const Opened package(small_cuda_package());
  CudaRunning running(package.get());
  const std::vector<float> x = numbers(6 * kWidth);
  FakeMemory memory(x.size() * 4 + 64);
  memory.write(x.data(), x.size() * 4);
  memory.wait();
  fake().clear_calls();
  auto outputs = running.run(on_gpu(memory.address(), 6), false);
  CHECK_EQ(fake().calls("cuMemcpyDtoDAsync_v2"), 0);
  CHECK_EQ(fake().calls("cuMemcpyHtoDAsync_v2"), 0);
  CHECK_EQ(int{outputs[0].view().device.device_type}, int{kDLCUDA});
  CHECK(right(outputs, x, memory.stream()));
  // Four bytes further, kernels could not read it with wide loads.
  memory.write(x.data(), x.size() * 4, 4);
  memory.wait();
  fake().clear_calls();
  CHECK(right(running.run(on_gpu(memory.address(4), 6)), x));
  CHECK_EQ(fake().calls("cuMemcpyDtoDAsync_v2"), 1);
}

TEST(device_tensors_that_are_refused) {
  fake().configure(2, 9, 0, 12040, size_t{1} << 30);
  const Clean clean;
  const Opened package(small_cuda_package());
  CudaRunning running(package.get());
  FakeMemory memory(5 * kWidth * 4);
  CHECK_FAILS(running.run(on_gpu(memory.address(), 5, 1)), AOT_INVALID_ARGUMENT,
              "input 'x' (number 0) is on cuda:1, this session runs on cuda:0: copy it there");
  const auto transposed =
      aot::Tensor::borrow(memory.address(), kFloat32, {5, 8}, {1, 5}, {kDLCUDA, 0});
  CHECK_FAILS(running.run(transposed), AOT_INVALID_ARGUMENT,
              "strides [1, 5], the kernels read strides [8, 1]: give a contiguous copy");
  aot_session* cpu = nullptr;
  CHECK(aot_session_create(package.get(), "cpu", nullptr, &cpu) == nullptr);
  const aot::Tensor x = on_gpu(memory.address(), 5);
  const DLTensor* views[] = {&x.view()};
  DLManagedTensor* outputs[2] = {};
  aot_status* status = aot_session_run(cpu, views, 1, outputs, 2, nullptr);
  CHECK(
      std::string(aot_status_message(status)).find("is on cuda:0, this session runs on the CPU") !=
      std::string::npos);
  aot_status_free(status);
  aot_session_free(cpu);
  fake().configure(1, 9, 0, 12040, size_t{1} << 30);
}

TEST(runs_on_a_stream_are_enqueued) {
  const Clean clean;
  const Opened package(small_cuda_package());
  CudaRunning running(package.get());
  const std::vector<float> x = numbers(6 * kWidth);
  FakeMemory memory(x.size() * 4);
  for (int i = 0; i < 4; ++i) {
    memory.write(x.data(), x.size() * 4);  // not waited for
    fake().clear_calls();
    const auto outputs = running.run(on_gpu(memory.address(), 6), false, memory.stream());
    CHECK_EQ(fake().calls("cuStreamSynchronize"), 0);
    CHECK_EQ(fake().calls("cuEventSynchronize"), 0);
    CHECK(right(outputs, x, memory.stream()));
  }
}

TEST(runs_on_two_streams_keep_their_order) {
  const Clean clean;
  const Opened package(small_cuda_package());
  CudaRunning running(package.get());
  const std::vector<float> a = numbers(6 * kWidth);
  const std::vector<float> b = numbers(6 * kWidth, 5);
  FakeMemory first(a.size() * 4);
  FakeMemory second(b.size() * 4);
  for (int i = 0; i < 4; ++i) {
    first.write(a.data(), a.size() * 4);
    second.write(b.data(), b.size() * 4);
    const auto one = running.run(on_gpu(first.address(), 6), false, first.stream());
    const auto two = running.run(on_gpu(second.address(), 6), false, second.stream());
    CHECK(right(two, b, second.stream()));
    // Nothing waits for the first stream: the second run must have, as they share the arena.
    CHECK(right(one, a, second.stream()));
  }
}

TEST(host_arrays_may_change_after_an_enqueued_run) {
  const Clean clean;
  const Opened package(small_cuda_package());
  CudaRunning running(package.get());
  const FakeMemory memory(4);           // for its stream
  for (const int64_t rows : {6, 64}) {  // small ones are copied at once
    const std::vector<float> x = numbers(rows * kWidth);
    const PinnedFloats pinned(x);
    const auto input =
        aot::Tensor::borrow(pinned.data(), kFloat32, {rows, kWidth}, {}, {kDLCUDAHost, 0});
    fake().clear_calls();
    const auto outputs = running.run(input, false, memory.stream());
    CHECK_EQ(fake().calls("cuEventSynchronize"), rows == 6 ? 0 : 1);
    std::fill_n(pinned.data(), x.size(), 1e9F);
    CHECK(right(outputs, x, memory.stream()));
  }
}

TEST(blocks_of_one_stream_do_not_go_to_another) {
  const Clean clean;
  const Opened package(small_cuda_package());
  CudaRunning running(package.get());
  const std::vector<float> x = numbers(6 * kWidth);
  FakeMemory first(x.size() * 4);
  FakeMemory second(x.size() * 4);
  first.write(x.data(), x.size() * 4);
  second.write(x.data(), x.size() * 4);
  const void* before = nullptr;
  {
    const auto outputs = running.run(on_gpu(first.address(), 6), false, first.stream());
    before = outputs[0].raw();
  }
  const auto other = running.run(on_gpu(second.address(), 6), false, second.stream());
  CHECK(other[0].raw() != before);
  const auto again = running.run(on_gpu(first.address(), 6), false, first.stream());
  CHECK(again[0].raw() == before);
}

TEST(the_second_run_is_a_graph) {
  const Clean clean;
  const Opened package(small_cuda_package());
  CudaRunning running(package.get());
  const std::vector<float> x = numbers(6 * kWidth);
  const auto run = [&] { CHECK(right(running.run(on_host(x)), x)); };
  run();
  CHECK_EQ(fake().calls("cuLaunchKernel"), 3);
  CHECK_EQ(fake().calls("cuGraphInstantiateWithFlags"), 0);
  run();
  run();
  run();
  CHECK_EQ(fake().calls("cuLaunchKernel"), 3);
  CHECK_EQ(fake().calls("cuGraphInstantiateWithFlags"), 1);
  CHECK_EQ(fake().calls("cuGraphLaunch"), 3);
  CHECK_EQ(fake().calls("cuGraphExecKernelNodeSetParams_v2"), 0);  // no address has changed
}

TEST(kernels_that_wait_start_early) {
  const Clean clean;
  const Opened package(small_cuda_package());
  CudaRunning running(package.get());
  const std::vector<float> x = numbers(6 * kWidth);
  CHECK(right(running.run(on_host(x)), x));
  // Of add_bias, scale and row_sum the last does not wait.
  CHECK_EQ(fake().calls("cuLaunchKernel"), 3);
  CHECK_EQ(fake().calls("cuLaunchKernelEx"), 2);
  for (int i = 0; i < 2; ++i) CHECK(right(running.run(on_host(x)), x));
  // In a graph the first has nobody before it.
  CHECK_EQ(fake().calls("cuGraphAddDependencies_v2"), 1);
}

TEST(a_driver_without_early_launches) {
  const Clean clean;
  const Opened package(small_cuda_package());
  CudaRunning running(package.get());
  const std::vector<float> x = numbers(6 * kWidth);
  fake().fail("cuGraphAddDependencies_v2", 0, 801);
  for (int i = 0; i < 3; ++i) CHECK(right(running.run(on_host(x)), x));
  CHECK_EQ(fake().calls("cuGraphLaunch"), 0);
}

TEST(graphs_are_patched_where_addresses_changed) {
  const Clean clean;
  const Opened package(small_cuda_package());
  CudaRunning running(package.get());
  const std::vector<float> a = numbers(6 * kWidth);
  const std::vector<float> b = numbers(6 * kWidth, 3);
  FakeMemory first(a.size() * 4);
  FakeMemory second(b.size() * 4);
  first.write(a.data(), a.size() * 4);
  second.write(b.data(), b.size() * 4);
  first.wait();
  second.wait();
  for (int i = 0; i < 3; ++i) CHECK(right(running.run(on_gpu(first.address(), 6)), a));
  fake().clear_calls();
  CHECK(right(running.run(on_gpu(second.address(), 6)), b));
  CHECK_EQ(fake().calls("cuGraphExecKernelNodeSetParams_v2"), 1);  // the input has one reader
  fake().clear_calls();
  // Outputs that the caller keeps: `y` is written by one kernel and read by the other.
  const auto kept = running.run(on_gpu(second.address(), 6), false);
  fake().clear_calls();
  const auto more = running.run(on_gpu(second.address(), 6), false);
  CHECK_EQ(fake().calls("cuGraphExecKernelNodeSetParams_v2"), 2);
  CHECK(right(kept, b, second.stream()));
  CHECK(right(more, b, second.stream()));
}

TEST(addresses_in_turn_get_graphs_of_their_own) {
  const Clean clean;
  const Opened package(small_cuda_package());
  CudaRunning running(package.get());
  const std::vector<float> x = numbers(6 * kWidth);
  FakeMemory memory(x.size() * 4);
  memory.write(x.data(), x.size() * 4);
  memory.wait();
  // As in `y = model(x)` in a loop: the last outputs are kept while the next are made.
  auto kept = running.run(on_gpu(memory.address(), 6), false);
  for (int i = 0; i < 20; ++i) kept = running.run(on_gpu(memory.address(), 6), false);
  fake().clear_calls();
  for (int i = 0; i < 20; ++i) kept = running.run(on_gpu(memory.address(), 6), false);
  CHECK_EQ(fake().calls("cuGraphExecKernelNodeSetParams_v2"), 0);
  CHECK_EQ(fake().calls("cuGraphInstantiateWithFlags"), 0);
  CHECK_EQ(fake().calls("cuGraphLaunch"), 20);
  CHECK(right(kept, x, memory.stream()));
  CHECK(fake().live().graphs <= 2 * 2);
  // Ever new addresses: a few graphs, then patches.
  std::vector<std::vector<aot::Tensor>> all;
  for (int i = 0; i < 40; ++i) {
    all.push_back(running.run(on_gpu(memory.address(), 6), false));
    CHECK(right(all.back(), x, memory.stream()));
  }
  CHECK(fake().live().graphs <= 2 * 4);
}

TEST(a_patch_that_fails_is_made_again) {
  const Clean clean;
  const Opened package(small_cuda_package());
  CudaRunning running(package.get());
  const std::vector<float> x = numbers(6 * kWidth);
  FakeMemory memory(x.size() * 4);
  FakeMemory other(x.size() * 4);
  memory.write(x.data(), x.size() * 4);
  other.write(x.data(), x.size() * 4);
  memory.wait();
  other.wait();
  for (int i = 0; i < 3; ++i) CHECK(right(running.run(on_gpu(memory.address(), 6)), x));
  fake().fail("cuGraphExecKernelNodeSetParams_v2", 1, 1);
  const auto kept = running.run(on_gpu(memory.address(), 6), false);
  CHECK_FAILS(running.run(on_gpu(other.address(), 6), false), AOT_DEVICE_ERROR,
              "cuGraphExecKernelNodeSetParams_v2");
  for (int i = 0; i < 3; ++i) CHECK(right(running.run(on_gpu(memory.address(), 6)), x));
}

TEST(streams_that_last_keep_their_order_with_others) {
  const Clean clean;
  const Opened package(small_cuda_package());
  CudaRunning running(package.get());
  const std::vector<float> x = numbers(6 * kWidth);
  FakeMemory memory(x.size() * 4);
  memory.write(x.data(), x.size() * 4);
  memory.wait();
  auto* const legacy = reinterpret_cast<void*>(1);
  void* const own = aot_session_stream(running.get());
  for (int i = 0; i < 6; ++i) {
    fake().clear_calls();
    void* const lasting = i % 2 == 0 ? legacy : own;
    const auto one = running.run(on_gpu(memory.address(), 6), false, lasting);
    CHECK_EQ(fake().calls("cuEventRecord"), 0);  // nobody waits yet
    fake().clear_calls();
    const auto two = running.run(on_gpu(memory.address(), 6), false, memory.stream());
    CHECK_EQ(fake().calls("cuStreamWaitEvent"), 1);
    CHECK_EQ(fake().calls("cuEventRecord"), 2);
    CHECK(right(two, x, memory.stream()));
    CHECK(right(one, x, memory.stream()));
  }
}

TEST(graphs_of_several_shapes) {
  const Clean clean;
  const Opened package(small_cuda_package());
  CudaRunning running(package.get());
  for (int round = 0; round < 3; ++round) {
    for (int64_t rows = 1; rows <= 20; ++rows) {  // more than are kept
      const std::vector<float> x = numbers(rows * kWidth, round);
      CHECK(right(running.run(on_host(x)), x));
      CHECK(right(running.run(on_host(x)), x));
    }
  }
  CHECK(fake().live().graphs <= 2 * 16);
}

TEST(graphs_can_be_turned_off) {
  const Clean clean;
  const Opened package(small_cuda_package());
  aot_session_options options{};
  options.no_graphs = 1;
  CudaRunning running(package.get(), options);
  const std::vector<float> x = numbers(6 * kWidth);
  for (int i = 0; i < 3; ++i) CHECK(right(running.run(on_host(x)), x));
  CHECK_EQ(fake().calls("cuGraphLaunch"), 0);
  CHECK_EQ(fake().calls("cuLaunchKernel"), 9);
}

TEST(a_driver_without_graphs) {
  const Clean clean;
  const Opened package(small_cuda_package());
  CudaRunning running(package.get());
  const std::vector<float> x = numbers(6 * kWidth);
  fake().fail("cuGraphInstantiateWithFlags", 0, 801);
  for (int i = 0; i < 3; ++i) CHECK(right(running.run(on_host(x)), x));
  CHECK_EQ(fake().calls("cuGraphLaunch"), 0);
  CHECK_EQ(fake().calls("cuGraphInstantiateWithFlags"), 1);  // and is not asked again
}

TEST(a_steady_state_allocates_nothing) {
  const Clean clean;
  const Opened package(small_cuda_package());
  CudaRunning running(package.get());
  const std::vector<float> x = numbers(6 * kWidth);
  FakeMemory memory(x.size() * 4);
  memory.write(x.data(), x.size() * 4);
  const auto run = [&] {
    running.run(on_host(x));
    running.run(on_gpu(memory.address(), 6), false, memory.stream());
  };
  for (int i = 0; i < 4; ++i) run();
  fake().clear_calls();
  for (int i = 0; i < 100; ++i) run();
  for (const char* symbol :
       {"cuMemAlloc_v2", "cuMemFree_v2", "cuMemHostAlloc", "cuMemFreeHost", "cuEventCreate",
        "cuGraphInstantiateWithFlags", "cuModuleLoadDataEx"}) {
    CHECK_EQ(fake().calls(symbol), 0);
  }
}

TEST(sessions_share_weights_and_kernels) {
  const Clean clean;
  const Opened package(small_cuda_package());
  const std::vector<float> x = numbers(6 * kWidth);
  CudaRunning first(package.get());
  CHECK(right(first.run(on_host(x)), x));
  const FakeLive one = fake().live();
  {
    CudaRunning second(package.get());
    CHECK(right(second.run(on_host(x)), x));
    CHECK_EQ(fake().live().modules, one.modules);
  }
  CHECK(right(first.run(on_host(x)), x));
  CHECK_EQ(one.modules, 3);  // `gather` is not used, and not loaded
}

TEST(large_weights_go_through_staging) {
  const Clean clean;
  Builder builder = small_cuda_package();
  std::vector<float> table(9 << 20);  // more than two staging buffers
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i % 1021);
  builder.add_floats("weights/zzz", table);
  builder.plan["programs"][1]["buffers"].push_back(
      {{"name", "table"},
       {"dtype", "float32"},
       {"bytes", table.size() * 4},
       {"storage", {{"kind", "entry"}, {"entry", "weights/zzz"}, {"offset", 0}}}});
  // A step that copies its end to `y`: y[i] = table[last + i] + bias[i].
  builder.plan["programs"][1]["buffers"].push_back(
      {{"name", "end"},
       {"dtype", "float32"},
       {"bytes", 32},
       {"storage",
        {{"kind", "entry"}, {"entry", "weights/zzz"}, {"offset", table.size() * 4 - 32}}}});
  builder.plan["programs"][1]["steps"][0]["buffers"] = {7, 1, 3};
  const Opened package(builder);
  CudaRunning running(package.get());
  CHECK(fake().calls("cuMemcpyHtoDAsync_v2") >= 3);
  const std::vector<float> end(table.end() - kWidth, table.end());
  CHECK(right(running.run(on_host(numbers(kWidth))), end));
}

TEST(outputs_outlive_session_and_package) {
  const Clean clean;
  const std::vector<float> x = numbers(6 * kWidth);
  std::vector<aot::Tensor> host;
  std::vector<aot::Tensor> device;
  const FakeMemory memory(4);  // for its stream
  {
    const Opened package(small_cuda_package());
    CudaRunning running(package.get());
    host = running.run(on_host(x));
    device = running.run(on_host(x), false);
  }
  CHECK(right(host, x));
  CHECK(right(device, x, memory.stream()));
}

TEST(wrong_indices_are_reported) {
  const Clean clean;
  const Opened package(gather_cuda_package());
  CudaRunning running(package.get());
  const std::vector<int64_t> good = {4, 0, 2};
  const std::vector<int64_t> bad = {4, 5, 2};
  const auto tensor = [](const std::vector<int64_t>& index) {
    return aot::Tensor::borrow(index.data(), {static_cast<int64_t>(index.size())});
  };
  CHECK_FAILS(running.run(tensor(bad)), AOT_INVALID_ARGUMENT,
              "outside the tensor that it points into, at kernel 'gather' (model.py:12 "
              "aten.embedding.default)");
  CHECK_EQ(running.run(tensor(good))[0].data<float>()[0], 14.0F);
  // Enqueued: reported by synchronize, and only once.
  const FakeMemory memory(4);
  running.run(tensor(bad), false, memory.stream());
  aot_status* status = aot_session_synchronize(running.get());
  CHECK_EQ(int{aot_status_code(status)}, int{AOT_INVALID_ARGUMENT});
  CHECK_EQ(std::string(aot_status_origin(status)), "model.py:12 aten.embedding.default");
  aot_status_free(status);
  CHECK(aot_session_synchronize(running.get()) == nullptr);
  CHECK_EQ(running.run(tensor(good))[0].data<float>()[2], 12.0F);
}

TEST(profiles_and_observers) {
  const Clean clean;
  const Opened package(small_cuda_package());
  aot_session_options options{};
  options.profile = 1;
  CudaRunning running(package.get(), options);
  const std::vector<float> x = numbers(6 * kWidth);
  for (int i = 0; i < 2; ++i) CHECK(right(running.run(on_host(x)), x));
  aot_step_profile steps[3];
  size_t count = 0;
  CHECK(aot_session_profile(running.get(), steps, 3, &count) == nullptr);
  CHECK_EQ(count, size_t{3});
  CHECK_EQ(steps[0].calls, uint64_t{2});
  CHECK_EQ(steps[0].nanoseconds, uint64_t{1000000});
  CHECK_EQ(std::string(steps[0].origin), "small.py:3 aten.add.Tensor");
  std::vector<float> seen;
  const auto observe = [](void* context, size_t step, size_t buffer, const void* data, size_t) {
    if (step == 0 && buffer == 1) {
      const auto* bias = static_cast<const float*>(data);
      static_cast<std::vector<float>*>(context)->assign(bias, bias + kWidth);
    }
  };
  CHECK(aot_session_set_observer(running.get(), observe, &seen) == nullptr);
  CHECK(right(running.run(on_host(x)), x));
  CHECK_EQ(seen.size(), size_t{kWidth});
  CHECK_EQ(seen.empty() ? 0.0F : seen.back(), 7.0F);
}

TEST(threads_with_sessions_of_their_own) {
  const Clean clean;
  const Opened package(small_cuda_package());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&package, t] {
      CudaRunning running(package.get());
      for (int64_t i = 0; i < 30; ++i) {
        const std::vector<float> x = numbers((1 + i % 3) * kWidth, t);
        CHECK(right(running.run(on_host(x)), x));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(threads_that_share_a_session) {
  const Clean clean;
  const Opened package(small_cuda_package());
  CudaRunning running(package.get());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&running, t] {
      for (int64_t i = 0; i < 30; ++i) {
        const std::vector<float> x = numbers((1 + i % 3) * kWidth, t);
        CHECK(right(running.run(on_host(x)), x));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_MAIN
