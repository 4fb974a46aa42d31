// Reads and checks the weight program of a program: how derived entries follow from weights.
#ifndef AOT_SRC_WEIGHT_PROGRAM_H_
#define AOT_SRC_WEIGHT_PROGRAM_H_

#include "json_text.h"
#include "plan.h"
#include "safetensors.h"

namespace aot_rt {

// Fills `routines` and `derived` of `program`. `common`: the plan with its weights. Throws
// CORRUPT_PACKAGE or UNSUPPORTED (an element type or storage of a newer minor version).
void parse_weight_program(const Field& field, const Plan& common, const Container& container,
                          Program* program);

}  // namespace aot_rt

#endif  // AOT_SRC_WEIGHT_PROGRAM_H_
