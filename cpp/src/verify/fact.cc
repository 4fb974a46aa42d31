#include "verify/fact.h"

#include "bound_sizes.h"
#include "error.h"
#include "plan.h"
#include "verify/lifetimes.h"

namespace aot_rt {
namespace {

struct Words {
  const char* left;
  const char* right;
};

// By rule. `%` stands for the buffer's name, `#` for the item's number.
constexpr Words kWords[] = {
    {"the least size", "the size of buffer '%'"},
    {"the end of buffer '%'", "the size of its entry"},
    {"the size of buffer '%'", "the bytes of its input"},
    {"the bytes of output #", "the size of its buffer '%'"},
    {"the bytes that update # copies", "the size of buffer '%'"},
    {"the bytes of the derived entry", "the size of the result's buffer '%'"},
    {"the least stride", "the stride of slice '%'"},
    {"the end of slice '%' in the last turn", "the size of what it is part of"},
    {"the size of buffer '%'", "the size of the copy's target"},
    {"what the step reads", "the size of buffer '%'"},
    {"no turns", "the turns of the loop"},
    {"the least size", "a size of operand #"},
    {"the bytes of operand #", "the size of its buffer '%'"},
    {"the least value that the kernel declares for variable #", "the value that the step gives"},
    {"the value that the step gives for variable #", "the greatest that the kernel declares"},
    {"the rest of the value of variable # by the multiple that the kernel declares", "nothing"},
    {"the left side of the kernel's relation #", "the right side"},
    {"size argument #", "what the kernel declares"},
    {"the work", "what the kernel declares"},
    {"axis # of the grid", "what the kernel declares"},
    {"the scratch that the kernel declares", "what the step gives"},
    {"the bytes that the kernel touches of argument #", "the size of buffer '%'"},
};

std::string words(const char* text, const Program& program, const Fact& fact) {
  std::string result;
  for (const char* at = text; *at != '\0'; ++at) {
    if (*at == '%') {
      result += program.buffers[static_cast<size_t>(fact.buffer)].name;
    } else if (*at == '#') {
      result += std::to_string(fact.item);
    } else {
      result += *at;
    }
  }
  return result;
}

std::string value(const Expr& expr, const Plan& plan, const std::vector<int64_t>* dims) {
  if (expr.is_constant()) return std::to_string(expr.constant());
  if (dims == nullptr) return expr.text(plan.dim_names);
  return cat(expr.text(plan.dim_names), " = ", expr.eval(dims->data()));
}

const char* relation_text(Relation relation) {
  if (relation == Relation::kEqual) return "must be equal to";
  return relation == Relation::kLess ? "must be below" : "must be at most";
}

std::string place(const Program& program, const std::string& where, const Fact& fact) {
  if (fact.step >= 0) {
    const Step& step = program.steps[static_cast<size_t>(fact.step)];
    return cat(where, ".steps[", fact.step, "] ('", program.step_name(step), "')");
  }
  return fact.buffer >= 0 ? cat(where, ".buffers[", fact.buffer, "]") : where;
}

}  // namespace

bool holds(int64_t left, Relation relation, int64_t right) {
  if (relation == Relation::kEqual) return left == right;
  return relation == Relation::kLess ? left < right : left <= right;
}

void fail_fact(const Plan& plan, const Program& program, const std::string& where, const Fact& fact,
               const std::vector<int64_t>* dims) {
  const Words& row = kWords[static_cast<size_t>(fact.rule)];
  fail(AOT_CORRUPT_PACKAGE, place(program, where, fact), ": ", words(row.left, program, fact), " (",
       value(fact.left, plan, dims), ") ", relation_text(fact.relation), " ",
       words(row.right, program, fact), " (", value(fact.right, plan, dims), ")");
}

void check_unproved(const BoundSizes& sizes, int32_t scope) {
  const Unproved& unproved = sizes.program().unproved;
  const int64_t* dims = sizes.dims().data();
  if (static_cast<size_t>(scope) < unproved.facts.size()) {
    for (const Fact& fact : unproved.facts[static_cast<size_t>(scope)]) {
      // What needs the sizes of two scopes of which none lies in the other is used nowhere.
      if (!sizes.knows(fact.left) || !sizes.knows(fact.right)) continue;
      if (!sizes.knows(fact.guard) || fact.guard.eval(dims) <= 0) continue;
      if (holds(fact.left.eval(dims), fact.relation, fact.right.eval(dims))) continue;
      fail_fact(sizes.plan(), sizes.program(), unproved.where, fact, &sizes.dims());
    }
  }
  if (unproved.arena) check_arena_places(sizes, scope);
}

}  // namespace aot_rt
