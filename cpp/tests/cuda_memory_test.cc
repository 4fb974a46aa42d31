// A session's memory on a GPU from the caller's allocator, as serving programs share one pool.
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "check.h"
#include "cuda_package.h"

namespace {

using aot_test::CudaRunning;
using aot_test::fake;
using aot_test::FakeMemory;
using aot_test::Opened;

constexpr int64_t kWidth = 8;

// Hands out parts of one block of the GPU and takes note of what is out.
class Pool {
 public:
  explicit Pool(size_t most = 1 << 20, size_t offset = 0) : most_(most), offset_(offset) {}

  aot_allocator allocator() { return {sizeof(aot_allocator), this, allocate, release}; }
  aot_session_options options() {
    allocator_ = allocator();
    aot_session_options options{};
    options.device_allocator = &allocator_;
    return options;
  }

  size_t blocks() const { return sizes_.size(); }
  size_t ever() const { return ever_; }
  bool holds(const void* data) const {
    const auto* at = static_cast<const uint8_t*>(data);
    const auto* begin = static_cast<const uint8_t*>(memory_.address());
    return at >= begin && at < begin + kBytes;
  }
  bool wrong_release() const { return wrong_; }

 private:
  static constexpr size_t kBytes = 1 << 20;

  static void* allocate(void* context, size_t size, size_t alignment) {
    auto& self = *static_cast<Pool*>(context);
    const std::lock_guard<std::mutex> lock(self.mutex_);
    const size_t begin = (self.used_ + alignment - 1) / alignment * alignment + self.offset_;
    if (begin + size > self.most_) return nullptr;
    self.used_ = begin + size;
    ++self.ever_;
    void* const data = self.memory_.address(begin);
    self.sizes_[data] = size;
    return data;
  }
  static void release(void* context, void* data, size_t size, size_t /*alignment*/) {
    auto& self = *static_cast<Pool*>(context);
    const std::lock_guard<std::mutex> lock(self.mutex_);
    const auto found = self.sizes_.find(data);
    self.wrong_ = self.wrong_ || found == self.sizes_.end() || found->second != size;
    if (found != self.sizes_.end()) self.sizes_.erase(found);
  }

  size_t most_;
  size_t offset_;
  FakeMemory memory_{kBytes};
  aot_allocator allocator_{};
  std::mutex mutex_;
  std::map<void*, size_t> sizes_;
  size_t used_ = 0;
  size_t ever_ = 0;
  bool wrong_ = false;
};

TEST(all_of_a_session_is_the_callers) {
  Pool pool;
  std::vector<float> x(6 * kWidth, 1.0f);
  {
    const Opened package(aot_test::small_cuda_package(kWidth));
    CudaRunning first(package.get());  // loads kernels and weights, which are the driver's
    first.run(aot::Tensor::borrow(x.data(), {6, kWidth}));
    const int64_t allocations = fake().calls("cuMemAlloc_v2");
    CudaRunning running(package.get(), pool.options());
    {
      const auto outputs = running.run(aot::Tensor::borrow(x.data(), {6, kWidth}), false);
      CHECK_EQ(fake().calls("cuMemAlloc_v2"), allocations);
      CHECK(pool.holds(outputs[0].view().data));
      CHECK(pool.blocks() >= 4);  // two outputs, an input's copy, temporaries
      const auto y = aot_test::fetch(outputs[0], aot_session_stream(running.get()));
      CHECK_EQ(y[1], 4.0f);
    }
    // Later runs ask for nothing.
    const size_t ever = pool.ever();
    for (int i = 0; i < 5; ++i) running.run(aot::Tensor::borrow(x.data(), {6, kWidth}), false);
    CHECK_EQ(pool.ever(), ever);
  }
  CHECK_EQ(pool.blocks(), size_t{0});
  CHECK(!pool.wrong_release());
  CHECK_EQ(std::string(fake().misuse()), "");
}

TEST(an_output_outlives_its_session) {
  Pool pool;
  const std::vector<float> x(2 * kWidth, 1.0f);
  std::vector<aot::Tensor> outputs;
  {
    const Opened package(aot_test::small_cuda_package(kWidth));
    CudaRunning running(package.get(), pool.options());
    outputs = running.run(aot::Tensor::borrow(x.data(), {2, kWidth}), false);
  }
  CHECK_EQ(pool.blocks(), size_t{2});
  fake().clear_calls();
  outputs.clear();
  CHECK_EQ(pool.blocks(), size_t{0});
  CHECK(fake().calls("cuCtxSynchronize") >= 1);  // no work of the GPU has it any more
}

TEST(states_and_clones) {
  Pool pool;
  {
    const Opened package(aot_test::state_cuda_package());
    CudaRunning running(package.get(), pool.options());
    const size_t before = pool.blocks();
    CHECK(before >= 1);  // the states
    aot_session* clone = nullptr;
    CHECK_EQ(aot_status_code(aot_session_clone(running.get(), &clone)), AOT_OK);
    CHECK(pool.blocks() > before);
    aot_session_free(clone);
    CHECK_EQ(pool.blocks(), before);
  }
  CHECK_EQ(pool.blocks(), size_t{0});
}

TEST(allocators_that_fail) {
  const std::vector<float> x(6 * kWidth, 1.0f);
  const auto run = [&x](Pool& pool) {
    const Opened package(aot_test::small_cuda_package(kWidth));
    CudaRunning running(package.get(), pool.options());
    running.run(aot::Tensor::borrow(x.data(), {6, kWidth}));
  };
  Pool small(300);
  CHECK_FAILS(run(small), AOT_OUT_OF_MEMORY, "no memory for");
  CHECK_EQ(small.blocks(), size_t{0});
  Pool odd(1 << 20, 64);
  CHECK_FAILS(run(odd), AOT_INVALID_ARGUMENT,
              "device_allocator: a block is not aligned to 256 bytes");
  CHECK_EQ(odd.blocks(), size_t{0});
  const Opened package(aot_test::small_cuda_package(kWidth));
  const aot_allocator empty{sizeof(aot_allocator), nullptr, nullptr, nullptr};
  aot_session_options options{};
  options.device_allocator = &empty;
  CHECK_FAILS(CudaRunning(package.get(), options), AOT_INVALID_ARGUMENT, "both functions");
}

}  // namespace

TEST_MAIN
