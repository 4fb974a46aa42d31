// A library of operators as packages carry it. SERVES 0: one that finds every runtime too old.
#include <cstdint>

#include "aot/operator.hpp"

namespace {

// result = factor * x; fails where the mode is not "plain".
void scale(const aot::OperatorCall& call) {
  if (call.text("mode") != "plain") throw std::invalid_argument("the mode is not plain");
  const DLTensor& x = call.tensor("x");
  const auto* from = aot::OperatorCall::data<const float>(x);
  auto* to = aot::OperatorCall::data<float>(call.result(0));
  const int64_t count = aot::OperatorCall::elements(x);
  for (int64_t i = 0; i < count; ++i) to[i] = from[i] * static_cast<float>(call.number("factor"));
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int aot_operator_library_init(
    const aot_operator_registry* registry) {
  if (SERVES == 0 || registry->abi_version != AOT_OPERATOR_ABI_VERSION) return 1;
  return registry->add(registry, "demo::scale", aot::operator_entry<scale>, nullptr, nullptr);
}
