// The CUDA driver, opened on first use. A call that fails throws an Error with the call's name.
#ifndef AOT_SRC_CUDA_DRIVER_H_
#define AOT_SRC_CUDA_DRIVER_H_

#include <cstdint>
#include <string>

#include "cuda/driver_abi.h"

namespace aot_rt::cuda {

class Driver;

// See Driver::fail.
[[noreturn]] void fail_call(const Driver& driver, CUresult result, const char* call);

// One entry point. Called like the function it is; throws what `Driver::fail` does.
template <typename... Args>
struct Function {
  using Pointer = CUresult (*)(Args...);

  void operator()(Args... args) const {
    if (const CUresult result = pointer(args...); result != kSuccess)
      fail_call(*driver, result, name);
  }
  // For calls whose failure is expected, needs more words, or must not throw.
  CUresult raw(Args... args) const noexcept { return pointer(args...); }

  const Driver* driver = nullptr;
  const char* name = nullptr;
  Pointer pointer = nullptr;
};

namespace internal {
template <typename Signature>
struct FunctionOf;
template <typename... Args>
struct FunctionOf<void(Args...)> {
  using Type = Function<Args...>;
};
}  // namespace internal

// Immutable. One per process; the library is never closed.
class Driver {
 public:
  // The driver, initialised. Throws UNAVAILABLE (no driver, too old, no GPU, or initialised before
  // this process was forked) or DEVICE_ERROR; the next call tries again.
  static const Driver& get();

  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  // Throws the Error for a failed call. `where` says what it was for: "launching kernel 'k'".
  [[noreturn]] void fail(CUresult result, const char* call, const std::string& where = {},
                         const std::string& origin = {}) const;

  // "12.4"
  const std::string& version() const { return version_; }

  // Whether edges of graphs may let a kernel start early: `graph_add_dependencies` is there.
  bool has_early_launches() const { return early_launches_; }

  // Whether launches may let a kernel start early: `launch_kernel_ex` is there.
  bool has_launch_attributes() const { return launch_kernel_ex.pointer != nullptr; }

  // Whether functions tell their parameters: `func_get_param_info` is there.
  bool has_parameter_info() const { return func_get_param_info.pointer != nullptr; }

#define AOT_CUDA_MEMBER(member, symbol, parameters) \
  internal::FunctionOf<void parameters>::Type member;
  AOT_CUDA_SYMBOLS(AOT_CUDA_MEMBER)
  AOT_CUDA_LATER_SYMBOLS(AOT_CUDA_MEMBER)
#undef AOT_CUDA_MEMBER

 private:
  Driver();

  std::string version_;
  bool early_launches_ = false;
  uint32_t forks_;  // forks() where it was initialised
};

}  // namespace aot_rt::cuda

#endif  // AOT_SRC_CUDA_DRIVER_H_
