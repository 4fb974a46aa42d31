// Reads and checks one program of a plan.
#ifndef AOT_SRC_PROGRAM_H_
#define AOT_SRC_PROGRAM_H_

#include "json_text.h"
#include "plan.h"
#include "safetensors.h"

namespace aot_rt {

// Parses a program. `common`: the plan with all but its programs, which the program refers to.
// Throws CORRUPT_PACKAGE or UNSUPPORTED (an element type or storage of a newer minor version).
Program parse_program(const Field& field, const Plan& common, const Container& container);

// Parses the body of a routine of `owner`'s weight program. `plan`: the routine's own. Throws as
// parse_program.
Program parse_routine_body(const Field& field, const Plan& plan, const Container& container,
                           const Program& owner);

}  // namespace aot_rt

#endif  // AOT_SRC_PROGRAM_H_
