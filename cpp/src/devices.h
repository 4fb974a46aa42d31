// The devices that sessions run on, by name. A device is one folder and one line in devices.cc.
#ifndef AOT_SRC_DEVICES_H_
#define AOT_SRC_DEVICES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "session.h"

namespace aot_rt {

// "cuda:1" taken apart.
struct DeviceName {
  std::string kind;
  int32_t index = 0;
};

// `name` as the C interface takes it; nullptr stands for the host. Throws INVALID_ARGUMENT.
DeviceName parse_device(const char* name);

// Throws UNAVAILABLE when this runtime knows no such kind of device; "cuda:1" is none.
void check_device_kind(const std::string& kind);

// A session on the device. Throws UNAVAILABLE when this runtime does not know the device or the
// package has nothing for it, and what the device's session throws.
std::unique_ptr<Session> create_session(std::shared_ptr<Package> package, const DeviceName& device,
                                        const SessionOptions& options);

}  // namespace aot_rt

#endif  // AOT_SRC_DEVICES_H_
