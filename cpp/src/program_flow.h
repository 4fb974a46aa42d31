// How the steps of a program lie inside of each other, and what each of them may use.
#ifndef AOT_SRC_PROGRAM_FLOW_H_
#define AOT_SRC_PROGRAM_FLOW_H_

#include <string>

#include "plan.h"

namespace aot_rt {

// Checks the program's control steps and slices, and fills in `scopes`, `straight`,
// `reads_back` and the buffers' scopes. `common`: the plan with all but its programs; `where`
// begins messages. Throws CORRUPT_PACKAGE.
void check_flow(const Plan& common, const std::string& where, Program* program);

}  // namespace aot_rt

#endif  // AOT_SRC_PROGRAM_FLOW_H_
