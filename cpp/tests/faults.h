// Counts what a test program takes from the heap, and makes one allocation or one call of the
// operating system fail: faults.cc replaces the global operator new of the program that it is
// linked into, and stands before the calls that CMakeLists.txt wraps.
#ifndef AOT_TESTS_FAULTS_H_
#define AOT_TESTS_FAULTS_H_

#include <cstddef>
#include <cstdint>

namespace aot_test {

struct Heap {
  int64_t blocks;  // that are alive
  int64_t bytes;   // of them
  int64_t calls;   // of operator new so far
};

// All threads together.
Heap heap();

enum class Fault {
  kNew,     // operator new throws std::bad_alloc
  kSystem,  // mmap, open, memfd_create, dlopen and so on fail
};

// Makes the one after `skip` more fail, in any thread, once; a negative `skip`: none. Those alone
// count that happen while faults are allowed.
void order_fault(Fault kind, int64_t skip);
// Whether it has happened.
bool fault_happened();

// Faults are allowed while one is there: around calls of the runtime, not in what a test does.
class FaultsAllowed {
 public:
  FaultsAllowed();
  ~FaultsAllowed();
  FaultsAllowed(const FaultsAllowed&) = delete;
  FaultsAllowed& operator=(const FaultsAllowed&) = delete;
};

}  // namespace aot_test

#endif  // AOT_TESTS_FAULTS_H_
