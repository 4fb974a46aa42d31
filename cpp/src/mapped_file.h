// A file's bytes, in memory or to be read there when they are first touched.
#ifndef AOT_SRC_MAPPED_FILE_H_
#define AOT_SRC_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "memory.h"

namespace aot_rt {

// Borrowed bytes.
struct Bytes {
  const uint8_t* data = nullptr;
  size_t size = 0;
};

// How a file comes to memory.
enum class Placing {
  kMap,   // read-only; pages are read on first touch and shared with the page cache
  kCopy,  // into blocks of `default_allocator`: large ones on large pages; the file may change then
};

// Owner of a mapping, or of a copy.
class MappedFile {
 public:
  // Throws NOT_FOUND when there is no such file, DEVICE_ERROR when it cannot be read or mapped,
  // OUT_OF_MEMORY when there is no room for a copy. `what` it should be is for messages.
  explicit MappedFile(const std::string& path, const char* what = "package",
                      Placing placing = Placing::kMap);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  Bytes bytes() const { return bytes_; }

 private:
  Block copy_;
  Bytes bytes_;
};

}  // namespace aot_rt

#endif  // AOT_SRC_MAPPED_FILE_H_
