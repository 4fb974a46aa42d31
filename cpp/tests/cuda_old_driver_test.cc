// A driver of CUDA 12.0, which serves all but kernels of graphs that start early.
#include <cstddef>
#include <string>
#include <vector>

#include "check.h"
#include "cuda_package.h"

namespace {

using aot_test::CudaRunning;
using aot_test::fake;
using aot_test::Opened;
using aot_test::small_cuda_package;

constexpr int64_t kWidth = 8;

}  // namespace

TEST(graphs_without_early_launches) {
  fake().configure(1, 9, 0, 12000, size_t{1} << 30);
  const Opened package(small_cuda_package(kWidth));
  CudaRunning running(package.get());
  const std::vector<float> x(4 * kWidth, 1.0F);
  for (int i = 0; i < 3; ++i) {
    const auto outputs = running.run(aot::Tensor::borrow(x.data(), {4, kWidth}));
    CHECK_EQ(outputs[0].data<float>()[kWidth - 1], 2.0F * kWidth);
  }
  CHECK_EQ(fake().calls("cuGraphLaunch"), 2);
  CHECK_EQ(fake().calls("cuGraphAddDependencies_v2"), 0);
  CHECK_EQ(std::string(fake().misuse()), "");
}

TEST_MAIN
