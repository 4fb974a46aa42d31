// States and changed inputs on the fake GPU.
#include <string>
#include <vector>

#include "check.h"
#include "cuda_package.h"

namespace {

using aot_test::Builder;
using aot_test::CudaRunning;
using aot_test::FakeMemory;
using aot_test::fetch;
using aot_test::Opened;

constexpr int64_t kWidth = 8;
constexpr size_t kBytes = kWidth * sizeof(float);

aot::Tensor on_gpu(const void* data) {
  return aot::Tensor::borrow(data, aot::dtype_of<float>(), {1, kWidth}, {}, {kDLCUDA, 0});
}

aot::Tensor on_host(const std::vector<float>& x) {
  return aot::Tensor::borrow(x.data(), {1, kWidth});
}

}  // namespace

TEST(states_live_on_the_gpu_and_changed_inputs_come_back) {
  const Opened package(aot_test::state_cuda_package());
  CudaRunning running(package.get());
  std::vector<float> x(kWidth, 1);
  std::vector<float> state(kWidth);
  float factor = 1;
  for (int run = 0; run < 5; ++run) {  // later runs replay a graph
    running.run(on_host(x));
    CHECK(aot_session_get_state(running.get(), 0, state.data(), kBytes) == nullptr);
    for (size_t i = 0; i < kWidth; ++i) CHECK_EQ(x[i], factor * static_cast<float>(i + 1));
    CHECK(state == x);
    factor *= 2;
  }
  aot_session* copy = nullptr;
  CHECK(aot_session_clone(running.get(), &copy) == nullptr);
  CHECK(aot_session_reset(running.get()) == nullptr);
  CHECK(aot_session_get_state(running.get(), 0, state.data(), kBytes) == nullptr);
  CHECK_EQ(state[7], 7.0F);
  CHECK(aot_session_get_state(copy, 0, state.data(), kBytes) == nullptr);
  CHECK(state == x);
  aot_session_free(copy);
}

TEST(changed_inputs_on_the_gpu_are_written_there) {
  const Opened package(aot_test::state_cuda_package());
  CudaRunning running(package.get());
  FakeMemory memory(kBytes);
  const std::vector<float> ones(kWidth, 1);
  memory.write(ones.data(), kBytes);
  for (int run = 0; run < 3; ++run) {
    running.run(on_gpu(memory.address()), false, memory.stream());
  }
  CHECK(aot_session_synchronize(running.get()) == nullptr);
  memory.wait();
  const std::vector<float> x = fetch(on_gpu(memory.address()), memory.stream());
  for (size_t i = 0; i < kWidth; ++i) CHECK_EQ(x[i], 4 * static_cast<float>(i + 1));
}

TEST(states_without_an_entry_are_zeros_on_the_gpu) {
  Builder builder = aot_test::state_cuda_package();
  builder.plan["states"][0]["entry"] = nullptr;
  const Opened package(builder);
  CudaRunning running(package.get());
  std::vector<float> x(kWidth, 3);
  running.run(on_host(x));
  CHECK(x == std::vector<float>(kWidth, 3));
}

TEST_MAIN
