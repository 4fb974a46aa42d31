// The entry points that Triton calls. No exception leaves them.
#include <memory>
#include <string>

#include "instance.h"

#define AOT_TRITON_ENTRY extern "C" __attribute__((visibility("default")))

namespace triton_aot {
namespace {

template <typename Action>
TRITONSERVER_Error* guarded(const Action& action) {
  try {
    action();
    return nullptr;
  } catch (const std::exception& error) {
    return report(error);
  }
}

void check_version() {
  uint32_t major = 0;
  uint32_t minor = 0;
  check(TRITONBACKEND_ApiVersion(&major, &minor));
  if (major != TRITONBACKEND_API_VERSION_MAJOR || minor < TRITONBACKEND_API_VERSION_MINOR) {
    throw Failure(TRITONSERVER_ERROR_UNSUPPORTED,
                  "the backend 'aot' was built for version " +
                      std::to_string(TRITONBACKEND_API_VERSION_MAJOR) + "." +
                      std::to_string(TRITONBACKEND_API_VERSION_MINOR) +
                      " of the backend API; this server has " + std::to_string(major) + "." +
                      std::to_string(minor));
  }
}

}  // namespace
}  // namespace triton_aot

using triton_aot::check;
using triton_aot::guarded;
using triton_aot::Instance;
using triton_aot::Model;

AOT_TRITON_ENTRY TRITONSERVER_Error* TRITONBACKEND_Initialize(TRITONBACKEND_Backend*) {
  return guarded(triton_aot::check_version);
}

AOT_TRITON_ENTRY TRITONSERVER_Error* TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model* model) {
  return guarded([&] {
    auto made = std::make_unique<Model>(model);
    check(TRITONBACKEND_ModelSetState(model, made.get()));
    made.release();  // the server's, until ModelFinalize
  });
}

AOT_TRITON_ENTRY TRITONSERVER_Error* TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model* model) {
  return guarded([&] {
    void* state = nullptr;
    check(TRITONBACKEND_ModelState(model, &state));
    delete static_cast<Model*>(state);
  });
}

AOT_TRITON_ENTRY TRITONSERVER_Error* TRITONBACKEND_ModelInstanceInitialize(
    TRITONBACKEND_ModelInstance* instance) {
  return guarded([&] {
    TRITONBACKEND_Model* model = nullptr;
    void* state = nullptr;
    check(TRITONBACKEND_ModelInstanceModel(instance, &model));
    check(TRITONBACKEND_ModelState(model, &state));
    auto made = std::make_unique<Instance>(instance, *static_cast<Model*>(state));
    check(TRITONBACKEND_ModelInstanceSetState(instance, made.get()));
    made.release();  // the server's, until ModelInstanceFinalize
  });
}

AOT_TRITON_ENTRY TRITONSERVER_Error* TRITONBACKEND_ModelInstanceFinalize(
    TRITONBACKEND_ModelInstance* instance) {
  return guarded([&] {
    void* state = nullptr;
    check(TRITONBACKEND_ModelInstanceState(instance, &state));
    delete static_cast<Instance*>(state);
  });
}

AOT_TRITON_ENTRY TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests,
    const uint32_t request_count) {
  return guarded([&] {
    void* state = nullptr;
    check(TRITONBACKEND_ModelInstanceState(instance, &state));
    static_cast<Instance*>(state)->execute(requests, request_count);
  });
}
