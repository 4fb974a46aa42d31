// Custom operators: those registered in this process, and those that packages carry.
#ifndef AOT_SRC_OPERATORS_H_
#define AOT_SRC_OPERATORS_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "aot/operator_abi.h"
#include "memory_library.h"
#include "safetensors.h"

namespace aot_rt {

// The code of a custom operator. Immutable; sessions share it.
class Operator {
 public:
  // `code`: what the function is part of; nullptr: of the process.
  Operator(aot_operator_fn function, void* user, void (*release)(void*),
           std::shared_ptr<const MemoryLibrary> code)
      : function_(function), user_(user), release_(release), code_(std::move(code)) {}
  ~Operator() {
    if (release_ != nullptr) release_(user_);
  }
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;

  int call(const aot_operator_call& arguments) const { return function_(&arguments, user_); }

 private:
  aot_operator_fn function_;
  void* user_;
  void (*release_)(void*);
  std::shared_ptr<const MemoryLibrary> code_;
};

using OperatorPtr = std::shared_ptr<const Operator>;

// What code is for. Devices are kinds, as programs have them.
struct OperatorKey {
  std::string device;
  std::string name;

  bool operator<(const OperatorKey& other) const {
    return name != other.name ? name < other.name : device < other.device;
  }
};
using Operators = std::map<OperatorKey, OperatorPtr>;

// The kind of device that code is for where none is said.
constexpr const char* kOperatorDevice = "cpu";

// Gives a name code for a device in this process, in place of what it had; a null function: none.
// Sessions that exist keep what they were made with. Any thread. When it throws, `release` is not
// called.
void register_operator(const OperatorKey& key, aot_operator_fn function, void* user,
                       void (*release)(void*));

// The code that a name has for a device in this process; nullptr: none. Any thread.
OperatorPtr registered_operator(const OperatorKey& key);

// The devices that a name has code for, in this process or among `carried`; sorted.
std::set<std::string> devices_of(const std::string& name,
                                 const std::vector<const Operators*>& carried);

// The operators of a shared object that a package carries. Throws CORRUPT_PACKAGE (checksum, no
// init function), INCOMPATIBLE (it does not serve this runtime) or DEVICE_ERROR.
Operators load_operators(const Entry& entry, const std::string& sha256);

}  // namespace aot_rt

#endif  // AOT_SRC_OPERATORS_H_
