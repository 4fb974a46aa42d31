// What device code must look like before it is given to a driver.
#ifndef AOT_SRC_VERIFY_CUBIN_H_
#define AOT_SRC_VERIFY_CUBIN_H_

#include <string_view>

#include "mapped_file.h"

namespace aot_rt {

// Checks that `code` begins with a 64-bit ELF file for NVIDIA GPUs whose tables and sections lie
// within it, for `arch` ("sm_90"). Text in PTX, which a driver would compile, and archives of
// several codes are refused. `name` is for messages. Throws CORRUPT_PACKAGE.
void check_cubin(Bytes code, std::string_view arch, std::string_view name);

}  // namespace aot_rt

#endif  // AOT_SRC_VERIFY_CUBIN_H_
