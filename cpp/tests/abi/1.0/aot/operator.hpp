// Custom operators in C++17: a call as typed accessors, exceptions turned into errors. Header-only
// over operator_abi.h alone, so that libraries which packages carry need nothing else.
//
//   void scale(const aot::OperatorCall& call) {
//     const DLTensor& x = call.tensor("x");
//     const float* from = aot::OperatorCall::data<const float>(x);
//     float* to = aot::OperatorCall::data<float>(call.result(0));
//     for (int64_t i = 0; i < aot::OperatorCall::elements(x); ++i) {
//       to[i] = from[i] * static_cast<float>(call.number("factor"));
//     }
//   }
//
//   extern "C" int aot_operator_library_init(const aot_operator_registry* registry) {
//     return aot::add_operator<scale>(registry, "demo::scale");
//   }
#ifndef AOT_OPERATOR_HPP_
#define AOT_OPERATOR_HPP_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

#include "aot/operator_abi.h"

namespace aot {

// One call of a custom operator; see aot_operator_call. A view: lives for the call. Accessors throw
// std::invalid_argument for an argument that is not there or of another kind (abort where
// exceptions are off).
class OperatorCall {
 public:
  explicit OperatorCall(const aot_operator_call* call) : call_(call) {}

  const aot_operator_call& raw() const { return *call_; }

  // The argument of that name in the schema.
  const aot_argument& argument(std::string_view name) const {
    for (size_t i = 0; i < call_->argument_count; ++i) {
      if (call_->arguments[i].name == name) return call_->arguments[i];
    }
    refuse("there is no argument '" + std::string(name) + "'");
  }
  // Whether an optional argument is given.
  bool has(std::string_view name) const { return argument(name).kind != AOT_ARGUMENT_NONE; }

  // The argument, which must be no list and of the kind.
  const DLTensor& tensor(std::string_view name) const {
    return *one(name, AOT_ARGUMENT_TENSOR).tensors;
  }
  int64_t integer(std::string_view name) const { return *one(name, AOT_ARGUMENT_INT).ints; }
  double number(std::string_view name) const { return *one(name, AOT_ARGUMENT_FLOAT).floats; }
  bool flag(std::string_view name) const { return *one(name, AOT_ARGUMENT_BOOL).ints != 0; }
  std::string_view text(std::string_view name) const {
    return *one(name, AOT_ARGUMENT_STRING).strings;
  }

  // A result, to be written; index < result_count.
  const DLTensor& result(size_t index) const { return call_->results[index]; }

  // Where code for a GPU enqueues its work: a CUstream, which is a cudaStream_t too. nullptr on the
  // CPU.
  void* stream() const { return call_->stream; }

  // The first element of a tensor, as T; on a GPU an address of its memory.
  template <typename T>
  static T* data(const DLTensor& tensor) {
    return static_cast<T*>(tensor.data);
  }
  // The product of the sizes.
  static int64_t elements(const DLTensor& tensor) {
    int64_t count = 1;
    for (int32_t i = 0; i < tensor.ndim; ++i) count *= tensor.shape[i];
    return count;
  }

 private:
  const aot_argument& one(std::string_view name, aot_argument_kind kind) const {
    const aot_argument& found = argument(name);
    if (found.kind != kind || found.is_list != 0) {
      refuse("the argument '" + std::string(name) + "' is of another kind");
    }
    return found;
  }
  [[noreturn]] static void refuse(const std::string& problem) {
#if defined(__cpp_exceptions)
    throw std::invalid_argument(problem);
#else
    static_cast<void>(problem);
    std::abort();
#endif
  }

  const aot_operator_call* call_;
};

// Calls `function(OperatorCall)`; an exception becomes the error that the run reports.
template <typename Function>
int run_operator(const aot_operator_call* call, const Function& function) noexcept {
#if defined(__cpp_exceptions)
  try {
    function(OperatorCall(call));
    return 0;
  } catch (const std::exception& error) {
    call->fail(call, error.what());
  } catch (...) {
    call->fail(call, "an exception that is no std::exception");
  }
  return 1;
#else
  function(OperatorCall(call));
  return 0;
#endif
}

// A function of a call as the C interface takes it.
template <void (*function)(const OperatorCall&)>
int operator_entry(const aot_operator_call* call, void* /*user*/) noexcept {
  return run_operator(call, function);
}

// Adds code for a kind of device, "cpu" or "cuda", to a library's operators; 0: done. Fails in a
// runtime that is too old for another kind than "cpu".
template <void (*function)(const OperatorCall&)>
int add_operator(const aot_operator_registry* registry, const char* name,
                 const char* device = "cpu") {
  constexpr size_t kNeeded = offsetof(aot_operator_registry, add_for) + sizeof(registry->add_for);
  if (registry->struct_size >= kNeeded) {
    return registry->add_for(registry, device, name, operator_entry<function>, nullptr, nullptr);
  }
  if (std::string_view(device) != "cpu") return 1;
  return registry->add(registry, name, operator_entry<function>, nullptr, nullptr);
}

}  // namespace aot

#endif  // AOT_OPERATOR_HPP_
