// Counts what a test program takes from the heap, and makes one allocation of its choice fail:
// counting.cc replaces the global operator new of the program that it is linked into.
#ifndef AOT_TESTS_COUNTING_H_
#define AOT_TESTS_COUNTING_H_

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

// Makes the allocation after `skip` more fail, in any thread, once; a negative `skip`: none.
void fail_allocation(int64_t skip);
// Whether it has, since fail_allocation().
bool allocation_failed();




}  // namespace aot_test

#endif  // AOT_TESTS_COUNTING_H_
