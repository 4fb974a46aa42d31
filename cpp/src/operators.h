// Custom operators: those registered in this process, and those that packages carry.
#ifndef AOT_SRC_OPERATORS_H_
#define AOT_SRC_OPERATORS_H_

#include <map>
#include <memory>
#include <string>

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
using Operators = std::map<std::string, OperatorPtr>;

// Gives a name code in this process, in place of what it had; a null function: none. Sessions that
// exist keep what they were made with. Any thread. When it throws, `release` is not called.
void register_operator(const std::string& name, aot_operator_fn function, void* user,
                       void (*release)(void*));

// The code that a name has in this process; nullptr: none. Any thread.
OperatorPtr registered_operator(const std::string& name);

// The operators of a shared object that a package carries. Throws CORRUPT_PACKAGE (checksum, no
// init function), INCOMPATIBLE (it does not serve this runtime) or DEVICE_ERROR.
Operators load_operators(const Entry& entry, const std::string& sha256);

}  // namespace aot_rt

#endif  // AOT_SRC_OPERATORS_H_
