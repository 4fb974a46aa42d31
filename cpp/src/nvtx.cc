#include "nvtx.h"

#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "error.h"

namespace aot_rt {
namespace {

// The part of NVTX's stable ABI that is spoken, with its own values.
constexpr uint32_t kCallbackTable = 1;  // NVTX_ETID_CALLBACKS
constexpr uint32_t kVersionTable = 3;   // NVTX_ETID_VERSIONINFO
constexpr uint32_t kVersion = 3;
constexpr int kCoreModule = 1;     // NVTX_CB_MODULE_CORE
constexpr size_t kRangePushA = 9;  // NVTX_CBID_CORE_RangePushA
constexpr size_t kRangePop = 11;
constexpr size_t kCoreSize = 17;  // entries from 1, and a last one that is NULL

using AnyFunction = void (*)();

struct CallbackTable {
  size_t struct_size;
  int (*module_functions)(int module, AnyFunction*** table, unsigned* size);
};

struct VersionTable {
  size_t struct_size;
  uint32_t version;
  uint32_t reserved;
  void (*set_tool_version)(uint32_t version);
};

// What the tool writes: the functions, at their numbers.
std::array<AnyFunction, kCoreSize>& functions() {
  static std::array<AnyFunction, kCoreSize> all{};
  return all;
}

int module_functions(int module, AnyFunction*** table, unsigned* size) {
  if (module != kCoreModule) return 0;
  static const auto slots = [] {
    std::array<AnyFunction*, kCoreSize> made{};
    for (size_t i = 1; i + 1 < kCoreSize; ++i) made[i] = &functions()[i];
    return made;
  }();
  if (size != nullptr) *size = static_cast<unsigned>(slots.size());
  if (table != nullptr) *table = const_cast<AnyFunction**>(slots.data());
  return 1;
}

void set_tool_version(uint32_t /*version*/) {}

const void* export_table(uint32_t which) {
  static const CallbackTable callbacks{sizeof(CallbackTable), module_functions};
  static const VersionTable version{sizeof(VersionTable), kVersion, 0, set_tool_version};
  if (which == kCallbackTable) return &callbacks;
  return which == kVersionTable ? static_cast<const void*>(&version) : nullptr;
}

}  // namespace

const Nvtx* Nvtx::get() {
  static const Nvtx* const tool = [] {
    const char* path = std::getenv("NVTX_INJECTION64_PATH");
    return path == nullptr || *path == '\0' ? nullptr : attach(path);
  }();
  return tool;
}

// The library stays loaded: its functions may be called until the process ends.
const Nvtx* Nvtx::attach(const char* path) {
  void* library = ::dlopen(path, RTLD_LAZY);
  if (library == nullptr) {
    fail(AOT_DEVICE_ERROR, "NVTX_INJECTION64_PATH: cannot load the tool: ", ::dlerror());
  }
  using Initialize = int (*)(const void* (*)(uint32_t));
  const auto initialize =
      reinterpret_cast<Initialize>(::dlsym(library, "InitializeInjectionNvtx2"));
  if (initialize == nullptr || initialize(export_table) == 0) {
    fail(AOT_DEVICE_ERROR, "NVTX_INJECTION64_PATH: '", path, "' is no tool that takes NVTX ranges");
  }
  const auto push = reinterpret_cast<Push>(functions()[kRangePushA]);
  const auto pop = reinterpret_cast<Pop>(functions()[kRangePop]);
  return push == nullptr || pop == nullptr ? nullptr : new Nvtx(push, pop);
}

}  // namespace aot_rt
