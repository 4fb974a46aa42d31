#include "counting.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace aot_test {
namespace {

std::atomic<int64_t> g_blocks{0};
std::atomic<int64_t> g_bytes{0};
std::atomic<int64_t> g_calls{0};
std::atomic<int64_t> g_left{-1};  // allocations until one fails; negative: none does
std::atomic<bool> g_failed{false};

void* take(size_t size, size_t alignment) {
  g_calls.fetch_add(1, std::memory_order_relaxed);
  if (g_left.load(std::memory_order_relaxed) >= 0 && g_left.fetch_sub(1) == 0) {
    g_failed.store(true);
    return nullptr;
  }
  void* const data = alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__
                         ? std::malloc(size != 0 ? size : 1)
                         : std::aligned_alloc(alignment, (size + alignment) / alignment * alignment);
  if (data == nullptr) return nullptr;
  g_blocks.fetch_add(1, std::memory_order_relaxed);
  g_bytes.fetch_add(static_cast<int64_t>(malloc_usable_size(data)), std::memory_order_relaxed);
  return data;
}

void* take_or_throw(size_t size, size_t alignment) {
  void* const data = take(size, alignment);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

void give_back(void* data) {
  if (data == nullptr) return;
  g_blocks.fetch_sub(1, std::memory_order_relaxed);
  g_bytes.fetch_sub(static_cast<int64_t>(malloc_usable_size(data)), std::memory_order_relaxed);
  std::free(data);
}

}  // namespace

Heap heap() { return {g_blocks.load(), g_bytes.load(), g_calls.load()}; }

void fail_allocation(int64_t skip) {
  g_failed.store(false);
  g_left.store(skip);
}

bool allocation_failed() { return g_failed.load(); }

}  // namespace aot_test

using aot_test::give_back;
using aot_test::take;
using aot_test::take_or_throw;

constexpr size_t kUsual = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

void* operator new(size_t size) { return take_or_throw(size, kUsual); }
void* operator new[](size_t size) { return take_or_throw(size, kUsual); }
void* operator new(size_t size, std::align_val_t to) {
  return take_or_throw(size, static_cast<size_t>(to));
}
void* operator new[](size_t size, std::align_val_t to) {
  return take_or_throw(size, static_cast<size_t>(to));
}
void* operator new(size_t size, const std::nothrow_t& /*tag*/) noexcept {
  return take(size, kUsual);
}
void* operator new[](size_t size, const std::nothrow_t& /*tag*/) noexcept {
  return take(size, kUsual);
}
void* operator new(size_t size, std::align_val_t to, const std::nothrow_t& /*tag*/) noexcept {
  return take(size, static_cast<size_t>(to));
}
void* operator new[](size_t size, std::align_val_t to, const std::nothrow_t& /*tag*/) noexcept {
  return take(size, static_cast<size_t>(to));
}
void operator delete(void* data) noexcept { give_back(data); }
void operator delete[](void* data) noexcept { give_back(data); }
void operator delete(void* data, size_t /*size*/) noexcept { give_back(data); }
void operator delete[](void* data, size_t /*size*/) noexcept { give_back(data); }
void operator delete(void* data, std::align_val_t /*to*/) noexcept { give_back(data); }
void operator delete[](void* data, std::align_val_t /*to*/) noexcept { give_back(data); }
void operator delete(void* data, size_t /*size*/, std::align_val_t /*to*/) noexcept {
  give_back(data);
}
void operator delete[](void* data, size_t /*size*/, std::align_val_t /*to*/) noexcept {
  give_back(data);
}
void operator delete(void* data, const std::nothrow_t& /*tag*/) noexcept { give_back(data); }
void operator delete[](void* data, const std::nothrow_t& /*tag*/) noexcept { give_back(data); }
