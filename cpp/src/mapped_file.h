// A file mapped read-only. Pages are read on first touch and shared with the page cache.
#ifndef AOT_SRC_MAPPED_FILE_H_
#define AOT_SRC_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace aot_rt {

// Borrowed bytes.
struct Bytes {
  const uint8_t* data = nullptr;
  size_t size = 0;
};

// Move-only owner of a mapping.
class MappedFile {
 public:
  // Throws NOT_FOUND when there is no such file, DEVICE_ERROR when it cannot be read or mapped.
  // `what` it should be is for messages.
  explicit MappedFile(const std::string& path, const char* what = "package");
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  Bytes bytes() const { return bytes_; }

 private:
  Bytes bytes_;
};

}  // namespace aot_rt

#endif  // AOT_SRC_MAPPED_FILE_H_
