// One client's way to run a package on a device: what every device's session offers.
#ifndef AOT_SRC_SESSION_H_
#define AOT_SRC_SESSION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "aot/abi.h"
#include "output_pool.h"
#include "package.h"

namespace aot_rt {

struct SessionOptions {
  std::string isa;          // "": the best; for a device with libraries
  int32_t num_threads = 0;  // 0: usable_cores()
  const aot_executor* executor = nullptr;
  const aot_allocator* allocator = nullptr;
  bool profile = false;
};

// Calls from several threads wait for each other.
class Session {
 public:
  virtual ~Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Runs the model. On success `take(index, block)` is called for every output and owns the block.
  // `stream`: the caller's, nullptr for none. Throws, having taken nothing.
  template <typename Take>
  void run(const DLTensor* const* inputs, size_t count, void* stream, Take take) {
    run_with(
        inputs, count, stream,
        [](void* context, size_t index, OutputBlock* block) {
          (*static_cast<Take*>(context))(index, block);
        },
        &take);
  }

  const Plan& plan() const { return package_->plan(); }

  virtual const std::string& isa() const = 0;  // of the loaded kernels; "sm_90" on such a device
  virtual int32_t num_threads() const = 0;     // of the host
  virtual void set_observer(aot_observer_fn observer, void* context) = 0;
  virtual void profile(aot_step_profile* steps, size_t capacity, size_t* count) = 0;
  virtual void reset_profile() = 0;

 protected:
  using TakeOutput = void (*)(void* context, size_t index, OutputBlock* block);

  explicit Session(std::shared_ptr<Package> package) : package_(std::move(package)) {}

  virtual void run_with(const DLTensor* const* inputs, size_t count, void* stream, TakeOutput take,
                        void* context) = 0;

  Package& package() const { return *package_; }

 private:
  std::shared_ptr<Package> package_;
};

}  // namespace aot_rt

#endif  // AOT_SRC_SESSION_H_
