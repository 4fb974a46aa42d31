// Weights replaced on the fake GPU: derived there, seen by launches and graphs, freed.
#include <string>
#include <vector>

#include "check.h"
#include "cuda_package.h"

namespace {

using aot_test::Builder;
using aot_test::CudaRunning;
using aot_test::fake;
using aot_test::FakeLive;
using aot_test::Opened;

constexpr int64_t kWidth = 8;

Builder package_for_gpu(bool originals) {
  Builder builder = aot_test::swappable_package(originals, kWidth);
  aot_test::add_cuda(&builder, {"sm_90"});
  return builder;
}

void check(aot_status* status) {
  if (status == nullptr) return;
  const aot_rt::Error error(aot_status_code(status), aot_status_message(status));
  aot_status_free(status);
  throw error;
}

void replace(aot_package* package, float base, float shift, float factor) {
  const std::vector<float> bases(kWidth, base);
  const std::vector<float> shifts(kWidth, shift);
  const aot::Tensor tensors[] = {aot::Tensor::borrow(bases.data(), {kWidth}),
                                 aot::Tensor::borrow(shifts.data(), {kWidth}),
                                 aot::Tensor::borrow(&factor, {1})};
  const char* const names[] = {"base", "shift", "factor"};
  aot_weight_update updates[3] = {};
  const aot_weight_update* pointers[3] = {};
  for (size_t i = 0; i < 3; ++i) {
    updates[i].struct_size = sizeof(updates[i]);
    updates[i].name = names[i];
    updates[i].value = &tensors[i].view();
    pointers[i] = &updates[i];
  }
  check(aot_package_replace_weights(package, pointers, 3, nullptr));
}

// The first element of a run on ones, and whether all others are equal to it.
bool gives(CudaRunning* running, float expected) {
  const std::vector<float> x(2 * kWidth, 1.0f);
  const auto outputs = running->run(aot::Tensor::borrow(x.data(), {2, kWidth}));
  const float* y = outputs[0].data<float>();
  for (int64_t i = 0; i < 2 * kWidth; ++i) {
    if (y[i] != expected) return false;
  }
  return true;
}

}  // namespace

TEST(launches_and_graphs_see_new_weights) {
  const Opened package(package_for_gpu(false));
  CudaRunning running(package.get());
  for (int i = 1; i <= 3; ++i) {
    const auto value = static_cast<float>(i);
    replace(package.get(), value, 0.5f, 2);
    for (int k = 0; k < 3; ++k) CHECK(gives(&running, 2 * (value + 1.5f)));  // from k = 1 graphs
  }
  CHECK(fake().calls("cuGraphLaunch") > 0);
  CHECK_EQ(std::string(fake().misuse()), std::string());
}

TEST(sessions_on_both_devices) {
  const Opened package(package_for_gpu(false));
  CudaRunning gpu(package.get());
  CudaRunning cpu(package.get(), {}, "cpu");
  replace(package.get(), 1, 1, 1);
  CHECK(gives(&gpu, 3));
  CHECK(gives(&cpu, 3));
}

// The values are kept while a program that needs them has not started.
TEST(a_session_after_the_replacement) {
  const Opened package(package_for_gpu(false));
  CudaRunning cpu(package.get(), {}, "cpu");
  replace(package.get(), 1, 1, 1);
  CudaRunning gpu(package.get());
  CHECK(gives(&gpu, 3));
}

TEST(memory_stays_flat) {
  const FakeLive before = fake().live();
  {
    const Opened package(package_for_gpu(true));
    CudaRunning running(package.get());
    FakeLive settled{};
    for (int i = 0; i < 100; ++i) {
      const auto value = static_cast<float>(i);
      replace(package.get(), value, 1, 1);
      CHECK(gives(&running, value + 2));
      CHECK(gives(&running, value + 2));
      if (i == 10) settled = fake().live();
    }
    CHECK_EQ(fake().live().device_blocks, settled.device_blocks);
    CHECK_EQ(fake().live().host_blocks, settled.host_blocks);
    CHECK_EQ(fake().live().graphs, settled.graphs);
    CHECK_EQ(fake().live().events, settled.events);
  }
  CHECK_EQ(fake().live().device_blocks, before.device_blocks);
  CHECK_EQ(fake().live().modules, before.modules);
  CHECK_EQ(std::string(fake().misuse()), std::string());
}

TEST_MAIN
