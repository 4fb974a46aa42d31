// Opens a package and runs it as a caller would, in memory with a guard behind every block
// (of a GPU's memory its own tools must watch that: compute-sanitizer).
#ifndef AOT_TESTS_HOSTILE_RUN_H_
#define AOT_TESTS_HOSTILE_RUN_H_

#include <string>

#include "hostile/mutate.h"

namespace aot_hostile {

// What open_and_run gives when a kernel has done harm on a GPU, as it says no more then.
constexpr int kLost = 1000;

// Opens `file`, makes a session on `device`, and runs it on inputs of a few sizes that the plan
// itself allows. Whatever fails must do so with a status. `plan`: the file's. The code of the first
// failure, or OK when something ran.
int open_and_run(const std::string& file, const aot_test::json& plan, const std::string& device,
                 Random* random);

}  // namespace aot_hostile

#endif  // AOT_TESTS_HOSTILE_RUN_H_
