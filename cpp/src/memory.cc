#include "memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <utility>

#include "error.h"

namespace aot_rt {
namespace {

// Blocks of this size and above are mapped on their own, aligned to it, on huge pages if the
// system has them: a 100 MB tensor then takes 50 page faults instead of 25 000.
constexpr size_t kHugePage = size_t{2} << 20;

size_t round_up(size_t size, size_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

void* map_huge(size_t size) {
  const size_t rounded = round_up(size, kHugePage);
  const size_t reserved = rounded + kHugePage;
  void* raw = ::mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<uintptr_t>(raw);
  const uintptr_t aligned = round_up(begin, kHugePage);
  if (aligned > begin) ::munmap(raw, aligned - begin);
  const uintptr_t end = aligned + rounded;
  if (begin + reserved > end) {
    ::munmap(reinterpret_cast<void*>(end), begin + reserved - end);
  }
  ::madvise(reinterpret_cast<void*>(aligned), rounded, MADV_HUGEPAGE);
  return reinterpret_cast<void*>(aligned);
}

void* allocate_default(void* /*context*/, size_t size, size_t alignment) {
  constexpr size_t kMost = ~size_t{0} / 4;
  if (size > kMost) return nullptr;
  if (size >= kHugePage) return map_huge(size);
  return std::aligned_alloc(alignment, round_up(size, alignment));
}

void release_default(void* /*context*/, void* data, size_t size, size_t /*alignment*/) {
  if (size >= kHugePage) {
    ::munmap(data, round_up(size, kHugePage));
  } else {
    std::free(data);
  }
}

}  // namespace

aot_allocator default_allocator() {
  return aot_allocator{sizeof(aot_allocator), nullptr, allocate_default, release_default};
}

aot_allocator checked_allocator(const aot_allocator* allocator) {
  if (allocator == nullptr) return default_allocator();
  if (allocator->struct_size < sizeof(aot_allocator)) {
    fail(AOT_INVALID_ARGUMENT, "allocator: struct_size is ", allocator->struct_size);
  }
  if (allocator->allocate == nullptr || allocator->release == nullptr) {
    fail(AOT_INVALID_ARGUMENT, "allocator: both functions must be set");
  }
  return *allocator;
}

Block::Block(const aot_allocator& allocator, size_t size, const char* purpose)
    : allocator_(allocator), size_(size == 0 ? 1 : size) {
  void* data = allocator_.allocate(allocator_.context, size_, kBlockAlignment);
  if (data == nullptr) fail(AOT_OUT_OF_MEMORY, "no memory for ", size, " bytes of ", purpose);
  if (reinterpret_cast<uintptr_t>(data) % kBlockAlignment != 0) {
    allocator_.release(allocator_.context, data, size_, kBlockAlignment);
    fail(AOT_INVALID_ARGUMENT, "allocator: a block is not aligned to ", kBlockAlignment, " bytes");
  }
  data_ = static_cast<uint8_t*>(data);
}

Block Block::adopt(const aot_allocator& allocator, uint8_t* data, size_t size) noexcept {
  Block block;
  block.allocator_ = allocator;
  block.data_ = data;
  block.size_ = size;
  return block;
}

Block::~Block() {
  if (data_ != nullptr) allocator_.release(allocator_.context, data_, size_, kBlockAlignment);
}

Block::Block(Block&& other) noexcept
    : allocator_(other.allocator_),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

Block& Block::operator=(Block&& other) noexcept {
  std::swap(allocator_, other.allocator_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace aot_rt
