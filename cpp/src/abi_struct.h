// Structs of callers, whose headers may be older or newer than this library.
#ifndef AOT_SRC_ABI_STRUCT_H_
#define AOT_SRC_ABI_STRUCT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "error.h"

namespace aot_rt {

// Throws INVALID_ARGUMENT: a struct of a newer header asks for what this library does not know.
[[noreturn]] void fail_newer(const char* name, size_t known, size_t at);

// The caller's options, which may be an older, shorter struct, in today's; zeros elsewhere. A
// newer, longer one is read where it asks for nothing that is new: what lies behind today's is
// zero.
template <typename Options>
Options read_options(const Options* given, const char* name) {
  Options options{};
  if (given == nullptr) return options;
  const size_t size = given->struct_size;
  if (size < sizeof(size_t)) {
    fail(AOT_INVALID_ARGUMENT, name, ": struct_size is ", size, ", set it to sizeof(", name, ")");
  }
  const auto* bytes = reinterpret_cast<const uint8_t*>(given);
  for (size_t at = sizeof(Options); at < size; ++at) {
    if (bytes[at] != 0) fail_newer(name, sizeof(Options), at);
  }
  std::memcpy(static_cast<void*>(&options), given, size < sizeof(Options) ? size : sizeof(Options));
  return options;
}

}  // namespace aot_rt

#endif  // AOT_SRC_ABI_STRUCT_H_
