// Owned blocks of memory from the caller's allocator or our own.
#ifndef AOT_SRC_MEMORY_H_
#define AOT_SRC_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "aot/abi.h"

namespace aot_rt {

inline constexpr size_t kBlockAlignment = 64;

// The allocator used when the caller brings none: large blocks are mapped on huge pages.
aot_allocator default_allocator();

// The caller's allocator, checked, or the default for nullptr. Throws INVALID_ARGUMENT.
aot_allocator checked_allocator(const aot_allocator* allocator);

// Move-only owner of a 64-byte aligned block.
class Block {
 public:
  Block() = default;
  // Throws OUT_OF_MEMORY, which names `purpose` and the size.
  Block(const aot_allocator& allocator, size_t size, const char* purpose);
  // Takes over what the allocator has given.
  static Block adopt(const aot_allocator& allocator, uint8_t* data, size_t size) noexcept;
  ~Block();
  Block(Block&& other) noexcept;
  Block& operator=(Block&& other) noexcept;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  aot_allocator allocator_{};
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace aot_rt

#endif  // AOT_SRC_MEMORY_H_
