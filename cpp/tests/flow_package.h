// Packages with control steps: parts of the small package's steps under branches, loops and sizes.
#ifndef AOT_TESTS_FLOW_PACKAGE_H_
#define AOT_TESTS_FLOW_PACKAGE_H_

#include <cstdint>

#include "package_builder.h"

namespace aot_test {

constexpr int64_t kFlowWidth = 8;             // of a row, in floats …
constexpr int64_t kFlowRow = kFlowWidth * 4;  // … and bytes

// The small package with a flag (buffer 6), a count (7), and a row of x (8) and of the sum (9) that
// are slices in step `loop`; and the same without the slices.
Builder flow_package(bool flag, int64_t count, int loop);
Builder flow_package(bool flag, int64_t count);

// A branch on the flag.
json branch_step(int64_t then, int64_t otherwise);

// Step 0 of the small package row by row, as steps 0 and 1.
void add_row_by_row(Builder* builder);

// Binds the dim m0 to the count, around the last `body` steps.
void add_measured(Builder* builder, int64_t body, int64_t most);

// `count` rows of the small package's y as output 0, all totals as output 1.
Builder measured_package(int64_t count);

}  // namespace aot_test

#endif  // AOT_TESTS_FLOW_PACKAGE_H_
