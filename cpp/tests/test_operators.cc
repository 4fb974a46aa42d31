// A library of operators as packages carry it. SERVES 0: one that finds every runtime too old.
#include <dlfcn.h>

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

// result = x, on a GPU.
void copy_on_gpu(const aot::OperatorCall& call) {
  using Copy = int (*)(uint64_t to, uint64_t from, size_t bytes, void* stream);
  const auto copy =
      reinterpret_cast<Copy>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemcpyDtoDAsync_v2"));
  const DLTensor& x = call.tensor("x");
  const size_t bytes = static_cast<size_t>(aot::OperatorCall::elements(x)) * sizeof(float);
  const int result = copy(reinterpret_cast<uint64_t>(call.result(0).data),
                          reinterpret_cast<uint64_t>(x.data), bytes, call.stream());
  if (result != 0) throw std::runtime_error("the driver refuses to copy");
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int aot_operator_library_init(
    const aot_operator_registry* registry) {
  if (SERVES == 0 || registry->abi_version != AOT_OPERATOR_ABI_VERSION) return 1;
  const int host =
      registry->add(registry, "demo::scale", aot::operator_entry<scale>, nullptr, nullptr);
  const int gpu = aot::add_operator<copy_on_gpu>(registry, "demo::scale", "cuda");
  return host != 0 ? host : gpu;
}
