// cuSOLVER, and the cuBLAS that it stands on, where a machine has them: found by dlopen, never a
// need. Signatures are those of CUDA's documentation; functions that have one name for each type of
// numbers take the type's letter (S, D, C, Z), and their pointers are `void*`.
#ifndef AOT_HOST_SOLVER_LIBRARY_H_
#define AOT_HOST_SOLVER_LIBRARY_H_

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

namespace aot_host {

// The driver's functions, by their names in its header. All give 0 for success. Looked up once: the
// library stays loaded for that.
struct Driver {
  int (*to_host)(void* to, uint64_t from, size_t bytes, void* stream) = nullptr;
  int (*to_device)(uint64_t to, const void* from, size_t bytes, void* stream) = nullptr;
  int (*copy)(uint64_t to, uint64_t from, size_t bytes, void* stream) = nullptr;
  int (*fill)(uint64_t to, unsigned char value, size_t bytes, void* stream) = nullptr;
  int (*wait)(void* stream) = nullptr;
  int (*take)(uint64_t* at, size_t bytes) = nullptr;
  int (*give)(uint64_t at) = nullptr;
  int (*context)(void** context) = nullptr;
  int (*retain)(void** context, int device) = nullptr;
  int (*release)(int device) = nullptr;
  int (*push)(void* context) = nullptr;
  int (*pop)(void** context) = nullptr;

  bool is_whole = false;

  static const Driver& found() {
    pthread_once(&once_, [] { own_.is_whole = own_.find(); });
    return own_;
  }

 private:
  bool find() {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) return false;
    return look(library, "cuMemcpyDtoHAsync_v2", &to_host) &&
           look(library, "cuMemcpyHtoDAsync_v2", &to_device) &&
           look(library, "cuMemcpyDtoDAsync_v2", &copy) &&
           look(library, "cuMemsetD8Async", &fill) && look(library, "cuStreamSynchronize", &wait) &&
           look(library, "cuMemAlloc_v2", &take) && look(library, "cuMemFree_v2", &give) &&
           look(library, "cuCtxGetCurrent", &context) &&
           look(library, "cuDevicePrimaryCtxRetain", &retain) &&
           look(library, "cuDevicePrimaryCtxRelease_v2", &release) &&
           look(library, "cuCtxPushCurrent_v2", &push) && look(library, "cuCtxPopCurrent_v2", &pop);
  }

  template <class F>
  static bool look(void* library, const char* name, F* function) {
    *function = reinterpret_cast<F>(dlsym(library, name));
    return *function != nullptr;
  }

  static inline pthread_once_t once_ = PTHREAD_ONCE_INIT;
  static Driver own_;
};

inline Driver Driver::own_;

// Both libraries, which stay loaded as long as the process runs: their threads cannot be ended.
class SolverLibrary {
 public:
  // Of the process. `is_there()` is false where the machine lacks one of the two.
  static const SolverLibrary& found() {
    pthread_once(&once_, [] { own_.open(); });
    return own_;
  }

  bool is_there() const { return solver_ != nullptr && blas_ != nullptr; }

  // cublas<T><name>, or cublas<name> where `type` is 0; null where this version has none.
  template <class F>
  F blas(const char* name, char type = 0) const {
    return look<F>(blas_, "cublas", name, type);
  }

  // cusolverDn<T><name>, or cusolverDn<name>.
  template <class F>
  F solver(const char* name, char type = 0) const {
    return look<F>(solver_, "cusolverDn", name, type);
  }

 private:
  void open() {
    static constexpr const char* kSolvers[] = {"libcusolver.so.12", "libcusolver.so.11"};
    static constexpr const char* kBlas[] = {"libcublas.so.13", "libcublas.so.12",
                                            "libcublas.so.11"};
    for (const char* name : kSolvers) {
      if ((solver_ = dlopen(name, RTLD_NOW | RTLD_LOCAL)) != nullptr) break;
    }
    if (solver_ == nullptr) return;
    // The one that cuSOLVER has loaded: of another version it would not share handles' meaning.
    for (const char* name : kBlas) {
      if ((blas_ = dlopen(name, RTLD_NOW | RTLD_NOLOAD)) != nullptr) break;
    }
  }

