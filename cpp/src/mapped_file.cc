#include "mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "error.h"

namespace aot_rt {

MappedFile::MappedFile(const std::string& path, const char* what) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const int code = errno;
    const bool absent = code == ENOENT || code == ENOTDIR;
    fail(absent ? AOT_NOT_FOUND : AOT_DEVICE_ERROR, "cannot open ", what, " '", path,
         "': ", std::strerror(code));
  }
  struct stat info{};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    fail(AOT_DEVICE_ERROR, "'", path, "' is not a regular file");
  }
  const size_t size = static_cast<size_t>(info.st_size);
  if (size == 0) {
    ::close(fd);
    return;  // mmap refuses length 0; the reader reports an empty file
  }
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  const int code = errno;
  ::close(fd);
  if (data == MAP_FAILED) {
    fail(AOT_DEVICE_ERROR, "cannot map ", what, " '", path, "': ", std::strerror(code));
  }
  bytes_ = Bytes{static_cast<const uint8_t*>(data), size};
}

MappedFile::~MappedFile() {
  if (bytes_.size != 0) ::munmap(const_cast<uint8_t*>(bytes_.data), bytes_.size);
}

}  // namespace aot_rt
