// Tells the thread sanitizer of Abseil's mutexes, with which gRPC, as Debian builds it, orders what
// its threads do: the sanitizer knows pthread's, and sees nothing of code that it has not compiled.
// Linked into a program with gRPC, these take the place of the library's own, and call them.
#include <absl/synchronization/mutex.h>
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include <cstring>
#include <string>

namespace {

#define AOT_TEXT(name) #name
#define AOT_TEXT_OF(name) AOT_TEXT(name)
constexpr const char* kSpace = AOT_TEXT_OF(ABSL_OPTION_INLINE_NAMESPACE_NAME);

// The library's own function of a name as the compiler makes it: all behind the namespace.
template <typename Function>
Function* next(const char* mangled) {
  const std::string name = "_ZN4absl" + std::to_string(std::strlen(kSpace)) + kSpace + mangled;
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name.c_str()));
}

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

void Mutex::Lock() {
  static auto* const lock = next<void(Mutex*)>("5Mutex4LockEv");
  lock(this);
  __tsan_acquire(this);
}

void Mutex::Unlock() {
  static auto* const unlock = next<void(Mutex*)>("5Mutex6UnlockEv");
  __tsan_release(this);
  unlock(this);
}

bool Mutex::TryLock() {
  static auto* const lock = next<bool(Mutex*)>("5Mutex7TryLockEv");
  const bool locked = lock(this);
  if (locked) __tsan_acquire(this);
  return locked;
}

void CondVar::Wait(Mutex* mutex) {
  static auto* const wait = next<void(CondVar*, Mutex*)>("7CondVar4WaitEPNS0_5MutexE");
  __tsan_release(mutex);
  wait(this, mutex);
  __tsan_acquire(mutex);
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  static auto* const wait =
      next<bool(CondVar*, Mutex*, Time)>("7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE");
  __tsan_release(mutex);
  const bool late = wait(this, mutex, deadline);
  __tsan_acquire(mutex);
  return late;
}

ABSL_NAMESPACE_END
}  // namespace absl
