// When temporaries are alive, and that those alive together lie apart.
#ifndef AOT_SRC_VERIFY_LIFETIMES_H_
#define AOT_SRC_VERIFY_LIFETIMES_H_

#include <cstdint>
#include <vector>

#include "plan.h"

namespace aot_rt {

class BoundSizes;

// First and last event that touches a buffer; -1: none does.
//
// Events are launches, copies, calls and what control steps read, in the order of the steps. What
// is alive when a loop begins and is touched in it lives until the loop ends; so does what slices
// of the loop are parts of, from where it begins. What is touched in both parts of a branch is
// alive in between. The values of outputs and updates live until the program ends.
struct Lifetime {
  int32_t first = -1;
  int32_t last = -1;
};

// By buffer; slices count as what they are parts of.
std::vector<Lifetime> lifetimes_of(const Program& program);

// Whether `above` orders every two temporaries that are alive together in one arena, directly or
// through others. A no may also mean that finding out takes too long.
bool arena_is_ordered(const Program& program);

// The same for the places that the temporaries of a scope have at these sizes: none overlap. Throws
// CORRUPT_PACKAGE, which names two that do.
void check_arena_places(const BoundSizes& sizes, int32_t scope);

}  // namespace aot_rt

#endif  // AOT_SRC_VERIFY_LIFETIMES_H_
