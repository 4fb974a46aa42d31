#include "memory_library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "error.h"
#include "sha256.h"

namespace aot_rt {
namespace {

constexpr unsigned kExecutable = 0x10u;  // MFD_EXEC, from Linux 6.3

int open_memory_file() {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  int fd = ::memfd_create("aot-kernels", kFlags | kExecutable);
  if (fd < 0 && errno == EINVAL) fd = ::memfd_create("aot-kernels", kFlags);
  return fd;
}

// From here on nobody can change the file, whoever else gets hold of it.
bool seal(int fd) {
  return ::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
}

// The content of a sealed file, in this process's own memory. (Not mapped: where a mapping was, the
// dynamic linker maps code next, and thread sanitizers take that for a race.)
std::vector<uint8_t> read_all(int fd, size_t size, const std::string& name) {
  std::vector<uint8_t> content(size);
  for (size_t done = 0; done < size;) {
    const ssize_t n = ::pread(fd, content.data() + done, size - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      fail(AOT_DEVICE_ERROR, "cannot read the memory file of '", name, "': ", std::strerror(errno));
    }
    done += static_cast<size_t>(n);
  }
  return content;
}

bool write_all(int fd, Bytes bytes) {
  for (size_t done = 0; done < bytes.size;) {
    const ssize_t n = ::write(fd, bytes.data + done, bytes.size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

}  // namespace

MemoryLibrary::MemoryLibrary(const Entry& entry, const std::string& sha256, const Check& check) {
  try {
    load(entry, sha256, check);
  } catch (const Error&) {
    close();
    throw;
  }
}

MemoryLibrary::~MemoryLibrary() { close(); }

void MemoryLibrary::load(const Entry& entry, const std::string& sha256, const Check& check) {
  fd_ = open_memory_file();
  if (fd_ < 0) {
    fail(AOT_DEVICE_ERROR, "cannot create a memory file for '", entry.name,
         "': ", std::strerror(errno));
  }
  if (!write_all(fd_, entry.bytes)) {
    fail(AOT_DEVICE_ERROR, "cannot write '", entry.name,
         "' to a memory file: ", std::strerror(errno));
  }
  if (!seal(fd_)) {
    fail(AOT_DEVICE_ERROR, "cannot seal the memory file of '", entry.name,
         "': ", std::strerror(errno));
  }
  // Of what the linker will read, not of the package's file, which may have another writer.
  const std::vector<uint8_t> content = read_all(fd_, entry.bytes.size, entry.name);
  const std::string digest = sha256_hex({content.data(), content.size()});
  if (digest != sha256) {
    fail(AOT_CORRUPT_PACKAGE, "checksum of '", entry.name, "' is ", digest, ", the plan says ",
         sha256);
  }
  if (check) {
    Entry copy = entry;
    copy.bytes = {content.data(), content.size()};
    check(copy);
  }
  const std::string path = cat("/proc/self/fd/", fd_);
  handle_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) {
    fail(AOT_DEVICE_ERROR, "cannot load '", entry.name, "': ", ::dlerror());
  }
}

void* MemoryLibrary::symbol(const char* name) const { return ::dlsym(handle_, name); }

void MemoryLibrary::close() noexcept {
  if (handle_ != nullptr) ::dlclose(handle_);
  if (fd_ >= 0) ::close(fd_);
  handle_ = nullptr;
  fd_ = -1;
}

}  // namespace aot_rt