  template <class F>
  static F look(void* library, const char* prefix, const char* name, char type) {
    char whole[64];
    const char letter[2] = {type, 0};
    snprintf(whole, sizeof(whole), "%s%s%s", prefix, letter, name);
    return reinterpret_cast<F>(dlsym(library, whole));
  }

  static inline pthread_once_t once_ = PTHREAD_ONCE_INIT;
  static SolverLibrary own_;

  void* solver_ = nullptr;
  void* blas_ = nullptr;
};

inline SolverLibrary SolverLibrary::own_;

// What one call at a time works with: a handle of each library, and memory of the GPU that is kept
// for the next call. Made in a context of a device, which it keeps alive.
struct SolverPlace {
  static constexpr int kSlots = 8;

  void* context;
  int device;
  void* solver;
  void* blas;
  uint64_t memory[kSlots];
  size_t bytes[kSlots];
  SolverPlace* next;

  // Null where a handle cannot be made, for example for want of memory.
  static SolverPlace* make(void* context, int device) {
    const Driver& driver = Driver::found();
    auto* const place = static_cast<SolverPlace*>(calloc(1, sizeof(SolverPlace)));
    if (place == nullptr) return nullptr;
    using Create = int (*)(void**);
    const SolverLibrary& library = SolverLibrary::found();
    const auto solver = library.solver<Create>("Create"), blas = library.blas<Create>("Create_v2");
    void* kept = nullptr;
    if (solver == nullptr || blas == nullptr || driver.retain(&kept, device) != 0) {
      free(place);
      return nullptr;
    }
    place->context = context;
    place->device = device;
    if (solver(&place->solver) == 0 && blas(&place->blas) == 0) return place;
    place->end();
    return nullptr;
  }

  // At least `size` bytes that no other slot has; 0 where there are none.
  uint64_t slot(int index, size_t size) {
    const Driver& driver = Driver::found();
    if (bytes[index] >= size && memory[index] != 0) return memory[index];
    if (memory[index] != 0) driver.give(memory[index]);
    memory[index] = 0;
    bytes[index] = 0;
    if (driver.take(&memory[index], size == 0 ? 1 : size) != 0) return memory[index] = 0;
    bytes[index] = size;
    return memory[index];
  }

  // Gives all back, and ends.
  void end() {
    using Destroy = int (*)(void*);
    const Driver& driver = Driver::found();
    const SolverLibrary& library = SolverLibrary::found();
    void* before = nullptr;
    if (driver.push(context) == 0) {
      for (const uint64_t at : memory) {
        if (at != 0) driver.give(at);
      }
      if (solver != nullptr) library.solver<Destroy>("Destroy")(solver);
      if (blas != nullptr) library.blas<Destroy>("Destroy_v2")(blas);
      driver.pop(&before);
    }
    driver.release(device);
    free(this);
  }
};

// Places that no call works with. As many are made as calls run at once.
class SolverPlaces {
 public:
  // Of the context that is current, which is the primary one of a device.
  SolverPlace* take(int device) {
    void* context = nullptr;
    if (Driver::found().context(&context) != 0) return nullptr;
    pthread_mutex_lock(&mutex_);
    SolverPlace** at = &free_;
    while (*at != nullptr && (*at)->context != context) at = &(*at)->next;
    SolverPlace* const found = *at;
    if (found != nullptr) *at = found->next;
    pthread_mutex_unlock(&mutex_);
    return found != nullptr ? found : SolverPlace::make(context, device);
  }

  void give(SolverPlace* place) {
    pthread_mutex_lock(&mutex_);
    place->next = free_;
    free_ = place;
    pthread_mutex_unlock(&mutex_);
  }

  // When nobody can call any more.
  void end() {
    while (free_ != nullptr) {
      SolverPlace* const place = free_;
      free_ = place->next;
      place->end();
    }
  }

 private:
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  SolverPlace* free_ = nullptr;
};

}  // namespace aot_host

#endif  // AOT_HOST_SOLVER_LIBRARY_H_
