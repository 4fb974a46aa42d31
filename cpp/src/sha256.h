// SHA-256 (FIPS 180-4).
#ifndef AOT_SRC_SHA256_H_
#define AOT_SRC_SHA256_H_

#include <array>
#include <string>

#include "mapped_file.h"

namespace aot_rt {

// Lower-case hex digest, 64 characters.
std::string sha256_hex(Bytes bytes);

// The digests of two messages, in about the time of the longer one where the processor has the SHA
// extensions; best for messages of equal length.
std::array<std::string, 2> sha256_hex_pair(Bytes first, Bytes second);

// The same without special instructions; what sha256_hex is tested against.
std::string sha256_hex_portable(Bytes bytes);

}  // namespace aot_rt

#endif  // AOT_SRC_SHA256_H_
