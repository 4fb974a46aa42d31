#include "devices.h"

#include <cstdlib>
#include <string_view>
#include <utility>

#include "cpu/cpu_run_device.h"
#include "cuda/cuda_run_device.h"
#include "error.h"

namespace aot_rt {
namespace {

constexpr size_t kMaxDigits = 4;

using Maker = std::unique_ptr<Session> (*)(std::shared_ptr<Package> package, int32_t index,
                                           const SessionOptions& options);

struct Device {
  const char* kind;
  Maker make;
};

constexpr Device kDevices[] = {
    {"cpu", make_cpu_session},
    {"cuda", make_cuda_session},
};

const Device& find_device(const std::string& kind) {
  std::string known;
  for (const Device& device : kDevices) {
    if (kind == device.kind) return device;
    known += cat(known.empty() ? "" : ", ", device.kind);
  }
  fail(AOT_UNAVAILABLE, "no device '", kind, "': this runtime runs on ", known);
}

}  // namespace

DeviceName parse_device(const char* name) {
  if (name == nullptr) return {kDevices[0].kind, 0};
  const std::string_view text(name);
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return {std::string(text), 0};
  const std::string number(text.substr(colon + 1));
  if (number.empty() || number.size() > kMaxDigits ||
      number.find_first_not_of("0123456789") != std::string::npos) {
    fail(AOT_INVALID_ARGUMENT, "device '", text, "' must be a name, or a name and a number: '",
         text.substr(0, colon), ":0'");
  }
  return {std::string(text.substr(0, colon)), static_cast<int32_t>(std::atoi(number.c_str()))};
}

void check_device_kind(const std::string& kind) { find_device(kind); }

std::unique_ptr<Session> create_session(std::shared_ptr<Package> package, const DeviceName& device,
                                        const SessionOptions& options) {
  const Device& found = find_device(device.kind);
  const Plan& plan = package->plan();
  if (plan.programs_for(device.kind).empty()) {
    fail(AOT_UNAVAILABLE, "the package has nothing for device '", device.kind,
         "': it was built for ", plan.list_programs());
  }
  SessionOptions allowed = options;
  allowed.limits = options.limits.within(package->limits());
  return found.make(std::move(package), device.index, allowed);
}

}  // namespace aot_rt
