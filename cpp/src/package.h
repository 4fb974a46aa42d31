// An open package: mappings, container, plan, descriptions, and the kernel libraries loaded so far.
#ifndef AOT_SRC_PACKAGE_H_
#define AOT_SRC_PACKAGE_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "aot/abi.h"
#include "cpu/kernel_library.h"
#include "integrity.h"
#include "lock.h"
#include "mapped_file.h"
#include "operators.h"
#include "package_files.h"
#include "plan.h"
#include "policy.h"
#include "safetensors.h"
#include "weight_update.h"
#include "weights.h"
#include "workspace.h"

namespace aot_rt {

// Where messages go; copied by value.
struct Log {
  aot_log_fn function = nullptr;
  void* context = nullptr;

  void operator()(aot_log_level level, const std::string& message) const {
    if (function != nullptr) function(context, level, message.c_str());
  }
};

// What a device's sessions share: where they find the weights, and memory for their runs. Belongs
// to a package.
struct WeightPlace {
  std::unique_ptr<WeightDevice> device;
  std::shared_ptr<WorkspacePool> workspaces;   // of the device's memory
  std::shared_ptr<const Placement> placement;  // the present one; the package's lock guards it
};

// Immutable but for loaded libraries and replaced weights, which have their own locks.
class Package : public std::enable_shared_from_this<Package> {
 public:
  // Takes what the policy allows. Throws REFUSED before anything is made executable, and what
  // Plan::parse throws.
  Package(PackageFiles files, Log log, const Policy& policy = {});

  const Plan& plan() const { return plan_; }
  const Container& container() const { return container_; }
  const Log& log() const { return log_; }
  // The most that each session may use.
  const Limits& limits() const { return limits_; }
  Bytes plan_text() const;

  // Checks every byte of the files, `threads` at once (0: the cores that there are). Throws
  // CORRUPT_PACKAGE.
  void verify(int32_t threads = 0) { integrity_.check_all(threads); }

  // The entry of a file that the package carries beside the model, checked. Any thread. Throws
  // NOT_FOUND with the names that there are, and CORRUPT_PACKAGE.
  const Entry& file(const std::string& name);

  // From now on weights are checked before something first uses them.
  void verify_when_used() { check_weights_ = true; }

  // The kernels of one of the plan's programs for `isa` ("" = the best), loaded once. Any thread.
  std::shared_ptr<const KernelLibrary> library(const Program& program, std::string_view isa);

  // Appends the kernels of all loaded libraries to the file that `perf` reads. Any thread. Throws
  // DEVICE_ERROR.
  void write_perf_map();

  // The code of a program's calls of custom operators: the package's own, else what is registered
  // in this process. `plan`: the program's. Any thread. Throws NOT_FOUND with the model's line when
  // nobody has given one, and as load_operators.
  std::vector<OperatorPtr> operators(const Plan& plan, const Program& program);

  // Where sessions on one device find weights: made for the first that asks, while others wait.
  // Gone with the last that holds it, unless weights were replaced. `key` is the device's. Any
  // thread. Throws what `make` throws, and INVALID_ARGUMENT when what was replaced was not kept for
  // it.
  std::shared_ptr<WeightPlace> weight_place(
      const std::string& key, const std::function<std::unique_ptr<WeightDevice>()>& make);

  // Gives weights new values: all that follows from them is computed first, then every run that
  // begins sees the new ones, on every device. Those before live as long as runs that use them. Any
  // thread; one replacement at a time. Throws UNSUPPORTED (packaged without --swappable) and what
  // apply_updates and the devices throw; then nothing has changed.
  void replace_weights(const std::vector<WeightUpdate>& updates, const ReplaceOptions& options);

  // Counts replacements, from 1.
  uint64_t weights_generation() const { return generation_.load(); }
  // The present placement, and the generation that it is of.
  std::shared_ptr<const Placement> placement(const WeightPlace& place, uint64_t* generation) const;

  // Whoever holds placements, and is told when they are old.
  class WeightUser {
   public:
    // Called in the replacing thread, while the user may be in use. Must not block, or call the
    // package.
    virtual void drop_old_weights() = 0;

   protected:
    ~WeightUser() = default;
  };
  void add_user(WeightUser* user);
  void remove_user(WeightUser* user);

  const std::vector<aot_tensor_info>& inputs() const { return inputs_; }
  const std::vector<aot_tensor_info>& outputs() const { return outputs_; }
  const std::vector<aot_tensor_info>& states() const { return states_; }
  const std::vector<aot_entry_info>& entries() const { return entries_; }

 private:
  OperatorPtr find_operator(const Program& program, const std::string& name);
  std::string other_devices(const Program& program, const std::string& name);
  void check_weights(const Program& program);
  void describe();
  aot_tensor_info describe(const TensorSpec& spec, const std::vector<Range>& ranges);
  aot_dim_info describe(const Expr& size, const std::vector<Range>& ranges);

  std::vector<std::unique_ptr<MappedFile>> files_;
  Log log_;
  Container container_;
  Plan plan_;
  Integrity integrity_;
  bool check_weights_;
  Limits limits_;

  std::vector<std::unique_ptr<std::string>> labels_;
  std::vector<std::unique_ptr<std::vector<aot_dim_info>>> dims_;
  std::vector<aot_tensor_info> inputs_;
  std::vector<aot_tensor_info> outputs_;
  std::vector<aot_tensor_info> states_;
  std::vector<aot_entry_info> entries_;

  Lock mutex_{"this package"};
  std::map<std::string, std::shared_ptr<const KernelLibrary>> libraries_;  // by entry
  std::map<std::string, Operators> carried_;                               // the same

  struct PlaceSlot {
    Lock mutex{"this package"};  // while it is made
    std::weak_ptr<WeightPlace> place;
    std::shared_ptr<WeightPlace> kept;  // once weights were replaced
  };
  std::vector<PlaceSlot*> place_slots();
  std::map<std::string, std::unique_ptr<PlaceSlot>> places_;  // by device; `mutex_` guards the map

  // Held by a replacement, and by whoever has made a place and adds it; after slots', before
  // `mutex_`.
  Lock replacing_{"this package"};
  WeightValues values_;  // changed by replacements alone
  std::atomic<uint64_t> generation_{1};
  mutable Lock placement_mutex_{
      "this package"};  // guards every place's `placement` with the generation

  Lock users_mutex_{"this package"};
  std::vector<WeightUser*> users_;
};

}  // namespace aot_rt

#endif  // AOT_SRC_PACKAGE_H_
