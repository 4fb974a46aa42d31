// SHA-256 (FIPS 180-4).
#ifndef AOT_SRC_SHA256_H_
#define AOT_SRC_SHA256_H_

#include <string>

#include "mapped_file.h"

namespace aot_rt {

// Lower-case hex digest, 64 characters.
std::string sha256_hex(Bytes bytes);

// The same without special instructions; what sha256_hex is tested against.
std::string sha256_hex_portable(Bytes bytes);

}  // namespace aot_rt

#endif  // AOT_SRC_SHA256_H_
