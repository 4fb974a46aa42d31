// What goes wrong with GPUs: each failure's code, its words, and that nothing is left behind.
#include <string>
#include <vector>

#include "check.h"
#include "cuda_package.h"

namespace {

using aot_test::add_cuda;
using aot_test::Builder;
using aot_test::CudaRunning;
using aot_test::fake;
using aot_test::FakeLive;
using aot_test::Opened;
using aot_test::small_cuda_package;
using aot_test::small_package;

constexpr size_t kMemory = size_t{1} << 30;
constexpr int64_t kWidth = 8;

aot::Tensor rows(const std::vector<float>& x) {
  return aot::Tensor::borrow(x.data(), {static_cast<int64_t>(x.size()) / kWidth, kWidth});
}

// A GPU as it was, and nothing left on it, at the end.
class Machine {
 public:
  Machine(int gpus, int major, int minor, int version = 12040, size_t memory = kMemory) {
    fake().configure(gpus, major, minor, version, memory);
    fake().clear_misuse();
  }
  ~Machine() {
    fake().revive();
    fake().configure(1, 9, 0, 12040, kMemory);
    const FakeLive live = fake().live();
    CHECK_EQ(live.device_blocks + live.host_blocks + live.contexts + live.modules, 0);
    CHECK_EQ(live.streams + live.events + live.graphs, 0);
    CHECK_EQ(std::string(fake().misuse()), std::string());
  }
};

}  // namespace

// The first two run before the driver is in use: once it is there, it stays.
TEST(an_old_driver) {
  const Machine machine(1, 9, 0, 11080);
  const Opened package(small_cuda_package());
  CHECK_FAILS(CudaRunning(package.get()), AOT_UNAVAILABLE,
              "serves CUDA 11.8; CUDA 12.0 or newer is needed: update the driver");
}

TEST(no_gpu) {
  const Machine machine(0, 9, 0);
  const Opened package(small_cuda_package());
  CHECK_FAILS(CudaRunning(package.get()), AOT_UNAVAILABLE,
              "cuInit: CUDA_ERROR_NO_DEVICE (100); no GPU is visible to this process");
}

TEST(no_such_gpu) {
  const Machine machine(2, 9, 0);
  const Opened package(small_cuda_package());
  CHECK_FAILS(CudaRunning(package.get(), {}, "cuda:2"), AOT_UNAVAILABLE,
              "no device cuda:2: this process sees 2 GPUs, cuda:0 to cuda:1");
  CHECK_FAILS(CudaRunning(package.get(), {}, "cuda:x"), AOT_INVALID_ARGUMENT, "'cuda:0'");
  CHECK_FAILS(CudaRunning(package.get(), {}, "tpu"), AOT_UNAVAILABLE, "runs on cpu, cuda");
}

TEST(a_package_without_kernels_for_gpus) {
  const Machine machine(1, 9, 0);
  const Opened package(small_package());
  CHECK_FAILS(CudaRunning(package.get()), AOT_UNAVAILABLE, "nothing for device 'cuda'");
}

TEST(architectures) {
  Builder builder = small_package();
  add_cuda(&builder, {"sm_80", "sm_86", "sm_90", "sm_120"});
  const Opened package(builder);
  const auto chosen = [&](int major, int minor) {
    const Machine machine(1, major, minor);
    CudaRunning running(package.get());
    return std::string(aot_session_isa(running.get()));
  };
  CHECK_EQ(chosen(8, 0), "sm_80");
  CHECK_EQ(chosen(8, 6), "sm_86");
  CHECK_EQ(chosen(8, 9), "sm_86");
  CHECK_EQ(chosen(9, 0), "sm_90");
  CHECK_EQ(chosen(12, 1), "sm_120");
  const Machine machine(1, 10, 0);
  CHECK_FAILS(CudaRunning(package.get()), AOT_UNAVAILABLE,
              "the package has sm_80, sm_86, sm_90, sm_120; the GPU is cuda:0 (Fake GPU, compute "
              "capability 10.0): package again with --target cuda:sm_100");
}

TEST(no_memory_for_weights) {
  const Machine machine(1, 9, 0, 12040, 16);
  const Opened package(small_cuda_package());
  CHECK_FAILS(CudaRunning(package.get()), AOT_OUT_OF_MEMORY, "bytes of weights: 16 of 16 bytes");
}

