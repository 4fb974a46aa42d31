// An aot_allocator that counts, and has none left when a test wants that.
#ifndef AOT_TESTS_METER_H_
#define AOT_TESTS_METER_H_

#include <atomic>
#include <cstdint>
#include <cstdlib>

#include "aot/abi.h"

namespace aot_test {

struct Meter {
  std::atomic<int64_t> live{0};      // blocks
  std::atomic<int64_t> calls{0};     // of allocate that gave a block
  std::atomic<int64_t> released{0};  // blocks
  std::atomic<int64_t> refuse{-1};   // calls from that number on are given none; negative: none is
  std::atomic<bool> once{false};     // only that one
  std::atomic<bool> refused{false};

  aot_allocator hooks() { return {sizeof(aot_allocator), this, allocate, release}; }

 private:
  static void* allocate(void* context, size_t size, size_t alignment) {
    auto* self = static_cast<Meter*>(context);
    const int64_t limit = self->refuse.load();
    if (limit >= 0 && self->calls.load() >= limit) {
      self->refused = true;
      if (self->once.load()) self->refuse = -1;
      return nullptr;
    }
    void* const data =
        std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    if (data == nullptr) return nullptr;
    ++self->calls;
    ++self->live;
    return data;
  }
  static void release(void* context, void* data, size_t /*size*/, size_t /*alignment*/) {
    auto* self = static_cast<Meter*>(context);
    --self->live;
    ++self->released;
    std::free(data);
  }
};

}  // namespace aot_test

#endif  // AOT_TESTS_METER_H_
