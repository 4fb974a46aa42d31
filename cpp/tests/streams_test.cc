// Order between streams, which handles alone do not tell apart, and what kernels are given.
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "apart.h"
#include "changing_package.h"
#include "check.h"
#include "cuda_package.h"
#include "error.h"

namespace {

using aot_test::Builder;
using aot_test::CudaRunning;
using aot_test::fake;
using aot_test::FakeMemory;
using aot_test::fetch;
using aot_test::Opened;

constexpr int64_t kWidth = 8;
constexpr int64_t kRows = 6;
constexpr DLDataType kFloat32 = {kDLFloat, 32, 1};
void* const kPerThread = reinterpret_cast<void*>(2);
void* const kLegacy = reinterpret_cast<void*>(1);

std::vector<float> filled(float value) {
  return std::vector<float>(static_cast<size_t>(kRows * kWidth), value);
}

aot::Tensor on_gpu(const FakeMemory& memory) {
  return aot::Tensor::borrow(memory.address(), kFloat32, {kRows, kWidth}, {}, {kDLCUDA, 0});
}

// Input of one value, there before anybody asks.
class Input : public FakeMemory {
 public:
  explicit Input(float value) : FakeMemory(kRows * kWidth * sizeof(float)) {
    const std::vector<float> x = filled(value);
    write(x.data(), x.size() * sizeof(float));
    wait();
  }
};

// Whether y is 2 · (value + column), seen from a stream.
bool is_right(const aot::Tensor& y, float value, void* stream) {
  const std::vector<float> made = fetch(y, stream);
  for (int64_t i = 0; i < kRows * kWidth; ++i) {
    if (made[static_cast<size_t>(i)] != 2 * (value + static_cast<float>(i % kWidth))) return false;
  }
  return true;
}

void in_thread(const std::function<void()>& body) { std::thread(body).join(); }

// Two runs of a session on these streams, from two threads: the second waits for the first, as
// both use the session's memory. Seen from the second's stream, both are right.
void check_order(void* one, void* two, bool same_thread) {
  const Opened package(aot_test::small_cuda_package());
  CudaRunning running(package.get());
  const Input a(1.0F);
  const Input b(20.0F);
  for (int i = 0; i < 3; ++i) {
    std::vector<aot::Tensor> first;
    const auto run_first = [&] { first = running.run(on_gpu(a), false, one); };
    if (same_thread) {
      run_first();
    } else {
      in_thread(run_first);
    }
    const std::vector<aot::Tensor> second = running.run(on_gpu(b), false, two);
    CHECK(is_right(second[0], 20.0F, two));
    CHECK(is_right(first[0], 1.0F, two));
  }
  aot_test::expect_ok(aot_session_synchronize(running.get()));
  CHECK_EQ(std::string(fake().misuse()), "");
}

}  // namespace

TEST(the_default_streams_of_two_threads_are_two) { check_order(kPerThread, kPerThread, false); }
TEST(the_default_stream_of_a_thread_and_a_stream) {
  const FakeMemory other(4);
  check_order(kPerThread, other.stream(), false);
  check_order(other.stream(), kPerThread, true);
}
TEST(the_default_stream_of_a_thread_and_the_legacy_one) {
  check_order(kPerThread, kLegacy, false);
  check_order(kLegacy, kPerThread, true);
}

// The thread is gone when its work is waited for.
TEST(synchronize_waits_for_another_threads_default_stream) {
  const Opened package(aot_test::small_cuda_package());
  CudaRunning running(package.get());
  const Input a(1.0F);
  std::vector<aot::Tensor> outputs;
  in_thread([&] { outputs = running.run(on_gpu(a), false, kPerThread); });
  aot_test::expect_ok(aot_session_synchronize(running.get()));
  const FakeMemory other(4);
  CHECK(is_right(outputs[0], 1.0F, other.stream()));
}

// A caller destroys its stream with work in it, and gets its handle again for another one.
TEST(handles_of_streams_are_used_again) {
  const Opened package(aot_test::small_cuda_package());
  CudaRunning running(package.get());
  const Input a(1.0F);
  const Input b(20.0F);
  for (int i = 0; i < 3; ++i) {
    auto* old = new aot_test::FakeStreamOwner;
    void* const handle = old->get();
    const auto first = running.run(on_gpu(a), false, handle);
    delete old;
    const aot_test::FakeStreamOwner again;
    CHECK(again.get() == handle);
    const auto second = running.run(on_gpu(b), false, again.get());
    CHECK(is_right(second[0], 20.0F, again.get()));
    CHECK(is_right(first[0], 1.0F, again.get()));
  }
  aot_test::expect_ok(aot_session_synchronize(running.get()));
  CHECK_EQ(std::string(fake().misuse()), "");
}

// States, clones and the end of a session after the caller's stream is gone.
TEST(a_stream_is_destroyed_after_its_run) {
  const Opened package(aot_test::state_cuda_package());
  aot_session* session = nullptr;
  aot_test::expect_ok(aot_session_create(package.get(), "cuda", nullptr, &session));
  const Input a(1.0F);
  const aot::Tensor input =
      aot::Tensor::borrow(a.address(), kFloat32, {1, kWidth}, {}, {kDLCUDA, 0});
  const DLTensor* views[] = {&input.view()};
  for (int i = 0; i < 3; ++i) {
    auto* stream = new aot_test::FakeStreamOwner;
    DLManagedTensorVersioned* raw[2] = {};
    aot_run_options options{};
    options.struct_size = sizeof(options);
    options.stream = stream->get();
    aot_test::expect_ok(aot_session_run_with(session, views, 1, raw, 2, &options));
    delete stream;
    for (DLManagedTensorVersioned* output : raw) output->deleter(output);
    std::vector<float> state(8);
    aot_test::expect_ok(aot_session_get_state(session, 0, state.data(), 32));
    CHECK(state[7] >= 8.0F);  // 7 at first, and more with each run
  }
  aot_session* clone = nullptr;
  aot_test::expect_ok(aot_session_clone(session, &clone));
  aot_session_free(clone);
  aot_session_free(session);
  CHECK_EQ(std::string(fake().misuse()), "");
}

// What the plan says of a kernel's scratch holds for the address that the kernel is given.
TEST(scratch_is_aligned_as_kernels_want) {
  for (const bool graphs : {true, false}) {
    Builder builder = aot_test::small_cuda_package();
    const std::string cubin = "FAKE sm_90\nrow_sum 5 aligned 4096\nend\n";
    builder.add("kernels/cuda/sm_90/aligned", "U8", {cubin.size()}, cubin);
    auto& kernel = builder.plan["programs"][1]["kernels"][2];
    kernel["entry"] = "kernels/cuda/sm_90/aligned";
    kernel["sha256"] = builder.plan["entries"]["kernels/cuda/sm_90/aligned"];
    kernel["scratch_alignment"] = 4096;
    const Opened package(builder);
    aot_session_options options{};
    options.no_graphs = graphs ? 0 : 1;
    CudaRunning running(package.get(), options);
    for (const int64_t rows : {1, 6, 64, 64, 64, 6, 6}) {
      const std::vector<float> x(static_cast<size_t>(rows * kWidth), 1.0F);
      const auto outputs = running.run(aot::Tensor::borrow(x.data(), {rows, kWidth}));
      CHECK_EQ(outputs[1].data<float>()[rows - 1], 72.0F);
    }
    CHECK_EQ(std::string(fake().misuse()), "");
  }
}

TEST_MAIN_APART(60)
