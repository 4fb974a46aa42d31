// Packages with programs for the fake CUDA driver.
#ifndef AOT_TESTS_CUDA_PACKAGE_H_
#define AOT_TESTS_CUDA_PACKAGE_H_

#include <string>
#include <vector>

#include "aot/aot.hpp"
#include "cuda_fake.h"
#include "package_builder.h"

namespace aot_test {

// Adds a program for each architecture to a package of package_builder.h, with the same buffers.
void add_cuda(Builder* builder, const std::vector<std::string>& archs);

// `small_package`, `state_package` and `gather_package` with a program for sm_90.
Builder small_cuda_package(int64_t width = 8);
Builder state_cuda_package();
Builder gather_cuda_package();

// The controls of the fake driver, which must be the libcuda.so.1 of this process.
const FakeControls& fake();

// A session on a GPU through the C interface. Throws what failed.
class CudaRunning {
 public:
  explicit CudaRunning(aot_package* package, aot_session_options options = {},
                       const char* device = "cuda");
  ~CudaRunning() { aot_session_free(session_); }
  CudaRunning(const CudaRunning&) = delete;
  CudaRunning& operator=(const CudaRunning&) = delete;

  aot_session* get() const { return session_; }
  std::vector<aot::Tensor> run(const aot::Tensor& input, bool host_outputs = true,
                               void* stream = nullptr);

 private:
  aot_session* session_ = nullptr;
  size_t outputs_;
};

// Memory of the fake GPU for a test's inputs, with a stream of its own.
class FakeMemory {
 public:
  explicit FakeMemory(size_t bytes, int gpu = 0);
  ~FakeMemory();
  FakeMemory(const FakeMemory&) = delete;
  FakeMemory& operator=(const FakeMemory&) = delete;

  void* address(size_t offset = 0) const { return reinterpret_cast<void*>(address_ + offset); }
  void* stream() const { return stream_; }
  void write(const void* from, size_t bytes, size_t offset = 0);  // enqueued in `stream`
  void wait();                                                    // for `stream`

 private:
  uint64_t address_ = 0;
  void* stream_ = nullptr;
};

// A stream of the fake GPU.
class FakeStreamOwner {
 public:
  FakeStreamOwner();
  ~FakeStreamOwner();
  FakeStreamOwner(const FakeStreamOwner&) = delete;
  FakeStreamOwner& operator=(const FakeStreamOwner&) = delete;

  void* get() const { return stream_; }

 private:
  void* stream_ = nullptr;
};

// Page-locked memory of the host, which the GPU reads when it comes to it.
class PinnedFloats {
 public:
  explicit PinnedFloats(const std::vector<float>& values);
  ~PinnedFloats();
  PinnedFloats(const PinnedFloats&) = delete;
  PinnedFloats& operator=(const PinnedFloats&) = delete;

  float* data() const { return data_; }

 private:
  float* data_ = nullptr;
};

// The floats of a tensor on the fake GPU, once `stream` is done.
std::vector<float> fetch(const aot::Tensor& tensor, void* stream);

}  // namespace aot_test

#endif  // AOT_TESTS_CUDA_PACKAGE_H_
