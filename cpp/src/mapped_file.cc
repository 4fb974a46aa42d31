#include "mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "error.h"

namespace aot_rt {
namespace {

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "something else";
}

}  // namespace

MappedFile::MappedFile(const std::string& path, const char* what) {
  // Not to wait for a writer where the path is a FIFO, nor to touch a device more than must be.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) {
    const int code = errno;
    const bool absent = code == ENOENT || code == ENOTDIR;
    fail(absent ? AOT_NOT_FOUND : AOT_DEVICE_ERROR, "cannot open ", what, " '", path,
         "': ", std::strerror(code));
  }
  struct stat info{};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    fail(AOT_DEVICE_ERROR, "'", path, "' is not a regular file but ", kind_of(info.st_mode));
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
