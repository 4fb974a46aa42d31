#include "faults.h"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <new>

namespace aot_test {
namespace {

std::atomic<int64_t> g_blocks{0};
std::atomic<int64_t> g_bytes{0};
std::atomic<int64_t> g_calls{0};
std::atomic<Fault> g_kind{Fault::kNew};
std::atomic<int64_t> g_left{-1};  // of that kind until one fails; negative: none does
std::atomic<bool> g_happened{false};
std::atomic<int> g_allowed{0};

// Whether this one is to fail.
bool fault_here(Fault kind) {
  if (g_allowed.load() == 0 || g_kind.load() != kind || g_left.load() < 0) return false;
  if (g_left.fetch_sub(1) != 0) return false;
  g_happened.store(true);
  return true;
}

void* take(size_t size, size_t alignment) {
  g_calls.fetch_add(1, std::memory_order_relaxed);
  if (fault_here(Fault::kNew)) return nullptr;
  void* const data =
      alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__
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

void order_fault(Fault kind, int64_t skip) {
  g_left.store(-1);
  g_kind.store(kind);
  g_happened.store(false);
  g_left.store(skip);
}

bool fault_happened() { return g_happened.load(); }

FaultsAllowed::FaultsAllowed() { ++g_allowed; }
FaultsAllowed::~FaultsAllowed() { --g_allowed; }

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

// The linker's names for calls that --wrap has turned aside, and for what they were.
#define WRAPPED(result, name, failed, code, parameters, arguments) \
  extern "C" result __real_##name parameters;  /* NOLINT */        \
  extern "C" result __wrap_##name parameters { /* NOLINT */        \
    if (aot_test::fault_here(aot_test::Fault::kSystem)) {          \
      errno = code;                                                \
      return failed;                                               \
    }                                                              \
    return __real_##name arguments;                                \
  }

WRAPPED(void*, mmap, MAP_FAILED, ENOMEM,
        (void* at, size_t size, int protection, int flags, int file, off_t offset),
        (at, size, protection, flags, file, offset))
WRAPPED(int, memfd_create, -1, EMFILE, (const char* name, unsigned flags), (name, flags))
WRAPPED(int, fstat, -1, EIO, (int file, struct stat* info), (file, info))
WRAPPED(int, ftruncate, -1, ENOSPC, (int file, off_t size), (file, size))
WRAPPED(ssize_t, write, -1, ENOSPC, (int file, const void* data, size_t size), (file, data, size))
WRAPPED(ssize_t, pread, -1, EIO, (int file, void* data, size_t size, off_t offset),
        (file, data, size, offset))
WRAPPED(void*, aligned_alloc, nullptr, ENOMEM, (size_t alignment, size_t size), (alignment, size))

extern "C" int __real_open(const char* path, int flags, ...);   // NOLINT
extern "C" int __wrap_open(const char* path, int flags, ...) {  // NOLINT
  va_list more;
  va_start(more, flags);
  const mode_t mode = va_arg(more, mode_t);
  va_end(more);
  if (!aot_test::fault_here(aot_test::Fault::kSystem)) return __real_open(path, flags, mode);
  errno = EMFILE;
  return -1;
}

// A dlopen that fails has something for dlerror to say.
extern "C" void* __real_dlopen(const char* path, int flags);   // NOLINT
extern "C" void* __wrap_dlopen(const char* path, int flags) {  // NOLINT
  const bool fails = aot_test::fault_here(aot_test::Fault::kSystem);
  return __real_dlopen(fails ? "/nowhere/refused.so" : path, flags);
}