TEST(no_memory_for_a_run) {
  const Machine machine(1, 9, 0, 12040, 3000);
  const Opened package(small_cuda_package());
  CudaRunning running(package.get());
  const std::vector<float> large(64 * kWidth, 1.0F);
  const std::vector<float> small(2 * kWidth, 1.0F);
  for (int i = 0; i < 3; ++i) {  // the session stays usable
    CHECK_FAILS(running.run(rows(large)), AOT_OUT_OF_MEMORY, "bytes of ");
    CHECK_EQ(running.run(rows(small))[0].data<float>()[1], 4.0F);
  }
}

TEST(outputs_that_wait_for_reuse_are_given_up_first) {
  const Machine machine(1, 9, 0, 12040, 9000);
  const Opened package(small_cuda_package());
  CudaRunning running(package.get());
  for (int64_t size = 1; size <= 40; ++size) {
    const std::vector<float> x(static_cast<size_t>(size * kWidth), 1.0F);
    CHECK_EQ(running.run(rows(x))[0].data<float>()[1], 4.0F);
  }
}

TEST(a_launch_that_fails) {
  const Machine machine(1, 9, 0);
  const Opened package(small_cuda_package());
  CudaRunning running(package.get());
  const std::vector<float> x(2 * kWidth, 1.0F);
  fake().fail("cuLaunchKernel", 0, 719);
  CHECK_FAILS(running.run(rows(x)), AOT_DEVICE_ERROR,
              "cuLaunchKernel: CUDA_ERROR_LAUNCH_FAILED (719), while launching kernel 'add_bias' "
              "(small.py:3 aten.add.Tensor); a kernel failed or the GPU is lost");
  CHECK_FAILS(running.run(rows(x)), AOT_DEVICE_ERROR, "start the process again");
}

// Runs the small package with this code for its kernel `scale`.
void run_code(const std::string& code) {
  const Machine machine(1, 9, 0);
  Builder builder = small_cuda_package();
  builder.add("kernels/cuda/sm_90/other", "U8", {code.size()}, code);
  auto& kernel = builder.plan["programs"][1]["kernels"][1];
  kernel["entry"] = "kernels/cuda/sm_90/other";
  kernel["sha256"] = builder.plan["entries"]["kernels/cuda/sm_90/other"];
  const Opened package(builder);
  const std::vector<float> x(2 * kWidth, 1.0F);
  CudaRunning running(package.get());
  running.run(rows(x));
}

TEST(code_that_is_no_cubin_never_reaches_the_driver) {
  const auto refused = [](const std::string& code, const char* message) {
    CHECK_FAILS(run_code(code), AOT_CORRUPT_PACKAGE, message);
  };
  const std::string good = aot_test::fake_cubin("sm_90", "scale 6 waits");
  run_code(good);
  refused(".version 8.4\n.target sm_90\n", "'kernels/cuda/sm_90/other' is text such as PTX");
  refused("\x50\xed\x55\xba....", "is an archive of codes (fatbin)");
  refused("\x01\x02\x03\x04", "is no ELF file");
  refused(good.substr(0, 63), "is cut off in its ELF header");
  const auto changed = [&good](size_t at, char value) {
    std::string code = good;
    code[at] = value;
    return code;
  };
  refused(changed(4, 1), "is no 64-bit little-endian ELF file");
  refused(changed(18, 62), "is ELF code for machine 62, not for CUDA");
  refused(changed(48, 80), "is code for sm_80, the program is for sm_90");
  refused(changed(60, 1), "has section headers beyond its end");
  refused(changed(56, 1), "has program headers beyond its end");
}

TEST(kernels_take_the_parameters_that_the_plan_gives) {
  CHECK_FAILS(run_code(aot_test::fake_cubin("sm_90", "scale 5")), AOT_CORRUPT_PACKAGE,
              "kernel 'scale' takes 5 parameters, the plan gives 6");
  CHECK_FAILS(run_code(aot_test::fake_cubin("sm_90", "scale 7")), AOT_CORRUPT_PACKAGE,
              "kernel 'scale' takes more than 6 parameters, the plan gives 6");
  CHECK_FAILS(run_code(aot_test::fake_cubin("sm_90", "scale 6 narrow")), AOT_CORRUPT_PACKAGE,
              "parameter 0 of kernel 'scale' has 4 bytes at 0, the plan gives 8 at 0");
}

