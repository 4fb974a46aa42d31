// Opens a package and runs it as a caller would, in memory with a guard behind every block.
#ifndef AOT_TESTS_HOSTILE_RUN_H_
#define AOT_TESTS_HOSTILE_RUN_H_

#include <string>

#include "hostile/mutate.h"

namespace aot_hostile {

// Opens `file`, makes a session, and runs it on inputs of a few sizes that the plan itself allows.
// Whatever fails must do so with a status. `plan`: the file's. The code of the first failure, or OK
// when something ran.
int open_and_run(const std::string& file, const aot_test::json& plan, Random* random);

}  // namespace aot_hostile

#endif  // AOT_TESTS_HOSTILE_RUN_H_
