// Real packages taken apart, changed at random with the same result for the same seed, and put
// together again with every hash right.
#ifndef AOT_TESTS_HOSTILE_MUTATE_H_
#define AOT_TESTS_HOSTILE_MUTATE_H_

#include <cstdint>
#include <random>
#include <string>

#include "package_builder.h"

namespace aot_hostile {

using Random = std::mt19937_64;

// The parts of a package file: its plan, and the other entries but fillers.
aot_test::Builder take_apart(const std::string& file);

// Changes the plan, or the header's types, shapes and bytes of entries that are no code; some of
// each. Says what was done.
std::string change(aot_test::Builder* builder, Random* random);

// The file. The one place that makes hashes right.
std::string put_together(aot_test::Builder* builder);

// One of `count` numbers from 0.
size_t pick(Random* random, size_t count);

}  // namespace aot_hostile

#endif  // AOT_TESTS_HOSTILE_MUTATE_H_
