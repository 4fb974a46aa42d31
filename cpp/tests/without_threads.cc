// For tests that CMakeLists.txt lists as without threads: the thread sanitizer's build leaves them
// out.
#include <pthread.h>

#include <cstdio>
#include <cstdlib>

// Stands in for the C library's, also for the calls of the C++ library.
extern "C" __attribute__((visibility("default"))) int pthread_create(pthread_t*,
                                                                     const pthread_attr_t*,
                                                                     void* (*)(void*), void*) {
  std::fputs("this test starts a thread: take it off AOT_TESTS_WITHOUT_THREADS\n", stderr);
  std::abort();
}
