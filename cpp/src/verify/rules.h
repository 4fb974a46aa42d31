// The rules that a program must keep, each as facts for the prover.
#ifndef AOT_SRC_VERIFY_RULES_H_
#define AOT_SRC_VERIFY_RULES_H_

#include <vector>

#include "plan.h"
#include "verify/declaration.h"
#include "verify/prover.h"

namespace aot_rt {

// Buffers lie within what they are stored in; inputs, outputs and updates have room; slices end
// within their wholes in every turn; steps that copy, read, loop or call do so within buffers.
void require_memory(Prover* prover);

// Every launch is as its kernel declares it. `declared`: by position in the program's kernels.
// Throws CORRUPT_PACKAGE.
void require_launches(Prover* prover, const std::vector<Declaration>& declared);

// What a routine of `owner`'s leaves is as large as the entries that follow from it.
void require_derived(Prover* prover, const Program& owner, size_t routine);

}  // namespace aot_rt

#endif  // AOT_SRC_VERIFY_RULES_H_
