// A shared object loaded from memory: no file is created.
#ifndef AOT_SRC_MEMORY_LIBRARY_H_
#define AOT_SRC_MEMORY_LIBRARY_H_

#include <functional>
#include <string>

#include "safetensors.h"

namespace aot_rt {

class MemoryLibrary {
 public:
  // What else is to be checked of the entry's copy before it is loaded. Throws.
  using Check = std::function<void(const Entry& copy)>;

  // Copies the entry into an anonymous memory file, seals that, checks its SHA-256 and loads it.
  // Throws CORRUPT_PACKAGE (another checksum) or DEVICE_ERROR (the system refuses to load it).
  MemoryLibrary(const Entry& entry, const std::string& sha256, const Check& check = nullptr);
  ~MemoryLibrary();
  MemoryLibrary(const MemoryLibrary&) = delete;
  MemoryLibrary& operator=(const MemoryLibrary&) = delete;

  // The address of an exported symbol; nullptr: there is none.
  void* symbol(const char* name) const;

 private:
  void load(const Entry& entry, const std::string& sha256, const Check& check);
  void close() noexcept;

  int fd_ = -1;  // stays open: the linker knows libraries by path, and this path holds the number
  void* handle_ = nullptr;
};

}  // namespace aot_rt

#endif  // AOT_SRC_MEMORY_LIBRARY_H_
