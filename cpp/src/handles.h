// What the C interface's handles hold.
#ifndef AOT_SRC_HANDLES_H_
#define AOT_SRC_HANDLES_H_

#include <memory>

#include "abi_struct.h"
#include "aot/abi.h"
#include "error.h"
#include "package.h"
#include "session.h"

struct aot_package {
  std::shared_ptr<aot_rt::Package> value;
};

struct aot_session {
  std::unique_ptr<aot_rt::Session> value;
};

namespace aot_rt {

inline void require(const void* pointer, const char* name) {
  if (pointer == nullptr) fail(AOT_INVALID_ARGUMENT, name, " is NULL");
}

}  // namespace aot_rt

#endif  // AOT_SRC_HANDLES_H_
