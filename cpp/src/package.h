// An open package: mapping, container, plan, descriptions, and the kernel libraries loaded so far.
#ifndef AOT_SRC_PACKAGE_H_
#define AOT_SRC_PACKAGE_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "aot/abi.h"
#include "cpu/kernel_library.h"
#include "mapped_file.h"
#include "plan.h"
#include "safetensors.h"

namespace aot_rt {

// Where messages go; copied by value.
struct Log {
  aot_log_fn function = nullptr;
  void* context = nullptr;

  void operator()(aot_log_level level, const std::string& message) const {
    if (function != nullptr) function(context, level, message.c_str());
  }
};

// Immutable but for the cache of loaded libraries, which has its own lock.
class Package {
 public:
  // `file` is nullptr when the bytes are borrowed from the caller.
  Package(std::unique_ptr<MappedFile> file, Bytes bytes, Log log);

  const Plan& plan() const { return plan_; }
  const Container& container() const { return container_; }
  const Log& log() const { return log_; }
  Bytes plan_text() const;

  // Checks the SHA-256 of every entry. Throws CORRUPT_PACKAGE.
  void verify() const;

  // The kernels of one of the plan's programs for `isa` ("" = the best), loaded once. Any thread.
  std::shared_ptr<const KernelLibrary> library(const Program& program, std::string_view isa);

  // What sessions on one device share, such as weights in its memory: made for the first that asks,
  // while others wait, and gone with the last that holds it. `key` is the device's. Any thread.
  std::shared_ptr<void> shared(const std::string& key,
                               const std::function<std::shared_ptr<void>()>& make);

  const std::vector<aot_tensor_info>& inputs() const { return inputs_; }
  const std::vector<aot_tensor_info>& outputs() const { return outputs_; }
  const std::vector<aot_entry_info>& entries() const { return entries_; }

 private:
  void describe();
  aot_tensor_info describe(const TensorSpec& spec, const std::vector<Range>& ranges);
  aot_dim_info describe(const Expr& size, const std::vector<Range>& ranges);

  std::unique_ptr<MappedFile> file_;
  Log log_;
  Container container_;
  Plan plan_;

  std::vector<std::unique_ptr<std::string>> labels_;
  std::vector<std::unique_ptr<std::vector<aot_dim_info>>> dims_;
  std::vector<aot_tensor_info> inputs_;
  std::vector<aot_tensor_info> outputs_;
  std::vector<aot_entry_info> entries_;

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const KernelLibrary>> libraries_;  // by entry

  struct Shared {
    std::mutex mutex;
    std::weak_ptr<void> value;
  };
  std::map<std::string, std::unique_ptr<Shared>> shared_;  // by device
};

}  // namespace aot_rt

#endif  // AOT_SRC_PACKAGE_H_
