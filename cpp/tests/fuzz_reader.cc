// What must never crash whatever the bytes are: opening a package, describing it, checking it,
// making a session, and resolving the plan for sizes. Kernels are not run: their code is what the
// checksum says, but a plan that lies to them is outside what a reader can know.
#include <cstdint>
#include <string>
#include <vector>

#include "bound_plan.h"
#include "error.h"
#include "package.h"
#include "package_builder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const aot_test::AlignedBytes bytes(std::string(reinterpret_cast<const char*>(data), size));
  try {
    aot_rt::Package package(nullptr, bytes.bytes(), {});
    const auto library = package.library("");
    int32_t fault = 0;
    for (const int64_t value : {0, 1, 7, 64}) {
      const std::vector<int64_t> dims(package.plan().dims.size(), value);
      try {
        aot_rt::BoundPlan bound(package.plan(), *library, dims, 2, &fault);
        bound.set_memory(1, nullptr, nullptr);
      } catch (const aot_rt::Error&) {
        continue;  // other sizes may fit
      }
    }
    package.verify();
  } catch (const aot_rt::Error&) {
    return 0;
  }
  return 0;
}