TEST(a_kernel_that_crashes) {
  const Machine machine(1, 9, 0);
  Builder builder = small_cuda_package();
  const std::string cubin = aot_test::fake_cubin("sm_90", "crash 6 waits");
  builder.add("kernels/cuda/sm_90/crash", "U8", {cubin.size()}, cubin);
  auto& kernel = builder.plan["programs"][1]["kernels"][1];
  kernel["entry"] = "kernels/cuda/sm_90/crash";
  kernel["symbol"] = "crash";
  kernel["sha256"] = builder.plan["entries"]["kernels/cuda/sm_90/crash"];
  const Opened package(builder);
  const std::vector<float> x(2 * kWidth, 1.0F);
  {
    CudaRunning running(package.get());
    CHECK_FAILS(running.run(rows(x)), AOT_DEVICE_ERROR,
                "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700), an illegal memory access");
  }
  fake().revive();
  aot_session_options options{};
  options.synchronous = 1;
  CudaRunning running(package.get(), options);
  CHECK_FAILS(running.run(rows(x)), AOT_DEVICE_ERROR, "while running kernel 'scale'");
}

TEST(damaged_and_foreign_kernels) {
  const Machine machine(1, 9, 0);
  const std::vector<float> x(2 * kWidth, 1.0F);
  Builder damaged = small_cuda_package();
  damaged.plan["programs"][1]["kernels"][0]["sha256"] = std::string(64, '0');
  const Opened first(damaged);
  CudaRunning one(first.get());
  CHECK_FAILS(one.run(rows(x)), AOT_CORRUPT_PACKAGE, "kernels/cuda/sm_90/add_bias");

  Builder absent = small_cuda_package();
  absent.plan["programs"][1]["kernels"][0]["symbol"] = "other";
  const Opened second(absent);
  CudaRunning two(second.get());
  CHECK_FAILS(two.run(rows(x)), AOT_DEVICE_ERROR,
              "cuModuleGetFunction: CUDA_ERROR_NOT_FOUND (500), while loading kernel 'add_bias' of "
              "sm_90 (driver: CUDA 12.4) on cuda:0");

  const Opened third(small_cuda_package());
  CudaRunning three(third.get());
  fake().fail("cuModuleLoadDataEx", 0, 209);
  CHECK_FAILS(three.run(rows(x)), AOT_UNAVAILABLE, "the driver may be too old for these kernels");
  CHECK_EQ(three.run(rows(x))[0].data<float>()[1], 4.0F);

  Builder greedy = small_cuda_package();
  greedy.plan["programs"][1]["kernels"][2]["shared"] = 1 << 20;
  const Opened fourth(greedy);
  CudaRunning four(fourth.get());
  CHECK_FAILS(four.run(rows(x)), AOT_UNAVAILABLE,
              "kernel 'row_sum' needs 1048576 bytes of shared memory");
}

// Every call to the driver fails once, at each place where it is made: no failure leaks, hangs, or
// spoils the session.
TEST(every_call_fails_once) {
  const std::vector<float> x(2 * kWidth, 1.0F);
  for (const char* symbol : {"cuDeviceGetCount",
                             "cuDeviceGet",
                             "cuDeviceGetName",
                             "cuDeviceGetAttribute",
                             "cuDevicePrimaryCtxRetain",
                             "cuModuleLoadDataEx",
                             "cuModuleGetFunction",
                             "cuFuncSetAttribute",
                             "cuLaunchKernel",
                             "cuMemAlloc_v2",
                             "cuMemHostAlloc",
                             "cuMemHostGetDevicePointer_v2",
                             "cuMemcpyHtoDAsync_v2",
                             "cuMemcpyDtoHAsync_v2",
                             "cuStreamCreate",
                             "cuStreamSynchronize",
                             "cuEventCreate",
                             "cuGraphCreate",
                             "cuGraphAddKernelNode_v2",
                             "cuGraphInstantiateWithFlags",
                             "cuGraphLaunch"}) {
    int failures = 0;
    for (int skip = 0; skip < 12; ++skip) {
      const Machine machine(1, 9, 0);
      const Opened package(small_cuda_package());
      fake().fail(symbol, skip, 1);
      for (int attempt = 0; attempt < 2; ++attempt) {
        try {
          CudaRunning running(package.get());
          for (int i = 0; i < 4; ++i) {
            try {
              CHECK_EQ(running.run(rows(x))[0].data<float>()[1], 4.0F);
            } catch (const aot_rt::Error& error) {
              CHECK(error.code() == AOT_DEVICE_ERROR || error.code() == AOT_OUT_OF_MEMORY);
              ++failures;
            }
          }
        } catch (const aot_rt::Error& error) {
          CHECK(error.code() == AOT_DEVICE_ERROR || error.code() == AOT_OUT_OF_MEMORY);
          ++failures;
        }
      }
      fake().fail(symbol, 1 << 30, 1);  // take back what did not happen
    }
    if (failures == 0) CHECK_EQ(std::string(symbol), "reported");
  }
}

TEST_MAIN
