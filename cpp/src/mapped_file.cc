#include "mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "descriptor.h"
#include "error.h"

namespace aot_rt {
namespace {

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "something else";
}

// The whole file in a block of memory; 0 or an errno.
int read_all(int fd, const Block& block) {
  for (size_t done = 0; done < block.size();) {
    const ssize_t got =
        ::pread(fd, block.data() + done, block.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) return EIO;  // it has become shorter meanwhile
    done += static_cast<size_t>(got);
  }
  return 0;
}

}  // namespace

MappedFile::MappedFile(const std::string& path, const char* what, Placing placing) {
  // Not to wait for a writer where the path is a FIFO, nor to touch a device more than must be.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) {
    const int code = errno;
    const bool absent = code == ENOENT || code == ENOTDIR;
    fail(absent ? AOT_NOT_FOUND : AOT_DEVICE_ERROR, "cannot open ", what, " '", path,
         "': ", std::strerror(code));
  }
  const Descriptor owner(fd);
  struct stat info{};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    fail(AOT_DEVICE_ERROR, "'", path, "' is not a regular file but ", kind_of(info.st_mode));
  }
  const size_t size = static_cast<size_t>(info.st_size);
  if (size == 0) return;  // mmap refuses length 0; the reader reports an empty file
  if (placing == Placing::kCopy) {
    copy_ = Block(default_allocator(), size, what);
    const int code = read_all(fd, copy_);
    if (code != 0) {
      fail(AOT_DEVICE_ERROR, "cannot read ", what, " '", path, "': ", std::strerror(code));
    }
    bytes_ = Bytes{copy_.data(), size};
    return;
  }
  void* const data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) {
    fail(AOT_DEVICE_ERROR, "cannot map ", what, " '", path, "': ", std::strerror(errno));
  }
  bytes_ = Bytes{static_cast<const uint8_t*>(data), size};
}

MappedFile::~MappedFile() {
  if (bytes_.size != 0 && copy_.data() == nullptr) {
    ::munmap(const_cast<uint8_t*>(bytes_.data), bytes_.size);
  }
}

}  // namespace aot_rt
