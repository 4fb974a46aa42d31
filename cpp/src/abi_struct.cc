#include "abi_struct.h"

namespace aot_rt {

void fail_newer(const char* name, size_t known, size_t at) {
  fail(AOT_INVALID_ARGUMENT, name, ": byte ", at, " is set, but this library (version ",
       AOT_RUNTIME_VERSION, ") knows the first ", known,
       ": the program was built with a newer aot/abi.h and asks for what came with it. Use the "
       "library of that header's version or a later one, or leave the new fields 0");
}

}  // namespace aot_rt
