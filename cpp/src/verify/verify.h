// Proves that nothing that a plan says leads outside of its memory (docs/format.md, "What a reader
// proves").
#ifndef AOT_SRC_VERIFY_VERIFY_H_
#define AOT_SRC_VERIFY_VERIFY_H_

#include "plan.h"

namespace aot_rt {

// Proves every program and routine of a parsed plan, fills in `declared` and what is left to be
// checked when sizes are known (check_unproved). Throws CORRUPT_PACKAGE, or UNSUPPORTED for an
// element type that this runtime does not know.
void verify_plan(Plan* plan);

}  // namespace aot_rt

#endif  // AOT_SRC_VERIFY_VERIFY_H_
