// What must never crash whatever the bytes are: opening a package, describing it, checking it,
// making a session, and resolving the plan for sizes. Kernels are not run: their code is what the
// checksum says, but a plan that lies to them is outside what a reader can know.
#include <cstdint>
#include <string>
#include <vector>

#include "cpu/bound_steps.h"
#include "error.h"
#include "package.h"
#include "package_builder.h"

namespace {

constexpr int64_t kMostStateBytes = 1 << 20;

void bind(aot_rt::Package* package, const aot_rt::Program& program) {
  const bool host = program.device == "cpu";
  const auto library = host ? package->library(program, "") : nullptr;
  int32_t fault = 0;
  for (const int64_t value : {0, 1, 7, 64}) {
    const aot_rt::Plan& plan = package->plan();
    const std::vector<int64_t> dims(plan.dims.size(), value);
    if (!host || plan.state_bytes > kMostStateBytes) continue;
    std::vector<int64_t> known = dims;
    for (size_t i = 0; i < known.size(); ++i) {
      if (plan.dims[i].measured()) known[i] = aot_rt::Plan::kUnknown;
    }
    try {
      std::vector<uint8_t> states(static_cast<size_t>(plan.state_bytes) + 1);
      aot_rt::BoundSteps bound(plan, program, *library, known, 2, states.data(), &fault);
      bound.forget();
      for (size_t scope = 1; scope < program.scopes.size(); ++scope) {
        const std::vector<int64_t> values(program.scopes[scope].dims.size(), value);
        bound.enter(static_cast<int32_t>(scope), values);
      }
      for (const aot_rt::Step& step : program.steps) {
        if (step.kind == aot_rt::StepKind::kCall) bound.call_of(step, {kDLCPU, 0});
      }
      bound.set_scratch(nullptr);
    } catch (const aot_rt::Error&) {
      continue;  // other sizes may fit
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const aot_test::AlignedBytes bytes(std::string(reinterpret_cast<const char*>(data), size));
  try {
    aot_rt::Package package(aot_rt::borrow_files(bytes.bytes(), ""), {});
    for (const aot_rt::Program& program : package.plan().programs) bind(&package, program);
    package.verify();
  } catch (const aot_rt::Error&) {
    return 0;
  }
  return 0;
}
