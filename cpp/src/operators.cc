#include "operators.h"

#include <mutex>
#include <new>
#include <utility>

#include "error.h"
#include "lock.h"

namespace aot_rt {
namespace {

constexpr const char* kInit = "aot_operator_library_init";

struct Registered {
  Lock mutex{"the registry of custom operators"};
  Operators operators;
};

Registered& registered() {
  // Never destroyed: threads may still run sessions while the process ends.
  static auto* const all = new Registered;
  return *all;
}

// What a library's init function adds to.
struct Loading {
  std::shared_ptr<const MemoryLibrary> code;
  Operators operators;
};

bool is_text(const char* text) { return text != nullptr && *text != '\0'; }

int add_for(const aot_operator_registry* registry, const char* device, const char* name,
            aot_operator_fn function, void* user, void (*release)(void* user)) {
  if (!is_text(device) || !is_text(name) || function == nullptr) return 1;
  auto* const loading = static_cast<Loading*>(registry->context);
  try {
    loading->operators[{device, name}] =
        std::make_shared<const Operator>(function, user, release, loading->code);
    return 0;
  } catch (const std::bad_alloc&) {
    return 1;
  }
}

int add(const aot_operator_registry* registry, const char* name, aot_operator_fn function,
        void* user, void (*release)(void* user)) {
  return add_for(registry, kOperatorDevice, name, function, user, release);
}

void add_devices(const Operators& operators, const std::string& name,
                 std::set<std::string>* devices) {
  for (const auto& [key, code] : operators) {
    if (key.name == name && code != nullptr) devices->insert(key.device);
  }
}

}  // namespace

void register_operator(const OperatorKey& key, aot_operator_fn function, void* user,
                       void (*release)(void*)) {
  Registered& all = registered();
  OperatorPtr code;  // in the end what the name had before, which is released without the lock
  {
    const std::lock_guard<Lock> lock(all.mutex);
    OperatorPtr& place = all.operators[key];
    // The last that may throw: from here on the Operator calls `release`.
    if (function != nullptr) {
      code = std::make_shared<const Operator>(function, user, release, nullptr);
    }
    place.swap(code);
  }
}

OperatorPtr registered_operator(const OperatorKey& key) {
  Registered& all = registered();
  const std::lock_guard<Lock> lock(all.mutex);
  const auto found = all.operators.find(key);
  return found == all.operators.end() ? nullptr : found->second;
}

std::set<std::string> devices_of(const std::string& name,
                                 const std::vector<const Operators*>& carried) {
  std::set<std::string> devices;
  for (const Operators* operators : carried) add_devices(*operators, name, &devices);
  Registered& all = registered();
  const std::lock_guard<Lock> lock(all.mutex);
  add_devices(all.operators, name, &devices);
  return devices;
}

Operators load_operators(const Entry& entry, const std::string& sha256) {
  Loading loading;
  loading.code = std::make_shared<const MemoryLibrary>(entry, sha256);
  void* const symbol = loading.code->symbol(kInit);
  if (symbol == nullptr) {
    fail(AOT_CORRUPT_PACKAGE, "'", entry.name, "' does not export ", kInit);
  }
  const auto init = reinterpret_cast<aot_operator_library_init_fn>(symbol);
  const aot_operator_registry registry{sizeof(registry), AOT_OPERATOR_ABI_VERSION, &loading, add,
                                       add_for};
  if (const int code = init(&registry); code != 0) {
    fail(AOT_INCOMPATIBLE, "'", entry.name, "' does not serve this runtime: ", kInit, " gave ",
         code, " for version ", AOT_OPERATOR_ABI_VERSION, " of the operators' interface");
  }
  return std::move(loading.operators);
}

}  // namespace aot_rt
