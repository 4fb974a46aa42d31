// Facts that make a plan safe to run: what is proved at open, and what is left to be checked when
// sizes are known. docs/format.md lists them.
#ifndef AOT_SRC_VERIFY_FACT_H_
#define AOT_SRC_VERIFY_FACT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "expr.h"

namespace aot_rt {

struct Plan;
struct Program;
class BoundSizes;

enum class Relation : uint8_t { kEqual, kLessEqual, kLess };

// What a fact is about; the table in fact.cc has the words.
enum class Rule : uint8_t {
  kBufferSize,    // 0 <= size of a buffer
  kEntrySize,     // end of a buffer <= its entry's size
  kInputSize,     // size of a buffer <= bytes of its input
  kOutputSize,    // bytes of an output <= size of its buffer
  kUpdateSize,    // bytes of a state or changed input <= size of the new value's buffer
  kResultSize,    // bytes of a derived entry <= size of the buffer that a routine leaves them in
  kSliceStride,   // 0 <= stride of a slice
  kSliceEnd,      // end of a slice in its loop's last turn <= size of what it is part of
  kCopySize,      // size of a copy's source == size of its target
  kReadSize,      // bytes that the runtime reads <= size of the buffer
  kTurns,         // 0 <= turns of a loop
  kOperandShape,  // 0 <= a size of an operator's tensor
  kOperandSize,   // bytes of an operator's tensor <= size of its buffer
  kLeastValue,    // least value that a kernel declares for a variable <= the step's value
  kMostValue,     // the step's value <= the greatest
  kMultiple,      // the rest of the step's value by the declared multiple == 0
  kRelation,      // a declared relation
  kSizeArgument,  // a size that the step gives == the declared one
  kWork,          // the same for work units,
  kGrid,          // for blocks of a grid
  kScratch,       // declared scratch <= the step's
  kTouched,       // bytes that the kernel touches of an argument <= size of its buffer
};

struct Fact {
  Rule rule = Rule::kBufferSize;
  Relation relation = Relation::kLessEqual;
  int32_t step = -1;    // -1: of no step
  int32_t item = -1;    // argument, size, variable, input, output, … that it is about
  int32_t buffer = -1;  // -1: of no buffer
  Expr left;
  Expr right;
  Expr guard = Expr(1);  // the fact is needed where this is above 0
};

// What of a program is not proved for all sizes.
struct Unproved {
  std::string where;                     // the program, for messages: "plan.programs[0]"
  std::vector<std::vector<Fact>> facts;  // by the scope in which all that they use is known
  bool arena = false;                    // that temporaries alive together lie apart
};

// Whether `left relation right`.
bool holds(int64_t left, Relation relation, int64_t right);

// Throws CORRUPT_PACKAGE, which says the step or buffer and both values. `dims`: for which they
// are; nullptr: for all.
[[noreturn]] void fail_fact(const Plan& plan, const Program& program, const std::string& where,
                            const Fact& fact, const std::vector<int64_t>* dims);

// Checks what is not proved and can be evaluated when the dims of this scope are known. Must be
// called whenever they become so, before anything of those sizes runs. Throws CORRUPT_PACKAGE.
void check_unproved(const BoundSizes& sizes, int32_t scope);

}  // namespace aot_rt

#endif  // AOT_SRC_VERIFY_FACT_H_
