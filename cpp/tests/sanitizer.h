// What sanitizers do in a test program by default.
#ifndef AOT_TESTS_SANITIZER_H_
#define AOT_TESTS_SANITIZER_H_

// AOT_SANITIZER_OPTIONS(tsan, "die_after_fork=0"): TSAN_OPTIONS, and so on, of this program. The
// sanitizer's library looks for the function, which must be visible to it.
#define AOT_SANITIZER_OPTIONS(name, options)                          \
  extern "C" __attribute__((visibility("default"), used)) const char* \
  __##name##_default_options();                                       \
  extern "C" const char* __##name##_default_options() { return options; }

#endif  // AOT_TESTS_SANITIZER_H_
